"""See the memory accesses that a TileLang kernel makes: generated CUDA, SASS, width and sectors, with no GPU."""

import importlib

from .frontend.target import set_defaults

set_defaults()

# Names that need TileLang, which takes seconds to import: resolved on first use, so that `tilescope --help` is quick.
_HOME = {
    "checked": "checking.checked",
    "KernelReport": "analysis.report",
    "inspect": "analysis.inspection",
    "inspect_all": "analysis.inspection",
    "inspect_many": "analysis.inspection",
    "emulate": "emulator.emulation",
    "check": "checking.cases",
    "Case": "checking.cases",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'tilescope' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value
