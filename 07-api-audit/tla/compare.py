"""Several releases at once: --compat, --diff and --names."""

from collections import Counter
from typing import NamedTuple

from . import curated
from .explain import prefixes, short
from .findings import SEVERITY
from .rules import about, applicable
from .run import is_stored, sources
from .surface import EXISTING, LANGUAGE, Ref, load, releases, version_key
from .syntax import IMPORT


def ranges(chosen):
    """`0.1.3 to 0.1.8, 0.1.12` for releases: runs of neighbours are shortened, holes are not hidden."""
    order, runs = list(releases()), []
    for release in sorted(chosen, key=version_key):
        if runs and order.index(runs[-1][-1]) + 1 == order.index(release):
            runs[-1].append(release)
        else:
            runs.append([release])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


# --- compat ----------------------------------------------------------------------------------------------------


class Compat(NamedTuple):
    path: str
    clean: list  # releases
    limits: list  # (name, [releases in which it fails], line)


def compat(paths, ignored=None, progress=None):
    """A Compat for each file that uses TileLang, and one, with the path "", for all of them. What does not parse is clean under
    no release."""
    surfaces = [load(release) for release in releases()]
    files, stored = [], {surface.release: set() for surface in surfaces}
    for path, source, resolved in sources(paths, ignored, progress=progress):
        failures = {
            broken.reason: ({surface.release: ("", broken.reason) for surface in surfaces}, broken.line)
            for broken in source.broken
            if broken.whole
        }
        if not resolved.uses and not failures:
            continue
        for surface in surfaces:
            stored[surface.release] |= {about(ref, surface) for ref in resolved.stores}
            tested = {about(ref, surface) for ref in resolved.tested}
            for use in resolved.uses:
                found = applicable(use, resolved, surface, tested)
                if found is not None and SEVERITY[found.code] == "error":
                    key = described(found)
                    place = failures.setdefault(key, ({}, found.line or use.line))
                    place[0].setdefault(surface.release, (found.module, found.name))
        files.append((path, failures))
    if progress is not None:
        progress.done()
    results, whole = [], {}
    for path, failures in files:
        limits = []
        for name, (where, line) in failures.items():
            bad = [release for release, about in where.items() if not is_stored(about, stored[release])]
            if bad:
                limits.append((name, bad, line))
                whole.setdefault(name, (set(), f"{path}:{line}"))[0].update(bad)
        results.append(Compat(path, clean(limits), sorted(limits, key=lambda each: each[2])))
    everything = [(name, sorted(bad, key=version_key), where) for name, (bad, where) in whole.items()]
    return results, Compat("", clean(everything), everything)


def clean(limits):
    bad = {release for _, failing, _ in limits for release in failing}
    return [release for release in releases() if release not in bad]


def described(found):
    """The name of what limits, the same for every release in which it does."""
    shown = short(found.module, found.name)
    if found.code == "TLA003":
        return f"{shown}({found.detail}=)"
    if found.code == "TLA004":
        return f"the arguments of {shown}"
    return shown


def compat_text(results, whole):
    rows = []
    for each in results:
        rows.append(f"{each.path}: {' '.join(each.clean) or 'no release'}")
        rows += [f"    not in {ranges(bad)}: {name}, line {line}" for name, bad, line in each.limits]
    if len(results) != 1:
        rows.append(f"all {len(results)} files: {' '.join(whole.clean) or 'no release'}")
        if not whole.clean or len(whole.clean) < len(releases()):
            chosen = explaining(whole.limits)
            rows += [f"    not in {ranges(bad)}: {name}, {where}" for name, bad, where in chosen]
            more = len(whole.limits) - len(chosen)
            rows += [f"    and {more} more name{'s' * (more != 1)}, listed by file"] if more else []
    return "\n".join(rows) + "\n"


def explaining(limits):
    """A few limits that together account for every release that is not clean."""
    left = {release for _, bad, _ in limits for release in bad}
    chosen = []
    while left:
        best = max(limits, key=lambda each: len(left & set(each[1])))
        chosen.append(best)
        left -= set(best[1])
    return chosen


