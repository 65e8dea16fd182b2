"""What the tests share: audit a text as if it were a file."""

from tla import run
from tla.surface import DEFAULT, load


def audit(folder, text, name="case.py", release=DEFAULT, **options):
    """The findings for one file with this text."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return run.audit([str(file)], load(release), **options).findings


def codes(folder, text, **options):
    return [finding.code for finding in audit(folder, text, **options)]
