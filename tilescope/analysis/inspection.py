"""From a factory and its arguments to reports: the one place where the stops of the pipeline are put together."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..frontend.lowering import lower_factory
from ..frontend.target import default_arch
from .accesses import accesses
from .report import KernelReport
from .sass import disassemble


def inspect_all(factory: Callable, *, arch: str | None = None, sass: bool = True, **args: Any) -> list[KernelReport]:
    """Reports of every `__global__` function that `factory(**args)` compiles to, in launch order.

    factory: a `@tilelang.jit` function, a function that returns a PrimFunc, or a PrimFunc; args: its arguments.
    arch: such as "sm_90a"; the GPU of this machine, else sm_90a, when None. sass: also compile to machine code.
    Raises ScopeError (missing argument, refused kernel, no compiler) or the factory's own ValueError.
    """
    lowered = lower_factory(factory, arch or default_arch(), args)
    code = disassemble(lowered) if sass else {}
    reports = []
    for kernel in lowered.kernels:
        found, notes = accesses(lowered, kernel)
        reports.append(
            KernelReport(
                kernel=lowered.program.name if len(lowered.kernels) == 1 else f"{lowered.program.name}/{kernel.name}",
                arch=lowered.arch,
                args=lowered.program.args,
                grid=tuple(extent if isinstance(extent, int) else str(extent) for extent in kernel.grid),
                block=kernel.block,
                accesses=found,
                sass=code.get(kernel.name),
                source=lowered.source,
                notes=notes,
            )
        )
    return reports


def inspect(factory: Callable, *, arch: str | None = None, sass: bool = True, **args: Any) -> KernelReport:
    """The report of a factory that compiles to one kernel; as `inspect_all`, which serves when there are several."""
    reports = inspect_all(factory, arch=arch, sass=sass, **args)
    if len(reports) != 1:
        names = ", ".join(report.kernel for report in reports)
        raise ValueError(f"{reports[0].kernel} compiles to {len(reports)} kernels ({names}); use inspect_all")
    return reports[0]


def inspect_many(specs: Iterable[tuple[Callable, dict[str, Any]]]) -> list[KernelReport]:
    """`inspect` of every (factory, arguments), in order, with as many compilers at once as there are cores."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda spec: inspect(spec[0], **spec[1]), specs))
