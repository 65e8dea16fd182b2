"""Elementwise kernels, rung by rung: what decides how wide a global access is?

add_flat            one element a thread. Look for: a scalar access, coalesced; every thread works.
add_thread_vec      neighbouring elements on one thread. Look for: float4 or uint4, as long as n is whole tiles.
add_register_vec    through register fragments. Look for: the same width; the arrays are gone in the SASS.
add_tail_split      any n. Look for: two branches, 128 bits wide in all whole tiles, scalar in the last one only.
scale_cast          y = cast(x * scale). Look for: a narrower store than load; the wider type decides the width.
per_token_cast_to_fp8             a scale for each group of 128, in tiles of rows. Look for: scales stored one by one.
per_token_cast_to_fp8_contiguous  the same numbers from contiguous tiles. Look for: a block's scales in one request.

Every factory returns a compiled kernel: `add_flat(1 << 20)(a, b)` on a GPU, `add_flat(1 << 20).get_kernel_source()`
anywhere. `python3 elementwise_variants.py` checks them all against PyTorch.
"""

import tilelang
import tilelang.language as T
import torch

from tilescope import checked
from tilescope.checking.factory_arguments import (
    FLOATS,
    MAX_GRID_Y,
    MAX_THREADS,
    WARP,
    blocks_for,
    check_dtype,
    check_elementwise,
    check_flag,
    check_multiple,
    check_size,
    check_threads,
    item_bytes,
)

GROUP = 128  # neighbours along a row that share one fp8 scale, as DeepSeek-V3 quantises its activations
FP8_MAX = 448.0  # largest finite float8_e4m3fn
MAX_PER_THREAD = 64  # elements of an fp8 tile; registers hold no more
AMAX_FLOOR = 1e-4  # keeps the scale of an all-zero group above zero; the value of TileLang's own example


def add_reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a + b in float64, rounded once to the dtype of `a`: what every add below has to equal bit for bit."""
    return (a.double() + b.double()).to(a.dtype)


@checked
@tilelang.jit(out_idx=[-1])
def add_flat(n, threads=256, dtype="float32"):
    """C = A + B, one element a thread.

    A, B, C: (n,) of `dtype` (float32, float16, bfloat16); any n > 0, static or T.dynamic("n").
    Raises ValueError on a bad n, threads or dtype.
    """
    dtype = check_elementwise(n, threads, 1, dtype)

    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(blocks_for(n, threads), threads=threads) as bx:
            for i in T.Parallel(threads):
                C[bx * threads + i] = A[bx * threads + i] + B[bx * threads + i]

    return main


@checked
@tilelang.jit(out_idx=[-1])
def add_thread_vec(n, threads=256, num_per_thread=8, dtype="float32"):
    """C = A + B, `num_per_thread` neighbours on one thread; the compiler turns them into vector accesses when it can.

    A, B, C: (n,) of `dtype` (float32, float16, bfloat16); any n > 0, static or T.dynamic("n"). A ragged or dynamic n is
    right but slow: the accesses become scalar, each behind a bounds check, and strided. `add_tail_split` mends that.
    Raises ValueError on a bad n, threads, num_per_thread or dtype.
    """
    dtype = check_elementwise(n, threads, num_per_thread, dtype)

    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(blocks_for(n, threads * num_per_thread), threads=threads) as bx:
            for i, j in T.Parallel(threads, num_per_thread):
                k = (bx * threads + i) * num_per_thread + j
                C[k] = A[k] + B[k]

    return main


@checked
@tilelang.jit(out_idx=[-1])
def add_register_vec(n, threads=256, num_per_thread=8, dtype="float32"):
    """C = A + B through register fragments: copy a tile in, add, copy it out.

    A, B, C: (n,) of `dtype` (float32, float16, bfloat16); n a multiple of threads * num_per_thread.
    Raises ValueError on another n, or a bad threads, num_per_thread or dtype.
    """
    check_size("n", n, dynamic=False)
    dtype = check_elementwise(n, threads, num_per_thread, dtype)
    tile = threads * num_per_thread
    check_multiple("n", n, of=tile, instead="add_tail_split takes any n")

    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(n // tile, threads=threads) as bx:
            a = T.alloc_fragment((tile,), dtype)
            b = T.alloc_fragment((tile,), dtype)
            c = T.alloc_fragment((tile,), dtype)
            T.copy(A[bx * tile], a)
            T.copy(B[bx * tile], b)
            for i in T.Parallel(tile):
                c[i] = a[i] + b[i]
            T.copy(c, C[bx * tile])

    return main


@checked
@tilelang.jit(out_idx=[-1])
def add_tail_split(n, threads=128, num_per_thread=8, dtype="float32", any_alignment=False):
    """C = A + B for any n: whole tiles without a bounds check, one guarded tile at the end.

    A, B, C: (n,) of `dtype` (float32, float16, bfloat16); any n > 0, static or T.dynamic("n"). A dynamic n counts in
    int32; for 2^31 elements and more make it T.dynamic("n", "int64"). any_alignment: scalar accesses, several a thread, so
    that a tensor may start at any element.
    Raises ValueError on a bad argument.
    """
    dtype = check_elementwise(n, threads, num_per_thread, dtype)
    check_flag("any_alignment", any_alignment)
    tile = threads * num_per_thread
    width = T.int32(1) if any_alignment else None  # elements of an access; None: as many as fit

    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(blocks_for(n, tile), threads=threads) as bx:
            # A condition on the block alone: no lane is switched off, so the branch below it stays vectorised.
            if bx < n // tile:
                for i in T.Parallel(tile, coalesced_width=width):
                    C[bx * tile + i] = A[bx * tile + i] + B[bx * tile + i]
            else:
                for i in T.Parallel(tile):
                    if i < n - bx * tile:
                        C[bx * tile + i] = A[bx * tile + i] + B[bx * tile + i]

    return main


def scale_cast_reference(x: torch.Tensor, scale: float, out_dtype: torch.dtype) -> torch.Tensor:
    """(x * scale) rounded to float32, then to `out_dtype`: PyTorch's own two steps."""
    return (x.float() * torch.tensor(scale, dtype=torch.float32, device=x.device)).to(out_dtype)


