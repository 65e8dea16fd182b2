"""Claims of this chapter about generated code and values; accuracy, the CUDA baselines and functional.py have their own."""

import activation_cases
import gelu_variants as gelu
import inspect_activations
import op_matrix
import pytest
import relu_variants as relu
import tilelang
import tilelang.language as T
import torch

from tilescope import Case, inspect
from tilescope.checking.cases import check_one
from tilescope.checking.factory_arguments import FLOATS
from tilescope.checking.inputs import special
from tilescope.display import render, tables

N = 1 << 20
ARCHS = ("sm_80", "sm_90a", "sm_100a")
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
FINAL = (
    relu.relu_register_vec,
    gelu.gelu_tanh_register_vec,
    gelu.gelu_tanh_fast,
    gelu.gelu_erf_register_vec,
    gelu.gelu_erf_as7126,
)


def shapes(report, guarded=False):
    return {
        (a.bytes_per_lane, a.sectors_per_request, a.ideal_sectors_per_request) for a in report.accesses if a.guarded == guarded
    }


# -- generated code --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("n", [N, N - 3, "dynamic"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("factory", FINAL)
def test_final_rungs_are_wide_on_every_whole_tile(factory, dtype, n, arch):
    n = T.dynamic("n") if n == "dynamic" else n
    report = inspect(factory, n=n, dtype=dtype, arch=arch, sass=False)
    width = {a.bytes_per_lane for a in report.accesses if not a.guarded}
    assert width <= {16, 32} and len(width) == 1 and not report.strided
    assert arch == "sm_100a" or width == {16}
    assert all(a.bytes_per_lane == BYTES[dtype] for a in report.accesses if a.guarded)


@pytest.mark.parametrize("factory", [relu.relu_flat, gelu.gelu_tanh_flat])
@pytest.mark.parametrize("dtype", FLOATS)
def test_one_element_a_thread_is_scalar_and_coalesced(factory, dtype):
    width = BYTES[dtype]
    report = inspect(factory, n=N, dtype=dtype, arch="sm_90a", sass=False)
    assert report.verdict == "scalar" and shapes(report) == {(width, width, width)}


def test_relu_compiles_to_a_maximum_or_a_comparison():
    assert inspect(relu.relu_thread_vec, n=N, dtype="bfloat16", arch="sm_90a").sass.count("HMNMX2") == 4
    kept = inspect(relu.relu_register_vec, n=N, dtype="bfloat16", arch="sm_90a").sass
    assert kept.count("HMNMX2") == 0 and kept.memory_counts() == {"LDG.E.128.CONSTANT": 1, "STG.E.128": 1}


def test_a_select_takes_the_width_away_unless_it_goes_through_fragments():
    direct = inspect(relu.relu_select, n=N, dtype="bfloat16", arch="sm_90a")
    assert direct.verdict == "scalar" and direct.sass.memory_counts() == {"LDG.E.U16.CONSTANT": 8, "STG.E.U16": 8}
    assert inspect(relu.relu_register_vec, n=N, dtype="bfloat16", arch="sm_90a").verdict == "128-bit"


def test_erf_with_a_named_value_is_strided_in_float32_and_wide_in_bfloat16():
    """A named float32 value keeps its place in the loop, which is taken apart element by element after a layout for
    float4 was chosen. A named cast from bfloat16 is a copy to a local array, which is what fragments do."""
    single = inspect(gelu.gelu_erf_thread_vec, n=N, dtype="float32", arch="sm_90a", sass=False)
    assert single.verdict == "scalar, strided" and shapes(single) == {(4, 16, 4)}
    assert inspect(gelu.gelu_erf_thread_vec, n=N, dtype="bfloat16", arch="sm_90a", sass=False).verdict == "128-bit"


def test_the_grid_stride_loop_makes_the_same_accesses_in_fewer_blocks():
    n = 4096 * 4096
    loop = inspect(gelu.gelu_erf_grid_stride, n=n, arch="sm_90a", sass=False)
    once = inspect(gelu.gelu_erf_register_vec, n=n, threads=256, num_per_thread=8, arch="sm_90a", sass=False)
    assert loop.grid[0] == 2112 and once.grid[0] == n // 2048

    def totals(report, op):
        return [sum(getattr(a, key) for a in report.accesses if a.op == op) for key in ("requests", "sectors")]

    assert totals(loop, "load") == totals(once, "load") and totals(loop, "store") == totals(once, "store")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_matrix_of_operations(dtype):
    """Through fragments everything is wide. The README's table has the rest."""
    matrix = op_matrix.matrix(dtype)
    assert {row["fragments"].verdict for row in matrix.values()} == {"128-bit"}
    narrow = {op for op, row in matrix.items() if row["inline"].verdict == "scalar"}
    assert narrow == {
        "T.rsqrt(x)",
        "T.erf(x)",
        "T.__exp(x)",
        "T.fast_rcp(x)",
        "T.if_then_else(x > 0, x, 0)",
        "T.Select(x > 0, x, 0)",
    }
    strided = {op for op, row in matrix.items() if row["named"].strided}
    assert strided == (narrow - {"T.Select(x > 0, x, 0)"} if dtype == "float32" else set())


@pytest.mark.parametrize("factory", FINAL)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [N - 3, "dynamic"])
def test_a_ragged_n_costs_neither_registers_nor_requests(factory, dtype, n):
    """32 registers let a multiprocessor hold its 2048 threads; and each store of the text is one instruction."""
    n = T.dynamic("n") if n == "dynamic" else n
    report = inspect(factory, n=n, dtype=dtype, arch="sm_90a")
    assert report.sass.registers <= 32 and report.sass.spill_bytes == 0
    per_thread = 8 if BYTES[dtype] == 2 or factory is gelu.gelu_erf_register_vec else 4
    stores = {name: count for name, count in report.sass.memory_counts().items() if name.startswith("STG")}
    assert sum(stores.values()) == per_thread + per_thread * BYTES[dtype] // 16


