"""Load a user's Python file and find the kernel factories in it."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from ..errors import ScopeError
from .program import factory_file, factory_name, is_factory


def load_factories(spec: str) -> list[Callable]:
    """Factories that "FILE.py" or "FILE.py:NAME" means: all that the file itself defines, or the named one.

    Raises ScopeError when the file is missing, does not import, or has no such factory.
    """
    path, name = (spec, "") if Path(spec).is_file() else spec.rpartition(":")[::2]
    path, name = (path, name) if path else (name, "")
    file = Path(path)
    if not file.is_file():
        raise ScopeError(f"{path}: no such file")
    if file.suffix != ".py":
        raise ScopeError(f"{path}: not a Python file, its name does not end in .py")
    module = _import(file)
    if name:
        if not callable(factory := getattr(module, name, None)) and not is_factory(factory):
            raise ScopeError(f"{path} has no factory {name!r}; it has: {_names(_own(module, file))}")
        return [factory]
    if not (found := _own(module, file)):
        raise ScopeError(f"{path} has no @tilelang.jit function and no PrimFunc; name a plain factory as {path}:NAME")
    return found


def _import(file: Path) -> object:
    """Import `file` the way `python FILE` would, its folder first on sys.path."""
    name = f"tilescope_user_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ScopeError(f"{file} does not import: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module


def _own(module: object, file: Path) -> list[Callable]:
    """Factories whose text stands in `file`, in file order; what it imports from elsewhere is not listed."""
    here = str(file.resolve())
    found = []
    for value in vars(module).values():
        if is_factory(value) and factory_file(value) in (None, here):
            found.append(value)
    return found


def _names(factories: list[Callable]) -> str:
    return ", ".join(factory_name(factory) for factory in factories) or "none"
