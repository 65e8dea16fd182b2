"""`relu` and `gelu` for PyTorch tensors on the GPU: the best rungs of the chapter behind the names of torch.nn.functional.

    from functional import gelu, relu
    y = gelu(x, approximate="tanh")

An activation does not care about shapes: a dense tensor, contiguous or permuted, is taken as the n elements of its memory,
and the result gets its shape and strides. One kernel a dtype, with n known at launch only, serves every shape.
"""

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any

import tilelang
import tilelang.language as T
import torch
from gelu_variants import (
    RESIDENT_THREADS,
    gelu_as7126,
    gelu_erf,
    gelu_erf_as7126,
    gelu_erf_register_vec,
    gelu_sigmoid,
    gelu_tanh_fast,
)
from relu_variants import keep_nan, relu_register_vec

from tilescope.checking.factory_arguments import FLOATS, blocks_for, check_elementwise, vector_elements

DEVICE = "cuda"
ALIGNMENT = 32  # bytes: the widest access on any architecture; PyTorch's allocations are aligned to more
INT32_MAX = 2**31 - 1
DTYPES = {getattr(torch, dtype): dtype for dtype in FLOATS}

# The rung for aligned tensors, and its formula for the others: a result does not depend on where a view starts.
RUNGS = {
    "relu": (relu_register_vec, lambda x: keep_nan(x, "float32")),
    "gelu_tanh": (gelu_tanh_fast, gelu_sigmoid),
    "gelu_erf": (gelu_erf_register_vec, gelu_erf),
}
OPS = tuple(RUNGS)
# In 16 bits erff keeps memory waiting, and the polynomial is the more accurate of the two besides (the chapter's tables).
RUNGS |= {("gelu_erf", dtype): (gelu_erf_as7126, gelu_as7126) for dtype in ("float16", "bfloat16")}


def relu(x: torch.Tensor) -> torch.Tensor:
    """max(x, 0) with NaN kept: torch.nn.functional.relu, without its `inplace` and without a backward.

    x: a CUDA tensor of float32, float16 or bfloat16, of any shape (empty and 0-d too), any strides and any alignment.
    Returns a new tensor of the same shape, dtype and device, with the strides that PyTorch gives its own result.
    Raises TypeError when x is no tensor; ValueError when it is of another dtype, on another device, sparse, or requires grad
    while gradients are recorded.

    What a call costs: one read of x, one write of the result, one launch. A view that starts at no multiple of 32 bytes,
    such as x[1:], takes a kernel with scalar accesses: the same traffic in more instructions, where a copy would double the
    traffic. A tensor with holes or overlaps (x[:, ::2], an expanded one) is copied first. The first call of a dtype compiles
    for some seconds; so does the first misaligned one of a dtype, and the first of 2^31 elements or more. No later call
    does, whatever its size. Any thread may call; make the first call before capturing a CUDA graph.
    """
    return _apply("relu", "relu", x)


def gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """GELU as torch.nn.functional.gelu, without a backward; computed in float32.

    approximate: "none" for x (1 + erf(x / sqrt 2)) / 2; "tanh" for the form with tanh, computed as x * sigmoid(2 u), which
    is more accurate than PyTorch's for negative x. x, result, errors and cost: as `relu`; also ValueError for any other
    `approximate`.
    """
    forms = {"none": "gelu_erf", "tanh": "gelu_tanh"}
    if not isinstance(approximate, str) or approximate not in forms:
        raise ValueError(f"gelu: approximate={approximate!r} is not known; use 'none' or 'tanh'")
    return _apply("gelu", forms[approximate], x)


def _apply(name: str, op: str, x: torch.Tensor) -> torch.Tensor:
    _check(name, x)
    if x.numel() == 0:
        return torch.empty_like(x)
    x = x.resolve_neg()  # the same tensor, unless it is the lazily negated half of a complex one
    dense = x if _is_dense(x) else x.clone()  # the copy has the strides that PyTorch gives a result
    memory = dense.as_strided((dense.numel(),), (1,))
    return _launch(_specialisation(op, memory), memory).as_strided(dense.shape, dense.stride())