def compat_json(results, whole):
    def as_dict(each):
        limits = [{"name": name, "not_in": bad, "at": where} for name, bad, where in each.limits]
        return {"path": each.path, "clean": each.clean, "limits": limits}

    return {"releases": list(releases()), "files": [as_dict(r) for r in results], "all": as_dict(whole)}


# --- diff ------------------------------------------------------------------------------------------------------


class Change(NamedTuple):
    module: str
    name: str
    kind: str  # gone, new, changed
    what: str
    at: str = ""  # path:line of the first use


PUBLIC = ("tilelang", "#JITKernel", "#Profiler")


def diff(old, new, paths=(), ignored=None):
    """What changed between two releases: all that is public, or what some files use of it."""
    before, after = load(old), load(new)
    if paths:
        return used_changes(before, after, paths, ignored)
    dialects = sorted({m for m in (*before.tables, *after.tables) if is_language(m)} - {LANGUAGE})
    of_t = changed_names(before, after, LANGUAGE)
    said = {(c.name, c.kind, c.what) for c in of_t}
    changes = list(of_t)
    for module in PUBLIC:
        changes += changed_names(before, after, module)
    for module in dialects:  # of a dialect, what it does not share with T
        changes += [c for c in changed_names(before, after, module) if (c.name, c.kind, c.what) not in said]
    return changes + changed_modules(before, after)


def changed_names(before, after, module):
    if module in before.tables and module in after.tables:
        names = sorted(set(before.names(module)) | set(after.names(module)))
        return [c for name in names if (c := change(before, after, module, name))]
    if module in after.tables:
        return [Change(module, "", "new", f"{len(after.names(module))} names")]
    return [Change(module, "", "gone", "")] if module in before.tables else []


def changed_modules(before, after):
    """Module paths that came and went; a package is said once, tvm two levels deep."""
    changes = []
    for path in sorted(before.modules ^ after.modules):
        owner = path.rpartition(".")[0]
        whole_package = owner and (owner in before.modules) != (owner in after.modules)
        if whole_package or is_language(path) or (path.startswith("tvm.") and path.count(".") > 1):
            continue
        kind = "gone" if path in before.modules else "new"
        changes.append(Change(path, "", kind, replacement(path, "") if kind == "gone" else "module"))
    return changes


def change(before, after, module, name):
    """The Change of one name, or None."""
    a, b = before.entry(module, name), after.entry(module, name)
    if a is None and before.has_module(f"{module}.{name}") or b is None and after.has_module(f"{module}.{name}"):
        return None
    if b is None:
        return Change(module, name, "gone", replacement(module, name))
    if a is None:
        return Change(module, name, "new", b.kind)
    what = "; ".join(differences(a, b))
    return Change(module, name, "changed", what) if what else None


BECAME = {"keyword": "by keyword only", "either": "by position too", "positional": "by position only"}


def differences(a, b):
    """What differs between two Entries, as a reader would say it."""
    if a.kind == "enum" and b.kind == "enum":
        said = [f"-{name}" for name in a.members if name not in b.members]
        said += [f"+{name}" for name in b.members if name not in a.members]
    elif a.parameters is not None and b.parameters is not None:
        said = different_parameters(by_name(a.parameters), by_name(b.parameters))
    else:
        said = []
    if b.deprecated and not a.deprecated:
        said.append("deprecated: " + b.deprecated)
    return said


def different_parameters(old, new):
    said = [f"-{name}" for name in old if name not in new]
    said += [f"+{name}" + (" (required)" if p.required else "") for name, p in new.items() if name not in old]
    for name in [name for name in old if name in new]:
        if old[name].kind != new[name].kind:
            said.append(f"{name} {BECAME.get(new[name].kind, new[name].kind)}")
        elif old[name].required != new[name].required:
            said.append(f"{name} " + ("required" if new[name].required else "optional"))
    slots = [[name for name, p in each.items() if p.kind in ("positional", "either")] for each in (old, new)]
    for index, (before, now) in enumerate(zip(*slots)):
        if before != now and (before in new or now in old):
            said.append(f"argument {index + 1}: {before} -> {now}")
            break
    return said


