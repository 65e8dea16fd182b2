"""What accuracy.py says, asserted: errors of each form, values at the ends, T.tanh's meanings, and what was recorded.

Emulated, exp2, tanh and erf are the host's C library's and a reciprocal is rounded once, so a bound here holds for what the
formula costs; a GPU's instructions are measured by `accuracy.py --record`. On a GPU the same tests run there.
"""

import dataclasses
import json
import math
import sys

import accuracy
import gelu_variants as gelu
import pytest
import tanh_meanings
import tilelang.language as T
import torch
import torch.nn.functional as F

from tilescope import inspect
from tilescope.checking.comparing import differing, ulps
from tilescope.checking.factory_arguments import FLOATS
from tilescope.checking.running import run
from tilescope.display.tables import stale
from tilescope.measuring.stamp import gpu_folder, stamp

TANHF, FAST, TORCH_TANH, ERFF, AS7126, TORCH_ERF = accuracy.GELUS
KERNELS = [form for form in accuracy.GELUS if form.factory]
SWEEP = 1 << 17  # a 32nd of what accuracy.py takes


def gelu_of(form, x):
    """The kernel of a form on x, which has to run without a fault."""
    # A dynamic n, as in accuracy.py: one compilation serves every test.
    result = run(form.factory, [x], n=T.dynamic("n"), dtype=str(x.dtype).removeprefix("torch."))
    assert result.ok, result
    return result.outputs[0]


# -- the ruler --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_pattern_of_a_16_bit_type_is_an_input(dtype):
    x = accuracy.inputs(dtype)
    assert x.dtype == getattr(torch, dtype) and len(x.view(torch.int16).unique()) == 65536
    assert x.isfinite().sum() == 65536 - 2 * {"float16": 2**10, "bfloat16": 2**7}[dtype]


def test_float32_inputs_hold_every_power_of_two_and_its_neighbours():
    x = accuracy.inputs("float32", SWEEP)
    assert len(x) == SWEEP and SWEEP % (256 * 8) == accuracy.SWEEP % (256 * 8) == 0 and x.isfinite().all()
    have = set(x.tolist())
    for k in (-149, -126, -1, 0, 3, 127):
        power = torch.tensor(2.0**k)
        for value in (power, power.nextafter(torch.tensor(0.0)), power.nextafter(torch.tensor(torch.inf))):
            assert {value.item(), -value.item()} <= have
    assert (x.abs() <= 12).sum() > SWEEP / 2  # not all of it where gelu(x) is x or 0


def test_rounding_once_is_not_what_to_does():
    """Just above the middle between two bfloat16: float32, on the way, loses what is above, and a tie goes to even."""
    above = torch.tensor([1 + 2**-8 + 2**-40, -1 - 2**-8 - 2**-40], dtype=torch.float64)
    assert above.to(torch.bfloat16).tolist() == [1.0, -1.0]
    assert accuracy.correctly_rounded(above, torch.bfloat16).tolist() == [1 + 2**-7, -1 - 2**-7]
    written = {1 + 2**-8: 1.0, 1 + 3 * 2**-8: 1 + 2**-6, 3.4e38: math.inf, 1e300: math.inf, -math.inf: -math.inf, 1e-50: 0.0}
    want = torch.tensor(list(written), dtype=torch.float64)
    assert accuracy.correctly_rounded(want, torch.bfloat16).tolist() == list(written.values())
    assert accuracy.correctly_rounded(torch.tensor([65519.0, 65520.0]).double(), torch.float16).tolist() == [65504, math.inf]


def test_errors_worked_out_by_hand():
    x = torch.tensor([1.0, 2.0, -4.0, torch.inf, 1e30]).bfloat16()
    got = torch.tensor([1.0, 2.0, -0.25, 7.0, torch.nan]).bfloat16()
    want = torch.tensor([1.0, 2 + 2**-7, -0.5, 0.0, 1e30], dtype=torch.float64)
    found = accuracy.errors(x, got, want)
    assert found["inputs"] == 4 and found["not_finite"] == 1  # inf is no input; NaN is a wrong result
    assert (found["max_abs"], found["max_abs_at"]) == (0.25, -4.0)
    assert (found["max_ulps"], found["max_ulps_at"]) == (64.0, -4.0)  # 0.25 in steps of 2^-8
    assert (found["max_ulps_positive"], found["max_ulps_positive_at"]) == (0.5, 2.0)
    assert (found["max_relative"], found["max_relative_at"]) == (0.5, -4.0)
    assert found["mean_ulps"] == 64.5 / 4 and found["wrong"] == 2 / 4  # 2 is the even neighbour of 2 + 2^-7: right


