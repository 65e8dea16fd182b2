"""Tests that need a GPU are marked `gpu`: where there is none they skip, and say why."""

import sys
from pathlib import Path

import pytest

import tilescope  # noqa: F401  names TileLang's default target before anything imports TileLang

ROOT = Path(__file__).parent
# A chapter's files import each other by name, as they do when they are run.
chapters = sorted(ROOT.glob("[0-9][0-9]-*"))
sys.path[:0] = [str(folder) for chapter in chapters for folder in (chapter, chapter / "evidence")]


@pytest.fixture
def bench_on_cpu(monkeypatch):
    """Measures a work of `measuring.bench` without a GPU, each time as 1 and torch.compile as eager code, and returns its
    rows. What stands in for compiled rungs, and what is missing, the test says."""
    import torch

    from tilescope.measuring import bench

    monkeypatch.setattr(bench, "DEVICE", "cpu")
    monkeypatch.setattr(bench, "has_triton", lambda: True)
    monkeypatch.setattr(torch, "compile", lambda call, **how: call)

    def measured(work):
        rows = [bench.new_row(work, candidate) for candidate in work.candidates]
        bench.run_work(work, rows, bench.Meter(lambda call: 1.0, lambda call: 1.0, synchronize=lambda: None))
        return rows

    return measured


def pytest_collection_modifyitems(items):
    import torch

    if not torch.cuda.is_available():
        skip = pytest.mark.skip(reason="needs an NVIDIA GPU")
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(skip)
