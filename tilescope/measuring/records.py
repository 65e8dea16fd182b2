"""Recorded measurements: the rows of results/<gpu>/<bench>.json, their arithmetic and their schema.

results/README.md describes the format; `problems` is its definition.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .stamp import ROOT, gpu_folder
from .timing import quantile

SCHEMA = 1
RESULTS = ROOT / "results"
STATUSES = ("measured", "not run", "failed", "wrong")
ROLES = ("rung", "peer", "ceiling")
STAMP = ("gpu", "driver", "cuda", "torch", "tilelang", "triton", "python", "date", "commit", "method")
NUMBER = (int, float)

Row = dict[str, Any]
# Field: the types it may have. Numbers of a row that was not measured are null.
FIELDS: dict[str, tuple[type, ...]] = {
    "group": (str,),  # what the row is part of: "large", "ragged", "sweep", "call", "misaligned", "tuning"
    "op": (str,),
    "dtype": (str,),
    "size": (str,),
    "elements": (int,),
    "bytes": (int,),
    "name": (str,),
    "role": (str,),
    "args": (dict,),
    "status": (str,),
    "why": (str, type(None)),
    "rounds_ms": (list,),
    "ms": (*NUMBER, type(None)),
    "p10_ms": (*NUMBER, type(None)),
    "p90_ms": (*NUMBER, type(None)),
    "tb_per_s": (*NUMBER, type(None)),
    "ceiling": (str, type(None)),
    "ratio": (*NUMBER, type(None)),
    "call_us": (*NUMBER, type(None)),
}


def work_key(row: Row) -> tuple[str, str, str, str]:
    """Rows of one work: they compute the same, on the same inputs, and share a ceiling."""
    return row["group"], row["op"], row["dtype"], row["size"]


def summarise(row: Row) -> None:
    """Set ms (median), p10_ms, p90_ms and tb_per_s from rounds_ms, which is not empty; bytes are read plus written."""
    rounds = row["rounds_ms"]
    row["ms"], row["p10_ms"], row["p90_ms"] = (quantile(rounds, q) for q in (0.5, 0.1, 0.9))
    row["tb_per_s"] = row["bytes"] / row["ms"] / 1e9


def compare(rows: Iterable[Row]) -> None:
    """Set ceiling and ratio of the rows of one work: bandwidth over that of the fastest ceiling, None without one."""
    rows = list(rows)
    ceilings = [row for row in rows if row["role"] == "ceiling" and row["status"] == "measured"]
    best = max(ceilings, key=lambda row: row["tb_per_s"], default=None)
    for row in rows:
        measured = best is not None and row["status"] == "measured"
        row["ceiling"] = best["name"] if measured else None
        row["ratio"] = row["tb_per_s"] / best["tb_per_s"] if measured else None


def problems(document: Any) -> list[str]:
    """What is wrong with a recording of bandwidths; [] when nothing is."""
    found = wrong_keys("the file", document, ("schema", "bench", "stamp", "timer", "device", "complete", "rows"))
    if found:
        return found
    if document["schema"] != SCHEMA:
        found.append(f"schema is {document['schema']}, not {SCHEMA}")
    found += stamp_problems(document["stamp"])
    seen = set()
    for index, row in enumerate(document["rows"]):
        where = f"row {index}"
        wrong = wrong_keys(where, row, FIELDS)
        wrong = wrong or [f"{where}: {key} is {row[key]!r}" for key, types in FIELDS.items() if type(row[key]) not in types]
        if wrong:
            found += wrong
            continue
        where += f" ({row['op']} {row['dtype']} {row['size']}: {row['name']})"
        found += [f"{where}: {text}" for text in _row_problems(row)]
        if (key := (*work_key(row), row["name"])) in seen:
            found.append(f"{where}: the same row twice")
        seen.add(key)
    return found or _ratio_problems(document["rows"])


def stamp_problems(stamp: Any) -> list[str]:
    found = wrong_keys("the stamp", stamp, STAMP)
    return found or [f"the stamp has no {key}" for key in ("gpu", "torch", "tilelang", "date", "method") if not stamp[key]]


def wrong_keys(where: str, value: Any, keys: Iterable[str]) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where} is no object"]
    missing, unknown = set(keys) - set(value), set(value) - set(keys)
    return [f"{where} lacks {key}" for key in sorted(missing)] + [f"{where} has {key}" for key in sorted(unknown)]


def _row_problems(row: Row) -> Iterable[str]:
    if row["status"] not in STATUSES:
        yield f"status {row['status']!r}"
    if row["role"] not in ROLES:
        yield f"role {row['role']!r}"
    if row["elements"] <= 0 or row["bytes"] <= 0:
        yield "nothing is moved"
    measured = row["status"] == "measured"
    if measured == bool(row["why"]):
        yield f"{row['status']}, and why is {row['why']!r}"
    numbers = [row[key] for key in ("ms", "p10_ms", "p90_ms", "tb_per_s")]
    if not measured:
        if any(number is not None for number in (*numbers, row["ratio"])):
            yield "numbers of something that was not measured"
        return
    if not row["rounds_ms"] or not all(type(ms) in NUMBER and ms > 0 for ms in row["rounds_ms"]):
        yield f"rounds_ms is {row['rounds_ms']}"
        return
    again = {**row}
    summarise(again)
    if not all(_near(row[key], again[key]) for key in ("ms", "p10_ms", "p90_ms", "tb_per_s")):
        yield f"ms, p10_ms, p90_ms, tb_per_s are {numbers}, rounds_ms and bytes give {again['ms']}, {again['tb_per_s']}"


def _ratio_problems(rows: list[Row]) -> list[str]:
    found = []
    for key in dict.fromkeys(map(work_key, rows)):
        work = [row for row in rows if work_key(row) == key]
        again = [{**row} for row in work]
        compare(again)
        for row, right in zip(work, again, strict=True):
            if row["ceiling"] != right["ceiling"] or not _near(row["ratio"], right["ratio"]):
                found.append(f"{key} {row['name']}: ratio {row['ratio']} to {row['ceiling']}, should be {right['ratio']}")
    return found


def _near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= 1e-9 * abs(other)


def save(document: dict[str, Any], name: str, root: Path = RESULTS) -> Path:
    """Write <root>/<gpu>/<name>.json at once, so that a run that is killed leaves the last whole file."""
    path = root / gpu_folder(document["stamp"]["gpu"]) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".part")
    half.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")
    os.replace(half, path)
    return path


def load(name: str, root: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """GPU folder -> recording, of every GPU that `name` was measured on, in the order of their names."""
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(root.glob(f"*/{name}.json"))}
