"""GELU, rung by rung: which formula keeps the accesses wide, and what each costs in accuracy.

gelu_tanh_flat          one element a thread, tanhf. Look for: a scalar access.
gelu_tanh_thread_vec    tanhf, straight from tensor to tensor. Look for: 128 bits when n is whole tiles.
gelu_tanh_register_vec  tanhf through register fragments, any n. Look for: 128 bits, and some 25 instructions an element.
gelu_tanh_fast          x * sigmoid(2 u) with exp2 and an approximate reciprocal, any n. Look for: two MUFU an element.
gelu_erf_thread_vec     erff, straight from tensor to tensor. Look for: scalar, and strided as the loaded value has a name.
gelu_erf_register_vec   erff through register fragments, any n. Look for: 128 bits.
gelu_erf_grid_stride    the same in a loop over few blocks. Look for: the same accesses; it is the slower for it.
gelu_erf_as7126         Abramowitz and Stegun 7.1.26 for erf, any n. Look for: one exp, one reciprocal, a polynomial.

All compute in float32. `python3 gelu_variants.py` checks them against float64.
"""

import math

import tilelang
import tilelang.language as T
import torch

from tilescope import checked
from tilescope.checking.factory_arguments import blocks_for, check_elementwise, check_size, item_bytes, vector_elements

BETA = math.sqrt(2 / math.pi)
RESIDENT_THREADS = 2048  # of a multiprocessor, on sm_80, sm_90 and sm_100
KAPPA = 0.044715  # Hendrycks and Gimpel, arXiv:1606.08415


def gelu_tanh_reference(x: torch.Tensor) -> torch.Tensor:
    """The tanh form in float64, x (any float dtype): x * sigmoid(2 u), which does not cancel for negative x."""
    x = x.double()
    return x * torch.sigmoid(2 * BETA * x * (1 + KAPPA * x * x))


def gelu_erf_reference(x: torch.Tensor) -> torch.Tensor:
    """The exact GELU in float64: x * erfc(-x / sqrt 2) / 2, which does not cancel for negative x."""
    x = x.double()
    return x * torch.special.erfc(-x * math.sqrt(0.5)) / 2


# -- the formulas: float32 in, float32 out ----------------------------------------------------------------------------
def gelu_tanh(x):
    """x (1 + tanh u) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3), as PyTorch and llm.c write it."""
    u = T.float32(BETA) * (x + T.float32(KAPPA) * x * x * x)
    return T.float32(0.5) * x * (T.float32(1) + T.tanh(u))


def gelu_sigmoid(x):
    """The same function: (1 + tanh u) / 2 is sigmoid(2 u), so x / (1 + 2^(-2 u log2 e)), with one reciprocal."""
    log2e = 1 / math.log(2)
    exponent = x * (T.float32(-2 * BETA * log2e) + T.float32(-2 * BETA * KAPPA * log2e) * (x * x))
    return x * T.fast_rcp(T.float32(1) + T.exp2(exponent))


def gelu_erf(x):
    """x (1 + erf(x / sqrt 2)) / 2."""
    return T.float32(0.5) * x * (T.float32(1) + T.erf(x * T.float32(math.sqrt(0.5))))


AS7126 = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)  # of erf, to 1.5e-7; p is 0.3275911


def gelu_as7126(x):
    """The exact form with erf from Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26."""
    z = T.abs(x) * T.float32(math.sqrt(0.5))
    t = T.fast_rcp(T.float32(1) + T.float32(0.3275911) * z)
    a1, a2, a3, a4, a5 = (T.float32(a) for a in AS7126)
    tail = ((((a5 * t + a4) * t + a3) * t + a2) * t + a1) * t * T.exp2(z * z * T.float32(-1 / math.log(2)))
    # tail is 1 - erf(|z|), and half of it the probability beyond |x|: what is wanted below 0, and above 0 what is left of 1.
    # A selection between the two would compute the polynomial in both of its branches.
    one_above = T.if_then_else(x < T.float32(0), T.float32(0), T.float32(1))
    return x * T.abs(one_above - T.float32(0.5) * tail)


# -- the rungs ----------------------------------------------------------------------------------------------------------
def flat(formula, n, threads, dtype):
    """Y = formula(X), one element a thread."""
    dtype = check_elementwise(n, threads, 1, dtype)

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(blocks_for(n, threads), threads=threads) as bx:
            for i in T.Parallel(threads):
                Y[bx * threads + i] = T.cast(formula(T.cast(X[bx * threads + i], "float32")), dtype)

    return main


def thread_vec(formula, n, threads, num_per_thread, dtype):
    """Y = formula(X), straight from tensor to tensor; the loaded value has a name in the loop."""
    dtype = check_elementwise(n, threads, num_per_thread, dtype)
    tile = threads * num_per_thread

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(blocks_for(n, tile), threads=threads) as bx:
            for i in T.Parallel(tile):
                x = T.cast(X[bx * tile + i], "float32")
                Y[bx * tile + i] = T.cast(formula(x), dtype)

    return main