def _check(name: str, x: object) -> None:
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name}: x is {type(x).__name__}, not a torch.Tensor")
    if x.layout != torch.strided:
        raise ValueError(f"{name}: x has layout {x.layout}; use .to_dense()")
    if x.dtype not in DTYPES:
        raise ValueError(f"{name}: x has dtype {x.dtype}; use .to() with one of {', '.join(FLOATS)}")
    if x.device.type != DEVICE:
        raise ValueError(f"{name}: x is on {x.device}, the kernel runs on {DEVICE}; use .to({DEVICE!r})")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            f"{name}: x has requires_grad=True, and there is no backward here; use x.detach() or torch.no_grad(), "
            f"or torch.nn.functional.{name} to train"
        )


def _is_dense(x: torch.Tensor) -> bool:
    """Whether the elements of x fill their memory, without holes or overlaps: a tensor like x then has the strides of x."""
    return x.is_contiguous() or torch.empty_like(x, device="meta").stride() == x.stride()


# -- which kernel -------------------------------------------------------------------------------------------------------
Specialisation = tuple[str, str, bool, bool]  # op, dtype, whether it has to take any alignment, whether n needs 64 bits
_kernels: dict[tuple[Specialisation, tuple[int, int]], Callable] = {}
_compiling = Lock()


def _launch(key: Specialisation, memory: torch.Tensor) -> torch.Tensor:
    """The op on memory (n,), as a new tensor (n,). The one function that needs a GPU."""
    capability = _capability(memory.device)
    if memory.device.index == torch.cuda.current_device():  # the usual case; switching devices costs microseconds
        return _kernel(key, capability)(memory)
    with torch.cuda.device(memory.device):
        return _kernel(key, capability)(memory)


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


def _specialisation(op: str, memory: torch.Tensor) -> Specialisation:
    misaligned = memory.data_ptr() % ALIGNMENT != 0
    return op, DTYPES[memory.dtype], misaligned, memory.numel() > INT32_MAX


def _kernel(key: Specialisation, capability: tuple[int, int]) -> Callable:
    """The kernel for GPUs of one compute capability, the current device's; compiled by the first caller, others wait."""
    if (key, capability) not in _kernels:
        with _compiling:
            if (key, capability) not in _kernels:
                factory, args = _rung(key)
                _kernels[key, capability] = factory(**args)
    return _kernels[key, capability]


def _rung(key: Specialisation) -> tuple[Callable, dict[str, Any]]:
    """The factory and its arguments."""
    op, dtype, misaligned, wide = key
    args = {"n": T.dynamic("n", "int64" if wide else "int32"), "dtype": dtype}
    return (any_alignment, {"op": op, **args}) if misaligned else (_best(op, dtype)[0], args)


def _best(op: str, dtype: str) -> tuple[Callable, Callable]:
    return RUNGS.get((op, dtype), RUNGS[op])


@tilelang.jit(out_idx=[-1])  # not @checked: there is no alignment to check, and the rest is checked above
def any_alignment(op, n, threads=128, num_per_thread=None, dtype="float32"):
    """Y = op(X) with scalar accesses, so that X may start at any element; coalesced, several independent ones a thread.

    op: "relu", "gelu_tanh" or "gelu_erf". X, Y: (n,) of `dtype` (float32, float16, bfloat16); any n > 0, static or
    T.dynamic("n"), and T.dynamic("n", "int64") from 2^31 elements on. num_per_thread: None for 32 bytes.
    Raises ValueError on a bad op, n, threads, num_per_thread or dtype.
    """
    if op not in OPS:
        raise ValueError(f"op={op!r} is not known; use one of {', '.join(OPS)}")
    num_per_thread = 2 * vector_elements(dtype) if num_per_thread is None else num_per_thread
    dtype = check_elementwise(n, threads, num_per_thread, dtype)
    formula, tile = _best(op, dtype)[1], threads * num_per_thread

    @T.macro
    def one(X, Y, k):
        Y[k] = T.cast(formula(T.cast(X[k], "float32")), dtype)

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(blocks_for(n, tile), threads=threads) as bx:
            T.annotate_min_blocks_per_sm(RESIDENT_THREADS // threads)  # all of them, in at most 32 registers
            if bx < n // tile:
                for i in T.Parallel(tile, coalesced_width=T.int32(1)):  # one element an access
                    one(X, Y, bx * tile + i)
            else:
                for i in T.Parallel(tile):
                    if i < n - bx * tile:
                        one(X, Y, bx * tile + i)

    return main
