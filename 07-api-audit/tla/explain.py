"""Word a Problem: when the name was there, what replaces it, why, and what --fix may write."""

import difflib
import re

from . import curated
from .findings import SEVERITY, Edit, Finding
from .rules import MEMBER_OWNERS, home, wrong_call
from .surface import LANGUAGE, Ref, having, load, releases, version_key


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
        message += f" ({slot.why})" if slot.why else ""
        known = takes(surface, module, name, slot.before)
        fix = "pass it by keyword" if known or slot.old_if == "any" else f"drop it, or pass {slot.now}"
    elif code == "TLA006":
        to, keyword = found.detail
        message = f"{shown}({keyword}) is deprecated" if keyword else f"{shown} is deprecated"
        fix = "use " + to
    elif code == "TLA008":
        message, fix = explain_member(found, surface)
    elif code == "TLA009":
        message = f"inside class {found.detail} Python reads {shown} as {short(module, '_' + found.detail + name)}"
        fix = f"bind it outside the class, or getattr(T, {name!r})"
    shown_name = shown + (f"({found.detail}=)" if code == "TLA003" else "")
    return Finding(path, line, col, code, SEVERITY[code], shown_name, linked(message), fix and linked(fix), edit)


def linked(text):
    """`#1234` in full, since GitHub would take it for an issue of the repository that is audited."""
    return re.sub(r"(?<!\w)#(\d+)", r"tile-ai/tilelang#\1", text)


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
    shown = short(*module.rsplit(".", 1)) + "." + name if "." in module else short(module, name)
    owner = module.rsplit(".", 1)
    if module in MEMBER_OWNERS:
        had = present(module, name)
        names = surface.names(module) or {}
    else:
        had = having(lambda s: s.locate(Ref(owner[0], (owner[1], name))).what == "member")
        entry = surface.entry(*owner)
        names = entry.members if entry else ()
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
