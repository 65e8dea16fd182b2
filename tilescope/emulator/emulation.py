"""Run the CUDA that TileLang generates, with no GPU: every block and thread, on the CPU, with every access checked.

The text is compiled by g++ against TileLang's own templates and CUDA's own headers for bf16, fp16 and fp8. What it shows is
what the kernel computes and touches; what it cannot show:
- The error of approximate instructions (`__expf`, tanh.approx, rcp.approx, ...): the exact value, rounded once, stands in.
  exp, tanh, erf and the like are the C library's, which differ from CUDA's in the last bits.
- nvcc turns a * b + c into one fma by default; here both roundings happen.
- Order: threads run one after the other, so an atomic float sum has one order where a GPU has many.
A kernel that needs tensor cores, TMA, clusters or PTX without a stand-in raises NotEmulated: it has not run.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tvm import tirx

from ..errors import NotEmulated
from ..frontend.lowering import DeviceKernel, Lowered, lower_factory
from ..frontend.target import FALLBACK_ARCH
from .arguments import Argument, bind, evaluate, torch_dtype
from .build import build_program, named_files, source_places
from .run import Launch, RawFault, RunResult, number_cell, run_program

_POISON = 0xCB
_OTHER_POISON = 0x35
_MOST_GRID = (2**31 - 1, 65535, 65535)
_MOST_BLOCK = (1024, 1024, 64)
# Shared memory that one block can ask for, in bytes (CUDA C++ Programming Guide, table of compute capabilities).
_MOST_SHARED = {"80": 166912, "86": 101376, "89": 101376, "90": 232448, "100": 232448, "103": 232448, "120": 101376}


@dataclass(frozen=True)
class Fault:
    """Something a GPU would crash on, hang on or get wrong.

    kind: "out-of-bounds", "misaligned" (an address that is no multiple of the access), "deadlock" (a barrier or warp
    intrinsic that some threads never reach), "divergent-barrier" (__syncthreads reached at different places),
    "uninitialized" (a read of an output or of shared memory before any write), "race" (two threads touch one element, one
    of them writes, no barrier or atomic orders them), "cast-overflow" (a float outside the integer type: a GPU saturates,
    this run did not), "launch" (CUDA refuses the grid), "warp", "barrier", "assert", "trap", "crash", "timeout".
    file, line: where in the kernel's Python file; None where no line is known. block, thread: the first that did it, x y z.
    buffer: the tensor's name, "shared memory", or None. count: how often it happened at this place.
    """

    kind: str
    message: str
    file: str | None
    line: int | None
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    buffer: str | None = None
    count: int = 1

    def __str__(self) -> str:
        where = f"{Path(self.file).name}:{self.line}: " if self.file else ""
        times = f", {self.count} times" if self.count > 1 else ""
        return f"{where}{self.kind}: {self.message} (block {self.block}, thread {self.thread}{times})"


@dataclass(frozen=True)
class Emulation:
    """What one emulated call gave.

    outputs: the tensors of `out_idx`, in that order; when all parameters were passed, those that the kernel wrote, in
    parameter order. unwritten: by name of an output that the call made, how many of its elements no thread wrote (outputs
    without such are left out; empty when a fault ended threads before they could write). printed: device-side printf's text.
    """

    outputs: tuple[torch.Tensor, ...]
    faults: tuple[Fault, ...]
    unwritten: dict[str, int]
    printed: str = ""

    @property
    def ok(self) -> bool:
        """No fault, and every element of every output was written."""
        return not self.faults and not self.unwritten

    def __str__(self) -> str:
        lines = [str(fault) for fault in self.faults]
        lines += [f"{name}: {count} elements are never written" for name, count in self.unwritten.items()]
        return "\n".join(lines) or "no fault"


def emulate(factory: Callable, *tensors: Any, arch: str = FALLBACK_ARCH, **args: Any) -> Emulation:
    """Build `factory(**args)`, generate its CUDA for `arch` and run that on the CPU.

    tensors: CPU tensors (and numbers for scalar parameters): the inputs, or all parameters in order. They are not changed.
    A dynamic size (n=T.dynamic("n")) is read off their shapes. A view such as x[1:] keeps its misalignment.
    Raises ValueError for tensors that do not fit the kernel, ScopeError and LoweringError as `build` and `lower` do, and
    NotEmulated, naming the feature, for a kernel that the CPU cannot run.
    """
    return run_lowered(lower_factory(factory, arch, args), *tensors)


def run_lowered(lowered: Lowered, *tensors: Any) -> Emulation:
    """As `emulate`, for a program that is lowered already."""
    arguments, sizes = bind(lowered.program, tensors)
    if lowered.host_decides:
        raise NotEmulated(f"{lowered.program.name}: host code launches a kernel in a loop or under a condition")
    kernels = lowered.kernels
    launches = tuple(_launch(number, kernel, arguments, sizes) for number, kernel in enumerate(kernels))
    if refused := [fault for launch in launches if (fault := _refused(launch, lowered.arch))]:
        made = {a.name: torch.zeros(a.shape, dtype=torch_dtype(a.dtype)) for a in arguments if a.fresh}
        return Emulation(_outputs(lowered, arguments, made, frozenset()), tuple(refused), {})
    names = tuple(kernel.name for kernel in kernels)
    folder = build_program(_label_hand_written(lowered), names, lowered.arch)
    result = run_program(folder, arguments, launches, _POISON)
    return Emulation(
        outputs=_outputs(lowered, arguments, result.tensors, result.written),
        faults=_faults(folder, result.faults, [a for a in arguments if a.is_tensor]),
        unwritten=_unwritten(folder, arguments, launches, result),
        printed=result.printed,
    )


def _label_hand_written(lowered: Lowered) -> str:
    """The CUDA text, with the lines of a T.CUDASourceCodeKernel counted from the start of what its author wrote."""
    source = lowered.source

    def label(node: object) -> None:
        nonlocal source
        written = getattr(node, "annotations", {}).get("code_block_source") if isinstance(node, tirx.SBlock) else None
        if written is not None:
            entry = node.annotations["code_block_entry_name"]
            source = source.replace(str(written), f'#line 1 "{entry}.cu"\n{written}', 1)

    tirx.stmt_functor.post_order_visit(lowered.program.func.body, label)
    return source


def _outputs(
    lowered: Lowered, arguments: tuple[Argument, ...], tensors: dict[str, torch.Tensor], written: frozenset[str]
) -> tuple[torch.Tensor, ...]:
    if any(argument.fresh for argument in arguments):
        return tuple(tensors[arguments[index].name] for index in lowered.program.out_idx)
    return tuple(tensors[argument.name] for argument in arguments if argument.name in written)


def _unwritten(
    folder: Path, arguments: tuple[Argument, ...], launches: tuple[Launch, ...], result: RunResult
) -> dict[str, int]:
    """Elements that no store was seen to reach and that still hold the poison, whatever the poison was."""
    if result.stopped or not any(flags.any() for flags in result.unwritten.values()):
        return {}
    other = run_program(folder, arguments, launches, _OTHER_POISON)
    counts = {}
    for name, flags in result.unwritten.items():
        untouched = flags & _all_bytes(result.tensors[name], _POISON) & _all_bytes(other.tensors[name], _OTHER_POISON)
        if count := int(untouched.sum()):
            counts[name] = count
    return counts


def _all_bytes(tensor: torch.Tensor, byte: int) -> torch.Tensor:
    size = tensor.element_size()
    return (tensor.contiguous().reshape(-1).view(torch.uint8).reshape(*tensor.shape, size) == byte).all(dim=-1)


def _launch(number: int, kernel: DeviceKernel, arguments: tuple[Argument, ...], sizes: dict[str, int]) -> Launch:
    tensors = [argument.name for argument in arguments if argument.is_tensor]
    numbers = sizes | {argument.name: argument.value for argument in arguments if not argument.is_tensor}
    values: list[int | bytes] = []
    for param in kernel.params:
        if (tensor := kernel.tensors.get(param.name, param.name)) in tensors:
            values.append(tensors.index(tensor))
        elif param.name in numbers:
            values.append(number_cell(numbers[param.name], str(param.dtype)))
        else:
            raise NotEmulated(f"{kernel.name} takes {param.name}, which host code makes; the emulator runs no host code")
    x, y, z = (evaluate(extent, sizes) for extent in kernel.grid)
    shared = evaluate(kernel.dynamic_shared_bytes, sizes)
    return Launch(number, (x, y, z), kernel.block, shared, tuple(values))


def _refused(launch: Launch, arch: str) -> Fault | None:
    """The fault for a launch that CUDA itself would refuse."""

    def fault(message: str) -> Fault:
        return Fault("launch", message, None, None, (0, 0, 0), (0, 0, 0))

    for name, extents, most in (("grid", launch.grid, _MOST_GRID), ("block", launch.block, _MOST_BLOCK)):
        for axis, extent, limit in zip("xyz", extents, most, strict=True):
            if not 1 <= extent <= limit:
                return fault(f"the {name} is {extents}: {axis} has to be from 1 to {limit}")
    x, y, z = launch.block
    if x * y * z > 1024:
        return fault(f"the block has {x * y * z} threads: CUDA allows 1024")
    limit = _MOST_SHARED[re.search(r"\d+", arch)[0]]
    if launch.dynamic_shared_bytes > limit:
        return fault(f"a block asks for {launch.dynamic_shared_bytes} bytes of shared memory: {arch} has {limit}")
    return None


# ---- from the program's reports to sentences ---------------------------------------------------------------------


def _faults(folder: Path, raw: tuple[RawFault, ...], tensors: list[Argument]) -> tuple[Fault, ...]:
    places = source_places(folder, [fault.address for fault in raw if fault.address])
    users = named_files(folder)
    merged: dict[tuple, Fault] = {}
    for fault in raw:
        file, line = _user_place(places.get(fault.address, []), users)
        argument = tensors[fault.buffer] if fault.buffer >= 0 else None
        buffer = argument.name if argument else "shared memory" if fault.buffer in (-2, -3) else None
        key = (fault.kind, file, line, buffer, fault.write, fault.text)
        if key in merged:
            first = merged[key]
            merged[key] = Fault(**{**first.__dict__, "count": first.count + fault.count})
            continue
        message = _message(fault, argument, buffer)
        merged[key] = Fault(fault.kind, message, file, line, fault.block, fault.thread, buffer, fault.count)
    return tuple(merged.values())


def _user_place(places: list[tuple[str, int]], users: set[str]) -> tuple[str | None, int | None]:
    """The innermost place in the user's text: not in a template or header that was inlined there."""
    for file, line in places:
        # Names without a folder come back with the one that the compiler ran in.
        for name in (file, os.path.basename(file)):
            if name in users:
                return name, line
    return None, None


