"""The stamp on a measurement: which commit it was made with."""

import subprocess

import pytest

from tilescope.measuring import stamp


def test_the_commit_is_gits_unless_it_is_told(monkeypatch):
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=stamp.ROOT, capture_output=True, text=True)
    if head.returncode:
        pytest.skip("not a git checkout")
    monkeypatch.delenv("TILESCOPE_COMMIT", raising=False)
    found = stamp.stamp("x")["commit"]
    assert head.stdout.startswith(found.removesuffix("+changes")) and len(found) >= 12
    monkeypatch.setenv("TILESCOPE_COMMIT", "0123456789ab")
    assert stamp.stamp("x")["commit"] == "0123456789ab"
