"""Tables: for a terminal, and in Markdown files, where a command writes them and a test compares, so that none goes stale.

In a file a table stands between `<!-- NAME: written by COMMAND -->` and `<!-- /NAME -->`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import rich.table
from rich.console import Console


@dataclass(frozen=True)
class Table:
    """Cells as text, one sequence a row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = ["| " + " | ".join(self.columns) + " |", "|" + " --- |" * len(self.columns)]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in self.rows]
        return "\n".join(lines)

    def rich(self, title: str | None = None) -> rich.table.Table:
        table = rich.table.Table(title=title, title_justify="left")
        for column in self.columns:
            table.add_column(column, overflow="fold")
        for row in self.rows:
            table.add_row(*(cell.replace("`", "") for cell in row))
        return table


def console() -> Console:
    """A console on which these tables can be read: as wide as the terminal, and never so narrow that words break."""
    return Console(width=max(Console().width, 150))


def replace(text: str, name: str, table: Table) -> str:
    """`text` with `table` between the markers of `name`. Raises ValueError when the markers are missing."""
    pattern = re.compile(rf"(<!-- {re.escape(name)}: [^\n]*-->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no markers for the table {name!r}: <!-- {name}: written by ... --> and <!-- /{name} -->")
    return pattern.sub(lambda found: f"{found[1]}\n{table.markdown()}\n\n{found[2]}", text)


def write(path: Path, tables: dict[str, Table]) -> None:
    """Write every table (name -> table) into the file."""
    text = path.read_text()
    for name, table in tables.items():
        text = replace(text, name, table)
    path.write_text(text)


def stale(path: Path, tables: dict[str, Table]) -> list[str]:
    """Names of the tables that the file states otherwise."""
    text = path.read_text()
    return [name for name, table in tables.items() if replace(text, name, table) != text]
