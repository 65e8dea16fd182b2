"""ReLU, rung by rung: what a comparison does to NaN, and to the width of an access.

relu_flat          one element a thread. Look for: a scalar access, coalesced, and FMNMX for the maximum.
relu_thread_vec    T.max, straight from tensor to tensor. Look for: 128 bits, and NaN turned into 0.
relu_select        the comparison that keeps NaN, straight from tensor to tensor. Look for: scalar again.
relu_register_vec  the same comparison through register fragments, any n. Look for: 128 bits, NaN kept.

`python3 relu_variants.py` checks them all against PyTorch.
"""

import tilelang
import tilelang.language as T
import torch

from tilescope import checked
from tilescope.checking.factory_arguments import blocks_for, check_elementwise, vector_elements


def relu_reference(x: torch.Tensor) -> torch.Tensor:
    """PyTorch's ReLU: NaN stays NaN. -0.0 becomes +0.0, as on a GPU; PyTorch on a CPU leaves it."""
    return torch.where(x.isnan(), x, torch.where(x > 0, x, torch.zeros_like(x)))


def relu_max_reference(x: torch.Tensor) -> torch.Tensor:
    """The larger of x and 0 as a GPU takes it: of a number and NaN, the number."""
    return torch.where(x > 0, x, torch.zeros_like(x))


@checked
@tilelang.jit(out_idx=[-1])
def relu_flat(n, threads=256, dtype="float32"):
    """Y = max(X, 0), one element a thread; NaN becomes 0.

    X, Y: (n,) of `dtype` (float32, float16, bfloat16); any n > 0, static or T.dynamic("n").
    Raises ValueError on a bad n, threads or dtype. After relu_f32 of LeetCUDA.
    """
    dtype = check_elementwise(n, threads, 1, dtype)

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(blocks_for(n, threads), threads=threads) as bx:
            for i in T.Parallel(threads):
                Y[bx * threads + i] = T.max(X[bx * threads + i], T.cast(0, dtype))

    return main


@checked
@tilelang.jit(out_idx=[-1])
def relu_thread_vec(n, threads=256, num_per_thread=8, dtype="float32"):
    """Y = max(X, 0), `num_per_thread` neighbours on one thread; NaN becomes 0.

    X, Y: (n,) of `dtype`; any n > 0, static or T.dynamic("n"); vectorised when n is whole tiles.
    Raises ValueError on a bad n, threads, num_per_thread or dtype. After relu_f32x4 of LeetCUDA.
    """
    dtype = check_elementwise(n, threads, num_per_thread, dtype)
    tile = threads * num_per_thread

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(blocks_for(n, tile), threads=threads) as bx:
            for i in T.Parallel(tile):
                Y[bx * tile + i] = T.max(X[bx * tile + i], T.cast(0, dtype))

    return main


@checked
@tilelang.jit(out_idx=[-1])
def relu_select(n, threads=256, num_per_thread=8, dtype="float32"):
    """Y = X <= 0 ? 0 : X, straight from tensor to tensor: NaN is kept, since no comparison with it is true, and the
    loop is not vectorised, since T.if_then_else is not.

    X, Y: (n,) of `dtype`; any n > 0, static or T.dynamic("n").
    Raises ValueError on a bad n, threads, num_per_thread or dtype.
    """
    dtype = check_elementwise(n, threads, num_per_thread, dtype)
    tile = threads * num_per_thread

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(blocks_for(n, tile), threads=threads) as bx:
            for i in T.Parallel(tile):
                Y[bx * tile + i] = keep_nan(X[bx * tile + i], dtype)

    return main


@checked
@tilelang.jit(out_idx=[-1])
def relu_register_vec(n, threads=128, num_per_thread=None, dtype="float32"):
    """Y = relu(X) as PyTorch defines it, NaN kept, through register fragments: 128 bits in every whole tile.

    X, Y: (n,) of `dtype` (float32, float16, bfloat16); any n > 0, static or T.dynamic("n"), and T.dynamic("n", "int64")
    from 2^31 elements on.
    num_per_thread: None for one 128-bit access. Raises ValueError on a bad n, threads, num_per_thread or dtype.
    """
    num_per_thread = vector_elements(dtype) if num_per_thread is None else num_per_thread
    dtype = check_elementwise(n, threads, num_per_thread, dtype)
    tile = threads * num_per_thread

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(blocks_for(n, tile), threads=threads) as bx:
            if bx < n // tile:
                x = T.alloc_fragment((tile,), dtype)
                T.copy(X[bx * tile], x)
                for i in T.Parallel(tile):
                    x[i] = keep_nan(x[i], dtype)
                T.copy(x, Y[bx * tile])
            else:
                for i in T.Parallel(tile):
                    if i < n - bx * tile:
                        Y[bx * tile + i] = keep_nan(X[bx * tile + i], dtype)

    return main


def keep_nan(x, dtype):
    """x <= 0 ? 0 : x, chosen in float32: between 16-bit values nvcc branches, and the lanes of one store go in two."""
    x = T.cast(x, "float32")
    return T.cast(T.if_then_else(x <= T.float32(0), T.float32(0), x), dtype)


if __name__ == "__main__":
    from tilescope.book.chapter import check_rungs

    raise SystemExit(check_rungs(__file__))
