"""What memory accesses do the kernels of this chapter make? Nothing here needs a GPU.

python3 inspect_elementwise.py            for each rung: its CUDA, the SASS that touches memory, and the tables
python3 inspect_elementwise.py --tables   the tables only
python3 inspect_elementwise.py --write    the tables, into README.md
"""

from pathlib import Path

import elementwise_variants as kernels
import tilelang.language as T

from tilescope import inspect_many
from tilescope.book import chapter
from tilescope.display import render, tables

README = Path(__file__).with_name("README.md")
N = 1 << 20
RAGGED = N - 3
ROWS, COLUMNS = 512, 4096

RUNGS = {
    "add_flat": (kernels.add_flat, {"n": N}),
    "add_thread_vec": (kernels.add_thread_vec, {"n": N}),
    "add_thread_vec, 16 a thread": (kernels.add_thread_vec, {"n": N, "num_per_thread": 16}),
    "add_register_vec": (kernels.add_register_vec, {"n": N}),
    "add_tail_split": (kernels.add_tail_split, {"n": N}),
}


def rung_table() -> tables.Table:
    """Rung x dtype x architecture, n = 2^20."""
    return chapter.rung_table(RUNGS, ("float32", "bfloat16"))


def ragged_table() -> tables.Table:
    """Rung x n (whole tiles, ragged, dynamic) on sm_90a, bfloat16."""
    sizes = {"2^20": N, "2^20 - 3": RAGGED, "dynamic": T.dynamic("n")}
    rungs = (kernels.add_flat, kernels.add_thread_vec, kernels.add_tail_split)
    keys = [(rung, size) for rung in rungs for size in sizes]
    specs = [(rung, {"n": sizes[size], "dtype": "bfloat16", "arch": "sm_90a"}) for rung, size in keys]
    rows = []
    for (_, size), report in zip(keys, inspect_many(specs), strict=True):
        details = (render.access_summary(report), render.sass_summary(report))
        rows.append((f"`{report.kernel}`", size, report.verdict, *details))
    return tables.Table(("rung", "n", "verdict", "accesses", "SASS"), rows)


def cast_table() -> tables.Table:
    """The casts, by input dtype, on sm_90a."""
    casts = [("", f"float32 to {d}", kernels.scale_cast, {"n": N, "out_dtype": d}) for d in ("float16", "bfloat16")]
    for factory, note, form in kernels.FP8_RUNGS:
        casts += [
            (note, f"{d} to fp8", factory, {"M": ROWS, "N": COLUMNS, "dtype": d, **form}) for d in ("float32", "bfloat16")
        ]
    reports = inspect_many([(factory, {"arch": "sm_90a", **args}) for _, _, factory, args in casts])
    rows = []
    for (note, types, _, _), report in zip(casts, reports, strict=True):
        details = (render.access_summary(report), str(report.sass.registers), render.sass_summary(report))
        rows.append((f"`{report.kernel}`" + (f", {note}" if note else ""), types, *details))
    return tables.Table(("kernel", "types", "accesses", "registers", "SASS"), rows)


TABLES = {"rungs": rung_table, "ragged": ragged_table, "casts": cast_table}
CODE = [(factory, {**args, "dtype": "bfloat16"}) for factory, args in RUNGS.values()]
CODE += [(kernels.add_tail_split, {"n": RAGGED, "dtype": "bfloat16"}), (kernels.scale_cast, {"n": N})]
CODE += [(cast, {"M": ROWS, "N": COLUMNS, **form}) for cast, _, form in kernels.FP8_RUNGS]

if __name__ == "__main__":
    chapter.inspect_main(README, TABLES, CODE)
