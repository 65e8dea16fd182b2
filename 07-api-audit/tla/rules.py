"""Is a use right in a release? From uses and a surface to findings.

`problem` decides, with one Surface and nothing else; `explain` words it, and looks into the other releases for when
a name or keyword was there. `--compat` asks `problem` of every release and never words anything.
"""

import difflib
from collections import namedtuple
from typing import NamedTuple, Optional

from . import curated
from .resolve import ATTRIBUTE, CALL, IMPORT
from .surface import EXISTING, LANGUAGE, Ref, having, load, releases, version_key

CODES = {
    "TLA000": ("error", "file does not parse or decode"),
    "TLA001": ("error", "unknown name"),
    "TLA002": ("error", "name is gone"),
    "TLA003": ("error", "unknown or removed keyword"),
    "TLA004": ("error", "wrong number or kind of arguments"),
    "TLA005": ("warning", "positional argument changed its meaning"),
    "TLA006": ("warning", "deprecated"),
    "TLA007": ("error", "import or module is gone or moved"),
    "TLA008": ("error", "unknown member"),
    "TLA009": ("error", "name mangled in a class body"),
    "TLA010": ("note", "file is written for a fork"),
}
SEVERITY = {code: severity for code, (severity, _) in CODES.items()}
# What a fork explains: everything that is about the surface of upstream TileLang.
EXPLAINED_BY_FORK = frozenset(["TLA001", "TLA002", "TLA003", "TLA004", "TLA005", "TLA006", "TLA007", "TLA008"])
MEMBER_OWNERS = frozenset(["#JITKernel", "#Profiler"])


class Problem(NamedTuple):
    """What is wrong, before it is worded. `module` and `name` say where the surface and the use part."""

    code: str
    module: str
    name: str
    detail: object = None  # the keyword, the parameter, the Slot, the Old ...
    line: int = 0  # of the keyword, where that is the place
    col: int = 0


class Finding(NamedTuple):
    path: str
    line: int
    col: int
    code: str
    severity: str
    name: str
    message: str
    fix: Optional[str] = None
    edit: object = None  # an Edit, where --fix may write it


# (line, first byte, last byte, old text, new text): one piece of one line
Edit = namedtuple("Edit", "line start end old new")


# --- deciding --------------------------------------------------------------------------------------------------


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
    if ref.module.startswith("tvm") and ref.module.split(".")[0] == "tvm" and not surface.has_module("tvm"):
        return None
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
                return Problem("TLA006", place.module, place.name, (old.to, keyword), line, col)
    if use.how in (CALL, "subscript"):
        if place.entry.deprecated:
            return Problem("TLA006", place.module, place.name, (place.entry.deprecated, ""))
        old = curated.DEPRECATED.get(key)
        if old and version_key(old.since) <= release:
            if old.when == "call" or (use.call and use.call.arguments and is_dtype(use.call.arguments[0], use)):
                return Problem("TLA006", place.module, place.name, (old.to, ""))
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
    return isinstance(getattr(argument, "value", None), int)


def is_none(node):
    return hasattr(node, "value") and getattr(node, "kind", 0) is None and node.value is None


def is_dtype(node, use):
    """`"uint32"`, `T.uint32`, `dtype`: surely or by its name a dtype, not a value."""
    if isinstance(getattr(node, "value", None), str):
        return True
    name = getattr(node, "attr", "")
    if not name:
        return False
    entry = load(releases()[-1]).entry(LANGUAGE, name)
    return bool(entry) and entry.kind == "dtype"


# --- wording ---------------------------------------------------------------------------------------------------


def short(module, name):
    """`T.copy` reads better than `tilelang.language.copy`."""
    if module == LANGUAGE:
        return "T." + name if name else module
    return (module.lstrip("#") + "." + name).rstrip(".")


def explain(found, use, surface, path):
    """The Finding for a Problem."""
    code, module, name = found.code, found.module, found.name
    shown = short(module, name)
    line, col = (found.line, found.col) if found.line else (use.line, use.col)
    fix, edit = None, None
    if code == "TLA001" and was_module(module, name):
        code = "TLA007"
    if code == "TLA001":
        code, message, fix, edit = explain_missing(found, use, surface)
    elif code == "TLA007":
        message, fix, edit = explain_import(found, use, surface)
    elif code == "TLA003":
        message, fix, edit = explain_keyword(found, surface)
    elif code == "TLA004":
        message, fix = explain_arguments(found, surface)
    elif code == "TLA005":
        slot = found.detail
        message = f"argument {slot.index + 1} of {shown} has meant {slot.now} since {slot.since}, before: {slot.before}"
        known = takes(surface, module, name, slot.before)
        fix = "pass it by keyword" if known or slot.old_if == "any" else f"drop it, or pass {slot.now}"
    elif code == "TLA006":
        to, keyword = found.detail
        message = f"{shown}({keyword}=) is deprecated" if keyword else f"{shown} is deprecated"
        fix = "use " + to
    elif code == "TLA008":
        message, fix = explain_member(found, surface)
    elif code == "TLA009":
        message = f"inside class {found.detail} Python reads {shown} as {short(module, '_' + found.detail + name)}"
        fix = f"bind it outside the class, or getattr(T, {name!r})"
    shown_name = shown + (f"({found.detail}=)" if code == "TLA003" else "")
    return Finding(path, line, col, code, SEVERITY[code], shown_name, message, fix, edit)