def test_the_two_definitions_differ_by_less_than_5e_4():
    """Texts that claim 1.5e-3 to 4.5e-3 for the tanh form are wrong: it is 4.73e-4, at 2.70 and -2.70."""
    largest, at = accuracy.definition_difference()
    assert abs(largest - 4.73e-4) < 1e-6 and abs(at - 2.70) < 0.01
    x = torch.tensor([at, -at], dtype=torch.float64)
    assert ((gelu.gelu_tanh_reference(x) - gelu.gelu_erf_reference(x)).abs() - largest).abs().max() < 1e-12
    # By C's erf and tanh, in the textbook forms: the references do not share an error.
    u = math.sqrt(2 / math.pi) * (at + 0.044715 * at**3)
    by_hand = 0.5 * at * (1 + math.tanh(u)) - 0.5 * at * (1 + math.erf(at / math.sqrt(2)))
    assert abs(abs(by_hand) - largest) < 1e-12
    spacing = 2.0**-14  # of bfloat16 around 0.009
    assert (
        round(gelu.gelu_erf_reference(x)[1].item(), 3) == -0.009
        and round(largest / spacing) == 8
        and round(2**-7 / largest) in (16, 17)
    )


# -- errors of the forms ----------------------------------------------------------------------------------------------
def test_the_fast_form_in_bfloat16_is_the_rounded_value_for_every_input_above_minus_10():
    """Below, 1 + 2^(-2 u log2 e) passes 2^126, and fast_rcp (rcp.approx.ftz) flushes its reciprocal to 0: the results, 3e-38
    and smaller, are -0. Five inputs see that."""
    x = accuracy.inputs("bfloat16")
    got, want = gelu_of(FAST, x), gelu.gelu_tanh_reference(x)
    main = x.isfinite() & (x > -10)
    assert ulps(got, want)[main].max() <= 0.51
    wrong = got != accuracy.correctly_rounded(want, got.dtype)
    assert wrong[main].double().mean() < 1e-3
    flushed = x[x.isfinite() & (x <= -10) & wrong]
    assert flushed.tolist() == [-10.0625, -10.125, -10.1875, -10.25, -10.3125]
    assert (got - want)[x.isfinite() & (x <= -10)].abs().max() < 3e-38


def test_where_the_fast_form_begins_to_flush_in_float32():
    x = torch.linspace(-10.01, -9.99, 4001)
    got = gelu_of(FAST, x)
    first = x[got == 0].max()
    assert -10.0015 < first < -10.0005 and (got[x > first] < 0).all()
    assert gelu.gelu_tanh_reference(first.reshape(1)).abs() < 1.2e-37


def test_the_fast_form_in_float16_is_within_0_51_ulp_for_every_input():
    x = accuracy.inputs("float16")
    finite = x.isfinite()
    got, want = gelu_of(FAST, x), gelu.gelu_tanh_reference(x)
    assert ulps(got, want)[finite].max() <= 0.51
    assert (got != accuracy.correctly_rounded(want, got.dtype))[finite].double().mean() < 1e-3


def test_one_plus_tanh_loses_everything_below_minus_5():
    """Nothing of the result is left (relative error 1) where the same function as x sigmoid(2 u) keeps 17 bits."""
    x = torch.linspace(-9, -5, 1 << 15)
    want = gelu.gelu_tanh_reference(x)
    relative = {form.name: ((gelu_of(form, x) - want) / want).abs() for form in (TANHF, FAST)}
    assert relative[TANHF.name][x < -6].min() > 0.999 and relative[TANHF.name].max() > 0.9
    assert relative[FAST.name].max() < 1.2e-5
    near = torch.linspace(-5, -3, 1 << 15)
    assert 0.1 < ((gelu_of(TANHF, near) - gelu.gelu_tanh_reference(near)) / gelu.gelu_tanh_reference(near)).abs().max() < 0.5
    # PyTorch has the same formula and the same loss: a comparison with it alone would see none.
    torch_relative = ((F.gelu(x, approximate="tanh") - want) / want).abs()
    assert torch_relative[x < -6].min() > 0.999


def test_one_plus_erf_loses_as_much_and_as7126_a_little():
    x = torch.linspace(-9, -6, 1 << 15)
    want = gelu.gelu_erf_reference(x)
    relative = {form.name: ((gelu_of(form, x) - want) / want).abs().max().item() for form in (ERFF, AS7126)}
    assert relative[ERFF.name] >= 1 and relative[AS7126.name] < 0.05


