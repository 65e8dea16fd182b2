"""Tables and plots of what was measured, made from results/ alone.

python3 -m tilescope.book.results           write them into the chapters' READMEs and plots/
python3 -m tilescope.book.results --check   do they say what results/ says?
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..display import plots, tables
from ..measuring import records, sectors
from ..measuring.records import Row, work_key
from ..measuring.stamp import ROOT

CHAPTERS = {"activations": "01-activations", "elementwise": "02-elementwise"}
OPS = {
    "activations": ("relu", "gelu_tanh", "gelu_erf"),
    "elementwise": ("add", "scale_cast", "per_token_cast_to_fp8"),
}
ALSO = {"activations": ("accuracy",)}  # measured by the chapter's own scripts
NOTHING = "Not measured yet: `make bench` and `make sectors` on a GPU, then `make results`, write this."

Document = dict[str, Any]


@dataclass(frozen=True)
class Block:
    """What stands between markers: Markdown. Used where a `tables.Table` would be."""

    text: str

    def markdown(self) -> str:
        return self.text


# -- cells ------------------------------------------------------------------------------------------------------------------
def spread(row: Row) -> float:
    """Half of p10 to p90, relative to the median."""
    return (row["p90_ms"] - row["p10_ms"]) / 2 / row["ms"]


def cell(row: Row | None) -> str:
    """Ratio to the ceiling, then TB/s and its spread."""
    if row is None:
        return ""
    if row["status"] != "measured":
        return row["status"]
    bandwidth = f"{row['tb_per_s']:.2f} TB/s ± {100 * spread(row):.1f} %"
    return bandwidth if row["ratio"] is None else f"{row['ratio']:.3f} ({bandwidth})"


def call_cell(row: Row | None) -> str:
    """Time of one call by the host's clock, of the kernel alone, and TB/s of that."""
    if row is None or row["status"] != "measured":
        return cell(row)
    return f"{row['call_us']:.1f} µs, kernel {1e3 * row['ms']:.1f} µs, {row['tb_per_s']:.2f} TB/s"


def unmeasured(rows: Iterable[Row]) -> str:
    """One line for each reason that something was not measured."""
    reasons: dict[str, dict[str, None]] = {}
    for row in rows:
        if row["status"] != "measured":
            reasons.setdefault(f"{row['status']}: {row['why']}", {})[row["name"]] = None
    return "\n".join(f"- {', '.join(names)}: {reason}" for reason, names in reasons.items())


# -- tables -----------------------------------------------------------------------------------------------------------------
def pivot(rows: Sequence[Row], make_cell=cell, head: str = "candidate") -> tables.Table:
    """Candidates down, works (dtype, size) across."""
    works = list(dict.fromkeys((row["dtype"], row["size"]) for row in rows))
    names = list(dict.fromkeys((row["role"], row["name"]) for row in rows))
    by = {(row["role"], row["name"], row["dtype"], row["size"]): row for row in rows}
    columns = (head, "", *(f"{dtype}, {size}" for dtype, size in works))
    cells = [(_code(name, role), role, *(make_cell(by.get((role, name, *work))) for work in works)) for role, name in names]
    return tables.Table(columns, cells)


def bandwidth_block(document: Document, op: str) -> str:
    rows = [row for row in document["rows"] if row["group"] == "large" and row["op"] == op]
    return _with_reasons(pivot(rows), rows) if rows else ""


def ragged_block(document: Document) -> str:
    """What three elements more cost: time an element at 2^29 + 3 over time an element at 2^29, of the same candidate."""
    rows = [row for row in document["rows"] if row["group"] == "ragged"]
    lines = []
    for op, dtype, name, role in dict.fromkeys((row["op"], row["dtype"], row["name"], row["role"]) for row in rows):
        pair = [row for row in rows if (row["op"], row["dtype"], row["name"]) == (op, dtype, name)]
        pair.sort(key=lambda row: row["elements"])
        whole, rest = (*pair, None)[:2]
        cost = ""
        if rest is not None and whole["status"] == rest["status"] == "measured":
            cost = f"{100 * (rest['ms'] / rest['elements'] / (whole['ms'] / whole['elements']) - 1):+.1f} %"
        lines.append((op, dtype, _code(name, role), cell(whole), cell(rest), cost))
    if not lines:
        return ""
    sizes = [size for _, size in sorted({(row["elements"], row["size"]) for row in rows})]
    columns = ("op", "dtype", "candidate", *(f"n = {size}" for size in sizes), "cost of a ragged n")
    return _with_reasons(tables.Table(columns, lines), rows)


