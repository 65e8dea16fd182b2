"""Write the fixes that are one-to-one, and nothing else.

A file is rewritten as bytes, so that its encoding, line ends and formatting stay; the result has to parse, and to
differ in nothing but the names; otherwise the file is left as it is.
"""

import ast
import codecs
import io
import os
import tokenize


def fix_all(findings):
    """Rewrite files; return (paths written, [(path, reason) left alone])."""
    by_path = {}
    for finding in findings:
        if finding.edit is not None:
            by_path.setdefault(finding.path, []).append(finding.edit)
    written, left = [], []
    for path, edits in sorted(by_path.items()):
        if not path.endswith(".py"):
            left.append((path, "only .py files are rewritten"))
            continue
        try:
            reason = fix_file(path, edits)
        except OSError as error:
            reason = error.strerror or str(error)
        if reason:
            left.append((path, reason))
        else:
            written.append(path)
    return written, left


def fix_file(path, edits):
    """Rewrite one file; return why not, or None."""
    with open(path, "rb") as file:
        before = file.read()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(before).readline)
    if encoding not in ("utf-8", "utf-8-sig", "ascii"):
        return f"its encoding is {encoding}"
    after = apply(before, edits)
    if after is None or not same_but_names(before, after, edits):
        return "a rewriting would change more than names"
    if not os.access(path, os.W_OK):
        return "it is not writable"
    with open(path, "r+b") as file:
        file.write(after)
        file.truncate()
    return None


def apply(data, edits):
    """The bytes with every edit made, or None where the text is not what was expected."""
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    lines = data[len(mark) :].splitlines(keepends=True)
    for edit in sorted(set(edits), key=lambda e: (e.line, e.start), reverse=True):
        line = lines[edit.line - 1]
        if line[edit.start : edit.end] != edit.old.encode():
            return None
        lines[edit.line - 1] = line[: edit.start] + edit.new.encode() + line[edit.end :]
    return mark + b"".join(lines)


def same_but_names(before, after, edits):
    """Whether the two parse to the same tree once the old names are read as the new ones."""
    try:
        trees = [ast.parse(data) for data in (before, after)]
    except (SyntaxError, ValueError):
        return False
    at = {(edit.line, edit.end): edit for edit in edits}
    for node in ast.walk(trees[0]):
        if isinstance(node, ast.Attribute):
            edit = at.get((node.end_lineno, node.end_col_offset))
            if edit and edit.old == node.attr:
                node.attr = edit.new
        elif isinstance(node, ast.keyword) and node.arg:
            edit = at.get((node.lineno, node.col_offset + len(node.arg.encode())))
            if edit and edit.old == node.arg:
                node.arg = edit.new
        elif isinstance(node, ast.ImportFrom):
            edit = at.get((node.lineno, node.col_offset + len("from ") + len(node.module or "")))
            if edit and edit.old == node.module:
                node.module = edit.new
    return ast.dump(trees[0]) == ast.dump(trees[1])