@pytest.mark.parametrize("form", KERNELS, ids=lambda form: form.name)
def test_no_form_is_off_by_more_than_6e_7_in_float32(form):
    """Absolutely, for |x| <= 12: 2 roundings of a number below 8, and for A&S 7.1.26 its own 0.75e-7 |x| besides."""
    x = torch.linspace(-12, 12, SWEEP)
    error = (gelu_of(form, x) - form.reference(x)).abs()
    assert error[x.abs() < 6].max() < 6e-7 and error.max() < 1e-6
    if form is AS7126:
        near = x[x.abs() > 0.01]
        small = torch.linspace(0.01, 0.5, SWEEP)
        for part in (near[near.abs() < 2], small):
            assert ((gelu_of(form, part) - form.reference(part)).abs() / part.abs()).max() < 4e-7


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("form", KERNELS, ids=lambda form: form.name)
def test_in_16_bits_the_last_rounding_is_all_that_positive_x_loses(form, dtype):
    found = accuracy.measure(form, dtype)
    assert found.inputs == accuracy.inputs(dtype).isfinite().sum() and found.not_finite == 0
    assert found.max_ulps_positive <= 0.51 and found.wrong < 0.01
    assert found.max_abs < {"float16": 1e-3, "bfloat16": 8e-3}[dtype]  # half a step between 2 and 4
    assert torch.cuda.is_available() or found.arithmetic == f"emulated: {form.host}"


# -- values at the ends -----------------------------------------------------------------------------------------------
INF, NAN = math.inf, math.nan
UNIT = {"float32": 2.0**-149, "bfloat16": 2.0**-133, "float16": 2.0**-24}  # the smallest denormal
LARGE = {1e30: 1e30, -1e30: -0.0, 3e38: 3e38, -3e38: -0.0}
DENORMAL = {2: 1, -2: -1, 6: 3, -6: -3, 200: 100}
ODD_DENORMAL = {1: 0.0, -1: -0.0, 3: 2, -3: -2}  # half of them is a tie, which goes to even


def ends_of(dtype):
    """(x, expected), written out. At -inf every form is -inf * 0, which is NaN; the limit would be -0."""
    unit = UNIT[dtype]
    pairs = [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, NAN), (NAN, NAN)]
    pairs += [(x * unit, y * unit) for x, y in DENORMAL.items()]
    if dtype != "float16":
        pairs += [*LARGE.items(), *((x * unit, y * unit) for x, y in ODD_DENORMAL.items())]
    kind = getattr(torch, dtype)
    return tuple(torch.tensor(values, dtype=torch.float64).to(kind) for values in zip(*pairs, strict=True))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("form", KERNELS, ids=lambda form: form.name)
def test_values_at_the_ends(form, dtype):
    x, want = ends_of(dtype)
    got = gelu_of(form, x)
    wrong = [(x[i].item(), got[i].item(), want[i].item()) for i in differing(got, want)]
    if form is AS7126:
        # Its polynomial is 1 at 0 to a rounding: half of an odd denormal may then be rounded the other way.
        wrong = [(at, value, ideal) for at, value, ideal in wrong if abs(at) > 3 * UNIT[dtype]]
    assert not wrong


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("form", [TORCH_TANH, TORCH_ERF], ids=lambda form: form.name)
def test_values_at_the_ends_are_pytorchs(form, dtype):
    """PyTorch asked one element at a time, so that its CPU kernels take their scalar path: see the traps below."""
    x, want = ends_of(dtype)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    got = torch.cat([F.gelu(one.to(device), approximate=form.function).cpu() for one in x.split(1)])
    assert len(differing(got, want)) == 0, (x, got, want)


def test_half_of_an_odd_float16_denormal_is_no_tie():
    """gelu(x) = x / 2 + 0.4 x^2 there, and x^2 counts: 0.5 of a step and a little rounds up, -0.5 and a little to -0. The
    sigmoid has that little in float32; 1 + tanh u and 1 + erf z round it away, and are half a step off."""
    x = torch.tensor([1, -1, 3, -3], dtype=torch.float64).mul(2.0**-24).half()
    right = torch.tensor([1, -0.0, 2, -1], dtype=torch.float64).mul(2.0**-24).half()
    assert torch.equal(accuracy.correctly_rounded(gelu.gelu_tanh_reference(x), torch.float16), right)
    for form in KERNELS:
        assert ulps(gelu_of(form, x), form.reference(x)).max() <= 0.51


