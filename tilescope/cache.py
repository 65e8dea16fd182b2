"""Compiled results, kept by content: the same text, flags and compiler give the same folder, so a second run is fast.

The folder is $TILESCOPE_CACHE, else ~/.cache/tilescope. It can be deleted at any time.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_root() -> Path:
    return Path(os.environ.get("TILESCOPE_CACHE") or Path.home() / ".cache" / "tilescope")


def cached(kind: str, parts: tuple[str, ...], make: Callable[[Path], None]) -> Path:
    """Return the folder that `make` filled for these `parts`, calling `make(folder)` only the first time.

    kind: name of the sub-folder ("sass", "emulate"). parts: everything that the result depends on.
    Two processes may make the same entry at once: each fills a folder of its own and the first to finish wins.
    """
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    entry = cache_root() / kind / digest
    if entry.exists():
        return entry
    entry.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{digest}-", dir=entry.parent))
    try:
        make(work)
        try:
            work.rename(entry)
        except OSError:
            if not entry.exists():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return entry
