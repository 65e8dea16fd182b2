"""The kernels of this chapter whose requests and sectors `make sectors` counts on a GPU: every rung and dtype, any n."""

from collections.abc import Iterator

import elementwise_variants as kernels
from bench_elementwise import add_bytes, fp8_bytes, scale_cast_bytes

from tilescope.checking.factory_arguments import FLOATS
from tilescope.measuring.sectors import Case

N = 1 << 20
LARGE = 1 << 26  # beyond any L2, so that DRAM bytes can be held against the bytes counted


def cases() -> Iterator[Case]:
    any_n = (kernels.add_flat, kernels.add_thread_vec, kernels.add_tail_split)
    for dtype in FLOATS:
        for n in (N, N - 3):
            for factory in (*any_n, kernels.add_register_vec) if n == N else any_n:
                yield Case(factory, {"n": n, "dtype": dtype}, add_bytes(n, dtype))
            scalar = {"n": n, "any_alignment": True, "dtype": dtype}
            yield Case(kernels.add_tail_split, scalar, add_bytes(n, dtype))
        for rows, columns in ((512, 4096), (511, 384)):
            for factory, _, form in kernels.FP8_RUNGS:
                yield Case(factory, {"M": rows, "N": columns, "dtype": dtype, **form}, fp8_bytes(rows, columns, dtype))
    for out_dtype in ("float16", "bfloat16"):
        for n in (N, N - 3):
            yield Case(kernels.scale_cast, {"n": n, "out_dtype": out_dtype}, scale_cast_bytes(n, "float32", out_dtype))
    yield Case(kernels.add_tail_split, {"n": LARGE}, add_bytes(LARGE, "float32"))
    yield Case(kernels.scale_cast, {"n": LARGE}, scale_cast_bytes(LARGE, "float32", "float16"))
    for factory, _, form in kernels.FP8_RUNGS:
        yield Case(factory, {"M": 8192, "N": 8192, **form}, fp8_bytes(8192, 8192, "float32"))
