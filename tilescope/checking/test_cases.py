"""The checker has to be able to fail, and must not call passed what did not run."""

import pytest
import tilelang
import tilelang.language as T
import torch

from tilescope import Case
from tilescope.checking.cases import check, check_one
from tilescope.checking.comparing import differing, ulps
from tilescope.checking.inputs import normal, special

N = 300


@tilelang.jit(out_idx=[-1])
def copy(n, floor=False, flaw=0.0):
    blocks = n // 128 if floor else T.ceildiv(n, 128)

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(blocks, threads=128) as bx:
            for i in T.Parallel(128):
                Y[bx * 128 + i] = X[bx * 128 + i] + T.float32(flaw)

    return main


@tilelang.jit(out_idx=[-1])
def past_the_end(n):
    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        T.func_attr({"tilelang_pass_configs": {"tl.disable_safe_memory_legalize": True}})
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            for i in T.Parallel(128):
                Y[bx * 128 + i] = X[bx * 128 + i]

    return main


@tilelang.jit(out_idx=[-1])
def product(n):
    """Uses the tensor cores, which the emulator lacks."""

    @T.prim_func
    def main(X: T.Tensor((n, n), "float16"), Y: T.Tensor((n, n), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((n, n), "float16")
            y = T.alloc_fragment((n, n), "float32")
            T.copy(X, x)
            T.clear(y)
            T.gemm(x, x, y)
            T.copy(y, Y)

    return main


def case(factory, reference=lambda x: x, n=N, max_ulps=None, **args):
    return Case(factory, {"n": n, **args}, lambda g: (normal((n,), "float32", g),), reference, max_ulps)


def test_a_right_kernel_passes_and_the_row_says_how_it_ran():
    outcome = check_one(case(copy))
    assert outcome.status == "passed" and (outcome.how.startswith("emulated sm_90a") or "NVIDIA" in outcome.how)


def test_a_wrong_value_fails_with_its_index_and_the_seed():
    outcome = check_one(case(copy, flaw=1e-6), seed=7)
    assert outcome.status == "FAILED" and "elements differ; element" in outcome.detail and "(seed 7)" in outcome.detail
    assert check_one(case(copy, flaw=1e-6), seed=7).detail == outcome.detail


def test_elements_that_were_never_written_fail():
    outcome = check_one(case(copy, floor=True))
    assert outcome.status == "FAILED"
    assert "44 elements never written" in outcome.detail or "44 of 300 elements differ" in outcome.detail


def test_writes_past_the_end_fail():
    outcome = check_one(case(past_the_end))
    assert outcome.status == "FAILED" and ("out-of-bounds" in outcome.detail or "outside the tensor" in outcome.detail)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU runs it")
def test_what_the_emulator_lacks_is_not_run(capsys):
    square = Case(product, {"n": 64}, lambda g: (normal((64, 64), "float16", g),), lambda x: x.float() @ x.float())
    assert check_one(square).status == "not run"
    assert check([square], "one") == 1
    assert check([square, case(copy)], "two") == 0
    assert "two: 1 passed, 1 not run of 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    "bad, words",
    [
        (case(copy, n=0), "n=0"),
        (case(copy, reference=lambda x: x[:5]), "the reference (5,)"),
        (case(copy, reference=lambda x: (x, x)), "returns 1 tensors, the reference 2"),
        (case(copy, reference=lambda x: 1 / 0), "ZeroDivisionError"),
        (case(copy, max_ulps=1.0), "has to be float64"),
    ],
)
def test_what_raises_is_a_failed_row_and_the_others_still_run(capsys, bad, words):
    assert words in check_one(bad).detail or bad.args["n"] == 0
    assert check([bad, case(copy)], "two") == 1
    assert "two: 1 passed, 1 FAILED of 2" in capsys.readouterr().out


def test_nothing_checked_is_not_success():
    with pytest.raises(ValueError, match="no cases"):
        check([], "none")


def test_status_and_summary(capsys):
    assert check([case(copy), case(copy, flaw=1.0)], "two") == 1
    assert "two: 1 passed, 1 FAILED of 2" in capsys.readouterr().out


def test_a_tolerance_is_in_ulps():
    assert check_one(case(copy, reference=lambda x: x.double(), max_ulps=0.0)).status == "passed"
    off = case(copy, reference=lambda x: x.double() * (1 + 2**-22), max_ulps=0.5)
    assert check_one(off).status == "FAILED"


def test_differing_is_bit_for_bit_but_for_nan():
    a = torch.tensor([0.0, torch.nan, 1.0, torch.inf])
    b = torch.tensor([-0.0, -torch.nan, 1.0, torch.inf])
    assert differing(a, b).tolist() == [0]
    with pytest.raises(ValueError, match="float16"):
        differing(a, a.half())


def test_ulps():
    one = torch.ones(1)
    assert ulps(one, one.double() + 2**-23).item() == 1.0
    assert ulps(one.bfloat16(), one.double() + 2**-8).item() == 0.5
    tiny = torch.tensor([1e-45])  # the smallest denormal: the spacing there is its own size
    assert ulps(tiny, torch.zeros(1, dtype=torch.float64)).item() == 1.0
    got = torch.tensor([torch.inf, torch.nan, 3e38, torch.nan])
    want = torch.tensor([torch.inf, torch.nan, torch.inf, 1.0], dtype=torch.float64)
    assert ulps(got, want).tolist() == [0.0, 0.0, torch.inf, torch.inf]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_special_inputs_hold_every_end_of_the_type(dtype):
    x = special(4096, dtype, torch.Generator().manual_seed(0))
    info = torch.finfo(x.dtype)
    assert x.isnan().any() and (x == torch.inf).any() and (x == -torch.inf).any() and (x == info.max).any()
    assert ((x.abs() < info.smallest_normal) & (x != 0)).any() and (x == 0).any()
    zeros = x[x == 0].float()
    assert (1 / zeros == torch.inf).any() and (1 / zeros == -torch.inf).any()
