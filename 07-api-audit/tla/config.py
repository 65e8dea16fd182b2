"""Settings: `[tool.tilelang-audit]` in pyproject.toml, and the baseline of findings that are already known."""

import json
import os
import re
from collections import Counter
from pathlib import Path

TABLE = "tool.tilelang-audit"
KEYS = {"select": list, "ignore": list, "exclude": list, "tilelang": str}


class BadConfig(ValueError):
    pass


def find(paths):
    """(settings, folder) of the nearest pyproject.toml above the first path that has the table."""
    start = Path(next((path for path in paths if path != "-"), ".")).resolve()
    for folder in [start, *start.parents]:
        file = folder / "pyproject.toml"
        if file.is_file():
            settings = load(file)
            if settings is not None:
                return settings, folder
    return {}, Path()


def load(file):
    """The checked settings of one pyproject.toml, or None without the table."""
    text = Path(file).read_text(encoding="utf-8", errors="replace")
    if TABLE not in text:
        return None
    table = read_table(text)
    if table is None:
        return None
    for key, value in table.items():
        if key not in KEYS:
            raise BadConfig(f"{file}: [{TABLE}] has no setting {key}; there are {', '.join(KEYS)}")
        if not isinstance(value, KEYS[key]) or (KEYS[key] is list and not all(isinstance(v, str) for v in value)):
            raise BadConfig(f"{file}: {key} in [{TABLE}] must be a {'list of strings' if KEYS[key] is list else 'string'}")
    return table


def read_table(text):
    """The table as a dict. tomllib where Python has it; below 3.11 the little of TOML that the table needs."""
    try:
        import tomllib
    except ImportError:
        return read_little(text)
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError as reason:
        raise BadConfig(f"pyproject.toml: {reason}") from None
    return whole.get("tool", {}).get("tilelang-audit")


def read_little(text):
    """Strings and lists of strings of one table; comments and lists over several lines are understood."""
    lines = text.splitlines()
    heads = [i for i, line in enumerate(lines) if re.match(r"\s*\[\s*tool\.\"?tilelang-audit\"?\s*\]", line)]
    if not heads:
        return None
    body = []
    for line in lines[heads[0] + 1 :]:
        if re.match(r"\s*\[[^\]\"',]+\]\s*(#.*)?$", line):
            break
        body.append(line)
    strings = r"\"(?:[^\"\\]|\\.)*\"|'[^']*'"
    rest = re.sub(rf"({strings})|#[^\n]*", lambda m: m.group(1) or "", "\n".join(body))
    table = {}
    for key, value in re.findall(rf"([\w-]+)\s*=\s*(\[(?:{strings}|[^\]\"'])*\]|{strings}|[^\n]+)", rest):
        found = [unquoted(each) for each in re.findall(strings, value)]
        table[key] = found if value.startswith("[") else found[0] if found else value.strip()
    return table


def unquoted(value):
    return json.loads(value) if value.startswith('"') else value[1:-1]


# --- baseline --------------------------------------------------------------------------------------------------


def identity(finding):
    """What makes a finding the same one after lines moved."""
    return " ".join((finding.path.replace(os.sep, "/"), finding.code, finding.name))


def write_baseline(file, findings):
    counts = Counter(identity(finding) for finding in findings)
    Path(file).write_text(json.dumps(dict(sorted(counts.items())), indent=0) + "\n", encoding="utf-8")


def without_known(file, findings):
    """The findings that the baseline does not count."""
    try:
        left = Counter(json.loads(Path(file).read_text(encoding="utf-8")))
    except (OSError, ValueError) as reason:
        raise BadConfig(f"{file}: {reason}") from None
    new = []
    for finding in findings:
        key = identity(finding)
        if left[key] > 0:
            left[key] -= 1
        else:
            new.append(finding)
    return new
