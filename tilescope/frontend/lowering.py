"""From a program to TileLang's lowered device code, for any architecture, with no GPU and no CUDA compiler."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from threading import Lock
from typing import Any

import tilelang
from tilelang import tvm
from tilelang.transform import PassConfigKey
from tvm import tirx
from tvm.target import Target

from ..errors import LoweringError
from .program import Program, build, first_message
from .target import check_arch

LaunchExtent = int | tirx.PrimExpr
_ONE_AT_A_TIME = Lock()  # TileLang builds and lowers one kernel at a time; compilers and kernels run beside it


@dataclass(frozen=True)
class DeviceKernel:
    """One `__global__` function of the generated CUDA.

    params: its parameters in order (pointers are handles, sizes are integers). tensors: the name of a pointer -> the
    tensor of the program that it points to; they differ where the kernel uses a `T.view`.
    grid, block: extents along x, y, z; a grid extent is an expression of the size parameters when n is dynamic.
    dynamic_shared_bytes: shared memory that the launch has to ask for.
    body: lowered TIR, the very statements that the CUDA text prints.
    hand_written: whether the text is a T.CUDASourceCodeKernel, of which the body says nothing.
    """

    name: str
    params: tuple[tirx.Var, ...]
    tensors: dict[str, str]
    grid: tuple[LaunchExtent, LaunchExtent, LaunchExtent]
    block: tuple[int, int, int]
    dynamic_shared_bytes: LaunchExtent
    body: tirx.Stmt
    hand_written: bool


@dataclass(frozen=True)
class Lowered:
    """What TileLang made of a program for one architecture.

    source: the CUDA text, `#line` directives included. kernels: in the order in which the host launches them.
    host_decides: whether the host launches one in a loop or under a condition, so that the order is not the whole story.
    """

    program: Program
    arch: str
    source: str
    kernels: tuple[DeviceKernel, ...]
    host_decides: bool


def lower(program: Program, arch: str) -> Lowered:
    """Lower `program` for `arch` ("sm_90a"). Raises ValueError on an unknown arch, LoweringError with TileLang's message."""
    target = Target({"kind": "cuda", "arch": check_arch(arch)})
    config = {**program.pass_configs, PassConfigKey.TL_EMIT_LINE_DIRECTIVES.value: True}
    try:
        with tilelang.transform.PassContext(opt_level=3, config=config), target:
            artifact = tilelang.lower(program.func, target=target, enable_device_compile=False)
    except Exception as error:
        raise LoweringError(f"{program.name} does not lower for {arch}: {first_message(error)}") from error
    functions = {var.name_hint: func for var, func in artifact.device_mod.functions.items()}
    tensors, launches, host_decides = _host_view(program, artifact.host_mod, functions)
    kernels = tuple(_device_kernel(name, functions[name], tensors) for name in launches)
    return Lowered(program, arch, str(artifact.kernel_source), kernels, host_decides)


def lower_factory(factory: Callable, arch: str, args: dict[str, Any]) -> Lowered:
    """`lower` of what `factory(**args)` builds; may be called from several threads. Raises as `build` and `lower` do."""
    with _ONE_AT_A_TIME:
        return lower(build(factory, **args), arch)


def _host_view(program: Program, host_mod: tvm.IRModule, kernels: Collection[str]) -> tuple[dict[str, str], list[str], bool]:
    """(pointer name -> tensor name, kernel names in launch order, host_decides), read off the host code."""
    names = {buffer.name for buffer in program.func.buffer_map.values()}
    tensors: dict[str, str] = {}
    launches: list[str] = []
    controlled: list[str] = []

    def launched(node: object) -> str | None:
        if isinstance(node, tirx.Call) and len(node.args) and isinstance(node.args[0], tirx.StringImm):
            return str(node.args[0].value) if node.args[0].value in kernels else None
        return None

    def visit(node: object) -> None:
        if isinstance(node, tirx.DeclBuffer) and node.buffer.name in names:
            tensors[node.buffer.data.name] = node.buffer.name
        elif name := launched(node):
            launches.append(name)
        elif isinstance(node, tirx.For | tirx.While | tirx.IfThenElse):
            tirx.stmt_functor.post_order_visit(node, lambda child: launched(child) and controlled.append(launched(child)))

    for func in host_mod.functions.values():
        tirx.stmt_functor.post_order_visit(func.body, visit)
    return tensors, launches, bool(controlled)


def _device_kernel(name: str, func: tirx.PrimFunc, tensors: dict[str, str]) -> DeviceKernel:
    extents = dict(func.attrs["thread_extent"])

    def extent(tag: str) -> LaunchExtent:
        return _plain(extents.get(tag, 1))

    return DeviceKernel(
        name=name,
        params=tuple(func.params),
        tensors={param.name: tensors[param.name] for param in func.params if param.name in tensors},
        grid=tuple(extent(f"blockIdx.{axis}") for axis in "xyz"),
        block=tuple(int(extent(f"threadIdx.{axis}")) for axis in "xyz"),
        dynamic_shared_bytes=_plain(func.attrs.get("dyn_shared_memory_buf", 0)),
        body=func.body,
        hand_written="code_block_source" in func.attrs,
    )


def _plain(value: object) -> LaunchExtent:
    return int(value) if isinstance(value, int | tirx.IntImm) else value
