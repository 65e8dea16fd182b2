"""Check kernels against references, one table a chapter. What did not run is never called passed."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import torch
from rich.progress import Progress
from rich.table import Table

from ..display.tables import console as make_console
from ..errors import NotEmulated
from ..frontend.program import arguments_text, factory_name
from ..frontend.target import gpu_arch
from .comparing import differing, ulps
from .running import describe_machine, run


@dataclass(frozen=True)
class Case:
    """One kernel on one set of inputs.

    inputs: takes a torch.Generator, returns CPU tensors in parameter order. reference: takes the inputs, returns the
    expected output or outputs: in the output's dtype when `max_ulps` is None (bit for bit; any NaN equals any NaN),
    else in float64. about: what is special about the inputs. slack: takes the inputs, returns an absolute error (float64)
    that is allowed before ulps are counted: what a formula loses to cancellation, whatever is left of the result.
    """

    factory: Callable = field(repr=False)  # TileLang's own repr holds the source that it made of it
    args: dict[str, object]
    inputs: Callable[[torch.Generator], Sequence[torch.Tensor]]
    reference: Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]
    max_ulps: float | None = None
    about: str = "normal"
    slack: Callable[..., torch.Tensor] | None = None

    @property
    def name(self) -> str:
        return f"{factory_name(self.factory)} {arguments_text(self.args)} [{self.about}]"


@dataclass(frozen=True)
class Outcome:
    """status: "passed", "FAILED" or "not run". detail: the error, or why it did not run."""

    case: Case
    status: str
    how: str
    detail: str = field(default="")


def check_one(case: Case, seed: int | None = None) -> Outcome:
    """Run one case with fresh random inputs and compare. seed: repeats a failure that was reported with it."""
    seed = torch.seed() % 2**32 if seed is None else seed
    try:
        inputs = list(case.inputs(torch.Generator().manual_seed(seed)))
        result = run(case.factory, inputs, **case.args)
        expected = case.reference(*inputs)
        problems, worst = _problems(case, inputs, result.outputs, expected)
    except NotEmulated as reason:
        return Outcome(case, "not run", "-", str(reason))
    except Exception as error:
        return Outcome(case, "FAILED", "-", f"{type(error).__name__}: {error} (seed {seed})")
    problems = [*result.problems, *problems]
    if problems:
        return Outcome(case, "FAILED", result.how, "; ".join(problems) + f" (seed {seed})")
    detail = "bit for bit" if case.max_ulps is None else f"at most {worst:.2f} ulp" + (" beyond slack" if case.slack else "")
    return Outcome(case, "passed", result.how, detail)


def _problems(case: Case, inputs: list, outputs: tuple, expected: torch.Tensor | tuple) -> tuple[list[str], float]:
    """What is wrong with the outputs, and the largest error in ulps."""
    expected = (expected,) if isinstance(expected, torch.Tensor) else tuple(expected)
    if len(outputs) != len(expected):
        raise ValueError(f"the kernel returns {len(outputs)} tensors, the reference {len(expected)}")
    problems, worst = [], 0.0
    for got, want in zip(outputs, expected, strict=True):
        if got.shape != want.shape:
            raise ValueError(f"the kernel returns shape {tuple(got.shape)}, the reference {tuple(want.shape)}")
        if case.max_ulps is not None and want.dtype != torch.float64:
            raise ValueError(f"with max_ulps the reference has to be float64, it is {want.dtype}")
        if case.slack is not None:
            within = case.slack(*inputs)
            moved = want + torch.clamp(got.double() - want, -within, within)
            want = torch.where(moved.isfinite(), moved, want)
        problem, error = _compare(got, want, case.max_ulps)
        problems += problem
        worst = max(worst, error)
    return problems, worst


def check(cases: Iterable[Case], title: str) -> int:
    """Run every case, print one table, return the exit status: 0 when some passed and none failed."""
    console = make_console()
    if not (cases := list(cases)):
        raise ValueError(f"{title}: no cases to check")
    console.print(f"[bold]{title}[/bold]: {describe_machine()}")
    with Progress(console=console, transient=True) as progress:
        # A GPU takes the kernels one after another; the emulator keeps every core busy.
        with ThreadPoolExecutor(1 if gpu_arch() else os.cpu_count()) as pool:
            outcomes = list(progress.track(pool.map(check_one, cases), total=len(cases), description="checking"))
    console.print(_table(outcomes))
    counts = {status: sum(o.status == status for o in outcomes) for status in ("passed", "FAILED", "not run")}
    summary = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    console.print(f"{title}: {summary} of {len(cases)}")
    return int(counts["FAILED"] > 0 or counts["passed"] == 0)


def _compare(got: torch.Tensor, want: torch.Tensor, max_ulps: float | None) -> tuple[list[str], float]:
    if max_ulps is None:
        wrong = differing(got, want)
        if not len(wrong):
            return [], 0.0
        at = int(wrong[0])
        values = f"element {at} is {got.flatten()[at].item()!r}, expected {want.flatten()[at].item()!r}"
        return [f"{len(wrong)} of {got.numel()} elements differ; {values}"], 0.0
    error = ulps(got, want)
    worst = int(error.argmax())
    if error.flatten()[worst] <= max_ulps:
        return [], float(error.flatten()[worst])
    values = f"{got.flatten()[worst].item()!r}, expected {want.flatten()[worst].item()!r}"
    return [f"element {worst} is {error.flatten()[worst].item():.2f} ulp off: {values}"], float("inf")


def _table(outcomes: list[Outcome]) -> Table:
    table = Table("kernel", "arguments", "inputs", "ran", "result")
    style = {"passed": "green", "FAILED": "bold red", "not run": "yellow"}
    for o in outcomes:
        result = f"[{style[o.status]}]{o.status}[/]" + (f": {o.detail}" if o.detail else "")
        table.add_row(factory_name(o.case.factory), arguments_text(o.case.args), o.case.about, o.how, result)
    return table
