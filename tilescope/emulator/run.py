"""Run a program that `emulator_build` made: the request it reads, the memory and the faults it leaves behind."""

import os
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from ..errors import NotEmulated
from .arguments import Argument, torch_dtype

_TRACED_ELEMENTS = 1 << 22  # 24 bytes are kept for each; larger calls are not watched for races
_FORMATS = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
    "float32": "f", "float64": "d", "bool": "?",
}  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """One kernel launch. kernel: its number. arguments: for each parameter of the kernel the index of a tensor argument, or
    the eight bytes of a number."""

    kernel: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    arguments: tuple[int | bytes, ...]


@dataclass(frozen=True)
class RawFault:
    """A fault as the program reports it. buffer: index of a tensor argument, -1 none, -2 dynamic, -3 static shared memory."""

    kind: str
    address: int
    buffer: int
    offset: int
    size: int
    write: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    count: int
    text: str


@dataclass(frozen=True)
class RunResult:
    """tensors: every tensor argument after the run, by name. written: names of those that were stored to.
    unwritten: for each fresh output, which elements no store reached (bool). stopped: a thread was ended by a fault."""

    tensors: dict[str, torch.Tensor]
    written: frozenset[str]
    unwritten: dict[str, torch.Tensor]
    faults: tuple[RawFault, ...]
    stopped: bool
    printed: str


def run_program(folder: Path, arguments: tuple[Argument, ...], launches: tuple[Launch, ...], poison: int) -> RunResult:
    """Run once. poison: the byte that fresh outputs hold at the start. Raises NotEmulated for PTX met on the way."""
    tensors = [argument for argument in arguments if argument.is_tensor]
    with tempfile.TemporaryDirectory(prefix="tilescope-") as name:
        work = Path(name)
        (work / "request").write_bytes(_request(tensors, launches, poison))
        command = [str(folder / "program"), "request", "results", "faults"]
        limit = float(os.environ.get("TILESCOPE_EMULATE_TIMEOUT", "120"))
        try:
            done = subprocess.run(command, cwd=work, capture_output=True, timeout=limit)
        except subprocess.TimeoutExpired:
            text = f"the kernel did not finish within {limit:g} s (TILESCOPE_EMULATE_TIMEOUT); a loop that never ends?"
            return _stopped(tensors, (RawFault("timeout", 0, -1, 0, 0, -1, (0, 0, 0), (0, 0, 0), 1, text),))
        faults = _read_faults(work / "faults")
        if missing := [fault for fault in faults if fault.kind == "not-emulated"]:
            raise NotEmulated(f"the kernel executes {missing[0].text}, which cannot be run on the CPU")
        if done.returncode not in (0, 5):
            raise NotEmulated(f"the emulator failed (exit {done.returncode}): {done.stderr.decode().strip()}")
        if done.returncode == 5:
            return _stopped(tensors, faults)
        return _results((work / "results").read_bytes(), tensors, faults, done.stdout.decode(errors="replace"))


def number_cell(value: int | float | bool, dtype: str) -> bytes:
    """A scalar parameter as the program reads it: its bytes, padded to eight."""
    return struct.pack("<" + _FORMATS[dtype], value).ljust(8, b"\0")


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes()


def _request(tensors: list[Argument], launches: tuple[Launch, ...], poison: int) -> bytes:
    def numbers(*values: int) -> bytes:
        return struct.pack(f"<{len(values)}Q", *values)

    traced = sum(argument.elements for argument in tensors) <= _TRACED_ELEMENTS
    parts = [numbers(len(tensors))]
    for argument in tensors:
        item = torch_dtype(argument.dtype).itemsize
        # torch's own allocations are 64-byte aligned, cudaMalloc's 256: only what a view adds to that is kept.
        misalignment = 0
        if argument.value is not None:
            misalignment = argument.value.storage_offset() * item % 256
        parts.append(numbers(argument.elements * item, misalignment, argument.fresh, poison, item if traced else 0))
        if argument.value is not None:
            parts.append(_bytes(argument.value))
    parts.append(numbers(len(launches)))
    for launch in launches:
        parts.append(numbers(launch.kernel, *launch.grid, *launch.block, launch.dynamic_shared_bytes))
        parts.append(numbers(len(launch.arguments)))
        for argument in launch.arguments:
            parts.append(numbers(1, argument) if isinstance(argument, int) else numbers(0) + argument)
    return b"".join(parts)


def _read_faults(path: Path) -> tuple[RawFault, ...]:
    if not path.exists():
        return ()

    def triple(text: str) -> tuple[int, int, int]:
        x, y, z = map(int, text.split(","))
        return x, y, z

    faults = []
    for line in path.read_text(errors="replace").splitlines():
        kind, address, buffer, offset, size, write, block, thread, count, text = line.split("\t", 9)
        numbers = (int(address, 16), int(buffer), int(offset), int(size), int(write))
        faults.append(RawFault(kind, *numbers, triple(block), triple(thread), int(count), text))
    return tuple(faults)


def _stopped(tensors: list[Argument], faults: tuple[RawFault, ...]) -> RunResult:
    """After a crash or a timeout nothing comes back: inputs as given, zeros for what the call was to make."""
    values = {t.name: torch.zeros(t.shape, dtype=torch_dtype(t.dtype)) if t.value is None else t.value.clone() for t in tensors}
    return RunResult(values, frozenset(), {}, faults, True, "")


def _results(data: bytes, tensors: list[Argument], faults: tuple[RawFault, ...], printed: str) -> RunResult:
    values, unwritten, written, at = {}, {}, set(), 0
    content = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    for argument in tensors:
        dtype = torch_dtype(argument.dtype)
        size = argument.elements * dtype.itemsize
        # A copy, so that the view as another dtype starts aligned.
        values[argument.name] = content[at : at + size].clone().view(dtype).reshape(argument.shape)
        at += size
        if argument.fresh:
            flags = content[at : at + size].reshape(*argument.shape, dtype.itemsize)
            unwritten[argument.name] = ~flags.bool().any(dim=-1)
            at += size
        if content[at]:
            written.add(argument.name)
        at += 1
    return RunResult(values, frozenset(written), unwritten, faults, bool(content[at]), printed)