def present(module, name):
    """The releases that have a name in a module, oldest first."""
    return having(lambda s: s.locate(Ref(module, (name,) if name else ())).what in ("found", "module"))


def was_module(module, name):
    return bool(having(lambda s: s.has_module(f"{module}.{name}")))


def timeline(shown, had, surface):
    """When a name was there, seen from a release: `T.x is gone since 0.1.9 (last in 0.1.8)`."""
    now = version_key(surface.release)
    before = [r for r in had if version_key(r) < now]
    after = [r for r in had if version_key(r) > now]
    if before:
        gone = next(r for r in releases() if version_key(r) > version_key(before[-1]))
        back = f", back in {after[0]}" if after else ""
        return f"{shown} is gone since {gone} (last in {before[-1]}{back})"
    if after:
        return f"{shown} is not in {surface.release}; it came with {after[0]}"
    return ""


def explain_missing(found, use, surface):
    """TLA001 or TLA002: (code, message, fix, edit)."""
    module, name = found.module, found.name
    shown = short(module, name)
    had = present(module, name)
    rename = curated.NAMES.get((home(module), name))
    message = timeline(shown, had, surface)
    gone = bool(had) and version_key(had[0]) < version_key(surface.release)
    if gone:
        edit = None
        if rename:
            message += f": {rename.why}" if rename.why else ""
            edit = rename_edit(rename, had, use, surface, module)
        return "TLA002", message, "use " + rename.to if rename else elsewhere(module, name, surface), edit
    if message:
        return "TLA001", message, None, None
    return "TLA001", never(shown), suggestion(module, name, surface), None


def never(shown):
    return f"no release of TileLang from {releases()[0]} to {releases()[-1]} has {shown}"


def elsewhere(module, name, surface):
    """Another public module that has a name today, for a name that went."""
    found = [
        path
        for path in sorted(surface.tables)
        if path != module
        and path.startswith("tilelang.")
        and not path.endswith(".language")
        and "(" in str(surface.tables[path].get(name, ""))
    ]
    return f"{name} is in {found[0]}" if found and len(found) <= 3 else None


def suggestion(module, name, surface):
    """A name that is spelled much alike. It is only ever a question."""
    names = surface.names(module) or {}
    by_case = {}
    for each in names:
        by_case.setdefault(each.lower(), each)
    close = difflib.get_close_matches(name.lower(), by_case, 1, 0.75)
    return f"did you mean {short(module, by_case[close[0]])}?" if close else None


def explain_import(found, use, surface):
    """TLA007: (message, fix, edit)."""
    module, name = found.module, found.name
    whole = f"{module}.{name}" if name else module
    had = present(module, name)
    message = timeline(whole, had, surface) or never(whole)
    if had and module.split(".")[0] == "tvm":
        message += f", in the tvm that TileLang {surface.release} bundles"
    imported = [alias.name for alias in getattr(use.node, "names", ())] if not name else [name]
    moved = {curated.MOVED.get((module, each)) for each in imported}
    if len(moved) == 1 and None not in moved and surface.has_module(next(iter(moved))):
        to = moved.pop()
        edit = None
        if not name:  # the whole statement moves
            start = use.col - 1 + len("from ")
            edit = Edit(use.line, start, start + len(module), module, to)
        return message, f"from {to} import {', '.join(imported)}", edit
    to, why = next((curated.MODULES[p] for p in prefixes(whole) if p in curated.MODULES), ("", ""))
    if to or why:
        return message + (f": {why}" if why else ""), to and "use " + to, None
    fix = elsewhere(module, name, surface) if name else None
    return message, fix or (suggestion(module, name, surface) if name and not had else None), None


def prefixes(path):
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]


def explain_keyword(found, surface):
    module, name, keyword = found.module, found.name, found.detail
    shown = short(module, name)
    had = having(lambda s: takes(s, module, name, keyword))
    message = timeline(f"{shown}({keyword}=)", had, surface) or f"{shown} takes no keyword {keyword}"
    to, new = curated.KEYWORDS.get((home(module), name, keyword), ("", ""))
    if to:
        edit = Edit(found.line, found.col - 1, found.col - 1 + len(keyword), keyword, new) if new else None
        if new and not takes(surface, module, name, new):
            edit = None
        return message, "use " + to if not to.startswith("drop") else to, edit
    entry = surface.entry(module, name)
    words = [p.name for p in entry.parameters if p.kind in ("either", "keyword")]
    close = difflib.get_close_matches(keyword, words, 1, 0.7)
    return message, f"did you mean {close[0]}=?" if close else "it takes " + (", ".join(words) or "none"), None


