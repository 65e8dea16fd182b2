"""Do the predicted requests and sectors equal the GPU's counters? Needs a GPU and ncu (Nsight Compute).

python3 -m tilescope.measuring.sectors          predict, launch each kernel under ncu, compare; into results/<gpu>/sectors.json

The cases are those of every chapter's `*_sectors.py`. The exit status is 1 when a counter differs from its prediction by
one, or a kernel was not counted. Registers, instructions and DRAM bytes are recorded beside them.
"""

import argparse
import csv
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from . import records
from .records import Row
from .stamp import ROOT, stamp

OPS = {"ld": "load", "st": "store"}  # as ncu and as tilescope call them
COUNTERS = {
    f"l1tex__t_{unit}_pipe_lsu_mem_global_op_{op}.sum": f"{OPS[op]}_{unit}" for op in OPS for unit in ("requests", "sectors")
}
OTHERS = {
    "dram__bytes_read.sum": "dram_read_bytes",
    "dram__bytes_write.sum": "dram_write_bytes",
    "launch__registers_per_thread": "registers",
    "smsp__inst_executed.sum": "warp_instructions",
}
KERNELS = "regex:^(main_kernel|relu_|gelu_)"  # ours, and not PyTorch's that fill the inputs
METHOD = (
    "ncu, one launch of each kernel on normally distributed inputs; predicted: tilescope.inspect for the same architecture, "
    "summed over the accesses; dram bytes: with the caches flushed before the launch and written data still in L2 after it"
)


@dataclass(frozen=True)
class Case:
    """A kernel to count. bytes: what it has to move."""

    factory: Callable
    args: dict[str, object]
    bytes: int

    @property
    def name(self) -> str:
        from ..frontend.program import factory_name

        return factory_name(self.factory)


def load_cases(root: Path = ROOT) -> list[tuple[str, Case]]:
    """(chapter, case) of every chapter, in order; the chapters' folders are put on sys.path."""
    found = []
    for path in sorted(root.glob("[0-9][0-9]-*/evidence/*_sectors.py")):
        evidence, chapter = path.parents[:2]
        sys.path[:0] = [str(folder) for folder in (chapter, evidence) if str(folder) not in sys.path]
        module = importlib.import_module(path.stem)
        found += [(chapter.name, case) for case in module.cases()]
    return found


# -- the two sides ----------------------------------------------------------------------------------------------------------
def predict(case: Case, arch: str | None = None) -> dict[str, int] | None:
    """{"load_requests", "load_sectors", "store_requests", "store_sectors"}; None for hand-written CUDA."""
    from ..analysis.inspection import inspect

    report = inspect(case.factory, arch=arch, sass=False, **case.args)
    if getattr(report, "hand_written", False):
        return None
    found = dict.fromkeys(COUNTERS.values(), 0)
    for access in report.accesses:
        if access.requests is None or access.sectors is None:
            raise ValueError(f"{case.name}: no sectors of {access.buffer}: {access.unknown or 'n is dynamic'}")
        found[f"{access.op}_requests"] += access.requests
        found[f"{access.op}_sectors"] += access.sectors
    return found


def predict_all(arch: str) -> list[dict[str, int] | str | None]:
    """Predictions of all cases on all cores, or what went wrong with one."""
    kept = os.environ.get("TILELANG_DEFAULT_TARGET")
    # The children are to leave the GPU alone; importing tilescope would ask it for its architecture.
    os.environ["TILELANG_DEFAULT_TARGET"] = json.dumps({"kind": "cuda", "arch": arch})
    try:
        count = len(load_cases())
        workers = max(1, min(len(os.sched_getaffinity(0)), 16, count))
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            return list(pool.map(_predict_at, range(count), [arch] * count, chunksize=4))
    finally:
        os.environ.pop("TILELANG_DEFAULT_TARGET")
        if kept is not None:
            os.environ["TILELANG_DEFAULT_TARGET"] = kept


