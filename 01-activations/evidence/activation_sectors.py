"""The kernels of this chapter whose requests and sectors `make sectors` counts on a GPU: every rung and dtype, any n.

Of hand-written CUDA nothing is predicted; it is counted all the same, to lay beside the rungs.
"""

from collections.abc import Iterator

import cuda_baselines as cuda
import functional
import gelu_variants as gelu
import relu_variants as relu
from bench_activations import GELU_ERF, GELU_TANH, RELU, unary_bytes

from tilescope.checking.factory_arguments import FLOATS
from tilescope.measuring.sectors import Case

N = 1 << 20
LARGE = 1 << 26  # beyond any L2, so that DRAM bytes can be held against the bytes counted
BASELINES = {
    "float32": (
        cuda.cuda_relu_f32,
        cuda.cuda_relu_f32x4,
        cuda.cuda_relu_f32x4_hinted,
        cuda.cuda_gelu_f32,
        cuda.cuda_gelu_f32x4,
        cuda.cuda_gelu_erf_f32x4x2,
    ),
    "bfloat16": (cuda.cuda_gelu_tanh_naive, cuda.cuda_gelu_tanh_packed128),
}


def cases() -> Iterator[Case]:
    rungs = [factory for op in (RELU, GELU_TANH, GELU_ERF) for factory in op.rungs]
    for dtype in FLOATS:
        for n in (N, N - 3):
            for factory in rungs:
                yield Case(factory, {"n": n, "dtype": dtype}, unary_bytes(n, dtype))
            yield Case(functional.any_alignment, {"op": "gelu_tanh", "n": n, "dtype": dtype}, unary_bytes(n, dtype))
    for dtype, factories in BASELINES.items():
        for factory in factories:
            yield Case(factory, {"n": N}, unary_bytes(N, dtype))
    for factory in (relu.relu_register_vec, gelu.gelu_tanh_fast, gelu.gelu_erf_register_vec):
        yield Case(factory, {"n": LARGE}, unary_bytes(LARGE, "float32"))