def takes(surface, module, name, keyword):
    """Whether a function has a parameter of that name that can be passed by keyword."""
    place = surface.locate(Ref(module, (name,)))
    entry = place.entry
    if place.what != "found" or entry is None or entry.parameters is None:
        return False
    return any(p.name == keyword and p.kind in ("either", "keyword") for p in entry.parameters)


def explain_arguments(found, surface):
    shown = short(found.module, found.name)
    what, rest = found.detail[0], found.detail[1:]
    entry = surface.entry(found.module, found.name)
    if what == "twice":
        return f"{shown} gets {rest[0]} twice: by position and by keyword", None
    if what == "few":
        return f"{shown} needs " + ", ".join(rest[0]), None
    by_keyword = [p.name for p in entry.parameters if p.kind == "keyword"]
    message = f"{shown} takes {rest[0]} positional argument{'s' * (rest[0] != 1)}, not {rest[1]}"
    return message, "by keyword only: " + ", ".join(by_keyword) if by_keyword else None


def explain_member(found, surface):
    module, name = found.module, found.name
    shown = short(module, name)
    owner = module.rsplit(".", 1)
    if module in MEMBER_OWNERS:
        had = present(module, name)
        names = surface.names(module) or {}
    else:
        had = having(lambda s: s.locate(Ref(owner[0], (owner[1], name))).what == "member")
        entry = surface.entry(*owner)
        names = entry.members if entry else ()
    shown = shown.replace("T.GemmWarpPolicy", "GemmWarpPolicy")
    message = timeline(shown, had, surface) or f"{shown} does not exist"
    close = difflib.get_close_matches(name, names, 1, 0.6)
    if len(names) <= 8 and names:
        return message, "there are " + ", ".join(sorted(names))
    return message, f"did you mean {close[0]}?" if close else None


# --- what --fix may write --------------------------------------------------------------------------------------


def rename_edit(rename, had, use, surface, module):
    """An Edit of `T.old(` to `T.new(`, if the call means the same in the last release with it and in this one."""
    if not rename.name or use.node is None or not hasattr(use.node, "attr"):
        return None
    new = surface.entry(module, rename.name)
    old = load(had[-1]).entry(module, use.node.attr)
    if new is None or old is None:
        return None
    if not rename.bare:
        call = use.call
        if call is None or call.starred or call.double_starred or not old.parameters or not new.parameters:
            return None
        slots_before = [p.name for p in old.parameters if p.kind in ("positional", "either")]
        slots_now = [p.name for p in new.parameters if p.kind in ("positional", "either")]
        if slots_before[: call.positional] != slots_now[: call.positional] or len(slots_now) < call.positional:
            return None
        place = surface.locate(Ref(module, (rename.name,)))
        if wrong_call(place, call):
            return None
    node = use.node
    start = node.end_col_offset - len(node.attr)
    return Edit(node.end_lineno, start, node.end_col_offset, node.attr, rename.name)


# --- a file ----------------------------------------------------------------------------------------------------


class FileFindings(NamedTuple):
    findings: list
    about: list  # for each finding the (module, name) it is about, to be compared with what the whole set stores


def check(resolved, surface, path):
    """The findings of one file in one release."""
    tested = {about(ref, surface) for ref in resolved.tested}
    findings, abouts = [], []
    seen = set()
    for use in resolved.uses:
        found = applicable(use, resolved, surface, tested)
        if found is None or (found.code == "TLA005" and not runs_before(found.detail.since, resolved)):
            continue
        key = (found.code, found.module, found.name, found.line or use.line, found.col or use.col)
        if key in seen:
            continue
        seen.add(key)
        findings.append(explain(found, use, surface, path))
        abouts.append((found.module, found.name))
    return FileFindings(findings, abouts)


def runs_before(since, resolved):
    """Whether a file can run under any release before one. If not, it was written for the new meaning."""
    for release in releases():
        if version_key(release) < version_key(since):
            surface = load(release)
            tested = {about(ref, surface) for ref in resolved.tested}
            found = (applicable(use, resolved, surface, tested) for use in resolved.uses)
            if not any(each is not None and SEVERITY[each.code] == "error" for each in found):
                return True
    return False


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


def fork(findings, abouts, path):
    """One TLA010 in place of all that a fork explains, if the file uses a name only a fork has."""
    for finding, (module, name) in zip(findings, abouts):
        if finding.code in ("TLA001", "TLA007"):
            found = curated.fork_of(module, name)
            if found:
                count = sum(f.code in EXPLAINED_BY_FORK for f in findings)
                message = (
                    f"this file is written for {found.title}, a fork: it uses {finding.name} "
                    f"({count} use{'s' * (count != 1)} not compared with upstream TileLang)"
                )
                note = Finding(path, finding.line, finding.col, "TLA010", "note", finding.name, message, found.url)
                return [note] + [f for f in findings if f.code not in EXPLAINED_BY_FORK]
    return findings
