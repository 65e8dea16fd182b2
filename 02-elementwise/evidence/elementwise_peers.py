"""What the rungs of this chapter are measured against, besides PyTorch's own operations.

Triton kernels stand in elementwise_triton.py, which is imported on the first call: without Triton they are "not run".
"""

import sys

import tilelang
import tilelang.language as T
import torch
from elementwise_variants import AMAX_FLOOR, FP8_MAX, GROUP, check_fp8, check_tile

from tilescope import checked
from tilescope.checking.factory_arguments import check_size


@checked
@tilelang.jit(out_idx=[-2, -1])
def per_token_cast_to_fp8_divided(M, N, blk_m=8, threads=128, dtype="float32"):
    """Codes Y and scales S of X in the form of TileLang's own example: tiles of `blk_m` rows by one group, and every element
    divided by the scale and clamped. Versions of the example annotate a layout besides; this leaves it to TileLang.

    X: (M, N) of `dtype` (float32, float16, bfloat16); Y: (M, N) float8_e4m3fn; S: (M, N // 128) float32; N a multiple of 128.
    A code may differ by one step from those of `per_token_cast_to_fp8`, which multiplies. Raises ValueError on a bad argument.
    """
    dtype = check_fp8(M, N, dtype)
    check_size("blk_m", blk_m, dynamic=False)
    check_tile("blk_m", blk_m, threads)

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), "float8_e4m3fn"), S: T.Tensor((M, N // GROUP), "float32")):
        with T.Kernel(T.ceildiv(M, blk_m), N // GROUP, threads=threads) as (bx, by):
            x = T.alloc_fragment((blk_m, GROUP), dtype)
            amax = T.alloc_fragment((blk_m,), dtype)
            scale = T.alloc_fragment((blk_m,), "float32")
            code = T.alloc_fragment((blk_m, GROUP), "float32")
            y = T.alloc_fragment((blk_m, GROUP), "float8_e4m3fn")
            T.copy(X[bx * blk_m, by * GROUP], x)
            T.reduce_absmax(x, amax, dim=1)
            for i in T.Parallel(blk_m):
                scale[i] = T.max(T.cast(amax[i], "float32"), AMAX_FLOOR) / FP8_MAX
            for i, j in T.Parallel(blk_m, GROUP):
                code[i, j] = T.clamp(T.cast(x[i, j], "float32") / scale[i], -FP8_MAX, FP8_MAX)
            T.copy(code, y)
            for i in T.Parallel(blk_m):
                S[bx * blk_m + i, by] = scale[i]
            T.copy(y, Y[bx * blk_m, by * GROUP])

    return main


def torch_scale_cast(x: torch.Tensor, scale: float, out_dtype: torch.dtype) -> torch.Tensor:
    """As one writes it in PyTorch: two kernels, and the product goes through memory."""
    return (x * scale).to(out_dtype)


def torch_per_token_cast_to_fp8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As one writes it in PyTorch."""
    groups = x.float().unflatten(-1, (-1, GROUP))
    amax = groups.abs().amax(-1).clamp(min=AMAX_FLOOR)
    codes = (groups * (FP8_MAX / amax).unsqueeze(-1)).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
    return codes.flatten(-2), amax / FP8_MAX


def tile_kernels_per_token_cast_to_fp8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """DeepSeek's TileKernels 1.0.0: a public quantiser, in TileLang, with the arithmetic of this chapter's rungs.

    It imports a module that TileLang has moved since (api_audit.py says so of it); the module's new place is put there.
    """
    import tilelang.backend.target

    sys.modules.setdefault("tilelang.utils.target", tilelang.backend.target)
    from tile_kernels.quant import per_token_cast

    return per_token_cast(x, "e4m3", GROUP)


def triton_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    import elementwise_triton

    return elementwise_triton.add(a, b)


def triton_add_tail_split(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    import elementwise_triton

    return elementwise_triton.add_tail_split(a, b)


def triton_scale_cast(x: torch.Tensor, scale: float, out_dtype: torch.dtype) -> torch.Tensor:
    import elementwise_triton

    return elementwise_triton.scale_cast(x, scale, out_dtype)


def triton_per_token_cast_to_fp8(x: torch.Tensor, groups: int = 16, warps: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    import elementwise_triton

    return elementwise_triton.per_token_cast_to_fp8(x, groups, warps)
