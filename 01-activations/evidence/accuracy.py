"""How accurate is each form of GELU, and what does T.tanh mean? Against float64, on the GPU if there is one, else emulated.

python3 evidence/accuracy.py            measure and show, emulated where there is no GPU
python3 evidence/accuracy.py --record   measure on the GPU, into results/<gpu>/accuracy.json
python3 evidence/accuracy.py --write    the tables into README.md: what was recorded, and what the SASS says

Emulated, tanhf, erff and exp2f are the host's C library's and a reciprocal is rounded once: close to a GPU, and not a GPU.
Only recorded numbers go into the README.
"""

import argparse
import logging
import math
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the chapter's kernels

import gelu_variants as gelu
import tanh_meanings
import tilelang
import tilelang.language as T
import torch
import torch.nn.functional as F

from tilescope import inspect_many
from tilescope.analysis.report import KernelReport
from tilescope.checking.comparing import ulps
from tilescope.checking.factory_arguments import FLOATS
from tilescope.checking.running import describe_machine, run
from tilescope.display.tables import Table, console, write
from tilescope.frontend.program import build, factory_name
from tilescope.measuring import records
from tilescope.measuring.stamp import stamp

CHAPTER = Path(__file__).resolve().parents[1]
README = CHAPTER / "README.md"
RESULTS = records.RESULTS
SWEEP = 1 << 22  # float32 inputs; whole tiles of every kernel here
DEEP = (-9.0, -3.0)  # where 1 + tanh u and 1 + erf z cancel; below, results come near the end of float32's range
METHOD = (
    "every finite bit pattern of float16 and bfloat16; of float32 2^22: even steps over [-12, 12], even steps through the bit "
    "patterns of either sign, and every power of two with its neighbours. Error against float64, in ulps of the output's type"
)


@dataclass(frozen=True)
class Form:
    """A way to compute `function`. factory, args: the kernel; factory is None for PyTorch's own. host: what an emulated run
    has in place of the GPU's instructions."""

    name: str
    function: str
    reference: Callable[[torch.Tensor], torch.Tensor]
    factory: Callable | None
    args: dict[str, object]
    dtypes: tuple[str, ...]
    host: str = ""


def _gelu(name: str, function: str, factory: Callable | None, host: str) -> Form:
    reference = {"tanh": gelu.gelu_tanh_reference, "none": gelu.gelu_erf_reference}[function]
    return Form(name, function, reference, factory, {}, FLOATS, host)


GELUS = (
    _gelu("x (1 + tanh u) / 2, tanhf", "tanh", gelu.gelu_tanh_register_vec, "libm tanhf"),
    _gelu("x sigmoid(2 u), exp2 and fast_rcp", "tanh", gelu.gelu_tanh_fast, "libm exp2f, exact 1/x"),
    _gelu("PyTorch, approximate='tanh'", "tanh", None, "CPU"),
    _gelu("x (1 + erf z) / 2, erff", "none", gelu.gelu_erf_register_vec, "libm erff"),
    _gelu("erf from A&S 7.1.26, exp2 and fast_rcp", "none", gelu.gelu_erf_as7126, "libm exp2f, exact 1/x"),
    _gelu("PyTorch, approximate='none'", "none", None, "CPU"),
)


def _tanh(name: str, factory: Callable, dtype: str, **args: object) -> Form:
    return Form(name, "T.tanh", tanh_meanings.tanh_reference, factory, args, (dtype,))


# Measured on a GPU only: emulated, each of them would be the C library's tanh.
TANHS = (
    _tanh("T.tanh(x)", tanh_meanings.tanh_alone, "float32"),
    _tanh("T.tanh(x)", tanh_meanings.tanh_alone, "bfloat16"),
    _tanh("T.tanh(x)", tanh_meanings.tanh_alone, "float16"),
    _tanh("T.tanh(x), and T.__exp elsewhere", tanh_meanings.tanh_beside_exp, "float16"),
    _tanh("T.tanh(T.cast(x, 'float32'))", tanh_meanings.tanh_alone, "bfloat16", inside="float32"),
    _tanh("T.tanh(T.cast(x, 'float32'))", tanh_meanings.tanh_alone, "float16", inside="float32"),
)


