"""What a measurement was made with: the stamp that every recorded number carries."""

import datetime
import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]


def stamp(method: str) -> dict[str, str | None]:
    """How, with what and when; None where something is not there (a GPU, a driver, triton, a git checkout).

    method: a sentence that says what was measured and how. Commit: `+changes` when files other than results differ from it;
    $TILESCOPE_COMMIT overrides it, for files that were copied without their history.
    """
    gpu = torch.cuda.is_available()
    return {
        "gpu": torch.cuda.get_device_name() if gpu else None,
        "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0") if gpu else None,
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "tilelang": _version("tilelang"),
        "triton": _version("triton"),
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
        "commit": _commit(),
        "method": method,
    }


def gpu_folder(name: str) -> str:
    """The folder of a GPU's results: "NVIDIA H200" is in "nvidia-h200"."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _commit() -> str | None:
    if told := os.environ.get("TILESCOPE_COMMIT"):
        return told
    commit = _output("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
    changes = commit and _output("git", "-C", str(ROOT), "status", "--porcelain", "--", ".", ":!results")
    return f"{commit}+changes" if changes else commit


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _output(*command: str) -> str | None:
    """What a command prints; None when it is not there, fails or prints nothing."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() or None
    except (OSError, subprocess.CalledProcessError):
        return None