def _predict_at(index: int, arch: str) -> dict[str, int] | str | None:
    case = load_cases()[index][1]
    try:
        return predict(case, arch)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def launch_all() -> None:
    """Launch every case once, in order: what runs under ncu. A case that fails is named on stderr; the others
    say that they were launched, since ncu's output knows kernels only."""
    import torch

    from ..frontend.program import build

    for index, (_, case) in enumerate(load_cases()):
        try:
            program = build(case.factory, **case.args)
            inputs = []
            for position, param in enumerate(program.func.params):
                if position not in program.out_idx:
                    buffer = program.func.buffer_map[param]
                    shape = [int(size) for size in buffer.shape]
                    inputs.append(torch.randn(shape, device="cuda").to(getattr(torch, str(buffer.dtype))))
            kernel = case.factory(**case.args)
            kernel(*inputs)
            torch.cuda.synchronize()
            print(f"launched {index}", flush=True)
        except Exception as error:
            print(f"case {index}: {case.name}: {type(error).__name__}: {error}", file=sys.stderr)


def count(metrics: Iterable[str]) -> subprocess.CompletedProcess:
    """Run `launch_all` under ncu. Raises FileNotFoundError when there is no ncu."""
    how = ["--clock-control", "none", "--print-units", "base", "--csv", "--metrics", ",".join(metrics), "-k", KERNELS]
    program = [sys.executable, "-m", "tilescope.measuring.sectors", "--launch"]
    return subprocess.run(["ncu", *how, *program], capture_output=True, text=True, cwd=ROOT)


