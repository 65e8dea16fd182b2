"""From a program to TileLang's lowered device code, for any architecture, with no GPU and no CUDA compiler."""

from dataclasses import dataclass

import tilelang
from tilelang.transform import PassConfigKey
from tvm import tirx
from tvm.target import Target

from .errors import LoweringError
from .program import Program, first_message
from .target import check_arch

LaunchExtent = int | tirx.PrimExpr


@dataclass(frozen=True)
class DeviceKernel:
    """One `__global__` function of the generated CUDA.

    params: its parameters in order (pointers are handles named after the tensor; sizes are integers).
    grid, block: extents along x, y, z; a grid extent is an expression of the size parameters when n is dynamic.
    dynamic_shared_bytes: shared memory that the launch has to ask for.
    body: lowered TIR, the very statements that the CUDA text prints.
    """

    name: str
    params: tuple[tirx.Var, ...]
    grid: tuple[LaunchExtent, LaunchExtent, LaunchExtent]
    block: tuple[int, int, int]
    dynamic_shared_bytes: LaunchExtent
    body: tirx.Stmt


@dataclass(frozen=True)
class Lowered:
    """What TileLang made of a program for one architecture. source: the CUDA text, `#line` directives included."""

    program: Program
    arch: str
    source: str
    kernels: tuple[DeviceKernel, ...]


def lower(program: Program, arch: str) -> Lowered:
    """Lower `program` for `arch` ("sm_90a"). Raises ValueError on an unknown arch, LoweringError with TileLang's message."""
    target = Target({"kind": "cuda", "arch": check_arch(arch)})
    config = {**program.pass_configs, PassConfigKey.TL_EMIT_LINE_DIRECTIVES.value: True}
    try:
        with tilelang.transform.PassContext(opt_level=3, config=config), target:
            artifact = tilelang.lower(program.func, target=target, enable_device_compile=False)
    except Exception as error:
        raise LoweringError(f"{program.name} does not lower for {arch}: {first_message(error)}") from error
    kernels = tuple(
        _device_kernel(var.name_hint, func)
        for var, func in sorted(artifact.device_mod.functions.items(), key=lambda item: item[0].name_hint)
    )
    return Lowered(program=program, arch=arch, source=str(artifact.kernel_source), kernels=kernels)


def _device_kernel(name: str, func: tirx.PrimFunc) -> DeviceKernel:
    extents = dict(func.attrs["thread_extent"])

    def extent(tag: str) -> LaunchExtent:
        value = extents.get(tag, 1)
        return int(value) if isinstance(value, int | tirx.IntImm) else value

    return DeviceKernel(
        name=name,
        params=tuple(func.params),
        grid=tuple(extent(f"blockIdx.{axis}") for axis in "xyz"),
        block=tuple(int(extent(f"threadIdx.{axis}")) for axis in "xyz"),
        dynamic_shared_bytes=_plain(func.attrs.get("dyn_shared_memory_buf", 0)),
        body=func.body,
    )


def _plain(value: object) -> LaunchExtent:
    return int(value) if isinstance(value, int | tirx.IntImm) else value