def by_name(parameters):
    stars = {"args": "*", "kwargs": "**"}
    return {stars.get(p.kind, "") + p.name: p for p in parameters}


def replacement(module, name):
    rename = curated.NAMES.get((module, name))
    if rename:
        return rename.to
    whole = f"{module}.{name}" if name else module
    for prefix in prefixes(whole):
        if prefix in curated.MODULES:
            return curated.MODULES[prefix][0]
    return ""


def used_changes(before, after, paths, ignored):
    changes = {}
    for path, _source, resolved in sources(paths, ignored):
        for use in resolved.uses:
            for ref in use.refs:
                place = before.locate(ref)
                there = after.locate(ref)
                if place.what == "opaque" or there.what == "opaque":
                    continue
                found = None
                if place.what in ("found", "tail") and there.what in ("found", "tail"):
                    if place.module == there.module or use.how != IMPORT:
                        what = "; ".join(differences(place.entry, there.entry))
                        found = Change(there.module, there.name, "changed", what) if what else None
                elif place.what in EXISTING and there.what not in EXISTING:
                    found = Change(there.module, there.name, "gone", replacement(there.module, there.name))
                elif there.what in EXISTING and place.what not in EXISTING:
                    found = Change(place.module, place.name, "new", "")
                if found is not None:
                    key = found.module, found.name, found.kind
                    changes.setdefault(key, found._replace(at=f"{path}:{use.line}"))
    return sorted(changes.values(), key=lambda c: (c.kind != "gone", c.kind != "changed", c.module, c.name))


MARKS = {"gone": "-", "new": "+", "changed": "~"}


def diff_text(changes, old, new):
    rows, module = [], None
    counts = Counter(c.kind for c in changes)
    for c in changes:
        if c.at:
            rows.append(f"{MARKS[c.kind]} {short(c.module, c.name)}  {c.what}".rstrip() + f"  ({c.at})")
            continue
        if c.name and c.module != module:
            module = c.module
            rows.append(module.lstrip("#"))
        shown = "  " + c.name if c.name else c.module
        arrow = f" -> {c.what}" if c.kind == "gone" and c.what and c.what != "module" else f"  {c.what}" if c.what else ""
        rows.append(f"{MARKS[c.kind]} {shown}{arrow}")
    total = ", ".join(f"{counts[kind]} {kind}" for kind in ("gone", "changed", "new"))
    return "\n".join([*rows, f"{old} to {new}: {total}"]) + "\n"


# --- names -----------------------------------------------------------------------------------------------------


def names(paths, surface, ignored=None):
    """Counter of the distinct names of T that the files use, and how many files use any."""
    found, files = Counter(), 0
    for _path, _source, resolved in sources(paths, ignored):
        mine = Counter()
        for use in resolved.uses:
            for ref in use.refs[:1]:
                if len(ref.attrs) <= use.given and use.how == IMPORT and not ref.attrs:
                    continue
                place = surface.locate(ref)
                if place.what in ("found", "tail") and is_language(place.module):
                    mine[place.name] += 1
                elif place.what == "member":
                    owner = surface.locate(Ref(ref.module, ref.attrs[: place.index]))
                    if is_language(owner.module):
                        mine[owner.name] += 1
        found += mine
        files += bool(mine)
    return found, files


def is_language(module):
    return module == LANGUAGE or (module.startswith("tilelang.") and module.endswith(".language"))


def names_text(found, files):
    rows = [f"{count:5} T.{name}" for name, count in sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))]
    return "\n".join([*rows, f"{len(found)} distinct names of T, {sum(found.values())} uses, {files} files"]) + "\n"
