"""From a factory and arguments to one TileLang program (a PrimFunc and how it is to be compiled)."""

import inspect
import io
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilelang.jit import JITImpl
from tilelang.language.eager import PrimFunc

from ..errors import LoweringError, ScopeError


@dataclass(frozen=True)
class Program:
    """One kernel, specialised by `args`.

    name: the factory's name. func: TileLang's PrimFunc. args: every argument by name, defaults included.
    out_idx: positions of the tensors that a call returns. pass_configs, compile_flags: as given to `tilelang.jit`.
    """

    name: str
    func: PrimFunc
    args: dict[str, Any]
    out_idx: tuple[int, ...]
    pass_configs: dict[str, Any]
    compile_flags: tuple[str, ...]


def is_factory(value: object) -> bool:
    """A `@tilelang.jit` function or a PrimFunc. A plain function that returns a PrimFunc has to be named to be found."""
    return isinstance(value, JITImpl | PrimFunc)


def factory_name(factory: Callable) -> str:
    if isinstance(factory, JITImpl):
        return factory.func.orig_func.__name__
    if isinstance(factory, PrimFunc):
        return str(factory.attrs["global_symbol"])
    return factory.__name__


def factory_file(factory: Callable) -> str | None:
    """The Python file in which a factory's text stands; None for a PrimFunc, which does not say."""
    function = factory.func.orig_func if isinstance(factory, JITImpl) else factory
    code = getattr(inspect.unwrap(function), "__code__", None)
    return str(Path(code.co_filename).resolve()) if code else None


def arguments_text(args: Mapping[str, Any]) -> str:
    """ "n=1024 dtype=float32": arguments as reports and errors show them."""
    return " ".join(f"{name}={value}" for name, value in args.items())


def factory_signature(factory: Callable) -> inspect.Signature:
    if isinstance(factory, PrimFunc):
        return inspect.Signature()
    return factory.signature if isinstance(factory, JITImpl) else inspect.signature(factory)


def build(factory: Callable, **args: Any) -> Program:
    """Call `factory` with `args` and return its program.

    factory: a `@tilelang.jit` function, a function that returns a PrimFunc, or a PrimFunc.
    Raises ScopeError for an argument that is missing or unknown, LoweringError when TileLang refuses the kernel's text;
    a ValueError that the factory raises about its arguments passes through.
    """
    name = factory_name(factory)
    signature = factory_signature(factory)
    if isinstance(factory, JITImpl) and factory.func.tensor_args:
        raise ScopeError(
            f"{name} takes its tensors as arguments (eager style); wrap its body in a function that returns a PrimFunc"
        )
    unknown = [key for key in args if key not in signature.parameters]
    if unknown:
        known = ", ".join(signature.parameters) or "none"
        raise ScopeError(f"{name} has no argument {unknown[0]!r}; it takes: {known}")
    missing = [key for key, p in signature.parameters.items() if p.default is inspect.Parameter.empty and key not in args]
    if missing:
        hint = " ".join(f"--arg {key}=..." for key in missing)
        raise ScopeError(f"{name} needs {', '.join(missing)} (command line: {hint})")
    bound = signature.bind(**args)
    bound.apply_defaults()

    if isinstance(factory, PrimFunc):
        func = factory
    else:
        try:
            # On an error TileLang prints the source that it made of the factory, dozens of lines.
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                func = factory.get_tir(**args) if isinstance(factory, JITImpl) else factory(**args)
        except (ValueError, ScopeError):
            raise
        except (Exception, SystemExit) as error:
            given = ", ".join(f"{key}={value!r}" for key, value in args.items())
            raise LoweringError(f"{name}({given}): {type(error).__name__}: {first_message(error)}") from error
    if not isinstance(func, PrimFunc):
        raise ScopeError(f"{name} returned {type(func).__name__}, not a PrimFunc; is it a @tilelang.jit factory?")

    attrs = func.attrs or {}
    pass_configs = dict(attrs.get("tilelang_pass_configs") or {})
    compile_flags = list(attrs.get("tilelang_compile_flags") or ())
    out_idx: Any = attrs.get("tilelang_out_idx") or ()
    if isinstance(factory, JITImpl):
        pass_configs.update(factory.pass_configs or {})
        flags = factory.compile_flags or ()
        compile_flags += [flags] if isinstance(flags, str) else list(flags)
        out_idx = factory.out_idx if factory.out_idx is not None else out_idx
    out_idx = (out_idx,) if isinstance(out_idx, int) else tuple(out_idx)
    count = len(func.params)
    return Program(
        name=name,
        func=func,
        args=dict(bound.arguments),
        out_idx=tuple(index % count for index in out_idx),
        pass_configs={getattr(key, "value", key): value for key, value in pass_configs.items()},
        compile_flags=tuple(map(str, compile_flags)),
    )


def first_message(error: BaseException) -> str:
    """TileLang's own words: the message without C++ frames, `TVM` banners and source snippets' padding."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line.lstrip().startswith('File "')]
    lines = [line for line in lines if not line.startswith("Traceback") and "Stack trace" not in line]
    return "\n".join(lines).strip() or type(error).__name__