def test_trap_pytorchs_vectorised_cpu_gelu_at_inf_and_beyond():
    """A reference that is wrong: F.gelu(inf) is inf for one element and NaN for eight, 3e38 overflows to inf, and bfloat16
    denormals are 0. gelu_erf_reference has none of that."""
    x = torch.full((16,), INF)
    assert F.gelu(x[:1]).item() == INF and gelu.gelu_erf_reference(x).tolist() == [INF] * 16
    if not F.gelu(x).isnan().all():
        pytest.skip("this processor's PyTorch does not show it")
    assert F.gelu(x, approximate="tanh").tolist() == [INF] * 16
    assert F.gelu(torch.full((16,), 3e38)).tolist() == [INF] * 16
    assert F.gelu(torch.full((16,), 200 * UNIT["bfloat16"]).bfloat16()).tolist() == [0.0] * 16


# -- instructions -----------------------------------------------------------------------------------------------------
def test_instructions_an_element():
    """EX2 for the exponential, RCP for the quotient; erff is a polynomial that needs no quotient."""
    count = accuracy.instruction_counts()
    mufu = {kernel: (found["MUFU.EX2"], found["MUFU.RCP"], found["MUFU.TANH"]) for kernel, found in count.items()}
    assert mufu["gelu_tanh_fast"] == mufu["gelu_tanh_register_vec"] == (1, 1, 0)
    assert mufu["gelu_erf_register_vec"] == (1, 0, 0)
    fused = {kernel: found["FFMA"] for kernel, found in count.items()}
    assert fused["gelu_tanh_fast"] <= 2 and fused["gelu_tanh_register_vec"] >= 6 and fused["gelu_erf_register_vec"] >= 6
    assert fused["gelu_erf_as7126"] >= 5 and mufu["gelu_erf_as7126"][:2] >= (1, 1)
    assert count["gelu_tanh_fast"]["all"] * 2 <= count["gelu_tanh_register_vec"]["all"] + 1
    assert len(accuracy.instruction_table().rows) == 4


# -- T.tanh -----------------------------------------------------------------------------------------------------------
def tanh_mufu(factory, **args):
    """{MUFU function: count an element}."""
    found = accuracy.per_element(inspect(factory, n=tanh_meanings.TILE, arch="sm_90a", **args))
    return {name.removeprefix("MUFU."): number for name, number in found.items() if name.startswith("MUFU")}


PRECISE = {"EX2": 1, "RCP": 1}  # tanhf: a polynomial for small x, an exponential and a quotient for the rest
MEANINGS = {
    ("T.tanh(x)", "float32"): ("no", PRECISE),
    ("T.tanh(x)", "bfloat16"): ("yes", {"TANH": 1}),
    ("T.tanh(x)", "float16"): ("no", PRECISE),
    ("T.tanh(x), and T.__exp elsewhere", "float16"): ("yes", {"TANH.F16": 1, "EX2": 1}),
    ("T.tanh(T.cast(x, 'float32'))", "bfloat16"): ("no", PRECISE),
    ("T.tanh(T.cast(x, 'float32'))", "float16"): ("no", PRECISE),
}


def test_four_meanings_of_tanh():
    rows = {(row[0].strip("`"), row[1]): row for row in accuracy.tanh_table().rows}
    assert rows.keys() == MEANINGS.keys()
    for form in accuracy.TANHS:
        approximate, mufu = MEANINGS[form.name, form.dtypes[0]]
        assert rows[form.name, form.dtypes[0]][2] == approximate
        assert tanh_mufu(form.factory, dtype=form.dtypes[0], **form.args) == mufu


def test_exp_beside_it_changes_tanh_in_float16_only():
    assert tanh_mufu(tanh_meanings.tanh_beside_exp, dtype="bfloat16") == {"TANH": 1, "EX2": 1}
    float32 = inspect(tanh_meanings.tanh_beside_exp, n=2048, arch="sm_90a", sass=False).source
    assert "tanhf(" in float32 and "htanh(" not in float32
    alone = inspect(tanh_meanings.tanh_alone, n=2048, dtype="float16", arch="sm_90a", sass=False).source
    beside = inspect(tanh_meanings.tanh_beside_exp, n=2048, dtype="float16", arch="sm_90a", sass=False).source
    assert "htanh(" in alone and "htanh(" in beside  # the same text
    assert "cuda/math.h" in beside and "cuda/math.h" not in alone  # where htanh becomes cutlass::fast_tanh


@pytest.mark.parametrize("form", accuracy.TANHS, ids=lambda form: f"{form.name} {form.dtypes[0]}")
def test_tanh_is_tanh(form):
    """Within what tanh.approx is off: 2^-11 relative, 4 ulps of float16."""
    dtype = form.dtypes[0]
    x = torch.linspace(-4, 4, 2048).to(getattr(torch, dtype))
    result = run(form.factory, [x], n=2048, dtype=dtype, **form.args)
    assert result.ok and ulps(result.outputs[0], tanh_meanings.tanh_reference(x)).max() <= 4