@checked
@tilelang.jit(out_idx=[-1])
def scale_cast(n, scale=2.0, threads=128, num_per_thread=8, in_dtype="float32", out_dtype="float16"):
    """Y = cast(X * scale), computed in float32 and rounded once to nearest even; overflow gives inf, as in PyTorch.

    X: (n,) of `in_dtype`, Y: (n,) of `out_dtype` (each float32, float16 or bfloat16); any n > 0, static or
    T.dynamic("n"). scale: a Python number, compiled in as float32.
    Raises ValueError on a bad n, threads, num_per_thread or dtype.
    """
    in_dtype = check_elementwise(n, threads, num_per_thread, in_dtype, name="in_dtype")
    out_dtype = check_dtype("out_dtype", out_dtype, FLOATS)
    tile = threads * num_per_thread

    @T.macro
    def one(X, Y, k):
        Y[k] = T.cast(T.cast(X[k], "float32") * T.float32(scale), out_dtype)

    @T.prim_func
    def main(X: T.Tensor((n,), in_dtype), Y: T.Tensor((n,), out_dtype)):
        with T.Kernel(blocks_for(n, tile), threads=threads) as bx:
            if bx < n // tile:
                for i in T.Parallel(tile):
                    one(X, Y, bx * tile + i)
            else:
                for i in T.Parallel(tile):
                    if i < n - bx * tile:
                        one(X, Y, bx * tile + i)

    return main