def calls_block(document: Document, groups: Sequence[str]) -> str:
    """Works down, candidates across."""
    rows = [row for row in document["rows"] if row["group"] in groups]
    names = list(dict.fromkeys((row["name"], row["role"]) for row in rows))
    lines = []
    for key in dict.fromkeys(map(work_key, rows)):
        by = {row["name"]: row for row in rows if work_key(row) == key}
        make_cell = call_cell if any(row["call_us"] is not None for row in by.values()) else cell
        lines.append((*key, *(make_cell(by.get(name)) for name, _ in names)))
    columns = ("group", "op", "dtype", "n", *(_code(name, role) for name, role in names))
    return _with_reasons(tables.Table(columns, lines), rows) if rows else ""


def tuning_block(document: Document) -> str:
    """Of each work the best and the worst point, and the reach of those that are within 1 % of the best."""
    lines = []
    for key in dict.fromkeys(map(work_key, document["rows"])):
        asked = [row for row in document["rows"] if work_key(row) == key and row["role"] == "rung"]
        points = sorted((row for row in asked if row["status"] == "measured"), key=lambda row: row["ms"])
        if not points:
            continue
        level = [row for row in points if row["ms"] <= 1.01 * points[0]["ms"]]
        best, worst = points[0], points[-1]
        names = "; ".join(_point(row) for row in level)
        kernel = f"`{best['name'].split(',')[0]}`"
        measured = f"{len(points)} of {len(asked)}"
        lines.append((kernel, *key[2:], measured, f"{_point(best)}: {cell(best)}", names, f"{_point(worst)}: {cell(worst)}"))
    columns = ("kernel", "dtype", "size", "points measured", "best", "within 1 % of it", "worst")
    return _with_reasons(tables.Table(columns, lines), document["rows"]) if lines else ""


def sectors_block(document: Document, chapter: str) -> str:
    """A row a kernel: of how many cases the predictions equal the counters; DRAM traffic of the largest case."""
    rows = [row for row in document["rows"] if row["chapter"] == chapter]
    lines = []
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        of_kernel = [row for row in rows if row["kernel"] == kernel]
        compared = [row for row in of_kernel if row["status"] in ("equal", "different")]
        equal = sum(row["status"] == "equal" for row in compared)
        registers = sorted({row["registers"] for row in of_kernel if row["registers"] is not None})
        largest = max(of_kernel, key=lambda row: row["bytes"])
        dram = [largest[key] for key in ("dram_read_bytes", "dram_write_bytes")]
        moved = "{:.1f} + {:.1f} of {:.1f}".format(*(x / 1e6 for x in (*dram, largest["bytes"]))) if None not in dram else ""
        verdict = f"{equal} of {len(compared)}" if compared else of_kernel[0]["why"] or of_kernel[0]["status"]
        reach = "-".join(map(str, dict.fromkeys((registers[0], registers[-1])))) if registers else ""
        lines.append((f"`{kernel}`", verdict, reach, moved))
    columns = ("kernel", "cases where prediction and counters are equal", "registers", "MB read + written, of those to move")
    wrong = [row for row in rows if sectors.is_fault(row)]
    reasons = "\n".join(f"- {row['kernel']} {row['args']}: {row['status']}: {row['why']}" for row in wrong)
    return "\n\n".join(filter(None, (tables.Table(columns, lines).markdown(), reasons))) if lines else ""


STAMPED = ("driver", "cuda", "torch", "tilelang", "triton")


def stamp_lines(documents: dict[str, Document]) -> str:
    """A line a file: with what, when, at which commit, and how often each candidate was measured."""
    lines = []
    for name, document in documents.items():
        stamp = document["stamp"]
        parts = [stamp["gpu"], *(f"{key} {stamp[key]}" for key in STAMPED if stamp.get(key))]
        parts += [stamp["date"], f"commit {stamp['commit']}"]
        if "timer" in document:
            rounds = sorted({len(row["rounds_ms"]) for row in document["rows"] if row["rounds_ms"]}) or [0]
            parts.append(f"timer {document['timer']['backend']}, rounds {rounds[0]} to {rounds[-1]}")
        whole = "" if document.get("complete", True) else ", cut short"
        lines.append(f"- {name}: {', '.join(parts)}{whole}")
    return "\n".join(lines)


