"""Is a use right in a release? A use, a surface, and a Problem or None; where anything is not known, None.

Nothing is worded here: --compat asks every release, and only wants to know.
"""

import ast

from . import curated
from .findings import Problem
from .surface import EXISTING, LANGUAGE, Ref, load, releases, version_key
from .syntax import ATTRIBUTE, CALL, IMPORT

MEMBER_OWNERS = frozenset(["#JITKernel", "#Profiler"])


def problem(use, surface):
    """The Problem of a use in one release, or None. Where anything is not known, None."""
    found = None
    for ref in use.refs:
        each = problem_of(ref, use, surface)
        if each is None:
            return None
        found = found or each
    if found is None or dead(use.guards, surface):
        return None
    return found


def dead(guards, surface):
    """Whether a use cannot be reached in this release: it stands behind a hasattr that answers otherwise."""
    for ref, wanted in guards:
        what = surface.locate(ref).what
        if what != "opaque" and (what in EXISTING) is not wanted:
            return True
    return False


def problem_of(ref, use, surface):
    """The Problem if a use means this Ref."""
    place = surface.locate(ref)
    what = place.what
    if what == "opaque":
        return None
    if what == "no module":
        if use.how == IMPORT and not ref.attrs and IMPORT not in use.silent:
            return Problem("TLA007", place.module, "")
        return None  # said once, for the module, where it is imported
    if what in ("no name", "no member"):
        if use.how == IMPORT:
            if IMPORT in use.silent:
                return None
            return Problem(code_of_import(place), place.module, place.name)
        if place.index < use.given or ATTRIBUTE in use.silent:
            return None
        if what == "no member" or place.module in MEMBER_OWNERS:
            return Problem("TLA008", place.module, place.name)
        return Problem("TLA001", place.module, place.name)
    if use.how == IMPORT:
        return None
    name = ref.attrs[-1] if ref.attrs else ""
    if use.mangled and name.startswith("__") and not name.endswith("__") and ATTRIBUTE not in use.silent:
        if place.index == len(ref.attrs) - 1 and use.given < len(ref.attrs):
            return Problem("TLA009", place.module, name, use.mangled)
    if what == "found":
        if use.how == CALL and CALL not in use.silent:
            wrong = wrong_call(place, use.call)
            if wrong:
                return wrong
        return questionable(place, use, surface)
    if what == "member":
        old = curated.DEPRECATED.get(("tilelang." + place.module.rpartition(".")[2], place.name))
        if old and version_key(old.since) <= version_key(surface.release):
            return Problem("TLA006", place.module, place.name, (old.to, ""))
    return None


def code_of_import(place):
    """`from tilelang.language import x` misses a name of T; from anywhere else it is an import that went."""
    return "TLA001" if place.module == LANGUAGE or place.module.endswith(".language") else "TLA007"


def wrong_call(place, call):
    """TLA003 or TLA004 for a call that the signature refuses."""
    entry = place.entry
    if entry.parameters is None or entry.kind not in ("function", "class", "object", "dtype"):
        return None
    parameters = {p.name: p for p in entry.parameters}
    kinds = {p.kind for p in entry.parameters}
    slots = [p for p in entry.parameters if p.kind in ("positional", "either")]
    positional = call.positional
    if entry.accepts_dtype and slots and slots[0].name == "dtype" and any(k == "dtype" for k, _, _ in call.keywords):
        positional += 1  # the wrapper puts dtype= before the positional arguments
        keywords = [each for each in call.keywords if each[0] != "dtype"]
    else:
        keywords = call.keywords
    filled = {p.name for p in slots[:positional]}
    for keyword, line, col in keywords:
        known = parameters.get(keyword)
        if known is None or known.kind in ("positional", "args", "kwargs"):
            if "kwargs" not in kinds and not (keyword == "dtype" and entry.accepts_dtype):
                return Problem("TLA003", place.module, place.name, keyword, line, col)
        elif keyword in filled and not call.starred:
            return Problem("TLA004", place.module, place.name, ("twice", keyword), line, col)
    if "args" not in kinds and positional > len(slots):
        return Problem("TLA004", place.module, place.name, ("many", len(slots), positional))
    if not call.starred and not call.double_starred:
        given = filled | {keyword for keyword, _, _ in call.keywords}
        missing = [p.name for p in entry.parameters if p.required and p.name not in given]
        if missing:
            return Problem("TLA004", place.module, place.name, ("few", missing))
    return None


def questionable(place, use, surface):
    """TLA005 or TLA006 for a use that works."""
    key = home(place.module), place.name
    release = version_key(surface.release)
    if use.call is not None:
        for slot in curated.SLOTS.get(key, ()):
            if version_key(slot.since) <= release and shows_old_meaning(slot, use.call):
                return Problem("TLA005", place.module, place.name, slot)
        for keyword, line, col in use.call.keywords:
            old = curated.DEPRECATED.get(key + (keyword,))
            if old and version_key(old.since) <= release:
                return Problem("TLA006", place.module, place.name, (old.to, keyword + "="), line, col)
    if use.how in (CALL, "subscript"):
        if place.entry.deprecated:
            return Problem("TLA006", place.module, place.name, (place.entry.deprecated, ""))
        old = curated.DEPRECATED.get(key)
        if old and version_key(old.since) <= release:
            if old.when == "call":
                return Problem("TLA006", place.module, place.name, (old.to, ""))
            if use.call and use.call.arguments and is_dtype(use.call.arguments[0]):
                return Problem("TLA006", place.module, place.name, (old.to, "dtype, value"))
    return None


def home(module):
    """The CUDA dialect is tilelang.language under another name; the other dialects have rules of their own."""
    return LANGUAGE if module == "tilelang.cuda.language" else module


def shows_old_meaning(slot, call):
    if call.positional <= slot.index:
        return False
    if slot.old_if == "any":
        return not is_none(call.arguments[slot.index])
    argument = call.arguments[0 if slot.old_if == "number first" else slot.index]
    return isinstance(argument, ast.Constant) and isinstance(argument.value, int)


def is_none(node):
    return isinstance(node, ast.Constant) and node.value is None


def is_dtype(node):
    """`"uint32"`, `T.uint32`, `dtype`: surely or by its name a dtype, not a value."""
    if isinstance(node, ast.Attribute):
        entry = load(releases()[-1]).entry(LANGUAGE, node.attr)
        return entry is not None and entry.kind == "dtype"
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def applicable(use, resolved, surface, tested):
    """The problem of a use, unless the file itself asks for the name or brings its own tvm."""
    found = problem(use, surface)
    if found is None:
        return None
    if found.module.split(".")[0] == "tvm" and (not resolved.tilelang or resolved.foreign):
        return None
    if (found.module, found.name) in tested:
        return None
    if found.code in ("TLA003", "TLA004") and (f"{found.module}.{found.name}", "()") in tested:
        return None
    return found


def about(ref, surface):
    """(module, name) of a Ref that is stored to or asked for, as `problem` names it."""
    if ref.attrs and ref.attrs[-1] == "()":
        owner = about(Ref(ref.module, ref.attrs[:-1]), surface)
        return (".".join(owner).rstrip("."), "()")
    place = surface.locate(ref)
    if place.what == "opaque":
        return (str(ref), "")
    return (place.module, place.name)
