"""From paths to parsed files: .py, the python fences of .md, the code cells of .ipynb.

A file is read as bytes, and parsed only if it mentions tilelang. Whatever the kind, the result is one list of
statements whose line numbers are those of the file, so that everything behind this module is the same for all.
"""

import ast
import io
import json
import os
import re
import tokenize
import warnings
from pathlib import Path
from typing import NamedTuple

SUFFIXES = (".py", ".md", ".ipynb")
NEEDLE = b"tilelang"
NEVER_ENTERED = frozenset(
    ".git .hg .svn .venv venv .tox .nox .eggs node_modules __pycache__ .mypy_cache .ruff_cache .pytest_cache "
    ".ipynb_checkpoints build dist".split()
)


class Broken(NamedTuple):
    """Why a piece does not parse or decode."""

    line: int
    col: int
    reason: str
    whole: bool  # the whole file, not one fence or cell


class Source(NamedTuple):
    """One parsed file."""

    path: str
    kind: str  # .py, .md, .ipynb
    lines: list  # the text by line, for comments and fixes
    body: list  # statements
    broken: list


# --- which files -----------------------------------------------------------------------------------------------


class Ignored:
    """Patterns as in .gitignore, relative to a folder, and those of the folders around it."""

    def __init__(self, base, patterns, parent=None):
        self.base = os.path.abspath(base)
        self.parent = parent
        self.rules = [rule(line.rstrip()) for line in patterns if line.strip() and not line.startswith("#")]

    def __call__(self, path, is_folder):
        """The last rule that matches decides; the patterns of a folder go before those around it."""
        relative = os.path.relpath(path, self.base).replace(os.sep, "/")
        for negated, folder_only, expression in reversed(self.rules):
            if (is_folder or not folder_only) and expression.fullmatch(relative):
                return not negated
        return self.parent(path, is_folder) if self.parent else False


def rule(line):
    """(negated, folders only, expression) of one line of a .gitignore."""
    negated = line.startswith("!")
    pattern = line[1:] if negated else line
    folder_only = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    anywhere = "" if "/" in pattern else "(?:.*/)?"
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^\]]+\]|\\?.", pattern.lstrip("/"))
    return negated, folder_only, re.compile(anywhere + "".join(map(wildcard, tokens)))


def wildcard(token):
    fixed = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in fixed:
        return fixed[token]
    if len(token) > 2 and token.startswith("["):
        return "[" + token[1:-1].replace("\\", r"\\").replace("!", "^", token[1] == "!") + "]"
    return re.escape(token[-1])


def gitignore(folder, parent):
    try:
        with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:
            return Ignored(folder, file, parent)
    except OSError:
        return parent


def above(folder, ignored):
    """What applies to a folder from outside: what is given, and the .gitignore files up to the repository's root."""
    here = Path(folder).resolve()
    around = []
    for place in here.parents:
        if (here / ".git").exists():
            break
        around.append(str(place))
        if (place / ".git").exists():
            break
    else:
        around = []
    found = ignored
    for place in reversed(around):
        found = gitignore(place, found)
    # A folder that is named on the command line is read, whatever the repository around it ignores.
    return ignored if found and found(str(here), True) else found


def walk(paths, ignored=None):
    """Yield the files below the paths, each once, in a stable order; names on the command line are always read."""
    seen = set()
    for path in paths:
        for file in walk_folder(path, above(path, ignored)) if os.path.isdir(path) else [path]:
            key = os.path.realpath(file)
            if key not in seen:
                seen.add(key)
                yield file


def walk_folder(folder, ignored):
    ignored = gitignore(folder, ignored)
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    below = []
    for entry in entries:
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
        except OSError:
            continue
        if is_folder:
            if entry.name not in NEVER_ENTERED and not entry.name.endswith(".egg-info"):
                below.append(entry)
        elif entry.name.endswith(SUFFIXES) and not (ignored and ignored(os.path.abspath(entry.path), False)):
            yield entry.path
    for entry in below:
        if not (ignored and ignored(os.path.abspath(entry.path), True)):
            yield from walk_folder(entry.path, ignored)


# --- one file --------------------------------------------------------------------------------------------------


