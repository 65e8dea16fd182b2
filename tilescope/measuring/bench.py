"""Bandwidth of kernels against the measured ceiling and against their peers: what every `bench_*.py` runs. Needs a GPU.

A `Work` is one operation on one set of inputs, with all candidates that compute it. Of each work the candidates are
measured in rounds, in forward and in reversed order by turns, so that drift falls on all alike; before its first round a
candidate is verified against the reference. What fails, is missing or finds no time is recorded with the reason.
"""

import argparse
import importlib.util
import itertools
import logging
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..frontend.program import arguments_text, build, factory_name
from . import records, timing, verifying
from .records import Row
from .stamp import ROOT, stamp

Tensors = tuple[torch.Tensor, ...]
Spec = tuple[Callable, dict[str, object]]  # a factory and its arguments

DEVICE = "cuda"
ROUNDS = 6
TUNING_ROUNDS = 2
METHOD = (
    "tilelang.profiler.do_bench, backend `timer`, L2 flushed before each call, up to {rounds} rounds of about 10 ms, with the "
    "candidates in forward and reversed order by turns; ms is the median of the rounds, p10 and p90 are theirs; the time is "
    "that of the kernels, without the gaps between them; ratio is to the fastest `ceiling` of the same work; every candidate "
    "verified on the same inputs right before its first round; call_us: calls one after the other, by the host, L2 warm"
)


class Missing(Exception):
    """A peer that is not installed: recorded as not run."""


@dataclass(frozen=True)
class Candidate:
    """One way to compute a work.

    prepare: takes the inputs, returns a call without arguments that launches and returns the output or outputs; raises
    Missing when there is nothing to run. role: "rung", "peer" or "ceiling". specs: the TileLang kernels that it launches,
    to be compiled beforehand. args: what to record. check: instead of the work's.
    """

    name: str
    role: str
    prepare: Callable[[Tensors], Callable[[], object]]
    specs: tuple[Spec, ...] = ()
    args: dict[str, object] = field(default_factory=dict)
    check: verifying.Check | None = None


@dataclass(frozen=True)
class Work:
    """group: which table it belongs to. size: in words. elements: of the first input. bytes: that any implementation has
    to move, each input read once and each output written once. inputs: makes them, on the GPU. calls: also time calls by
    the host's clock. rounds: how often each candidate is measured."""

    group: str
    op: str
    dtype: str
    size: str
    elements: int
    bytes: int
    inputs: Callable[[], Tensors]
    check: verifying.Check
    candidates: Sequence[Candidate]
    calls: bool = False
    rounds: int = ROUNDS

    @property
    def label(self) -> str:
        return f"{self.op} {self.dtype} {self.size}"


# -- candidates -----------------------------------------------------------------------------------------------------------
def compile_rung(factory: Callable, args: dict[str, object]) -> Callable[..., object]:
    """The compiled kernel. (The one place where rungs are compiled, so that a test without a GPU can stand in for it.)"""
    return factory(**args)


def rung(factory: Callable, note: str = "", **args: object) -> Candidate:
    """A TileLang kernel. note: what tells it from others of the same factory."""

    def prepare(inputs: Tensors) -> Callable[[], object]:
        return partial(compile_rung(factory, args), *inputs)

    name = factory_name(factory) + (f", {note}" if note else "")
    plain = {key: value if isinstance(value, int | float | str) else str(value) for key, value in args.items()}
    return Candidate(name, "rung", prepare, ((factory, args),), plain)


def peer(name: str, call: Callable[..., object], role: str = "peer", check: verifying.Check | None = None) -> Candidate:
    """A function of the inputs that returns the output. ImportError means that it is not installed."""
    return Candidate(name, role, lambda inputs: partial(call, *inputs), check=check)


def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def compiled_peer(call: Callable[..., object], check: verifying.Check | None = None) -> Candidate:
    """torch.compile of `call`, for the sizes at hand."""

    def prepare(inputs: Tensors) -> Callable[[], object]:
        if not has_triton():
            raise Missing("torch.compile needs Triton, which is not installed")
        torch._dynamo.reset()  # or the eighth size of one function runs eagerly, without a word
        return partial(torch.compile(call, dynamic=False), *inputs)

    return Candidate("torch.compile", "peer", prepare, check=check)


