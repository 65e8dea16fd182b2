"""Findings as text, JSON, GitHub annotations or SARIF."""

import json
from urllib.parse import quote

from .findings import CODES
from .surface import DEFAULT

URI = "https://github.com/tile-ai/tilelang"
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "note": "note"}


def summary(result, release):
    by = {severity: sum(f.severity == severity for f in result.findings) for severity in LEVELS}
    counts = ", ".join(f"{n} {severity}{'s' * (n != 1)}" for severity, n in by.items() if n) or "no findings"
    files = f"{result.files} file{'s' * (result.files != 1)}, {result.parsed} mention{'s' * (result.parsed == 1)} tilelang"
    return f"TileLang {release}: {files}: {counts}"


def text(result, release):
    rows = []
    for f in result.findings:
        rows.append(f"{f.path}:{f.line}:{f.col}: {f.code} {f.message}" + (f" [{f.fix}]" if f.fix else ""))
    return "\n".join([*rows, summary(result, release)]) + "\n"


def as_dict(finding):
    keys = ("path", "line", "col", "code", "severity", "name", "message", "fix")
    return {key: getattr(finding, key) for key in keys}


def as_json(result, release):
    content = {"tilelang": release, "files": result.files, "findings": [as_dict(f) for f in result.findings]}
    return json.dumps(content, indent=2) + "\n"


def github(result, release):
    """Workflow commands: https://docs.github.com/actions/reference/workflow-commands-for-github-actions"""
    rows = []
    for f in result.findings:
        kind = "notice" if f.severity == "note" else f.severity
        message = escape(f.message + (f" [{f.fix}]" if f.fix else ""))
        path = escape(f.path).replace(":", "%3A").replace(",", "%2C")
        rows.append(f"::{kind} file={path},line={f.line},col={f.col},title={f.code}::{message}")
    return "".join(row + "\n" for row in rows)


def escape(value):
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def sarif(result, release):
    codes = sorted(CODES)
    rules = [
        {
            "id": code,
            "shortDescription": {"text": CODES[code][1]},
            "defaultConfiguration": {"level": LEVELS[CODES[code][0]]},
        }
        for code in codes
    ]
    results = [
        {
            "ruleId": f.code,
            "ruleIndex": codes.index(f.code),
            "level": LEVELS[f.severity],
            "message": {"text": f.message + (f" [{f.fix}]" if f.fix else "")},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": uri(f.path)},
                        "region": {"startLine": max(f.line, 1), "startColumn": max(f.col, 1)},
                    }
                }
            ],
        }
        for f in result.findings
    ]
    driver = {"name": "tilelang-api-audit", "semanticVersion": DEFAULT, "informationUri": URI, "rules": rules}
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    run["properties"] = {"tilelang": release}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def uri(path):
    return quote(path.replace("\\", "/"))


FORMATS = {"text": text, "json": as_json, "github": github, "sarif": sarif}
