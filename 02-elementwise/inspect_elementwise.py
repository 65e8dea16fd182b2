"""What memory accesses do the kernels of this chapter make? Nothing here needs a GPU.

python3 inspect_elementwise.py            for each rung: its CUDA, the SASS that touches memory, and the tables
python3 inspect_elementwise.py --tables   the tables only
python3 inspect_elementwise.py --write    the tables, into README.md
"""

import argparse
from pathlib import Path

import elementwise_variants as kernels
import tilelang.language as T
from rich.console import Console
from rich.syntax import Syntax

from tilescope import inspect_many, render, tables
from tilescope.target import FALLBACK_ARCH

README = Path(__file__).with_name("README.md")
ARCHS = ("sm_80", "sm_90a", "sm_100a")
N = 1 << 20
RAGGED = N - 3
ROWS, COLUMNS = 512, 4096

RUNGS = {
    "add_flat": (kernels.add_flat, {}),
    "add_thread_vec": (kernels.add_thread_vec, {}),
    "add_thread_vec, 16 a thread": (kernels.add_thread_vec, {"num_per_thread": 16}),
    "add_register_vec": (kernels.add_register_vec, {}),
    "add_tail_split": (kernels.add_tail_split, {}),
}
CASTS = {
    "scale_cast": kernels.scale_cast,
    "per_token_cast_to_fp8": kernels.per_token_cast_to_fp8,
    "per_token_cast_to_fp8_contiguous": kernels.per_token_cast_to_fp8_contiguous,
}


def rung_table() -> tables.Table:
    """Rung x dtype x architecture, n = 2^20: the verdict, sectors a request, and the SASS on sm_90a."""
    keys = [(name, dtype) for name in RUNGS for dtype in kernels.FLOATS if dtype != "float16"]
    specs = [(RUNGS[name][0], {"n": N, "dtype": d, "arch": a, **RUNGS[name][1]}) for name, d in keys for a in ARCHS]
    reports = iter(inspect_many(specs))
    rows = []
    for name, dtype in keys:
        by_arch = {arch: next(reports) for arch in ARCHS}
        hopper = by_arch["sm_90a"]
        cells = [by_arch[arch].verdict for arch in ARCHS]
        rows.append(
            (f"`{name}`", dtype, *cells, render.access_summary(hopper), str(hopper.sass.registers), render.sass_summary(hopper))
        )
    return tables.Table(("rung", "dtype", *ARCHS, "accesses on sm_90a", "registers", "SASS on sm_90a"), rows)


def ragged_table() -> tables.Table:
    """Rung x n (whole tiles, ragged, dynamic) on sm_90a, bfloat16."""
    sizes = {"2^20": N, "2^20 - 3": RAGGED, "dynamic": T.dynamic("n")}
    rungs = [kernels.add_flat, kernels.add_thread_vec, kernels.add_tail_split]
    keys = [(rung, size) for rung in rungs for size in sizes]
    specs = [(rung, {"n": sizes[size], "dtype": "bfloat16", "arch": "sm_90a"}) for rung, size in keys]
    rows = []
    for (_, size), report in zip(keys, inspect_many(specs), strict=True):
        rows.append((f"`{report.kernel}`", size, report.verdict, render.access_summary(report), render.sass_summary(report)))
    return tables.Table(("rung", "n", "verdict", "accesses", "SASS"), rows)


def cast_table() -> tables.Table:
    """The casts, by input dtype, on sm_90a."""
    keys = [("scale_cast", {"n": N, "in_dtype": "float32", "out_dtype": out}) for out in ("float16", "bfloat16")]
    keys += [(name, {"M": ROWS, "N": COLUMNS, "dtype": d}) for name in list(CASTS)[1:] for d in ("float32", "bfloat16")]
    reports = inspect_many([(CASTS[name], {"arch": "sm_90a", **args}) for name, args in keys])
    rows = []
    for (name, args), report in zip(keys, reports, strict=True):
        types = f"{args['in_dtype']} to {args['out_dtype']}" if "in_dtype" in args else f"{args['dtype']} to fp8"
        rows.append(
            (f"`{name}`", types, render.access_summary(report), str(report.sass.registers), render.sass_summary(report))
        )
    return tables.Table(("kernel", "types", "accesses", "registers", "SASS"), rows)


def all_tables() -> dict[str, tables.Table]:
    """The README's tables by the name of their markers."""
    return {"rungs": rung_table(), "ragged": ragged_table(), "casts": cast_table()}


def show_code(console: Console) -> None:
    """CUDA and memory instructions of every kernel, bfloat16 on sm_90a."""
    specs = [(factory, {"n": N, "dtype": "bfloat16", **args}) for factory, args in RUNGS.values()]
    specs += [(kernels.add_tail_split, {"n": RAGGED, "dtype": "bfloat16"}), (kernels.scale_cast, {"n": N})]
    specs += [(CASTS[name], {"M": ROWS, "N": COLUMNS, "dtype": "float32"}) for name in list(CASTS)[1:]]
    for report in inspect_many([(factory, {"arch": FALLBACK_ARCH, **args}) for factory, args in specs]):
        console.rule(f"{report.kernel} {render.arguments(report)}, {report.arch}: {report.verdict}")
        console.print(Syntax(render.cuda(report), "cuda", background_color="default", word_wrap=True))
        console.print(render.sass(report), markup=False, highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", action="store_true", help="the tables only")
    parser.add_argument("--write", action="store_true", help="write the tables into README.md")
    options = parser.parse_args()
    console = tables.console()
    if not (options.tables or options.write):
        show_code(console)
    if options.write:
        tables.write(README, all_tables())
    else:
        for name, table in all_tables().items():
            console.print(table.rich(name))


if __name__ == "__main__":
    main()