def _message(fault: RawFault, argument: Argument | None, buffer: str | None) -> str:
    verb = {1: "writes", 0: "reads"}.get(fault.write, "uses")
    bytes_ = f"{fault.size} byte{'s' if fault.size != 1 else ''}"
    if fault.kind == "misaligned":
        type_name, alignment = fault.text.split("\t")
        type_name = re.sub(r"'|\bconst\b|\bstruct\b", "", type_name).strip()
        what = f"{type_name} access" if type_name else f"{fault.size}-byte access"
        return f"{what} at {_element(fault, argument, buffer)}, an address that is no multiple of {alignment}"
    if fault.kind == "out-of-bounds" and buffer is None:
        if fault.text:
            return f"{fault.text}: {fault.offset}"
        return f"{verb} {bytes_} at address {fault.offset:#x}, which belongs to no tensor"
    if fault.kind == "out-of-bounds":
        if argument is None:
            return f"{verb} {bytes_} at byte {fault.offset} of shared memory, outside what the block has"
        side = "before its first" if fault.offset < 0 else f"but it has {argument.elements}"
        return f"{verb} {bytes_} at {_element(fault, argument, buffer)}, {side}"
    if fault.kind == "uninitialized":
        return f"{verb} {bytes_} at {_element(fault, argument, buffer)} before anything is written there"
    if fault.kind == "race":
        other = "another thread reads or writes" if fault.write == 1 else "another thread writes"
        return f"{verb} {_element(fault, argument, buffer)}, which {other}, with no barrier or atomic between the two"
    if fault.kind == "divergent-barrier":
        return "threads of one block meet in __syncthreads() from different places"
    if fault.kind == "crash" and fault.offset:
        return f"{fault.text} at address {fault.offset & (2**64 - 1):#x}"
    return fault.text


def _element(fault: RawFault, argument: Argument | None, buffer: str | None) -> str:
    if argument is None:
        return f"byte {fault.offset} of shared memory" if buffer else "a local variable"
    return f"{argument.name}[{fault.offset // torch_dtype(argument.dtype).itemsize}]"
