"""What the files of every chapter do when they are run: a kernel file checks its kernels, `inspect_*.py` prints each
kernel's code and the chapter's tables, or writes these into its README."""

import argparse
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax

from ..analysis.inspection import inspect_many
from ..checking.cases import check
from ..display import render, tables
from ..frontend.program import arguments_text, factory_file
from ..frontend.target import FALLBACK_ARCH

Spec = tuple[Callable, dict[str, object]]  # a factory and its arguments
ARCHS = ("sm_80", "sm_90a", "sm_100a")


def check_rungs(file: str) -> int:
    """Check the kernels of a chapter's kernel file, by the cases in its `evidence/`, and return the exit status."""
    path = Path(file).resolve()
    evidence = path.parent / "evidence"
    sys.path[:0] = [str(path.parent), str(evidence)]
    (cases,) = evidence.glob("*_cases.py")
    found = [case for case in importlib.import_module(cases.stem).CASES if factory_file(case.factory) == str(path)]
    return check(found, f"{path.parent.name}/{path.name}")


def rung_table(rungs: Mapping[str, Spec], dtypes: Sequence[str], archs: Sequence[str] = ARCHS) -> tables.Table:
    """Rung x dtype x architecture: the verdict; then accesses, registers and SASS for `FALLBACK_ARCH`."""
    keys = [(name, dtype) for name in rungs for dtype in dtypes]
    specs = [(rungs[name][0], {**rungs[name][1], "dtype": d, "arch": arch}) for name, d in keys for arch in archs]
    reports = iter(inspect_many(specs))
    rows = []
    for name, dtype in keys:
        by_arch = {arch: next(reports) for arch in archs}
        shown = by_arch[FALLBACK_ARCH]
        verdicts = [by_arch[arch].verdict for arch in archs]
        details = (render.access_summary(shown), str(shown.sass.registers), render.sass_summary(shown))
        rows.append((f"`{name}`", dtype, *verdicts, *details))
    where = f"on {FALLBACK_ARCH}"
    return tables.Table(("rung", "dtype", *archs, f"accesses {where}", "registers", f"SASS {where}"), rows)


def show_code(specs: Iterable[Spec], console: Console) -> None:
    """Each kernel's CUDA without boilerplate, and the SASS that touches memory, for `FALLBACK_ARCH`."""
    for report in inspect_many([(factory, {"arch": FALLBACK_ARCH, **args}) for factory, args in specs]):
        console.rule(f"{report.kernel} {arguments_text(report.args)}, {report.arch}: {report.verdict}")
        console.print(Syntax(render.cuda(report), "cuda", background_color="default", word_wrap=True))
        console.print(render.sass(report), markup=False, highlight=False)


def inspect_main(readme: Path, made: Mapping[str, Callable[[], tables.Table]], code: Iterable[Spec]) -> None:
    """The command line. made: how each table of the README is made, by the name of its markers. code: kernels to show."""
    parser = argparse.ArgumentParser(description="The memory accesses of this chapter's kernels; nothing needs a GPU.")
    parser.add_argument("--tables", action="store_true", help="the tables only, without the code")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {readme.name}")
    options = parser.parse_args()
    if options.write:
        tables.write(readme, {name: make() for name, make in made.items()})
        return
    console = tables.console()
    if not options.tables:
        show_code(code, console)
    for name, make in made.items():
        console.print(make().rich(name))
