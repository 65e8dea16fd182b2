"""The operations of this chapter as Triton kernels, to lay beside the rungs. Importing this needs Triton.

Blocks are contiguous, so every access is coalesced, and 8 elements a thread leave room for 128 bits. Triton widens an access
only where it can show that the mask is the same for all of a vector's elements: with a size that is a multiple of 16.
"""

import torch
import triton
import triton.language as tl

GROUP = 128
BLOCK, WARPS = 1024, 4  # 8 elements a thread


@triton.jit
def add_kernel(A, B, C, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(C + i, tl.load(A + i, mask=inside) + tl.load(B + i, mask=inside), mask=inside)


@triton.jit
def add_tail_split_kernel(A, B, C, n, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    i = block * BLOCK + tl.arange(0, BLOCK)
    if block < n // BLOCK:
        tl.store(C + i, tl.load(A + i) + tl.load(B + i))
    else:
        inside = i < n
        tl.store(C + i, tl.load(A + i, mask=inside) + tl.load(B + i, mask=inside), mask=inside)


@triton.jit
def scale_cast_kernel(X, Y, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(X + i, mask=inside).to(tl.float32)
    tl.store(Y + i, (x * scale).to(Y.dtype.element_ty), mask=inside)


@triton.jit
def fp8_kernel(X, Y, S, groups, GROUPS: tl.constexpr, GROUP: tl.constexpr):
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    inside = group < groups
    i = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    x = tl.load(X + i, mask=inside[:, None], other=0.0).to(tl.float32)
    amax = tl.maximum(tl.max(tl.abs(x), axis=1), 1e-4)
    y = x * (448.0 / amax)[:, None]
    tl.store(Y + i, y.to(Y.dtype.element_ty), mask=inside[:, None])
    tl.store(S + group, amax / 448.0, mask=inside)


def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a + b, both (n,); a mask on every access."""
    c = torch.empty_like(a)
    add_kernel[(triton.cdiv(a.numel(), BLOCK),)](a, b, c, a.numel(), BLOCK=BLOCK, num_warps=WARPS)
    return c


def add_tail_split(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a + b, both (n,); a mask in the last block only."""
    c = torch.empty_like(a)
    add_tail_split_kernel[(triton.cdiv(a.numel(), BLOCK),)](a, b, c, a.numel(), BLOCK=BLOCK, num_warps=WARPS)
    return c


def scale_cast(x: torch.Tensor, scale: float, out_dtype: torch.dtype) -> torch.Tensor:
    """cast(x * scale), x (n,), computed in float32."""
    y = torch.empty_like(x, dtype=out_dtype)
    scale_cast_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), scale, BLOCK=BLOCK, num_warps=WARPS)
    return y


def per_token_cast_to_fp8(x: torch.Tensor, groups_per_block: int = 16, warps: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes (M, N) float8_e4m3fn and scales (M, N // 128) float32 of x (M, N); a block takes neighbouring groups."""
    rows, columns = x.shape
    y = torch.empty_like(x, dtype=torch.float8_e4m3fn)
    s = torch.empty((rows, columns // GROUP), dtype=torch.float32, device=x.device)
    groups = s.numel()
    grid = (triton.cdiv(groups, groups_per_block),)
    fp8_kernel[grid](x, y, s, groups, GROUPS=groups_per_block, GROUP=GROUP, num_warps=warps)
    return y, s