def parse_ncu(text: str) -> list[dict[str, Any]]:
    """The kernels in ncu's CSV, in launch order: {"kernel", and a number for each metric that has one}.

    text: ncu's output, one line a metric, with lines of its own and the program's before the CSV.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    kernels: dict[int, dict[str, Any]] = {}
    known = COUNTERS | OTHERS
    for row in csv.DictReader(lines):
        kernel = kernels.setdefault(int(row["ID"]), {"kernel": row["Kernel Name"]})
        value = (row["Metric Value"] or "").replace(",", "")
        try:
            number = float(value)
        except ValueError:
            continue  # "n/a": the counter is not there
        kernel[known.get(row["Metric Name"], row["Metric Name"])] = int(number)
    return [kernels[key] for key in sorted(kernels)]


def launched(text: str) -> list[int]:
    """The cases that `launch_all` says it launched, in order."""
    return [int(line.removeprefix("launched ")) for line in text.splitlines() if re.fullmatch(r"launched \d+", line)]


# -- comparing --------------------------------------------------------------------------------------------------------------
def make_rows(
    cases: Sequence[tuple[str, Case]],
    predictions: Sequence[dict[str, int] | str | None],
    measured: Sequence[dict[str, Any]],
    order: Sequence[int],
) -> list[Row]:
    """A row a case. order: which cases were launched; without a kernel for each of them, none can be told from the others."""
    by_case = dict(zip(order, measured, strict=True)) if len(order) == len(measured) else {}
    rows = []
    for index, ((chapter, case), predicted) in enumerate(zip(cases, predictions, strict=True)):
        counted = by_case.get(index)
        why = None
        if counted is None:
            status, why = "not counted", f"{len(order)} of {len(cases)} cases were launched, {len(measured)} kernels counted"
        elif isinstance(predicted, str):
            status, why = "not predicted", predicted
        elif predicted is None:
            status, why = "not predicted", "hand-written CUDA"
        else:
            wrong = [key for key in COUNTERS.values() if counted.get(key) != predicted[key]]
            status = "different" if wrong else "equal"
            why = "; ".join(f"{key}: predicted {predicted[key]}, counted {counted.get(key)}" for key in wrong) or None
        rows.append(
            {
                "chapter": chapter,
                "kernel": case.name,
                "args": {
                    key: value if isinstance(value, int | float | str) else str(value) for key, value in case.args.items()
                },
                "bytes": case.bytes,
                "predicted": predicted if isinstance(predicted, dict) else None,
                "counted": {key: counted.get(key) for key in COUNTERS.values()} if counted else None,
                **{key: counted.get(key) if counted else None for key in OTHERS.values()},
                "status": status,
                "why": why,
            }
        )
    return rows


FAULTS = ("different", "not counted")


def is_fault(row: Row) -> bool:
    """Whether a row says that the model and the GPU disagree, or that they were not compared and should have been."""
    return row["status"] in FAULTS or (row["status"] == "not predicted" and row["why"] != "hand-written CUDA")


KEYS = ("chapter", "kernel", "args", "bytes", "predicted", "counted", *OTHERS.values(), "status", "why")


def problems(document: Any) -> list[str]:
    """What is wrong with a recording of sectors; [] when nothing is."""
    found = records.wrong_keys("the file", document, ("schema", "stamp", "device", "rows"))
    if found:
        return found
    found += records.stamp_problems(document["stamp"])
    for index, row in enumerate(document["rows"]):
        where = f"row {index}"
        wrong = records.wrong_keys(where, row, KEYS)
        found += wrong
        if not wrong and row["status"] in ("equal", "different"):
            if (row["predicted"] == row["counted"]) != (row["status"] == "equal"):
                found.append(f"{where} ({row['kernel']}): {row['status']}, {row['predicted']} and {row['counted']}")
    return found


# -- the command line -------------------------------------------------------------------------------------------------------
def measure(console: Any, log: Path) -> list[Row]:
    """Predict, compile, launch under ncu, compare. log: gets what ncu said."""
    from ..frontend.target import gpu_arch
    from .bench import compile_together

    cases = load_cases()
    predictions = predict_all(gpu_arch())
    console.print(f"{len(cases)} predictions made")
    compile_together([(case.factory, case.args) for _, case in cases])
    console.print("kernels compiled")
    for metrics in ([*COUNTERS, *OTHERS], COUNTERS):  # an unknown name among them, and ncu counts nothing
        ran = count(metrics)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"{ran.stdout}\n--- stderr ---\n{ran.stderr}")
        if measured := parse_ncu(ran.stdout):
            break
        console.print("ncu counted nothing:", *(ran.stdout + ran.stderr).splitlines()[-15:], sep="\n", markup=False)
    for line in ran.stderr.splitlines():
        if line.startswith("case "):
            console.print(line, markup=False)
    return make_rows(cases, predictions, measured, launched(ran.stdout))


def main(argv: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare predicted requests and sectors with the GPU's counters.")
    parser.add_argument("--launch", action="store_true", help="launch the kernels, nothing else: for ncu")
    parser.add_argument("--out", type=Path, default=records.RESULTS, help="folder instead of results/")
    options = parser.parse_args(argv)
    import torch
    from rich.console import Console

    if not torch.cuda.is_available():
        parser.error("an NVIDIA GPU and ncu are needed; `make test` checks what was recorded")
    if options.launch:
        launch_all()
        return 0
    if shutil.which("ncu") is None:
        parser.error("ncu (Nsight Compute) is not on the PATH")
    from ..frontend.program import arguments_text
    from .bench import device_facts

    console = Console(width=140)
    rows = measure(console, ROOT / "build" / "ncu.log")
    document = {"schema": records.SCHEMA, "stamp": stamp(METHOD), "device": device_facts(), "rows": rows}
    records.save(document, "sectors", options.out)
    for row in rows:
        if is_fault(row):
            line = f"{row['status']}: {row['kernel']} {arguments_text(row['args'])}: {row['why']}"
            console.print(line, markup=False, soft_wrap=True)
    counts = {status: sum(row["status"] == status for row in rows) for status in dict.fromkeys(row["status"] for row in rows)}
    console.print("sectors: " + ", ".join(f"{count} {status}" for status, count in counts.items()))
    return int(any(map(is_fault, rows)))


if __name__ == "__main__":
    raise SystemExit(main())