@dataclass(frozen=True)
class Accuracy:
    """Errors of one form in one dtype, over `inputs` finite inputs. `..._at`: the x where.

    max_abs: of the value. max_ulps, mean_ulps: in ulps of the dtype; max_ulps_positive: of x >= 0.
    max_relative: of the x in DEEP whose result is a normal number of the dtype. wrong: share of results that are not the
    correctly rounded value (+0 and -0 are one value). not_finite: results that are inf or NaN and should not be; they count
    as wrong, and in no maximum or mean.
    """

    form: str
    function: str
    kernel: str | None
    dtype: str
    arithmetic: str
    inputs: int
    max_abs: float
    max_abs_at: float
    max_ulps: float
    max_ulps_at: float
    max_ulps_positive: float
    max_ulps_positive_at: float
    mean_ulps: float
    wrong: float
    max_relative: float
    max_relative_at: float
    not_finite: int


# -- inputs -------------------------------------------------------------------------------------------------------------
def inputs(dtype: str, sweep: int = SWEEP) -> torch.Tensor:
    """The x to measure at, 1-d: all 65,536 patterns of a 16-bit dtype, else `sweep` finite numbers of float32."""
    if dtype != "float32":
        return torch.arange(-(2**15), 2**15).to(torch.int16).view(getattr(torch, dtype))
    powers = torch.tensor([2.0**k for k in range(-149, 128)])
    ends = torch.cat([powers, powers.nextafter(torch.tensor(torch.inf)), powers.nextafter(torch.tensor(0.0))])
    ends = torch.cat([ends, -ends])
    patterns = (sweep // 2 - len(ends)) // 2
    magnitudes = torch.linspace(0, 0x7F7FFFFF, patterns, dtype=torch.float64).to(torch.int32).view(torch.float32)
    line = torch.linspace(-12, 12, sweep - len(ends) - 2 * patterns)
    return torch.cat([ends, magnitudes, -magnitudes, line])


# -- errors -------------------------------------------------------------------------------------------------------------
def correctly_rounded(want: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """float64 to `dtype`, to nearest even, rounded once. `Tensor.to` goes through float32 to a 16-bit type and rounds twice."""
    if dtype == torch.float32:
        return want.float()
    # Round to odd on the way: what is between two float32 stays off every midpoint of the 16-bit type.
    near = want.float()
    below = torch.where(near.double().abs() > want.abs(), near.nextafter(torch.zeros_like(near)), near)
    inexact = (below.double() != want) & want.isfinite()
    return (below.view(torch.int32) | inexact.int()).view(torch.float32).to(dtype)


def errors(x: torch.Tensor, got: torch.Tensor, want: torch.Tensor) -> dict[str, float]:
    """The numbers of `Accuracy`. x, got: of one dtype; want: float64, the exact results."""
    finite = x.isfinite()
    x, got, want = x[finite].double(), got[finite], want[finite]
    good = got.isfinite()
    nothing = torch.zeros_like(want)
    absolute = torch.where(good, (got.double() - want).abs(), nothing)
    in_ulps = torch.where(good, ulps(got, want), nothing)
    deep = (x >= DEEP[0]) & (x < DEEP[1]) & (want.abs() >= torch.finfo(got.dtype).smallest_normal) & good
    relative = torch.where(deep, absolute / want.abs(), nothing)
    found = {
        "inputs": len(x),
        "mean_ulps": in_ulps.mean().item(),
        "wrong": (got != correctly_rounded(want, got.dtype)).double().mean().item(),
        "not_finite": int((~good).sum()),
    }
    positive = torch.where(x >= 0, in_ulps, nothing)
    maxima = {"max_abs": absolute, "max_ulps": in_ulps, "max_ulps_positive": positive, "max_relative": relative}
    for name, error in maxima.items():
        at = error.argmax()
        found |= {name: error[at].item(), f"{name}_at": x[at].item()}
    return found


def measure(form: Form, dtype: str, sweep: int = SWEEP) -> Accuracy:
    """Run one form on every input and compare. Raises RuntimeError when the run has a fault."""
    x = inputs(dtype, sweep)
    if form.factory is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        got = F.gelu(x.to(device), approximate=form.function).cpu()
        how = torch.cuda.get_device_name() if device == "cuda" else form.host
    else:
        result = run(form.factory, [x], **_arguments(form, dtype, sweep))
        if not result.ok:
            raise RuntimeError(f"{factory_name(form.factory)} {dtype}: {result}")
        got = result.outputs[0]
        how = f"emulated: {form.host}" if result.how.startswith("emulated") else result.how
    kernel = factory_name(form.factory) if form.factory else None
    return Accuracy(form.name, form.function, kernel, dtype, how, **errors(x, got, form.reference(x)))


def measure_all(forms: tuple[Form, ...] = GELUS, sweep: int = SWEEP) -> list[Accuracy]:
    """Every form in every dtype that it has."""
    keys = [(form, dtype) for form in forms for dtype in form.dtypes]
    if torch.cuda.is_available():
        _compile_together([(form, dtype) for form, dtype in keys if form.factory], sweep)
    return [measure(form, dtype, sweep) for form, dtype in keys]


def _arguments(form: Form, dtype: str, sweep: int) -> dict[str, object]:
    # The GELU kernels take any n, so one compilation serves every sweep; those of T.tanh need to know it.
    n = len(inputs(dtype, sweep)) if form.function == "T.tanh" else T.dynamic("n")
    return {"n": n, "dtype": dtype, **form.args}


def _compile_together(keys: list[tuple[Form, str]], sweep: int) -> None:
    """Compile on all cores what `run` is about to ask for one by one: it then finds the kernels in TileLang's cache."""
    logging.getLogger("tilelang.cache.kernel_cache").setLevel(logging.ERROR)  # it warns of each kernel that it finds
    tilelang.par_compile([build(form.factory, **_arguments(form, dtype, sweep)).func for form, dtype in keys])


def definition_difference() -> tuple[float, float]:
    """(largest |tanh form - erf form|, the x > 0 where), both in float64; the difference is an even function of x."""

    def difference(x: torch.Tensor) -> torch.Tensor:
        return (gelu.gelu_tanh_reference(x) - gelu.gelu_erf_reference(x)).abs()

    low, high = 0.0, 12.0
    for _ in range(4):  # each time 2^10 times as near, around the largest so far
        x = torch.linspace(low, high, (1 << 20) + 1, dtype=torch.float64)
        best = x[difference(x).argmax()].item()
        low, high = max(best - (high - low) / 2048, 0.0), best + (high - low) / 2048
    return difference(torch.tensor(best, dtype=torch.float64)).item(), best


# -- recordings -----------------------------------------------------------------------------------------------------------
def record() -> Path:
    """Measure on the GPU and write results/<gpu>/accuracy.json: {"stamp", "definitions", "rows": [Accuracy as an object]}."""
    largest, at = definition_difference()
    found = {
        "stamp": stamp(METHOD),
        "definitions": {"max_difference": largest, "at": at},
        "rows": [asdict(row) for row in measure_all(GELUS + TANHS)],
    }
    return records.save(found, "accuracy", RESULTS)


def recorded() -> dict[str, list[Accuracy]]:
    """GPU name -> rows, of every recording under results/."""
    files = records.load("accuracy", RESULTS).values()
    return {file["stamp"]["gpu"]: [Accuracy(**row) for row in file["rows"]] for file in files}


# -- tables ---------------------------------------------------------------------------------------------------------------
def accuracy_table(rows: list[Accuracy]) -> Table:
    """One row a form and dtype, and one for the two definitions; T.tanh's own rows are left to `tanh_table`."""
    columns = ["form", "dtype", "arithmetic", "max error", "max ulp", "max ulp, x >= 0", "mean ulp"]
    columns += ["not correctly rounded", f"max relative error, {DEEP[0]:g} <= x < {DEEP[1]:g}"]
    cells = []
    for row in rows:
        if row.function == "T.tanh":
            continue
        maxima = [_at(row, name) for name in ("max_abs", "max_ulps", "max_ulps_positive")]
        wrong = f"{100 * row.wrong:.2g} %" + (f", {row.not_finite} not finite" if row.not_finite else "")
        rest = (_number(row.mean_ulps), wrong, _at(row, "max_relative"))
        cells.append((row.form, row.dtype, row.arithmetic, *maxima, *rest))
    largest, x = definition_difference()
    both = f"{_number(largest)} at +-{_place(x)}"
    cells.append(("tanh form against erf form", "float64", "exact", both, *["-"] * 5))
    return Table(columns, cells)


def tanh_table() -> Table:
    """What T.tanh becomes on sm_90a, by type and neighbour, and its error on the GPUs that were recorded."""
    recordings = recorded()
    keys = [(form, form.dtypes[0]) for form in TANHS]
    args = {"n": tanh_meanings.TILE, "arch": "sm_90a"}
    reports = inspect_many([(form.factory, {**args, "dtype": dtype, **form.args}) for form, dtype in keys])
    cells = []
    for (form, dtype), report in zip(keys, reports, strict=True):
        count = per_element(report)
        mufu = ", ".join(f"{number:g} {name}" for name, number in count.items() if name.startswith("MUFU"))
        measured = [_tanh_error(rows, form, dtype) for rows in recordings.values()]
        uses = "yes" if report.sass.count("MUFU.TANH") else "no"
        cells.append((f"`{form.name}`", dtype, uses, mufu, f"{count['FFMA']:g}", *measured))
    columns = ("written as", "dtype", "MUFU.TANH", "MUFU an element", "FFMA an element")
    return Table((*columns, *(f"max ulp on {gpu}" for gpu in recordings)), cells)


def _tanh_error(rows: list[Accuracy], form: Form, dtype: str) -> str:
    return next((_number(row.max_ulps) for row in rows if (row.form, row.dtype) == (form.name, dtype)), "-")


def per_element(report: KernelReport) -> Counter:
    """Instructions an element in the SASS of a kernel with no loop or tail: by name, MUFU by function too, "all" without the
    padding at the end. A count of the text: of two sides of a branch a thread runs one."""
    elements = report.args["n"] / (math.prod(report.grid) * math.prod(report.block))
    found: Counter = Counter()
    for instruction in report.sass.instructions:
        name, _, rest = instruction.opcode.partition(".")
        if name != "NOP":
            found["all"] += 1
            found[f"MUFU.{rest}" if name == "MUFU" else name] += 1
    return Counter({name: number / elements for name, number in found.items()})


def instruction_counts() -> dict[str, Counter]:
    """Kernel -> `per_element`, of the GELU forms in float32 on sm_90a; 8 elements a thread, to share out what is not theirs."""
    args = {"n": 1 << 20, "threads": 256, "num_per_thread": 8, "dtype": "float32", "arch": "sm_90a"}
    reports = inspect_many([(form.factory, args) for form in GELUS if form.factory])
    return {report.kernel: per_element(report) for report in reports}


def instruction_table() -> Table:
    """What each GELU form costs in instructions an element, float32 on sm_90a."""
    counts = instruction_counts()
    cells = []
    for form in GELUS:
        if form.factory is None:
            continue
        kernel = factory_name(form.factory)
        count = counts[kernel]
        mufu = ", ".join(f"{number:g} {name}" for name, number in sorted(count.items()) if name.startswith("MUFU"))
        arithmetic = [f"{count[name]:g}" for name in ("FFMA", "FMUL", "FADD", "FSETP", "FSEL", "BSSY")]
        cells.append((form.name, f"`{kernel}`", mufu, *arithmetic, f"{count['all']:.1f}"))
    return Table(("form", "kernel", "MUFU", "FFMA", "FMUL", "FADD", "FSETP", "FSEL", "branches", "all"), cells)


def recorded_table() -> Table:
    """The errors that are recorded, of every GPU that has a folder."""
    return accuracy_table([row for rows in recorded().values() for row in rows])


def tables() -> dict[str, Table]:
    """The README's tables by the name of their markers."""
    return {"instructions": instruction_table(), "tanh": tanh_table(), "accuracy": recorded_table()}


def _number(value: float) -> str:
    return f"{value:.2e}" if value and not 1e-2 <= value < 1e4 else f"{value:.3g}"


def _at(row: Accuracy, name: str) -> str:
    return f"{_number(getattr(row, name))} at {_place(getattr(row, name + '_at'))}"


def _place(x: float) -> str:
    return f"{x:.4g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="measure on the GPU, into results/<gpu>/accuracy.json")
    parser.add_argument("--write", action="store_true", help="write the tables into README.md")
    options = parser.parse_args()
    if options.record:
        if not torch.cuda.is_available():
            parser.error("--record needs an NVIDIA GPU: an emulated run says nothing about a GPU's accuracy")
        print(f"wrote {record().relative_to(CHAPTER.parent)}")
    if options.write:
        write(README, tables())
    if not (options.record or options.write):
        show()


def show() -> None:
    """Measure here, and print everything."""
    out = console()
    out.print(f"[bold]01-activations: accuracy[/bold]: {describe_machine()}")
    out.print(accuracy_table(measure_all()).rich())
    if not torch.cuda.is_available():
        out.print("Emulated: the host's functions, not a GPU's. A GPU's accuracy is what --record measures there.")
    out.print(instruction_table().rich("instructions an element, float32 on sm_90a"))
    out.print(tanh_table().rich("T.tanh on sm_90a"))


if __name__ == "__main__":
    main()
