"""Reports as text: a table, the CUDA and the SASS that matter. Nothing is computed here."""

import re
from collections import Counter
from collections.abc import Iterable

from ..analysis.report import KernelReport
from ..frontend.program import arguments_text
from .tables import Table

COLUMNS = ("kernel", "arguments", "arch", "verdict", "accesses (bytes a lane, sectors/ideal)", "registers", "SASS")


def row(report: KernelReport) -> tuple[str, ...]:
    """The cells of one report, in the order of COLUMNS."""
    return (
        report.kernel,
        arguments_text(report.args),
        report.arch,
        report.verdict,
        access_summary(report),
        str(report.sass.registers) + _spills(report) if report.sass else "-",
        sass_summary(report),
    )


def access_summary(report: KernelReport) -> str:
    """One phrase for accesses that are alike: "2 loads 16 B 16/16; 1 store 16 B 16/16; guarded: 2 loads 2 B 2/2"."""
    if report.hand_written:
        return "hand-written CUDA: see the SASS"
    parts = []
    for guarded in (False, True):
        alike = Counter(
            (a.op, a.bytes_per_lane, a.sectors_per_request, a.ideal_sectors_per_request)
            for a in report.accesses
            if a.guarded == guarded
        )
        phrases = [
            f"{count} {op}{'s' if count > 1 else ''} {width} B {_sectors(sectors)}/{_sectors(ideal)}"
            for (op, width, sectors, ideal), count in alike.items()
        ]
        if phrases:
            parts.append(("guarded: " if guarded else "") + "; ".join(phrases))
    return "; ".join(parts) or "none"


def sass_summary(report: KernelReport) -> str:
    if report.sass is None:
        return "-"
    return ", ".join(f"{count} {name}" for name, count in report.sass.memory_counts().items()) or "none"


def table(reports: Iterable[KernelReport]) -> Table:
    """One row a report."""
    return Table(COLUMNS, [row(report) for report in reports])


def cuda(report: KernelReport) -> str:
    """The generated kernel without includes, declarations and `#line` directives."""
    text = re.sub(r"^#line .*\n", "", report.source, flags=re.MULTILINE)
    start = re.search(r'^extern "C" __global__ void [^;]*\{', text, flags=re.MULTILINE)
    return text[start.start() :].strip() if start else text.strip()


def sass(report: KernelReport) -> str:
    """The instructions that move global or local memory, each with the Python line that it came from."""
    if report.sass is None:
        return "(no SASS: it was not asked for)"
    lines = []
    for instruction in report.sass.instructions:
        if instruction.touches_memory:
            where = f"{instruction.file.rsplit('/', 1)[-1]}:{instruction.line}" if instruction.file else ""
            lines.append(f"{where:<32} {instruction}")
    return "\n".join(lines)


def _sectors(value: float | None) -> str:
    return "?" if value is None else f"{value:g}"


def _spills(report: KernelReport) -> str:
    return f" + {report.sass.spill_bytes} B spilled" if report.sass.spill_bytes else ""
