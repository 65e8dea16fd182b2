"""What `python3 elementwise_variants.py` and the tests check: every kernel, dtype, ragged and dynamic sizes, the ends of
the types. Sizes are small, so that the emulator takes seconds; the GPU tests add the large ones."""

import elementwise_variants as kernels
import tilelang.language as T
import torch

from tilescope import Case
from tilescope.checking.factory_arguments import FLOATS
from tilescope.checking.inputs import normal, special

TILE = 256 * 8
WHOLE, RAGGED, TINY = 2 * TILE, 2 * TILE + 3, 1
FP8_DTYPES = ("float32", "bfloat16", "float16")


def pair(n, dtype, make=normal):
    """Inputs A and B of an add."""

    def inputs(generator):
        shape = n if make is special else (n,)
        return make(shape, dtype, generator), make(shape, dtype, generator)

    return inputs


def add_cases():
    for dtype in FLOATS:
        for factory in (kernels.add_flat, kernels.add_thread_vec, kernels.add_tail_split):
            for n in (WHOLE, RAGGED, TINY):
                yield Case(factory, {"n": n, "dtype": dtype}, pair(n, dtype), kernels.add_reference)
        register = kernels.add_register_vec
        yield Case(register, {"n": WHOLE, "dtype": dtype}, pair(WHOLE, dtype), kernels.add_reference)
        dynamic = {"n": T.dynamic("n"), "dtype": dtype}
        for n in (RAGGED, TINY):
            yield Case(kernels.add_tail_split, dynamic, pair(n, dtype), kernels.add_reference, about=f"n={n} at launch")
        scalar = {"n": RAGGED, "any_alignment": True, "dtype": dtype}
        yield Case(kernels.add_tail_split, scalar, pair(RAGGED, dtype), kernels.add_reference)
        yield Case(
            kernels.add_tail_split,
            {"n": RAGGED, "dtype": dtype},
            pair(RAGGED, dtype, special),
            kernels.add_reference,
            about="ends of the type",
        )


def cast_cases():
    for in_dtype, out_dtype in (("float32", "float16"), ("float32", "bfloat16"), ("bfloat16", "float32")):
        for make, about in ((normal, "normal"), (special, "ends of the type")):

            def inputs(generator, make=make, in_dtype=in_dtype):
                return (make(RAGGED if make is special else (RAGGED,), in_dtype, generator),)

            def reference(x, out_dtype=out_dtype):
                return kernels.scale_cast_reference(x, 2.0, getattr(torch, out_dtype))

            args = {"n": RAGGED, "in_dtype": in_dtype, "out_dtype": out_dtype}
            yield Case(kernels.scale_cast, args, inputs, reference, about=about)


def fp8_rows(M, N, dtype):
    """(M, N) with rows that quantisers get wrong: zeros, below the floor, denormals, +-448, one NaN, all NaN, inf."""

    def inputs(generator):
        x = torch.randn((M, N), generator=generator) * torch.logspace(-3, 3, M)[:, None]
        edges = torch.zeros(7, N)
        edges[1] = 1e-6
        edges[2] = 2e-45
        edges[3, ::2], edges[3, 1::2] = 448.0, -448.0
        edges[4] = x[0]
        edges[4, 5] = torch.nan
        edges[5] = torch.nan
        edges[6] = x[0]
        edges[6, 7] = -torch.inf
        x[: min(M, 7)] = edges[: min(M, 7)]
        return (x.to(getattr(torch, dtype)),)

    return inputs


def fp8_cases():
    for dtype in FP8_DTYPES:
        for factory, _, form in kernels.FP8_RUNGS:
            for M, N in ((11, 384), (1, 128)):
                args = {"M": M, "N": N, "dtype": dtype, **form}
                inputs = fp8_rows(M, N, dtype)
                yield Case(factory, args, inputs, kernels.per_token_cast_to_fp8_reference, about="edge rows")


CASES = [*add_cases(), *cast_cases(), *fp8_cases()]
