"""The operations of this chapter as Triton kernels, to lay beside the rungs. Importing this needs Triton.

Contiguous blocks, 8 elements a thread, float32 arithmetic, and for tanh the form with one exponential, which is the faster.
"""

import torch
import triton
import triton.language as tl

BLOCK, WARPS = 1024, 4
TWO_BETA = tl.constexpr(1.5957691216057308)  # 2 sqrt(2 / pi)
KAPPA = tl.constexpr(0.044715)
SQRT_HALF = tl.constexpr(0.7071067811865476)


@triton.jit
def relu_kernel(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(X + i, mask=inside)
    tl.store(Y + i, tl.where(x <= 0, 0.0, x).to(Y.dtype.element_ty), mask=inside)


@triton.jit
def gelu_tanh_kernel(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(X + i, mask=inside).to(tl.float32)
    y = x / (1 + tl.exp(-TWO_BETA * x * (1 + KAPPA * x * x)))
    tl.store(Y + i, y.to(Y.dtype.element_ty), mask=inside)


@triton.jit
def gelu_erf_kernel(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(X + i, mask=inside).to(tl.float32)
    y = 0.5 * x * (1 + tl.erf(x * SQRT_HALF))
    tl.store(Y + i, y.to(Y.dtype.element_ty), mask=inside)


def relu(x: torch.Tensor) -> torch.Tensor:
    """max(x, 0), NaN kept, x (n,)."""
    return _launch(relu_kernel, x)


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    """GELU, tanh form, x (n,)."""
    return _launch(gelu_tanh_kernel, x)


def gelu_erf(x: torch.Tensor) -> torch.Tensor:
    """Exact GELU, x (n,)."""
    return _launch(gelu_erf_kernel, x)


def _launch(kernel: object, x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK, num_warps=WARPS)
    return y
