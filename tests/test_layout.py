"""Where things may be: rooms import only what lies below them, nothing goes round in a circle, and few files lie flat."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tilescope"
# From the ground up; rooms of one row lie beside each other and import nothing of each other.
FLOORS = (
    ("errors", "cache"),
    ("frontend",),
    ("analysis",),
    ("emulator", "display", "measuring"),
    ("checking",),
    ("book",),
    ("cli",),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
MOST_FLAT = 8


def modules(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.py")) if not path.name.startswith("test_")]


def imported(path: Path, package: tuple[str, ...]) -> set[tuple[str, ...]]:
    """What the module at `path` in `package` imports of tilescope, as parts of dotted names; imports in functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {tuple(alias.name.split(".")) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = (*start, *(node.module.split(".") if node.module else ()))
            found |= {(*base, alias.name) for alias in node.names}
    return {name for name in found if name[0] == "tilescope" and len(name) > 1}


def test_no_room_imports_what_lies_above_or_beside_it():
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if path.name.startswith("test_") or parts == ("__init__",):
            continue
        for name in imported(path, ("tilescope", *parts[:-1])):
            here, there = parts[0], name[1]
            assert here == there or FLOOR[here] > FLOOR[there], f"{path.relative_to(ROOT)} imports {'.'.join(name)}"


def test_no_circle_of_imports():
    graph: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if path.name.startswith("test_") or parts[-1] == "__init__":
            continue
        names = imported(path, ("tilescope", *parts[:-1]))
        graph[".".join(parts)] = {
            ".".join(name[1:end])
            for name in names
            for end in (2, 3)
            if (PACKAGE.joinpath(*name[1:end]).with_suffix(".py")).exists()
        }
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("chapter", sorted(path.name for path in ROOT.glob("[0-9][0-9]-*")))
def test_no_circle_of_imports_in_a_chapter(chapter):
    files = {path.stem: path for path in (ROOT / chapter).rglob("*.py") if "_vendor" not in path.parts}
    graph = {}
    for stem, path in files.items():
        tree = ast.parse(path.read_text())
        names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level and node.module}
        names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        graph[stem] = {name for name in names if name in files and name != stem}
    TopologicalSorter(graph).prepare()


def test_few_modules_lie_flat():
    for folder in (PACKAGE, *(path for path in PACKAGE.iterdir() if path.is_dir())):
        assert len(modules(folder)) - (folder / "__init__.py").exists() <= MOST_FLAT, folder


def test_every_room_says_its_question():
    for room in PACKAGE.iterdir():
        if room.is_dir() and room.name != "__pycache__":
            assert ast.get_docstring(ast.parse((room / "__init__.py").read_text())).endswith("?"), room
