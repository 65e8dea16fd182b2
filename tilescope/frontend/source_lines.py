"""Which Python line each line of generated CUDA comes from.

TileLang writes `#line N "kernel.py"` before a statement. A C compiler counts on from there, so of a statement that takes
several C lines only the first gets the right number; and statements that a library function made (a reduction) point into
TileLang's own files.
"""

import importlib.util
import re
from functools import cache
from pathlib import Path

_DIRECTIVE = re.compile(r'\s*#line\s+(\d+)\s+"(.*)"\s*$')


@cache
def _library_folder() -> str:
    spec = importlib.util.find_spec("tilelang")
    return str(Path(spec.origin).parent) if spec and spec.origin else "tilelang"


def _is_users(file: str) -> bool:
    return not file.startswith(_library_folder())


def pin_lines(source: str) -> str:
    """Return CUDA text in which every line of a function body carries the line of the user's file that made it.

    source: CUDA text with `#line` directives (text without any is returned as it is, and so is what follows a directive that
    names a .cu file: a hand-written kernel whose lines count on). A line that comes from TileLang's own
    files counts as the user's line before it; lines at the top of a function, before any directive, as the first one after.
    """
    lines = source.split("\n")
    if not any(_DIRECTIVE.match(line) for line in lines):
        return source
    pinned: list[str] = []
    current: str | None = None
    continued = counting = False
    for number, line in enumerate(lines):
        if found := _DIRECTIVE.match(line):
            counting = found[2].endswith(".cu")
            if counting:
                pinned.append(line)
            elif _is_users(found[2]):
                current = line.strip()
            continue
        code = line.strip()
        plain = bool(code) and not code.startswith("#") and not continued and not counting
        if plain and line.startswith((" ", "\t", "}")):
            current = current or _first_users(lines, number)
            # A pragma stands right before its loop: the directive goes above both.
            if current and pinned and pinned[-1].lstrip().startswith("#pragma"):
                file_line = _DIRECTIVE.match(current)
                pinned.insert(len(pinned) - 1, f'#line {max(int(file_line[1]) - 1, 1)} "{file_line[2]}"')
            elif current:
                pinned.append(current)
        pinned.append(line)
        if line.startswith("}"):
            current = None
        continued = line.endswith("\\")
    return "\n".join(pinned)


def _first_users(lines: list[str], start: int) -> str | None:
    """The first directive after `start` that points into the user's file, within the same function."""
    for line in lines[start:]:
        found = _DIRECTIVE.match(line)
        if found and _is_users(found[2]):
            return line.strip()
        if line.startswith("}"):
            return None
    return None
