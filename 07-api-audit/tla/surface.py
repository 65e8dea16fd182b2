"""What a TileLang release offers: the vendored JSON, read and asked.

The notation of an entry is described in extract_surface.py, which writes it. Nothing here imports TileLang.
"""

import json
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple, Optional

VENDOR = Path(__file__).resolve().parent.parent / "_vendor"
DEFAULT = "0.1.15"  # the release the book is written for

LANGUAGE = "tilelang.language"


class Ref(NamedTuple):
    """A thing named from a module on: `T.gemm` is Ref("tilelang.language", ("gemm",)).

    A module that starts with `#` is the objects of a class: Ref("#JITKernel", ("get_profiler",)).
    """

    module: str
    attrs: tuple = ()

    def dot(self, name):
        return Ref(self.module, self.attrs + (name,))

    def __str__(self):
        return ".".join((self.module.lstrip("#"),) + self.attrs)


class Parameter(NamedTuple):
    name: str
    kind: str  # positional, either, keyword, args, kwargs
    required: bool


class Entry(NamedTuple):
    """One name of a module."""

    kind: str  # function, class, object, dtype, enum, module, value
    parameters: Optional[tuple] = None
    accepts_dtype: bool = False
    deprecated: Optional[str] = None
    target: Optional[str] = None  # of a module: its path
    members: tuple = ()  # of an enum


def version_key(release):
    """0.1.6.post2 sorts after 0.1.6 and before 0.1.7."""
    return tuple(int(number) for number in re.findall(r"\d+", release))


@cache
def releases():
    """The vendored releases, oldest first."""
    found = [folder.name[len("tilelang-v") :] for folder in VENDOR.glob("tilelang-v*") if folder.is_dir()]
    return tuple(sorted(found, key=version_key))


def find_release(text):
    """The vendored release a user means: `0.1.6`, `v0.1.15` and `==0.1.15` are understood; None where there is none."""
    wanted = text.strip().lstrip("=v ")
    if wanted in releases():
        return wanted
    posts = [release for release in releases() if release.split(".post")[0] == wanted]
    return posts[-1] if posts else None


@lru_cache(maxsize=4096)
def parse_entry(text):
    """The notation of one entry, read."""
    if text.startswith("module:"):
        return Entry("module", target=text[len("module:") :])
    head, _, deprecated = text.partition(" deprecated:")
    accepts = head.endswith(" +dtype")
    if accepts:
        head = head[: -len(" +dtype")]
    kind, parenthesis, inside = head.partition("(")
    if not parenthesis:
        return Entry(kind, None, accepts, deprecated or None)
    words = [word for word in inside[:-1].split(", ") if word]
    if kind == "enum":
        return Entry("enum", members=tuple(words))
    return Entry(kind, parse_parameters(words), accepts, deprecated or None)


def parse_parameters(words):
    kind, found = "either", []
    for word in words:
        if word == "/":
            found = [p._replace(kind="positional") for p in found]
        elif word == "*":
            kind = "keyword"
        elif word.startswith("**"):
            found.append(Parameter(word[2:], "kwargs", False))
        elif word.startswith("*"):
            found.append(Parameter(word[1:], "args", False))
            kind = "keyword"
        else:
            found.append(Parameter(word.rstrip("="), kind, not word.endswith("=")))
    return tuple(found)


