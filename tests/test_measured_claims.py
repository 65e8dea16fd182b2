"""What the chapters' prose says of the measurements, against the measurements that are recorded."""

import json
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[1] / "results" / "nvidia-h200"


def rows(bench):
    return json.loads((RESULTS / f"{bench}.json").read_text())["rows"]


def ratio(bench, op, dtype, size, name, group="large"):
    """Share of the ceiling's bandwidth."""
    found = [
        row["ratio"]
        for row in rows(bench)
        if (row["group"], row["op"], row["dtype"], row["size"], row["name"]) == (group, op, dtype, size, name)
    ]
    assert len(found) == 1, (op, dtype, size, name, found)
    return found[0]


def add(dtype, name):
    return ratio("elementwise", "add", dtype, "2^28", name)


def fp8(dtype, size, name):
    return ratio("elementwise", "per_token_cast_to_fp8", dtype, size, name)


def test_one_element_a_thread():
    assert 0.7 < add("float32", "add_flat") < 0.8 and add("bfloat16", "add_flat") < 0.5
    for rung in ("add_thread_vec", "add_register_vec", "add_tail_split"):
        assert min(add("float32", rung), add("bfloat16", rung)) > 0.99
    assert ratio("activations", "gelu_tanh", "bfloat16", "2^28", "gelu_tanh_flat") < 1 / 3
    assert ratio("activations", "relu", "bfloat16", "2^28", "relu_flat") < 1 / 3
    assert 0.5 < ratio("activations", "relu", "float32", "2^28", "relu_flat") < 0.6


def test_a_ragged_n():
    """A third of the speed, and below add_flat; the split rungs lose less than 1 %."""

    def ragged(bench, op, dtype, size, name):
        return next(
            row["tb_per_s"]
            for row in rows(bench)
            if (row["group"], row["op"], row["dtype"], row["size"], row["name"]) == ("ragged", op, dtype, size, name)
        )

    whole, cut = (ragged("elementwise", "add", "bfloat16", n, "add_thread_vec") for n in ("2^29", "2^29 + 3"))
    assert round(cut, 2) == 1.49 and round(whole, 2) == 4.40
    assert cut < ragged("elementwise", "add", "bfloat16", "2^29 + 3", "add_flat")
    for bench, op, dtype, name in (
        ("elementwise", "add", "bfloat16", "add_tail_split"),
        ("elementwise", "add", "float32", "add_tail_split, dynamic n"),
        ("activations", "gelu_tanh", "bfloat16", "gelu_tanh_fast"),
        ("activations", "gelu_tanh", "bfloat16", "gelu_tanh_fast, dynamic n"),
        ("activations", "relu", "float32", "relu_register_vec"),
    ):
        assert ragged(bench, op, dtype, "2^29 + 3", name) > 0.99 * ragged(bench, op, dtype, "2^29", name)


def test_final_rungs_reach_the_ceiling():
    for op, dtype, size, name in (
        ("gelu_tanh", "bfloat16", "2^28", "gelu_tanh_fast"),
        ("gelu_tanh", "float32", "2^28", "gelu_tanh_fast"),
        ("gelu_tanh", "float16", "2^28", "gelu_tanh_fast"),
        ("gelu_erf", "float32", "4096 x 393216", "gelu_erf_register_vec"),
        ("relu", "float32", "2^28", "relu_register_vec"),
        ("relu", "bfloat16", "2^28", "relu_register_vec"),
    ):
        assert ratio("activations", op, dtype, size, name) >= 1.0
    for out in ("float16", "bfloat16"):
        assert ratio("elementwise", "scale_cast", f"float32 to {out}", "2^28", "scale_cast") >= 0.98
    assert fp8("float32", "8192 x 32768", "per_token_cast_to_fp8_contiguous") >= 0.98


def test_what_arithmetic_costs_gelu_in_bfloat16():
    def gelu(name):
        return ratio("activations", "gelu_tanh", "bfloat16", "2^28", name)

    for name in ("gelu_tanh_thread_vec", "gelu_tanh_register_vec", "PyTorch", "cuda_gelu_tanh_packed128"):
        assert 0.80 <= gelu(name) < 0.865
    assert round(gelu("gelu_tanh_fast") / gelu("PyTorch"), 2) == 1.18 and gelu("gelu_tanh_register_vec, fast math") > 1
    assert gelu("gelu_tanh_fast") > 1.12 * gelu("cuda_gelu_tanh_packed128")
    wrong = {row["dtype"] for row in rows("activations") if row["name"].endswith("fast math") and row["status"] == "wrong"}
    assert wrong == {"float32", "float16"}


def test_the_grid_stride_loop_loses_a_tenth():
    for name in ("gelu_erf_grid_stride", "cuda_gelu_erf_f32x4x2"):
        assert 0.87 < ratio("activations", "gelu_erf", "float32", "2^28", name) < 0.93


@pytest.mark.parametrize("dtype, times", [("float32", 1.16), ("bfloat16", 1.34)])
def test_the_contiguous_fp8_tile(dtype, times):
    ours = fp8(dtype, "8192 x 32768", "per_token_cast_to_fp8_contiguous")
    assert round(ours / fp8(dtype, "8192 x 32768", "TileLang's example form"), 2) == times


def test_triton_is_ahead_in_the_fp8_cast():
    def behind(dtype, size):
        best = max(fp8(dtype, size, name) for name in ("Triton, 16 groups, 4 warps", "Triton, 32 groups, 8 warps"))
        return 1 - fp8(dtype, size, "per_token_cast_to_fp8_contiguous") / best

    assert 0.01 < behind("bfloat16", "8192 x 32768") < 0.015 and behind("float32", "8192 x 32768") < 0.005
    assert all(0.015 < behind(dtype, "4096 x 7168") < 0.055 for dtype in ("float32", "bfloat16"))


def test_what_a_call_costs():
    calls = {
        row["name"]: row["call_us"]
        for row in rows("activations")
        if (row["group"], row["op"], row["size"]) == ("call", "gelu_tanh", "2^16")
    }
    assert 24 < calls["functional.gelu"] < 28 and 8.5 < calls["PyTorch"] < 9.5 and 20.5 < calls["Triton"] < 22.5


def test_predicted_sectors():
    """Equal but for the two cases that chapter 01 names."""
    records = json.loads((RESULTS / "sectors.json").read_text())["rows"]
    different = [(row["kernel"], row["args"]["dtype"]) for row in records if row["status"] == "different"]
    assert sorted(different) == [("relu_register_vec", "bfloat16"), ("relu_register_vec", "float16")]
    assert sum(row["status"] == "equal" for row in records) == 114