def register_vec(formula, n, threads, num_per_thread, dtype):
    """Y = formula(X) through register fragments; the last tile, if it is not whole, with a bounds check an element."""
    num_per_thread = vector_elements(dtype) if num_per_thread is None else num_per_thread
    dtype = check_elementwise(n, threads, num_per_thread, dtype)
    tile = threads * num_per_thread
    small = num_per_thread * item_bytes(dtype) <= 32  # more would not fit 32 registers either

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(blocks_for(n, tile), threads=threads) as bx:
            if small:
                # At most 32 registers: with the 34 that a dynamic n came to, a quarter of the threads would not fit.
                T.annotate_min_blocks_per_sm(RESIDENT_THREADS // threads)
            if bx < n // tile:
                x = T.alloc_fragment((tile,), dtype)
                y = T.alloc_fragment((tile,), dtype)
                T.copy(X[bx * tile], x)
                for i in T.Parallel(tile):
                    y[i] = T.cast(formula(T.cast(x[i], "float32")), dtype)
                T.copy(y, Y[bx * tile])
            else:
                for i in T.Parallel(tile):
                    if i < n - bx * tile:
                        Y[bx * tile + i] = T.cast(formula(T.cast(X[bx * tile + i], "float32")), dtype)

    return main


@checked
@tilelang.jit(out_idx=[-1])
def gelu_tanh_flat(n, threads=256, dtype="float32"):
    """GELU, tanh form, one element a thread. After the first GELU kernel of llm.c.

    X, Y: (n,) of `dtype` (float32, float16, bfloat16); any n > 0, static or T.dynamic("n").
    Raises ValueError on a bad n, threads or dtype.
    """
    return flat(gelu_tanh, n, threads, dtype)


@checked
@tilelang.jit(out_idx=[-1])
def gelu_tanh_thread_vec(n, threads=256, num_per_thread=8, dtype="float32"):
    """GELU, tanh form, straight from tensor to tensor; vectorised when n is whole tiles. After llm.c's second.

    X, Y: (n,) of `dtype` (float32, float16, bfloat16); any n > 0, static or T.dynamic("n").
    Raises ValueError on a bad n, threads, num_per_thread or dtype.
    """
    return thread_vec(gelu_tanh, n, threads, num_per_thread, dtype)


@checked
@tilelang.jit(out_idx=[-1])
def gelu_tanh_register_vec(n, threads=128, num_per_thread=None, dtype="float32"):
    """GELU, tanh form, through register fragments; 128 bits in every whole tile. num_per_thread: None for one such access.

    X, Y: (n,) of `dtype` (float32, float16, bfloat16); any n > 0, static or T.dynamic("n"), and T.dynamic("n", "int64")
    from 2^31 elements on.
    Raises ValueError on a bad n, threads, num_per_thread or dtype.
    """
    return register_vec(gelu_tanh, n, threads, num_per_thread, dtype)


@checked
@tilelang.jit(out_idx=[-1])
def gelu_tanh_fast(n, threads=128, num_per_thread=None, dtype="float32"):
    """GELU, tanh form as x * sigmoid(2 u), with exp2 and an approximate reciprocal. For any n, as gelu_tanh_register_vec,
    and more accurate for negative x, where 1 + tanh u cancels."""
    return register_vec(gelu_sigmoid, n, threads, num_per_thread, dtype)


@checked
@tilelang.jit(out_idx=[-1])
def gelu_erf_thread_vec(n, threads=256, num_per_thread=8, dtype="float32"):
    """Exact GELU, straight from tensor to tensor: T.erf is not vectorised, and takes the accesses down with it.

    X, Y: (n,) of `dtype` (float32, float16, bfloat16); any n > 0, static or T.dynamic("n").
    Raises ValueError on a bad n, threads, num_per_thread or dtype.
    """
    return thread_vec(gelu_erf, n, threads, num_per_thread, dtype)


@checked
@tilelang.jit(out_idx=[-1])
def gelu_erf_register_vec(n, threads=128, num_per_thread=8, dtype="float32"):
    """Exact GELU through register fragments. For any n, as gelu_tanh_register_vec."""
    return register_vec(gelu_erf, n, threads, num_per_thread, dtype)


@checked
@tilelang.jit(out_idx=[-1])
def gelu_erf_grid_stride(n, threads=256, num_per_thread=8, max_blocks=2112, dtype="float32"):
    """Exact GELU through register fragments, in at most `max_blocks` blocks that each take every `max_blocks`-th tile.

    X, Y: (n,) of `dtype`; any n > 0, static or T.dynamic("n"). max_blocks: 16 for each of the 132 multiprocessors of an
    H100 or H200. Raises ValueError on a bad n, threads, num_per_thread, max_blocks or dtype.
    """
    dtype = check_elementwise(n, threads, num_per_thread, dtype)
    check_size("max_blocks", max_blocks, dynamic=False)
    tile = threads * num_per_thread

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.min(blocks_for(n, tile), max_blocks), threads=threads) as bx:
            x = T.alloc_fragment((tile,), dtype)
            y = T.alloc_fragment((tile,), dtype)
            for k in T.serial(blocks_for(blocks_for(n, tile), max_blocks)):
                t = bx + k * max_blocks
                if t < n // tile:
                    T.copy(X[t * tile], x)
                    for i in T.Parallel(tile):
                        y[i] = T.cast(gelu_erf(T.cast(x[i], "float32")), dtype)
                    T.copy(y, Y[t * tile])
                else:
                    for i in T.Parallel(tile):
                        if i < n - t * tile:
                            Y[t * tile + i] = T.cast(gelu_erf(T.cast(X[t * tile + i], "float32")), dtype)

    return main


@checked
@tilelang.jit(out_idx=[-1])
def gelu_erf_as7126(n, threads=128, num_per_thread=None, dtype="float32"):
    """Exact GELU with erf from a polynomial: to 4e-7 |x| in float32, of which 0.75e-7 is the
    polynomial. For any n, as gelu_tanh_register_vec."""
    return register_vec(gelu_as7126, n, threads, num_per_thread, dtype)


if __name__ == "__main__":
    from tilescope.book.chapter import check_rungs

    raise SystemExit(check_rungs(__file__))
