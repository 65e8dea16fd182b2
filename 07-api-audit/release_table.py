#!/usr/bin/env python3
"""Write the release-by-release table of README.md between its markers, from the vendored data.

python3 release_table.py            rewrite README.md
python3 release_table.py --check    exit 1 if README.md would change
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from tla.compare import diff  # noqa: E402
from tla.surface import LANGUAGE, load, releases  # noqa: E402

README = Path(__file__).resolve().parent / "README.md"
BEGIN, END = "<!-- release table: begin -->", "<!-- release table: end -->"
SHOWN = 6


def table():
    rows = [
        "| release | names of T | gone | keywords gone | new | some that are gone |",
        "|---|---|---|---|---|---|",
    ]
    previous = None
    for release in releases():
        surface = load(release)
        names = surface.names(LANGUAGE)
        if previous is None:
            rows.append(f"| {release} | {len(names)} | | | | |")
        else:
            changes = [c for c in diff(previous, release) if c.module == LANGUAGE]
            gone = [c.name for c in changes if c.kind == "gone" and not unimportant(load(previous), c.name)]
            new = [c.name for c in changes if c.kind == "new"]
            keywords = [
                f"{c.name}({word[1:]})"
                for c in changes
                if c.kind == "changed"
                for word in c.what.split("; ")
                if word.startswith("-") and word[1] != "*" and load(previous).entry(LANGUAGE, c.name).kind == "function"
            ]
            some = [f"`{name}`" for name in [*sorted(gone, key=str.lower), *keywords][:SHOWN]]
            some += ["..."] if len(gone) + len(keywords) > SHOWN else []
            rows.append(f"| {release} | {len(names)} | {len(gone)} | {len(keywords)} | {len(new)} | {', '.join(some)} |")
        previous = release
    return "\n".join(rows)


def unimportant(surface, name):
    """Leaks of imports (typing, modules, tvm) are counted in no column."""
    entry = surface.entry(LANGUAGE, name)
    return entry.kind in ("module", "value")


def rewritten(text):
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main():
    text = README.read_text(encoding="utf-8")
    wanted = rewritten(text)
    if "--check" in sys.argv[1:]:
        if text != wanted:
            print("README.md: the release table is out of date; run release_table.py", file=sys.stderr)
            return 1
        return 0
    README.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