def ceiling(
    name: str, make: Callable[[Tensors], torch.Tensor], fill: Callable[..., object], check: verifying.Check
) -> Candidate:
    """The plainest way to move the same bytes: fill(out, *inputs) into an output that make(inputs) allocates once."""

    def prepare(inputs: Tensors) -> Callable[[], object]:
        out = make(inputs)

        def call() -> torch.Tensor:
            fill(out, *inputs)
            return out

        return call

    return Candidate(name, "ceiling", prepare, check=check)


def copy_ceiling() -> Candidate:
    """One read for one write, of the same size: dst.copy_(src)."""
    return ceiling(
        "copy", lambda inputs: torch.empty_like(inputs[0]), lambda out, x: out.copy_(x), verifying.exact(lambda x: x)
    )


def tuning_work(work: Work, factory: Callable, args: dict[str, object], grid: dict[str, Sequence[int]]) -> Work:
    """The inputs, check and ceilings of `work`, and as candidates `factory` at every point of `grid` (argument -> values).

    TileLang's tuner finds a winner by the mean of one measurement of each, one after the other, and keeps no other number;
    here the points take turns like all candidates, and each is recorded.
    """
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    every = [rung(factory, arguments_text(point), **args, **point) for point in points]
    ceilings = [candidate for candidate in work.candidates if candidate.role == "ceiling"]
    return replace(work, group="tuning", candidates=(*ceilings, *every), rounds=TUNING_ROUNDS)


def compile_together(specs: Iterable[Spec]) -> None:
    """Compile kernels on all cores: the factories then find them in TileLang's cache. What does not compile is left to its
    candidate, which fails and says why."""
    import tilelang

    logging.getLogger("tilelang.cache.kernel_cache").setLevel(logging.ERROR)  # it warns of each kernel that it finds
    groups: dict[tuple, dict[str, tuple]] = defaultdict(dict)  # kernels that are compiled alike, by their text
    for factory, args in specs:
        try:
            func = build(factory, **args).func
        except Exception:
            continue
        alike = (str(factory.out_idx), str(factory.pass_configs), str(factory.compile_flags))
        groups[alike][func.script()] = (func, factory)
    for group in groups.values():
        funcs, factories = zip(*group.values(), strict=True)
        how = {key: getattr(factories[0], key) for key in ("out_idx", "pass_configs", "compile_flags")}
        tilelang.par_compile(funcs, **how, ignore_error=True)


# -- running ----------------------------------------------------------------------------------------------------------------
@dataclass
class Meter:
    """How candidates are timed and what time there is; a test puts its own functions here.

    round_ms, per_call_us: of one call. deadline: as `clock` tells the time, in seconds. synchronize: waits for the GPU.
    """

    round_ms: Callable[[Callable[[], object]], float]
    per_call_us: Callable[[Callable[[], object]], float] = timing.per_call_us
    deadline: float = float("inf")
    clock: Callable[[], float] = time.monotonic
    synchronize: Callable[[], None] = torch.cuda.synchronize

    @property
    def over(self) -> bool:
        return self.clock() >= self.deadline


def new_row(work: Work, candidate: Candidate) -> Row:
    """A row in which nothing has been measured yet."""
    numbers = dict.fromkeys(("ms", "p10_ms", "p90_ms", "tb_per_s", "ceiling", "ratio", "call_us"))
    row = {"group": work.group, "op": work.op, "dtype": work.dtype, "size": work.size}
    row |= {"elements": work.elements, "bytes": work.bytes, "name": candidate.name, "role": candidate.role}
    return row | {"args": dict(candidate.args), "status": "not run", "why": "interrupted", "rounds_ms": [], **numbers}