def blocks(bench: str, root: Path = records.RESULTS) -> dict[str, Block]:
    """Every block of the chapter's README by the name of its markers."""
    chapter = CHAPTERS[bench]
    bandwidths, tunings, counts = (
        records.load(bench, root),
        records.load(f"{bench}-tuning", root),
        records.load("sectors", root),
    )
    files = {bench: bandwidths, f"{bench}-tuning": tunings, "sectors": counts}
    files |= {name: records.load(name, root) for name in ALSO.get(bench, ())}
    made = {
        "measured": {
            gpu: stamp_lines({name: by_gpu[gpu] for name, by_gpu in files.items() if gpu in by_gpu}) for gpu in bandwidths
        }
    }
    for op in OPS[bench]:
        made[f"bandwidth-{op}"] = {gpu: bandwidth_block(document, op) for gpu, document in bandwidths.items()}
    made["ragged-cost"] = {gpu: ragged_block(document) for gpu, document in bandwidths.items()}
    made["calls"] = {gpu: calls_block(document, ("call", "sweep")) for gpu, document in bandwidths.items()}
    made["misaligned"] = {gpu: calls_block(document, ("misaligned",)) for gpu, document in bandwidths.items()}
    made["tuning"] = {gpu: tuning_block(document) for gpu, document in tunings.items()}
    made["sectors"] = {gpu: sectors_block(document, chapter) for gpu, document in counts.items()}
    pictures = charts(bench, root)
    made["plots"] = {
        gpu: "\n".join(f"![{name.removesuffix('.svg')}](plots/{name})" for name in pictures if name.startswith(f"{gpu}-"))
        for gpu in bandwidths
    }
    gpus = {gpu: doc["stamp"]["gpu"] for of in (bandwidths, tunings, counts) for gpu, doc in of.items()}
    return {name: _block(by_gpu, gpus) for name, by_gpu in made.items()}


def _block(by_gpu: dict[str, str], names: dict[str, str]) -> Block:
    """The texts of all GPUs, each under its name when there are several."""
    texts = {gpu: text for gpu, text in by_gpu.items() if text}
    if not texts:
        return Block(NOTHING)
    if len(names) == 1:
        return Block(next(iter(texts.values())))
    return Block("\n\n".join(f"{names[gpu]}:\n\n{text}" for gpu, text in texts.items()))


def _with_reasons(table: tables.Table, rows: Sequence[Row]) -> str:
    return "\n\n".join(filter(None, (table.markdown(), unmeasured(rows))))


def _code(name: str, role: str) -> str:
    """A rung's name is that of a function, up to a comma."""
    function, comma, rest = name.partition(",")
    return f"`{function}`{comma}{rest}" if role == "rung" else name


def _point(row: Row) -> str:
    return row["name"].split(", ", 1)[-1]


# -- plots ------------------------------------------------------------------------------------------------------------------
def charts(bench: str, root: Path = records.RESULTS) -> dict[str, str]:
    """File name -> SVG of every plot of the chapter, all GPUs."""
    counts = records.load("sectors", root)
    found = {}
    for gpu, document in records.load(bench, root).items():
        name = document["stamp"]["gpu"]
        for op in OPS[bench]:
            rows = [row for row in document["rows"] if row["group"] == "large" and row["op"] == op]
            if any(row["status"] == "measured" for row in rows):
                found[f"{gpu}-{op}.svg"] = bar_chart(f"{op} on {name}", rows)
        sweep = [row for row in document["rows"] if row["group"] == "sweep" and row["status"] == "measured"]
        if sweep:
            found[f"{gpu}-sweep.svg"] = sweep_chart(f"{sweep[0]['op']} {sweep[0]['dtype']} on {name}, by n", sweep)
        points = roof_points(document["rows"], counts[gpu]["rows"]) if gpu in counts else []
        if points:
            found[f"{gpu}-roofline.svg"] = roof_chart(f"Instructions and bytes on {name}", points, document)
    return found


def bar_chart(title: str, rows: Sequence[Row]) -> str:
    groups = []
    for key in dict.fromkeys(map(work_key, rows)):
        of_work = [row for row in rows if work_key(row) == key]
        top = max((row["tb_per_s"] for row in of_work if row["role"] == "ceiling" and row["tb_per_s"]), default=None)
        groups.append((f"{key[2]}, {key[3]}", [_bar(row) for row in of_work], top))
    return plots.bars(title, groups, "TB/s (of ceiling)")