def test_sizes_beyond_32_bits_index_with_64():
    for n in (2**31 + 2**20, T.dynamic("n", "int64")):
        assert "int64_t" in render.cuda(inspect(gelu.gelu_tanh_fast, n=n, dtype="bfloat16", sass=False))


@tilelang.jit(out_idx=[-1])
def inline(formula, n, dtype):
    """Y = formula(X) without fragments and without a name for the loaded value; X, Y: (n,) of dtype."""

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(n // 2048, threads=256) as bx:
            for i in T.Parallel(2048):
                Y[bx * 2048 + i] = T.cast(formula(T.cast(X[bx * 2048 + i], "float32")), dtype)

    return main


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("formula", [gelu.gelu_sigmoid, gelu.gelu_as7126])
def test_inline_the_fast_formulas_would_be_scalar(formula, dtype):
    assert inspect(inline, formula=formula, n=N, dtype=dtype, arch="sm_90a", sass=False).verdict.startswith("scalar")


# -- values ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", activation_cases.CASES, ids=lambda case: case.name)
def test_values(case):
    outcome = check_one(case)
    assert outcome.status == "passed", outcome.detail


@pytest.mark.parametrize("dtype", FLOATS)
def test_relu_is_torchs_on_every_end_of_the_type(dtype):
    x = special(4096, dtype, torch.Generator().manual_seed(1))
    assert torch.equal(relu.relu_reference(x).nan_to_num(nan=-1.0), torch.relu(x).nan_to_num(nan=-1.0))
    assert (x.isnan() == relu.relu_reference(x).isnan()).all() and x.isnan().any()
    # Values are equal, and so are bits but for one: PyTorch leaves -0.0 on a CPU.
    assert relu.relu_reference(torch.tensor([-0.0])).signbit().item() is False


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_maximum_turns_nan_into_zero(dtype):
    x = torch.tensor([torch.nan, -torch.nan, 1.0, -1.0]).to(getattr(torch, dtype))
    want = torch.tensor([0.0, 0.0, 1.0, 0.0]).to(x.dtype)
    outcome = check_one(Case(relu.relu_thread_vec, {"n": 4, "dtype": dtype}, lambda g: (x,), lambda x: want))
    assert outcome.status == "passed", outcome.detail


def test_a_quotient_of_exponentials_overflows():
    """tanh u as (e^2u - 1) / (e^2u + 1): from x = 13.24 on it is inf / inf. The form used here has no such x."""
    x = torch.tensor([13.24, 100.0, 1e30])
    u = gelu.BETA * (x + gelu.KAPPA * x**3)
    assert ((torch.exp(2 * u) - 1) / (torch.exp(2 * u) + 1)).isnan().all()
    outcome = check_one(Case(gelu.gelu_tanh_fast, {"n": 3}, lambda g: (x,), lambda x: x))
    assert outcome.status == "passed", outcome.detail


# -- the README ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", inspect_activations.TABLES)
def test_the_readme_says_what_the_tools_say(name):
    made = {name: inspect_activations.TABLES[name]()}
    assert tables.stale(inspect_activations.README, made) == [], "run `make tables`"


# -- on a GPU: the sizes that the chapter names ----------------------------------------------------------------------------
@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 31, 255, N, N + 3])
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_gelu_on_the_gpu(dtype, n):
    for formula in activation_cases.FORMULAS:
        for size in (None, T.dynamic("n")):
            outcome = check_one(activation_cases.gelu_case(formula, n, dtype, size))
            assert outcome.status == "passed", (formula[0], outcome.detail)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 31, 255, N, N + 3])
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_relu_on_the_gpu(dtype, n):
    for factory in (relu.relu_flat, relu.relu_thread_vec, relu.relu_select, relu.relu_register_vec):
        keeps_nan = factory in (relu.relu_select, relu.relu_register_vec)
        reference = relu.relu_reference if keeps_nan else relu.relu_max_reference
        inputs = activation_cases.vector(n, dtype, special)
        outcome = check_one(Case(factory, {"n": n, "dtype": dtype}, inputs, reference))
        assert outcome.status == "passed", outcome.detail


@pytest.mark.gpu
def test_the_large_matrix_on_the_gpu():
    """4096 x 393216 float32, six GB in and out; compared in slices."""
    n = 4096 * 393216
    x = torch.randn(n, device="cuda")
    for formula in activation_cases.FORMULAS:
        factory, reference, slack, ulps = formula
        y = factory(n)(x)
        for start in (0, n // 2 - 12345, n - (1 << 20)):
            piece = x[start : start + (1 << 20)]
            want = reference(piece)
            error = (y[start : start + (1 << 20)].double() - want).abs()
            allowed = 32 * 2.0**-23 * want.abs() if slack is None else slack(piece) + 2.0**-23 * want.abs()
            assert (error <= allowed + 1e-37).all(), factory
        del y


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements_on_the_gpu():
    n = 2**31 + 2**20
    x = torch.randn(n, device="cuda", dtype=torch.bfloat16)
    for factory, reference in (
        (relu.relu_register_vec, relu.relu_reference),
        (gelu.gelu_tanh_fast, lambda x: gelu.gelu_tanh_reference(x).to(torch.bfloat16)),
    ):
        for size in (n, T.dynamic("n", "int64")):
            y = factory(size, dtype="bfloat16")(x)
            for start in (0, 2**31 - 5000, n - 5000):
                got, want = y[start : start + 5000], reference(x[start : start + 5000])
                assert (got != want).float().mean() < 1e-3 and torch.allclose(got.float(), want.float(), rtol=2**-7)
            del y