def run_work(
    work: Work, rows: list[Row], meter: Meter, save: Callable[[], None] = lambda: None, patience: float = float("inf")
) -> None:
    """Verify and measure every candidate of `work` into its row, in place; `save` is called after each pass.

    patience: when to be content with the rounds that there are, if one in either order is among them.
    Raises ContextLost when a kernel has taken the CUDA context with it, and KeyboardInterrupt; rows keep what they have.
    """
    if meter.over:
        for row in rows:
            row["why"] = "budget"
        return
    calls: dict[int, Callable[[], object]] = {}
    try:
        inputs = work.inputs()
        for index, candidate in enumerate(work.candidates):
            if meter.over:
                rows[index]["why"] = "budget"
                continue
            if call := _verified(work, candidate, inputs, rows[index], meter):
                calls[index] = call
                _measure(work, rows[index], call, meter)
        save()
        for turn in range(1, work.rounds):
            if meter.over or (turn > 1 and meter.clock() >= patience):
                break
            for index in sorted(calls, reverse=turn % 2 == 1):
                if rows[index]["status"] == "measured":
                    _measure(work, rows[index], calls[index], meter)
            save()
    except ContextLost:
        raise
    except Exception as error:  # the inputs do not fit, say
        for row in rows:
            if row["status"] == "not run":
                row["status"], row["why"] = "failed", _short(error)
    finally:
        records.compare(rows)
        save()


class ContextLost(Exception):
    """A kernel made the CUDA context unusable: nothing more can run in this process."""


def _verified(work: Work, candidate: Candidate, inputs: Tensors, row: Row, meter: Meter) -> Callable[[], object] | None:
    """The candidate's call when its output is right; else None, with the reason in the row."""
    try:
        call = candidate.prepare(inputs)
        outputs = call()
        outputs = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
        meter.synchronize()
        problem = (candidate.check or work.check)(inputs, outputs)
        verifying.poison(outputs)
    except (Missing, ImportError) as reason:
        row["status"], row["why"] = "not run", _short(reason)
        return None
    except Exception as error:
        _fail(row, error, meter)
        return None
    if problem:
        row["status"], row["why"] = "wrong", problem
        return None
    return call


def _measure(work: Work, row: Row, call: Callable[[], object], meter: Meter) -> None:
    """One more round."""
    try:
        row["rounds_ms"].append(meter.round_ms(call))
        if work.calls:
            us = meter.per_call_us(call)
            row["call_us"] = us if row["call_us"] is None else min(us, row["call_us"])
        records.summarise(row)
        row["status"], row["why"] = "measured", None
    except Exception as error:
        for key in ("ms", "p10_ms", "p90_ms", "tb_per_s", "call_us"):
            row[key] = None
        row["rounds_ms"] = []
        _fail(row, error, meter)


def _fail(row: Row, error: Exception, meter: Meter) -> None:
    row["status"], row["why"] = "failed", _short(error)
    try:
        meter.synchronize()
    except Exception as lost:
        raise ContextLost(f"after {row['name']}: {_short(lost)}") from error