def per_token_cast_to_fp8_reference(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes (M, N) float8_e4m3fn and scales (M, N // 128) float32 of `x` (M, N), in the order that the kernels compute.

    The largest magnitude leaves NaN out. Two traps: PyTorch computes `448.0 / amax` as amax.reciprocal() * 448, and on a
    GPU `amax / 448.0` as amax * (1 / 448), each rounding twice, so both operands are tensors here; and before 2.12 it
    turns what overflows float8_e4m3fn into NaN, where the GPU's conversion saturates, so the codes are clamped first.
    """
    groups = x.float().unflatten(-1, (-1, GROUP))
    amax = groups.abs().nan_to_num(nan=0.0, posinf=torch.inf).amax(-1).clamp(min=AMAX_FLOOR)
    largest = torch.full_like(amax, FP8_MAX)
    codes = (groups * (largest / amax).unsqueeze(-1)).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
    return codes.flatten(-2), amax / largest


def check_fp8(M, N, dtype) -> str:
    """What every fp8 cast asks of its matrix; returns the name of `dtype`, one of FLOATS."""
    check_size("M", M, dynamic=False)
    check_size("N", N, dynamic=False)
    check_multiple("N", N, of=GROUP, instead="pad the rows with zeros to the next multiple")
    return check_dtype("dtype", dtype, FLOATS)


def check_tile(name: str, groups: int, threads: int) -> None:
    """Each thread has as many elements as any other: else TileLang's reductions may wait for threads that never come."""
    check_threads(threads)
    elements = groups * GROUP
    if elements % threads:
        raise ValueError(f"threads={threads} does not divide the {elements} elements of a tile, {name}={groups} times {GROUP}")
    if elements > threads * MAX_PER_THREAD:
        raise ValueError(f"{name}={groups} gives each of {threads} threads more than {MAX_PER_THREAD} elements; take fewer")


def _threads_for(groups: int, dtype: str) -> int:
    """Threads for 32 bytes of input each, or more where whole warps that divide the tile come to less."""
    warps = min(groups * GROUP * item_bytes(dtype) // 32, MAX_THREADS) // WARP
    return WARP * max((count for count in range(1, warps + 1) if groups * GROUP % (count * WARP) == 0), default=1)


@checked
@tilelang.jit(out_idx=[-2, -1])
def per_token_cast_to_fp8(M, N, blk_m=8, threads=128, dtype="float32", columns_first=False):
    """Codes Y and scales S of X, in tiles of `blk_m` rows by one group, as TileLang's own example cuts it.

    X: (M, N) of `dtype` (float32, float16, bfloat16); Y: (M, N) float8_e4m3fn; S: (M, N // 128) float32, what a code is
    worth: X is about Y * S. N a multiple of 128. Each group is x * (448 / amax), amax at least 1e-4.
    NaN: its code is NaN, and amax leaves it out. inf: its scale is inf, its code NaN, every other code of the group 0.
    columns_first: whether the next block takes the next group of the same rows, and not the same group of the next rows.
    Raises ValueError on a bad argument; `threads` has to divide the tile's elements.
    """
    dtype = check_fp8(M, N, dtype)
    check_size("blk_m", blk_m, dynamic=False)
    check_tile("blk_m", blk_m, threads)
    check_flag("columns_first", columns_first)
    columns = N // GROUP
    grid = (columns, blocks_for(M, blk_m)) if columns_first else (blocks_for(M, blk_m), columns)
    if grid[1] > MAX_GRID_Y:
        axis = f"M={M}" if columns_first else f"N={N}"
        raise ValueError(
            f"{axis} needs more than {MAX_GRID_Y} blocks along y; use columns_first={not columns_first}, or below 2^31 "
            "elements per_token_cast_to_fp8_contiguous"
        )

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), "float8_e4m3fn"), S: T.Tensor((M, N // GROUP), "float32")):
        with T.Kernel(*grid, threads=threads) as (px, py):
            bx, by = (py, px) if columns_first else (px, py)
            x = T.alloc_fragment((blk_m, GROUP), dtype)
            y = T.alloc_fragment((blk_m, GROUP), "float8_e4m3fn")
            amax = T.alloc_fragment((blk_m,), dtype)
            floored = T.alloc_fragment((blk_m,), "float32")
            factor = T.alloc_fragment((blk_m,), "float32")
            T.copy(X[bx * blk_m, by * GROUP], x)
            T.reduce_absmax(x, amax, dim=1)
            for i in T.Parallel(blk_m):
                floored[i] = T.max(T.cast(amax[i], "float32"), AMAX_FLOOR)
                factor[i] = FP8_MAX / floored[i]
                S[bx * blk_m + i, by] = floored[i] / FP8_MAX
            for i, j in T.Parallel(blk_m, GROUP):
                y[i, j] = T.cast(T.cast(x[i, j], "float32") * factor[i], "float8_e4m3fn")
            T.copy(y, Y[bx * blk_m, by * GROUP])

    return main


@checked
@tilelang.jit(out_idx=[-2, -1])
def per_token_cast_to_fp8_contiguous(M, N, groups_per_block=16, threads=None, dtype="float32", scales_at_once=True):
    """The numbers of `per_token_cast_to_fp8`, from tiles that are contiguous in memory: a row is whole groups, so the
    matrix is a list of groups and a block takes the next `groups_per_block` of them, for any M * N below 2^31.

    X, Y, S, NaN, inf: as `per_token_cast_to_fp8`. groups_per_block: best a multiple of 16. threads: None for 32 bytes of X a
    thread, as near as whole warps that divide the tile come to it.
    scales_at_once: whether a block's scales meet in shared memory and are stored together, and not group by group.
    Raises ValueError on a bad argument; `threads` has to divide the tile's elements.
    """
    dtype = check_fp8(M, N, dtype)
    check_size("groups_per_block", groups_per_block, dynamic=False)
    threads = _threads_for(groups_per_block, dtype) if threads is None else threads
    check_tile("groups_per_block", groups_per_block, threads)
    check_flag("scales_at_once", scales_at_once)
    if M * N >= 2**31:
        raise ValueError(
            f"M * N = {M * N} passes 2^31 elements, whose indices are not int32; per_token_cast_to_fp8 takes them, with "
            "columns_first=True when N is large"
        )
    groups = M * N // GROUP

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), "float8_e4m3fn"), S: T.Tensor((M, N // GROUP), "float32")):
        with T.Kernel(blocks_for(groups, groups_per_block), threads=threads) as bx:
            # What T.view(X, (groups, GROUP)) gives, which refuses a tensor of 2^31 bits: it counts them in int32.
            X_groups = T.Tensor((groups, GROUP), dtype, X.data)
            Y_groups = T.Tensor((groups, GROUP), "float8_e4m3fn", Y.data)
            S_groups = T.Tensor((groups,), "float32", S.data)
            x = T.alloc_fragment((groups_per_block, GROUP), dtype)
            amax = T.alloc_fragment((groups_per_block,), dtype)
            floored = T.alloc_fragment((groups_per_block,), "float32")
            factor = T.alloc_fragment((groups_per_block,), "float32")
            scales = T.alloc_shared((groups_per_block,), "float32")
            T.copy(X_groups[bx * groups_per_block, 0], x)
            T.reduce_absmax(x, amax, dim=1)
            for i in T.Parallel(groups_per_block):
                floored[i] = T.max(T.cast(amax[i], "float32"), AMAX_FLOOR)
                factor[i] = FP8_MAX / floored[i]
                if scales_at_once:
                    scales[i] = floored[i] / FP8_MAX
                else:
                    S_groups[bx * groups_per_block + i] = floored[i] / FP8_MAX
            if scales_at_once:
                T.copy(scales, S_groups[bx * groups_per_block], disable_tma=True)
            for i, j in T.Parallel(groups_per_block, GROUP):
                Y_groups[bx * groups_per_block + i, j] = T.cast(T.cast(x[i, j], "float32") * factor[i], "float8_e4m3fn")

    return main


# The casts to fp8 in the order of the chapter, each one change from the one before: what tells it from others, its arguments.
FP8_RUNGS = (
    (per_token_cast_to_fp8, "", {}),
    (per_token_cast_to_fp8, "columns first", {"columns_first": True}),
    (per_token_cast_to_fp8_contiguous, "scales one by one", {"scales_at_once": False}),
    (per_token_cast_to_fp8_contiguous, "", {}),
)

if __name__ == "__main__":
    from tilescope.book.chapter import check_rungs

    raise SystemExit(check_rungs(__file__))