@pytest.mark.parametrize("factory", [tanh_meanings.tanh_alone, tanh_meanings.tanh_beside_exp])
def test_tanh_kernels_refuse_what_they_cannot_take(factory):
    with pytest.raises(ValueError, match="n=2047 is not a multiple of 2048"):
        factory(2047)
    with pytest.raises(ValueError, match="n=0 is not a positive integer"):
        factory(0)
    with pytest.raises(ValueError, match="dtype='float64' is not supported"):
        factory(2048, dtype="float64")


# -- recordings -------------------------------------------------------------------------------------------------------
STAMP = {"gpu", "driver", "cuda", "torch", "tilelang", "triton", "python", "date", "commit", "method"}


def test_stamp_says_what_it_was_made_with():
    found = stamp("a method")
    assert set(found) == STAMP and found["method"] == "a method" and found["torch"] == torch.__version__
    assert found["tilelang"] and (found["gpu"] is None) == (not torch.cuda.is_available())
    assert gpu_folder("NVIDIA H200") == "nvidia-h200"
    assert gpu_folder("NVIDIA GeForce RTX 4090 (Laptop)") == "nvidia-geforce-rtx-4090-laptop"


def check_recording(file):
    """One recording: all its fields, each form once in each dtype, nothing emulated, nothing infinite."""
    assert set(file) == {"stamp", "definitions", "rows"} and set(file["stamp"]) == STAMP
    stamp_ = file["stamp"]
    assert all(stamp_[key] for key in STAMP - {"triton", "commit", "driver"}), stamp_
    assert abs(file["definitions"]["max_difference"] - 4.73e-4) < 1e-6
    rows = [accuracy.Accuracy(**row) for row in file["rows"]]
    keys = [(row.form, row.dtype) for row in rows]
    assert sorted(keys) == sorted((form.name, dtype) for form in accuracy.GELUS + accuracy.TANHS for dtype in form.dtypes)
    for row in rows:
        assert row.arithmetic == stamp_["gpu"] and row.inputs > 60_000
        assert 0 <= row.wrong <= 1 and 0 <= row.mean_ulps <= row.max_ulps
        for field in dataclasses.fields(row):
            value = getattr(row, field.name)
            assert not isinstance(value, float) or math.isfinite(value), (row.form, row.dtype, field.name)


def test_recordings_are_whole():
    paths = sorted(accuracy.RESULTS.glob("*/accuracy.json"))
    if not paths:
        pytest.skip("nothing is recorded yet")
    for path in paths:
        file = json.loads(path.read_text())
        check_recording(file)
        assert path.parent.name == gpu_folder(file["stamp"]["gpu"])


def test_what_record_writes_can_be_read_and_tabled(tmp_path, monkeypatch):
    fast = dataclasses.replace(accuracy.measure(FAST, "bfloat16"), arithmetic="NVIDIA H200")

    def measured(forms):
        return [dataclasses.replace(fast, form=f.name, function=f.function, dtype=dtype) for f in forms for dtype in f.dtypes]

    monkeypatch.setattr(accuracy, "RESULTS", tmp_path)
    monkeypatch.setattr(accuracy, "measure_all", measured)
    monkeypatch.setattr(accuracy, "stamp", lambda method: {**dict.fromkeys(STAMP, "1"), "gpu": "NVIDIA H200"})
    assert accuracy.recorded() == {} and len(accuracy.recorded_table().rows) == 1  # what needs no measurement
    path = accuracy.record()
    assert path == tmp_path / "nvidia-h200" / "accuracy.json"
    check_recording(json.loads(path.read_text()))
    made = accuracy.tables()
    assert len(made["accuracy"].rows) == 6 * 3 + 1 and made["accuracy"].rows[-1][3] == "4.73e-04 at +-2.699"
    assert made["tanh"].columns[-1] == "max ulp on NVIDIA H200" and len(made["tanh"].rows) == 6


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to record")
def test_recording_without_a_gpu_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["accuracy.py", "--record"])
    with pytest.raises(SystemExit, match="2"):
        accuracy.main()
    assert "--record needs an NVIDIA GPU" in capsys.readouterr().err


@pytest.mark.skipif(not accuracy.README.exists(), reason="no README.md yet")
def test_the_readme_says_what_accuracy_py_says():
    assert stale(accuracy.README, accuracy.tables()) == [], "run `make tables`"
