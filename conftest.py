"""Tests that need a GPU are marked `gpu`: where there is none they skip, and say why."""

import sys
from pathlib import Path

import pytest

import tilescope  # noqa: F401  names TileLang's default target before anything imports TileLang

ROOT = Path(__file__).parent
# A chapter's files import each other by name, as they do when run from inside their folder.
sys.path[:0] = [str(path) for path in sorted(ROOT.glob("[0-9][0-9]-*"))]


def pytest_collection_modifyitems(items):
    import torch

    if not torch.cuda.is_available():
        skip = pytest.mark.skip(reason="needs an NVIDIA GPU")
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(skip)