class Surface:
    """One release."""

    def __init__(self, release):
        self.release = release
        folder = VENDOR / ("tilelang-v" + release)
        self.tables = {}
        for part in ("language", "package", "tvm"):
            self.tables.update(json.loads((folder / (part + ".json")).read_text(encoding="utf-8")))
        paths = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        self.modules = (
            frozenset(paths["tilelang"])
            | frozenset(paths["tvm"])
            | frozenset(path for path in self.tables if not path.startswith("#"))
        )
        self._expanded = {}

    def names(self, module):
        """{name: notation} of a module, shorthand written out; None where its names are not known."""
        if module not in self._expanded:
            self._expanded[module] = self._expand(self.tables.get(module))
        return self._expanded[module]

    def _expand(self, table):
        if table is None:
            return None
        names = dict(self.names(table["="])) if "=" in table else {}
        for gone in table.get("-", ()):
            names.pop(gone, None)
        for name, text in table.items():
            if name.startswith("<"):
                home = name[1:]
                for each in text.split(" "):
                    if home in ("", "dtype"):
                        names[each] = home or "value"
                    else:
                        names[each] = self.tables[home].get(each, "value")
            elif name not in ("=", "-", "*"):
                names[name] = text
        return names

    def is_open(self, module):
        """Whether a module answers names that nobody can list (a module-level __getattr__)."""
        return "*" in self.tables.get(module, ())

    def entry(self, module, name):
        """The Entry of a name in a module, or None."""
        text = (self.names(module) or {}).get(name)
        return None if text is None else parse_entry(text)

    def has_module(self, path):
        return path in self.modules

    def locate(self, ref):
        """Follow a Ref as Python would. Returns a Place."""
        module, attrs = ref
        if module[0] != "#" and module not in self.modules:
            return self._missing_module(module)
        for index, name in enumerate(attrs):
            names = self.names(module)
            below = module + "." + name
            if names is not None and name in names:
                entry = parse_entry(names[name])
                if entry.kind == "module":
                    if entry.target not in self.modules:
                        return OPAQUE
                    if below in self.modules and below != entry.target:
                        return self._either(entry.target, below, attrs, index + 1)
                    module = entry.target
                    continue
                if entry.kind == "enum" and index + 1 < len(attrs):
                    member = attrs[index + 1]
                    if member in entry.members:
                        return Place("member", module + "." + name, member, index + 1, entry)
                    if not entry.members or member in ENUM_BUILT_INS or member[:1] == "_":
                        return OPAQUE
                    return Place("no member", module + "." + name, member, index + 1, None)
                if index + 1 < len(attrs):
                    return Place("tail", module, name, index, entry)
                return Place("found", module, name, index, entry)
            if below in self.modules:
                module = below
                continue
            if names is None or self.is_open(module) or is_private(name):
                return OPAQUE
            return Place("no name", module, name, index, None)
        return Place("module", module, "", len(attrs), None)

    def _either(self, attribute, submodule, attrs, index):
        """An attribute that is one module, beside a submodule that is another: the order of imports decides."""
        rest = attrs[index:]
        places = [self.locate(Ref(path, rest)) for path in (attribute, submodule)]
        best = next((place for place in places if place.what in EXISTING or place is OPAQUE), places[0])
        return best if best is OPAQUE else best._replace(index=best.index + index)

    def _missing_module(self, path):
        parts = path.split(".")
        if any(part.startswith("_") for part in parts) or (parts[0] == "tvm" and ".".join(parts[:3]) in self.modules):
            return OPAQUE
        for end in range(1, len(parts)):
            owner = ".".join(parts[:end])
            if owner not in self.modules:
                return Place("no module", path, "", 0, None)
            if self.is_open(owner):
                return OPAQUE
        return Place("no module", path, "", 0, None)


class Place(NamedTuple):
    """Where following a Ref ended.

    found: at a name; tail: past a name, at an attribute of it that is not judged; member: at a member of an enum;
    module: at a module; no name, no member, no module: at nothing; opaque: where nobody knows.
    """

    what: str
    module: str  # or, of a member, the enum
    name: str
    index: int  # which attribute it ended at
    entry: Optional[Entry]


EXISTING = frozenset(["found", "tail", "member", "module"])
OPAQUE = Place("opaque", "", "", -1, None)
ENUM_BUILT_INS = frozenset(["name", "value", "mro", "names", "values", "bit_length", "conjugate", "real", "imag"]) | frozenset(
    name for name in dir(str) if not name.startswith("_")
)


def is_private(name):
    """`_x` and `__x__` are nobody's business; `__exp` is a public name of T."""
    return (name.startswith("_") and not name.startswith("__")) or (name.startswith("__") and name.endswith("__"))


@cache
def load(release):
    return Surface(release)


def having(ref_exists):
    """The releases, oldest first, of which `ref_exists(surface)` is true."""
    return [release for release in releases() if ref_exists(load(release))]
