"""What is measured here and how it is verified, without a GPU: PyTorch's references stand in for the compiled rungs."""

import sys

import bench_elementwise
import elementwise_peers as peers
import elementwise_variants as kernels
import pytest
import torch
from elementwise_cases import fp8_rows

from tilescope.checking.running import run
from tilescope.frontend.program import factory_name
from tilescope.measuring import bench, records, verifying

QUICK = bench_elementwise.works(quick=True)


def stand_in(factory, args):
    name = factory_name(factory)
    if name.startswith("add_"):
        return kernels.add_reference
    if name == "scale_cast":
        return lambda x: kernels.scale_cast_reference(x, args.get("scale", 2.0), getattr(torch, args["out_dtype"]))
    return kernels.per_token_cast_to_fp8_reference


@pytest.fixture
def measured(bench_on_cpu, monkeypatch):
    """Measures a work on the CPU, with references for rungs and without Triton or TileKernels."""
    monkeypatch.setattr(bench, "compile_rung", stand_in)
    for missing in ("triton", "tile_kernels", "elementwise_triton"):
        monkeypatch.setitem(sys.modules, missing, None)
    return bench_on_cpu


@pytest.mark.parametrize("work", QUICK, ids=lambda work: f"{work.group}: {work.label}")
def test_every_candidate_passes_its_check_or_says_why_it_did_not_run(work, measured):
    rows = measured(work)
    for row in rows:
        if row["name"].startswith("Triton") or row["name"] == "TileKernels":
            assert row["status"] == "not run" and "ModuleNotFoundError" in row["why"]
        else:
            assert row["status"] == "measured", (row["name"], row["why"])
    (x, *_) = work.inputs()
    assert work.elements == x.numel()


@pytest.mark.parametrize("work", [w for w in QUICK if w.group == "large"], ids=lambda work: work.label)
def test_a_rung_that_is_slightly_wrong_is_refused(work, measured, monkeypatch):
    def wrong(factory, args):
        def call(*inputs):
            result = stand_in(factory, args)(*inputs)
            codes = result[0] if isinstance(result, tuple) else result
            integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[codes.element_size()]
            codes.view(integer).flatten()[-1] += 8
            return result

        return call

    monkeypatch.setattr(bench, "compile_rung", wrong)
    rungs = [row for row in measured(work) if row["role"] == "rung"]
    assert rungs and {row["status"] for row in rungs} == {"wrong"}


def test_the_works_of_the_book_are_all_there():
    keys = {(work.group, work.op, work.dtype, work.size) for work in bench_elementwise.works()}
    for dtype in ("float32", "bfloat16"):
        assert ("large", "add", dtype, "2^28") in keys
        assert {("ragged", "add", dtype, size) for size in ("2^29", "2^29 + 3")} <= keys
        assert ("misaligned", "add", dtype, "2^28") in keys
        for size in ("8192 x 32768", "4096 x 7168"):
            assert ("large", "per_token_cast_to_fp8", dtype, size) in keys
    for to in ("float16", "bfloat16"):
        assert ("large", "scale_cast", f"float32 to {to}", "2^28") in keys
    assert {("sweep", "add", "float32", f"2^{power}") for power in range(10, 29, 2)} <= keys


def test_bytes_are_counted_once():
    assert bench_elementwise.add_bytes(10, "float32") == 120
    assert bench_elementwise.add_bytes(10, "bfloat16") == 60
    assert bench_elementwise.scale_cast_bytes(10, "float32", "float16") == 60
    # 2 rows of 256: 512 floats in, 512 codes and 2 x 2 float32 scales out.
    assert bench_elementwise.fp8_bytes(2, 256, "float32") == 2048 + 512 + 16
    assert bench_elementwise.fp8_bytes(2, 256, "bfloat16") == 1024 + 512 + 16


def test_bytes_are_those_of_the_tensors(measured):
    for work in QUICK:
        inputs = work.inputs()
        rung = next(candidate for candidate in work.candidates if candidate.role == "rung")
        outputs = rung.prepare(inputs)()
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        assert work.bytes == sum(x.numel() * x.element_size() for x in (*inputs, *outputs)), work.label


def test_rows_keep_to_the_schema(measured):
    rows = [row for work in QUICK for row in measured(work)]
    whole = {"schema": 1, "bench": "x", "stamp": dict.fromkeys(records.STAMP, "x"), "timer": {}, "device": {}, "complete": True}
    assert records.problems({**whole, "rows": rows}) == []


def test_tuning_measures_the_whole_grid_and_its_ceiling():
    for work in bench_elementwise.tuning():
        roles = [candidate.role for candidate in work.candidates]
        assert roles.count("rung") == (9 if "fp8" in work.op else 18) and "peer" not in roles and "ceiling" in roles
        assert len({candidate.name for candidate in work.candidates}) == len(roles)


def test_triton_stores_the_scales_of_a_block_at_once():
    """What chapter 02 says of Triton's code: they pass through shared memory. Compiled for sm_90, which needs no GPU."""
    triton = pytest.importorskip("triton", reason="Triton comes with PyTorch's CUDA build")
    from elementwise_triton import GROUP, fp8_kernel
    from triton.backends.compiler import GPUTarget

    types = {"X": "*bf16", "Y": "*fp8e4nv", "S": "*fp32", "groups": "i32", "GROUPS": "constexpr", "GROUP": "constexpr"}
    aligned = {(position,): [["tt.divisibility", 16]] for position in range(4)}
    source = triton.compiler.ASTSource(fp8_kernel, types, {"GROUPS": 16, "GROUP": GROUP}, aligned)
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4}).asm["ptx"]
    codes, shared, scales = (ptx.find(text) for text in ("st.global.v4", "st.shared", "st.global.b32"))
    assert min(codes, shared, scales) >= 0 and shared < ptx.find("bar.sync") < scales


def test_the_example_form_is_near_the_reference():
    """Dividing by the scale rounds otherwise than multiplying by its inverse: a code may differ by a step, none by two."""
    (x,) = fp8_rows(24, 384, "float32")(torch.Generator().manual_seed(1))
    x = x[7:]  # past the rows with NaN and inf
    result = run(peers.per_token_cast_to_fp8_divided, [x], M=x.shape[0], N=x.shape[1])
    assert result.ok, result
    assert verifying.fp8_codes(kernels.per_token_cast_to_fp8_reference, 1)([x], result.outputs) is None
