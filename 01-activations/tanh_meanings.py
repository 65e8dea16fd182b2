"""T.tanh, written the same and compiled to different functions. Look for: htanh or tanhf in the CUDA, MUFU.TANH in the SASS.

tanh_alone        T.tanh of the tensor's own type, or of the element cast to float32 first.
tanh_beside_exp   the same T.tanh in a kernel that also uses T.__exp, whose header redefines htanh.

`python3 accuracy.py` shows what each becomes.
"""

import tilelang
import tilelang.language as T
import torch

from tilescope import checked
from tilescope.checking.factory_arguments import FLOATS, check_dtype, check_multiple, check_size

TILE = 2048


def tanh_reference(x: torch.Tensor) -> torch.Tensor:
    """tanh in float64."""
    return x.double().tanh()


@checked
@tilelang.jit(out_idx=[-1])
def tanh_alone(n, dtype="float32", inside=None):
    """Y = tanh(X), computed in the type `inside`, which is `dtype` when None.

    X, Y: (n,) of `dtype` (float32, float16, bfloat16), n a multiple of 2048. Raises ValueError on a bad n or dtype.
    """
    dtype = check_dtype("dtype", dtype, FLOATS)
    inside = check_dtype("inside", inside or dtype, FLOATS)
    _check(n)

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(n // TILE, threads=256) as bx:
            x = T.alloc_fragment((TILE,), dtype)
            y = T.alloc_fragment((TILE,), dtype)
            T.copy(X[bx * TILE], x)
            for i in T.Parallel(TILE):
                y[i] = T.cast(T.tanh(T.cast(x[i], inside)), dtype)
            T.copy(y, Y[bx * TILE])

    return main


@checked
@tilelang.jit(out_idx=[-2, -1])
def tanh_beside_exp(n, dtype="float32"):
    """Y = tanh(X) in its own type, and Z = exp(X) in float32, which has nothing to do with Y.

    X, Y: (n,) of `dtype` (float32, float16, bfloat16), n a multiple of 2048; Z: (n,) float32. Raises ValueError on a bad n
    or dtype.
    """
    dtype = check_dtype("dtype", dtype, FLOATS)
    _check(n)

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype), Z: T.Tensor((n,), "float32")):
        with T.Kernel(n // TILE, threads=256) as bx:
            x = T.alloc_fragment((TILE,), dtype)
            y = T.alloc_fragment((TILE,), dtype)
            z = T.alloc_fragment((TILE,), "float32")
            T.copy(X[bx * TILE], x)
            for i in T.Parallel(TILE):
                y[i] = T.tanh(x[i])
                z[i] = T.__exp(T.cast(x[i], "float32"))
            T.copy(y, Y[bx * TILE])
            T.copy(z, Z[bx * TILE])

    return main


def _check(n) -> None:
    check_size("n", n, dynamic=False)
    check_multiple("n", n, TILE, "these kernels show code, and have no tail")