def _bar(row: Row) -> plots.Bar:
    if row["status"] != "measured":
        return plots.Bar(row["name"], row["role"], None, None, None, row["status"])
    low, high = (row["bytes"] / row[key] / 1e9 for key in ("p90_ms", "p10_ms"))
    text = f"{row['tb_per_s']:.2f}" + (f" ({row['ratio']:.3f})" if row["ratio"] is not None else "")
    return plots.Bar(row["name"], row["role"], row["tb_per_s"], low, high, text)


def sweep_chart(title: str, rows: Sequence[Row]) -> str:
    """Bandwidth that a caller gets, the launch included."""
    series = {}
    for name in dict.fromkeys(row["name"] for row in rows if row["role"] != "ceiling"):
        of_name = [row for row in rows if row["name"] == name and row["call_us"]]
        series[name] = [(row["elements"], row["bytes"] / row["call_us"] / 1e6) for row in of_name]
    return plots.lines(title, series, "n", "TB/s of calls one after the other, L2 warm")


SIZES_AND_TYPES = ("n", "M", "N", "dtype", "in_dtype", "out_dtype", "scale")


def _form(kernel: str, args: dict[str, Any]) -> tuple:
    """What a measured and a counted row of the same kernel have in common: its name, its dtype and its other arguments."""
    more = sorted((key, value) for key, value in args.items() if key not in SIZES_AND_TYPES)
    return kernel, args.get("dtype", args.get("out_dtype")), *more


def roof_points(rows: Sequence[Row], counted: Sequence[Row]) -> list[plots.Point]:
    """Rows of the group "large" whose kernel was counted, whole tiles, in the same dtype; the first size of each."""
    instructions = {}
    for row in counted:
        if row["warp_instructions"] and row["args"].get("n", 0) % 2048 == 0:
            instructions.setdefault(_form(row["kernel"], row["args"]), row["warp_instructions"] / row["bytes"])
    found: dict[str, plots.Point] = {}
    for row in rows:
        kernel, _, note = row["name"].partition(", ")
        form = _form(kernel, row["args"])
        # Each part of the note is an argument; one that is not, such as a compiler's flag, makes another kernel.
        each = instructions.get(form) if len(form) - 2 == len(note.split(", ")) * bool(note) else None
        label = f"{row['name']} {row['dtype']}"
        if row["group"] == "large" and row["status"] == "measured" and each and label not in found:
            found[label] = plots.Point(label, row["role"], each, each * row["tb_per_s"] * 1e12)
    return list(found.values())


def roof_chart(title: str, points: Sequence[plots.Point], document: Document) -> str:
    device = document["device"]
    clock, processors = device["clock_mhz"], device["multiprocessors"]
    issue = 4 * processors * clock * 1e6 if clock and processors else None  # four schedulers, an instruction a cycle each
    bandwidth = max(row["tb_per_s"] for row in document["rows"] if row["role"] == "ceiling" and row["tb_per_s"])
    return plots.roofline(title, points, bandwidth * 1e12, issue)


# -- files ------------------------------------------------------------------------------------------------------------------
def stale(bench: str, root: Path = records.RESULTS, book: Path = ROOT) -> list[str]:
    """What of the chapter says otherwise than results/: names of blocks, and plots."""
    folder = book / CHAPTERS[bench]
    found = tables.stale(folder / "README.md", blocks(bench, root))
    made = charts(bench, root)
    there = {path.name: path.read_text() for path in (folder / "plots").glob("*.svg")}
    return found + sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))


def write(bench: str, root: Path = records.RESULTS, book: Path = ROOT) -> None:
    folder = book / CHAPTERS[bench]
    tables.write(folder / "README.md", blocks(bench, root))
    made = charts(bench, root)
    for path in (folder / "plots").glob("*.svg"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (folder / "plots").mkdir(exist_ok=True)
        (folder / "plots" / name).write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the tables and plots of results/ into the chapters.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a chapter differs from results/")
    options = parser.parse_args()
    if options.check:
        found = {bench: stale(bench) for bench in CHAPTERS}
        for bench, names in found.items():
            for name in names:
                print(f"{CHAPTERS[bench]}: {name} differs from results/; run `make results`")
        return int(any(found.values()))
    for bench in CHAPTERS:
        write(bench)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