def _short(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
    return text if len(text) <= 200 else text[:197] + "..."


def run_works(
    works: Sequence[Work], meter: Meter, document: dict[str, Any], save: Callable[[], None], console: Console
) -> None:
    """Measure every work into document["rows"]; ctrl-C and a lost context end it, and what was measured stays."""
    rows = [[new_row(work, candidate) for candidate in work.candidates] for work in works]
    document["rows"] = [row for of_work in rows for row in of_work]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Refreshed by hand: while CUPTI measures, do_bench takes stdout away, and a thread that draws would draw into nothing.
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
        task = progress.add_task("bench", total=len(works))
        try:
            for index, (work, of_work) in enumerate(zip(works, rows, strict=True)):
                progress.update(task, description=work.label, refresh=True)
                # A budget that is too small costs rounds everywhere, not the last works. Small works leave time to others.
                share = (meter.deadline - meter.clock()) / (len(works) - index)
                run_work(work, of_work, meter, save, meter.clock() + share)
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
                console.print(summary_line(work, of_work), markup=False, highlight=False, soft_wrap=True)
                progress.update(task, advance=1, refresh=True)
            document["complete"] = all(row["why"] not in ("budget", "interrupted") for row in document["rows"])
        except KeyboardInterrupt:
            console.print("interrupted; what was measured is kept")
        except ContextLost as reason:
            console.print(f"the CUDA context is lost {reason}", markup=False)
            for row in document["rows"]:
                if row["why"] == "interrupted":
                    row["why"] = "the CUDA context was lost"
        finally:
            save()


def summary_line(work: Work, rows: Sequence[Row]) -> str:
    """One line for a log: each candidate's ratio, or why it has none."""
    parts = []
    for row in rows:
        number = row["ratio"] if row["ratio"] is not None else row["tb_per_s"]
        parts.append(f"{row['name']} " + (f"{number:.3f}" if number is not None else f"[{row['status']}: {row['why'][:60]}]"))
    top = max((row["tb_per_s"] or 0 for row in rows if row["role"] == "ceiling"), default=0)
    return f"{work.group}: {work.label} ({top:.3g} TB/s): " + "; ".join(parts)


# -- the command line -------------------------------------------------------------------------------------------------------
def device_facts() -> dict[str, int | None]:
    """Of the current GPU: multiprocessors, the highest clock in MHz, bytes of L2; None where unknown."""
    facts = torch.cuda.get_device_properties(0)
    query = ("nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits", "--id=0")
    try:
        clock = int(subprocess.run(query, capture_output=True, text=True, check=True).stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        clock = None
    return {
        "multiprocessors": facts.multi_processor_count,
        "clock_mhz": clock,
        "l2_bytes": getattr(facts, "L2_cache_size", None),
    }


def _probe() -> Callable[[], object]:
    a = torch.randn(1 << 27, device=DEVICE)
    out = torch.empty_like(a)
    return partial(torch.add, a, a, out=out)


Works = Callable[[bool], Sequence[Work]]  # takes whether to be quick


def bench_main(name: str, make_works: Works, make_tuning: Works, argv: Sequence[str] | None = None) -> int:
    """The command line of a `bench_*.py`: measure into results/<gpu>/<name>.json, or with --tune <name>-tuning.json.

    Returns the exit status: 1 when a candidate failed or was wrong.
    """
    parser = argparse.ArgumentParser(description=f"Measure {name} on this GPU, into results/<gpu>/{name}.json.")
    parser.add_argument("--quick", action="store_true", help="small sizes, into build/results: does everything run?")
    parser.add_argument("--tune", action="store_true", help="threads and elements a thread, instead")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS", help="start no new row after that")
    parser.add_argument("--only", default="", metavar="TEXT", help="works whose group, op, dtype and size contain TEXT")
    parser.add_argument("--rounds", type=int, default=None, help=f"of each candidate; {ROUNDS}, fewer where said, by default")
    parser.add_argument("--timer", choices=("cupti", "event"), default=None, help="instead of what works best")
    parser.add_argument("--out", type=Path, default=None, help="folder instead of results/")
    options = parser.parse_args(argv)
    start = time.monotonic()
    if not torch.cuda.is_available():
        parser.error("an NVIDIA GPU is needed; `make test` checks what was recorded")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `timeout` ends a run as ctrl-C does
    console = Console(width=140)
    if options.tune:
        name, make_works = f"{name}-tuning", make_tuning
    works = [work for work in make_works(options.quick) if options.only in f"{work.group}: {work.label}"]
    if options.rounds:
        works = [replace(work, rounds=options.rounds) for work in works]
    if not works:
        parser.error(f"no work contains {options.only!r}")
    root = options.out or (ROOT / "build" / "results" if options.quick else records.RESULTS)
    compile_together([spec for work in works for candidate in work.candidates for spec in candidate.specs])
    console.print(f"kernels compiled after {time.monotonic() - start:.0f} s")
    backend, why = (options.timer, "asked for") if options.timer else timing.pick_backend(_probe())
    console.print(f"timer: {backend} ({why})", markup=False)
    document = {
        "schema": records.SCHEMA,
        "bench": name,
        "stamp": stamp(METHOD.format(rounds=max(work.rounds for work in works))),
        "timer": {"backend": backend, "why": why},
        "device": device_facts(),
        "complete": False,
        "rows": [],
    }
    meter = Meter(partial(timing.round_ms, backend=backend), deadline=start + options.budget)
    run_works(works, meter, document, lambda: records.save(document, name, root), console)
    counts = {status: sum(row["status"] == status for row in document["rows"]) for status in records.STATUSES}
    console.print(f"{name}: " + ", ".join(f"{count} {status}" for status, count in counts.items() if count))
    for problem in records.problems(document):
        console.print(f"schema: {problem}", markup=False)
    console.print(f"{time.monotonic() - start:.0f} s, {root}")
    return int(bool(counts["failed"] or counts["wrong"]))
