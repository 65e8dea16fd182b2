"""Many files, one release: read, resolve, check, and settle what only the whole set can tell.

Files are handled one at a time and forgotten; only findings, and the names the set assigns to, are kept.
"""

import re
import sys
import time
from typing import NamedTuple

from . import curated
from .explain import explain
from .findings import EXPLAINED_BY_FORK, SEVERITY, Finding
from .resolve import resolve
from .rules import about, applicable
from .sources import NEEDLE, Broken, parse, walk
from .surface import load, releases, version_key

COMMENT = re.compile(r"#\s*tla:\s*(ignore-file|ignore)(?:\[([A-Za-z0-9,\s]*)\])?")


class Result(NamedTuple):
    files: int  # looked at
    parsed: int  # that mention tilelang
    findings: list
    unreadable: list  # (path, reason)


class Progress:
    """One line on a terminal, if it takes longer than a second."""

    def __init__(self, stream=None):
        self.stream = stream or sys.stderr
        self.wanted = self.stream.isatty()
        self.start = self.last = time.monotonic()
        self.shown = False

    def step(self, files, parsed):
        if not self.wanted or files % 64:
            return
        now = time.monotonic()
        if now - self.start > 1 and now - self.last > 0.1:
            self.last, self.shown = now, True
            self.stream.write(f"\r{files} files, {parsed} mention tilelang, {files / (now - self.start):.0f} files/s ")
            self.stream.flush()

    def done(self):
        if self.shown:
            self.stream.write("\r" + " " * 70 + "\r")
            self.stream.flush()


def read(paths, ignored, unreadable):
    """Yield (path, bytes) of every file; `-` is standard input."""
    if "-" in paths:
        yield "<stdin>", sys.stdin.buffer.read()
    for path in walk([path for path in paths if path != "-"], ignored):
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as reason:
            unreadable.append((path, reason.strerror or str(reason)))
            continue
        yield path, data


def sources(paths, ignored=None, unreadable=None, progress=None, count=None):
    """Yield (path, Source, Resolved) of each file that mentions tilelang. `count` is [files, parsed]."""
    count = count if count is not None else [0, 0]
    unreadable = unreadable if unreadable is not None else []
    for path, data in read(paths, ignored, unreadable):
        count[0] += 1
        if NEEDLE in data or path == "<stdin>":
            count[1] += 1
            yield (path, *understood(path, data))
        if progress is not None:
            progress.step(*count)


def understood(path, data):
    """(Source, Resolved) of one file."""
    source = parse(path, data)
    try:
        return source, resolve(source)
    except RecursionError:
        source = source._replace(broken=[Broken(1, 1, "is nested too deeply to be read", True)], body=[])
        return source, resolve(source)


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


def audit(paths, surface, ignored=None, select=(), ignore=(), progress=None):
    """The Result of the files below some paths."""
    progress = progress or Progress()
    count, unreadable = [0, 0], []
    kept, stored = [], set()
    for path, source, resolved in sources(paths, ignored, unreadable, progress, count):
        stored |= {about(ref, surface) for ref in resolved.stores}
        found = check(resolved, surface, path)
        if source.broken or found.findings:
            kept.append((path, broken(source), suppressed(source, found)))
    progress.done()
    findings = []
    for path, first, (found, abouts) in kept:
        pairs = [(f, a) for f, a in zip(found, abouts) if not is_stored(a, stored)]
        findings += first + fork([f for f, _ in pairs], [a for _, a in pairs], path)
    findings = [f for f in findings if wanted(f.code, select, ignore)]
    findings.sort(key=lambda f: (f.path, f.line, f.col, f.code))
    return Result(count[0], count[1], findings, unreadable)


def is_stored(about, stored):
    """`T.x = ...` anywhere in the set makes T.x known; `sys.modules["a.b"] = ...` makes a.b and what is in it."""
    module, name = about
    whole = f"{module}.{name}" if name else module
    return about in stored or any(not inner and (whole == outer or whole.startswith(outer + ".")) for outer, inner in stored)


def wanted(code, select, ignore):
    if select and not code.startswith(tuple(select)):
        return False
    return not (ignore and code.startswith(tuple(ignore)))


def broken(source):
    """TLA000. A fence or a cell is often a fragment: that is a warning; a file is an error."""
    return [
        Finding(source.path, b.line, b.col, "TLA000", "error" if b.whole else "warning", "", b.reason) for b in source.broken
    ]


def suppressed(source, found):
    """What `# tla: ignore[...]` leaves: on the line of a finding, or for a file."""
    everywhere = []
    for line in source.lines:
        if "tla:" in line:
            match = COMMENT.search(line)
            if match and match.group(1) == "ignore-file":
                everywhere.append(match.group(2))
    findings, abouts = [], []
    for finding, place in zip(found.findings, found.about):
        line = source.lines[finding.line - 1] if finding.line <= len(source.lines) else ""
        match = COMMENT.search(line) if "tla:" in line else None
        comments = everywhere + ([match.group(2)] if match and match.group(1) == "ignore" else [])
        if not any(covers(codes, finding.code) for codes in comments):
            findings.append(finding)
            abouts.append(place)
    return findings, abouts


def covers(codes, code):
    """A comment without brackets covers every code."""
    return codes is None or code in [each.strip().upper() for each in codes.split(",")]