def parse(path, data):
    """The Source of a file's bytes."""
    suffix = os.path.splitext(path)[1]
    kind = suffix if suffix in SUFFIXES else ".py"
    try:
        text = decode(data) if kind == ".py" else data.decode("utf-8-sig")
    except (SyntaxError, UnicodeDecodeError, LookupError) as reason:
        line = data[: getattr(reason, "start", 0)].count(b"\n") + 1
        return Source(path, kind, [], [], [Broken(line, 1, "cannot be decoded: " + str(reason), True)])
    if kind == ".py":
        lines = text.split("\n")
        pieces = [(1, text)]
    elif kind == ".md":
        lines = text.split("\n")
        pieces = list(fences(lines))
    else:
        try:
            pieces = list(cells(text))
        except (ValueError, KeyError, TypeError, AttributeError) as reason:
            return Source(path, kind, [], [], [Broken(1, 1, "is not a notebook: " + str(reason), True)])
        lines = []
        for first, piece in pieces:
            lines += [""] * (first - 1 - len(lines)) + piece.split("\n")
    body, broken = [], []
    for first, piece in pieces:
        tree = parse_piece(piece, first, kind == ".py")
        if isinstance(tree, Broken):
            broken.append(tree)
        else:
            body += tree.body
    return Source(path, kind, lines, body, broken)


def decode(data):
    """The text of Python source, in the encoding it declares; a byte order mark is dropped."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def parse_piece(piece, first, whole):
    flags = ast.PyCF_ONLY_AST | (0 if whole else ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compile("\n" * (first - 1) + piece, "<source>", "exec", flags, dont_inherit=True)
    except SyntaxError as reason:
        return Broken(reason.lineno or first, reason.offset or 1, "does not parse: " + str(reason.msg), whole)
    except (ValueError, RecursionError, MemoryError) as reason:
        return Broken(first, 1, f"does not parse: {reason or type(reason).__name__}", whole)


FENCE = re.compile(r"^(\s*(?:>\s?)*)(`{3,}|~{3,})\s*\{?\.?(\w*)")
SKIPPED_FENCE = re.compile(r"<!--\s*tla:\s*skip\s*-->")


def fences(lines):
    """(first line, text) of each python fence. `<!-- tla: skip -->` on the line before one leaves it out."""
    opened, mark, prefix, block = 0, "", "", []
    for number, line in enumerate(lines, 1):
        if not opened:
            match = FENCE.match(line)
            if match and match.group(3).lower() in ("python", "py", "python3", "pycon"):
                before = next((text for text in reversed(lines[: number - 1]) if text.strip()), "")
                opened, mark, prefix, block = number, match.group(2), match.group(1), []
                skip = bool(SKIPPED_FENCE.search(before))
            elif match:
                opened, mark, prefix, block, skip = number, match.group(2), match.group(1), None, True
        elif line.replace(">", " ").strip().startswith(mark) and not line.replace(">", " ").strip().strip(mark[0]):
            if not skip:
                yield opened + 1, "\n".join(prompts_removed(block))
            opened = 0
        elif block is not None:
            block.append(line[len(prefix) :] if line.startswith(prefix) else line.lstrip())


def prompts_removed(block):
    """Drop `>>>` and the output between prompts, keeping one line for each line."""
    if not any(line.startswith(">>>") for line in block):
        return block
    return [line[4:] if line.startswith((">>> ", "... ")) else "" for line in block]


def cells(text):
    """(first line, text) of each code cell, placed on the lines of the notebook's file where it is written."""
    notebook = json.loads(text)
    position, virtual = 0, 1
    for cell in notebook["cells"]:
        if cell.get("cell_type") != "code":
            continue
        source = cell.get("source", [])
        rows = source if isinstance(source, list) else source.splitlines(True)
        if not rows:
            continue
        first = None
        for literal in (json.dumps(rows[0], ensure_ascii=False), json.dumps(rows[0])):
            found = text.find(literal, position)
            if found >= 0 and isinstance(source, list):
                position = found + len(literal)
                first = text.count("\n", 0, found) + 1
                break
        first = max(first or virtual, virtual)
        code = "".join(rows)
        virtual = first + code.count("\n") + 1
        magic = re.match(r"\s*%%(\w+)", code)
        if magic and magic.group(1) not in ("time", "timeit", "capture", "prun"):
            continue
        yield first, "\n".join(magics_removed(code.split("\n")))


def magics_removed(rows):
    """IPython's own lines (`%load_ext`, `!pip`, `thing?`) become `pass`, at the same indentation."""
    result = []
    for row in rows:
        bare = row.lstrip()
        if bare.startswith(("%", "!")) or (bare.endswith("?") and not bare.startswith("#")):
            row = row[: len(row) - len(bare)] + "pass"
        result.append(row)
    return result
