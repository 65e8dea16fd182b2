"""What is measured here and how it is verified, without a GPU: PyTorch's references stand in for the compiled rungs."""

import sys

import bench_activations
import functional
import gelu_variants as gelu
import pytest
import relu_variants as relu

from tilescope.checking.factory_arguments import FLOATS
from tilescope.frontend.program import factory_name
from tilescope.measuring import bench, records

QUICK = bench_activations.works(quick=True)


def reference(name):
    if "relu" in name:
        return relu.relu_reference
    exact = gelu.gelu_erf_reference if "erf" in name else gelu.gelu_tanh_reference
    return lambda x: exact(x).to(x.dtype)


def stand_in(factory, args):
    return reference(factory_name(factory))


@pytest.fixture
def measured(bench_on_cpu, monkeypatch):
    """Measures a work on the CPU, with references for rungs and without Triton."""
    monkeypatch.setattr(bench, "compile_rung", stand_in)
    monkeypatch.setattr(functional, "DEVICE", "cpu")
    monkeypatch.setattr(functional, "_launch", lambda key, memory: reference(key[0])(memory))
    for missing in ("triton", "activation_triton"):
        monkeypatch.setitem(sys.modules, missing, None)
    return bench_on_cpu


@pytest.mark.parametrize("work", QUICK, ids=lambda work: f"{work.group}: {work.label}")
def test_every_candidate_passes_its_check_or_says_why_it_did_not_run(work, measured):
    for row in measured(work):
        if row["name"] == "Triton":
            assert row["status"] == "not run" and "ModuleNotFoundError" in row["why"]
        else:
            assert row["status"] == "measured", (row["name"], row["why"])


@pytest.mark.parametrize("work", [w for w in QUICK if w.group == "large"], ids=lambda work: work.label)
def test_a_rung_that_is_wrong_is_refused(work, measured, monkeypatch):
    def wrong(factory, args):
        def call(x):
            y = stand_in(factory, args)(x)
            y[-1] = y[-1] + 0.1 + 0.1 * y[-1].abs()
            return y

        return call

    monkeypatch.setattr(bench, "compile_rung", wrong)
    rungs = [row for row in measured(work) if row["role"] == "rung"]
    assert rungs and {row["status"] for row in rungs} == {"wrong"}


def test_one_gelu_is_not_taken_for_the_other_in_float32(measured, monkeypatch):
    monkeypatch.setattr(bench, "compile_rung", lambda factory, args: reference("gelu_tanh"))
    work = next(work for work in QUICK if work.op == "gelu_erf" and work.group == "large")
    assert {row["status"] for row in measured(work) if row["role"] == "rung"} == {"wrong"}


def test_the_works_of_the_book_are_all_there():
    keys = {(work.group, work.op, work.dtype, work.size) for work in bench_activations.works()}
    assert {("large", "gelu_tanh", dtype, "2^28") for dtype in FLOATS} <= keys
    assert {("large", "gelu_erf", "float32", size) for size in ("2^28", "4096 x 393216")} <= keys
    assert {("large", "relu", dtype, "2^28") for dtype in ("float32", "bfloat16")} <= keys
    assert {("call", "gelu_tanh", "bfloat16", size) for size in ("2^12", "2^28")} <= keys
    assert {("sweep", "gelu_tanh", "bfloat16", f"2^{power}") for power in range(10, 29, 2)} <= keys
    assert ("misaligned", "gelu_tanh", "bfloat16", "2^28") in keys
    assert ("ragged", "gelu_tanh", "bfloat16", "2^29 + 3") in keys
    names = {candidate.name for work in bench_activations.works() for candidate in work.candidates}
    assert {"PyTorch", "torch.compile", "Triton", "functional.gelu", "functional.relu"} <= names
    assert {"cuda_gelu_tanh_packed128", "cuda_gelu_erf_f32x4x2", "cuda_relu_f32x4", "cuda_gelu_f32x4"} <= names


def test_bytes_are_those_of_the_tensors(measured):
    assert bench_activations.unary_bytes(10, "float32") == 80 and bench_activations.unary_bytes(10, "bfloat16") == 40
    for work in QUICK:
        (x,) = work.inputs()
        assert work.elements == x.numel() and work.bytes == 2 * x.numel() * x.element_size()


def test_the_views_that_start_late_do(measured):
    for work in QUICK:
        (x,) = work.inputs()
        assert (x.storage_offset() == 1) == (work.group == "misaligned")


def test_rows_keep_to_the_schema(measured):
    rows = [row for work in QUICK for row in measured(work)]
    whole = {"schema": 1, "bench": "x", "stamp": dict.fromkeys(records.STAMP, "x"), "timer": {}, "device": {}, "complete": True}
    assert records.problems({**whole, "rows": rows}) == []


def test_tuning_measures_the_whole_grid_and_its_ceiling():
    for work in bench_activations.tuning():
        roles = [candidate.role for candidate in work.candidates]
        assert roles.count("rung") == 18 and roles.count("ceiling") == 1 and len(roles) == 19
