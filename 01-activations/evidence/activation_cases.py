"""What the kernels of this chapter are checked with: every dtype, whole, ragged and dynamic sizes, the ends of the types.

ReLU is exact. A GELU is compared in ulps of its dtype with float64; each limit below is what the formula costs, and
`accuracy.py` measures it on every input there is.
"""

import gelu_variants as gelu
import relu_variants as relu
import tilelang.language as T

from tilescope import Case
from tilescope.checking.factory_arguments import FLOATS
from tilescope.checking.inputs import normal, special

TILE = 256 * 8
WHOLE, RAGGED, TINY = TILE, 2 * TILE + 3, 1


def vector(n, dtype, make=normal):
    """One input of n elements."""

    def inputs(generator):
        return (make(n if make is special else (n,), dtype, generator),)

    return inputs


def relu_cases():
    for dtype in FLOATS:
        for factory in (relu.relu_flat, relu.relu_thread_vec, relu.relu_select, relu.relu_register_vec):
            keeps_nan = factory in (relu.relu_select, relu.relu_register_vec)
            reference = relu.relu_reference if keeps_nan else relu.relu_max_reference
            for n in (WHOLE, RAGGED):
                yield Case(factory, {"n": n, "dtype": dtype}, vector(n, dtype), reference)
            about = "ends of the type" + ("" if keeps_nan else ", NaN becomes 0")
            yield Case(factory, {"n": RAGGED, "dtype": dtype}, vector(RAGGED, dtype, special), reference, about=about)
        dynamic = {"n": T.dynamic("n"), "dtype": dtype}
        for n in (RAGGED, TINY):
            inputs, about = vector(n, dtype), f"n={n} at launch"
            yield Case(relu.relu_register_vec, dynamic, inputs, relu.relu_reference, about=about)


FLOAT32_EPSILON = 2.0**-24  # half an ulp of a number below 2


def cancels(x):
    """What 1 + tanh u and 1 + erf lose: a few roundings of numbers near 1, times |x|, whatever the result is."""
    return 4 * FLOAT32_EPSILON * x.double().abs()


def cancels_and_approximates(x):
    """1.5e-7, Abramowitz and Stegun's own bound for 7.1.26, comes to it."""
    return (4 * FLOAT32_EPSILON + 1.5e-7) * x.double().abs()


# (factory, reference, slack, ulps allowed in float32); in 16 bits it is half an ulp and a little, the final rounding.
FORMULAS = (
    (gelu.gelu_tanh_flat, gelu.gelu_tanh_reference, cancels, 0.5),
    (gelu.gelu_tanh_thread_vec, gelu.gelu_tanh_reference, cancels, 0.5),
    (gelu.gelu_tanh_register_vec, gelu.gelu_tanh_reference, cancels, 0.5),
    (gelu.gelu_tanh_fast, gelu.gelu_tanh_reference, None, 32.0),
    (gelu.gelu_erf_thread_vec, gelu.gelu_erf_reference, cancels, 0.5),
    (gelu.gelu_erf_register_vec, gelu.gelu_erf_reference, cancels, 0.5),
    (gelu.gelu_erf_grid_stride, gelu.gelu_erf_reference, cancels, 0.5),
    (gelu.gelu_erf_as7126, gelu.gelu_erf_reference, cancels_and_approximates, 0.5),
)
ANY_N = (gelu.gelu_tanh_register_vec, gelu.gelu_tanh_fast, gelu.gelu_erf_register_vec, gelu.gelu_erf_as7126)


def gelu_case(formula, n, dtype, size=None, make=normal):
    """`formula`: a row of FORMULAS. `size`: what the kernel is compiled for, when it is not n."""
    factory, reference, slack, ulps = formula
    about = "normal" if size is None else f"n={n} at launch"
    limit = ulps if dtype == "float32" else 0.52
    args = {"n": n if size is None else size, "dtype": dtype}
    return Case(factory, args, vector(n, dtype, make), reference, limit, about, slack)


def gelu_cases():
    for formula in FORMULAS:
        for dtype in FLOATS:
            yield gelu_case(formula, RAGGED, dtype)
            if formula[0] in ANY_N:
                yield gelu_case(formula, RAGGED, dtype, T.dynamic("n"))
                yield gelu_case(formula, TINY, dtype)
            else:
                yield gelu_case(formula, WHOLE, dtype)


CASES = [*relu_cases(), *gelu_cases()]
