"""From CUDA text to SASS, with no GPU: nvcc compiles it, nvdisasm reads it back, each instruction with its Python line."""

import re
import shlex
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tilelang.transform import PassConfigKey

from ..cache import cached
from ..errors import ScopeError
from ..frontend.lowering import Lowered
from ..frontend.source_lines import pin_lines
from .toolchain import include_flags, tool

# Instructions that move global or local memory; LDGSTS is cp.async, UBLKCP and UTMA* are the bulk copy engine.
_MEMORY = re.compile(r"^(LDG|STG|LDL|STL|LD|ST|ATOMG|ATOM|REDG|RED|LDGSTS|UBLKCP|UTMALDG|UTMASTG)(\.|$)")
_INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
_SIZE = re.compile(r"[US]?(8|16|64|128|256)")
_LOCATION = re.compile(r'//## File "([^"]+)", line (\d+)')


@dataclass(frozen=True)
class Instruction:
    """One SASS instruction. predicate: "@!P0" or "". file, line: the Python line that it came from, or None."""

    predicate: str
    opcode: str
    operands: str
    file: str | None
    line: int | None

    @property
    def touches_memory(self) -> bool:
        """Whether it moves global or local memory."""
        return bool(_MEMORY.match(self.opcode))

    def __str__(self) -> str:
        return f"{self.predicate:>5} {self.opcode} {self.operands}".rstrip()


@dataclass(frozen=True)
class Sass:
    """Machine code of one kernel. spill_bytes: local memory that ptxas reports as spilled, stores and loads together."""

    instructions: tuple[Instruction, ...]
    registers: int
    spill_bytes: int

    def memory_counts(self) -> dict[str, int]:
        """Mnemonic -> count of the instructions that move global or local memory, in order of first use."""
        return dict(Counter(i.opcode for i in self.instructions if i.touches_memory))

    def count(self, prefix: str) -> int:
        """Number of instructions whose mnemonic is `prefix` or starts with `prefix.`."""
        return sum(i.opcode == prefix or i.opcode.startswith(prefix + ".") for i in self.instructions)

    def global_widths(self) -> tuple[int, ...]:
        """The different widths of the global loads and stores, in bytes a lane, widest first."""
        widths = set()
        for instruction in self.instructions:
            name, *modifiers = instruction.opcode.split(".")
            if name in ("LDG", "STG", "LDGSTS"):
                # LDG.E.128.CONSTANT, LDG.E.ENL2.256, STG.E.U16; no size among the modifiers means 32 bits.
                bits = [int(found[1]) for modifier in modifiers if (found := _SIZE.fullmatch(modifier))]
                widths.add(bits[0] // 8 if bits else 4)
        return tuple(sorted(widths, reverse=True))


def disassemble(lowered: Lowered) -> dict[str, Sass]:
    """Compile `lowered.source` for its architecture; machine code by kernel name. Raises ScopeError with nvcc's message."""
    source = pin_lines(lowered.source)
    nvcc, nvdisasm = tool("nvcc"), tool("nvdisasm")
    command = [str(nvcc), *_flags(lowered)]

    def make(folder: Path) -> None:
        (folder / "kernel.cu").write_text(source)
        log = _run([*command, "-o", "kernel.cubin", "kernel.cu"], folder, f"nvcc refused {lowered.program.name}")
        (folder / "ptxas.txt").write_text(log)
        (folder / "kernel.sass").write_text(_run([str(nvdisasm), "-gi", "-c", "kernel.cubin"], folder, "nvdisasm failed"))

    compilers = [f"{path} {path.stat().st_mtime_ns}" for path in (nvcc, nvdisasm)]
    entry = cached("sass", (source, *command, *compilers), make)
    resources = _resources((entry / "ptxas.txt").read_text())
    code = _parse((entry / "kernel.sass").read_text())
    return {name: Sass(tuple(code[name]), *resources[name]) for name in code}


def _flags(lowered: Lowered) -> list[str]:
    """The flags that TileLang gives nvcc for this program (a test compares the machine code), and a resource report."""
    config = lowered.program.pass_configs
    arch = lowered.arch.removeprefix("sm_")
    flags = ["-cubin", "-O3", "-lineinfo", "-w", "-std=c++20", *include_flags()]
    flags += ["-gencode", f"arch=compute_{arch},code=sm_{arch}", "-Xptxas", "-v"]
    extra = config.get(PassConfigKey.TL_DEVICE_COMPILE_FLAGS.value) or ()
    for text in ([extra] if isinstance(extra, str) else [*extra]) + [*lowered.program.compile_flags]:
        flags += shlex.split(str(text))
    if config.get(PassConfigKey.TL_ENABLE_FAST_MATH.value):
        flags.append("--use_fast_math")
    if (level := config.get(PassConfigKey.TL_PTXAS_REGISTER_USAGE_LEVEL.value)) is not None:
        flags.append(f"--ptxas-options=--register-usage-level={int(level)}")
    return flags


def _run(command: list[str], folder: Path, what: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise ScopeError(f"{what}: {(done.stderr or done.stdout).strip()[:2000]}")
    return done.stdout + done.stderr


def _resources(log: str) -> dict[str, tuple[int, int]]:
    """(registers, spilled bytes) by kernel name, from ptxas -v."""
    found = {}
    for block in log.split("Compiling entry function '")[1:]:
        spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", block)
        registers = re.search(r"Used (\d+) registers", block)
        found[block.split("'")[0]] = (int(registers[1]), int(spills[1]) + int(spills[2]))
    return found


def _parse(text: str) -> dict[str, list[Instruction]]:
    code: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    location: tuple[str | None, int | None] = (None, None)
    for line in text.splitlines():
        if line.startswith(".text."):
            current = code.setdefault(line[len(".text.") :].rstrip(":"), [])
            location = (None, None)
        elif found := _LOCATION.search(line):
            # One comment a stack frame, the innermost first: the last one before the instruction is the kernel's.
            location = (found[1], int(found[2])) if found[1].endswith(".py") else (None, None)
        elif found := _INSTRUCTION.match(line):
            _, predicate, opcode, operands = found.groups()
            current.append(Instruction(predicate or "", opcode, operands.strip(), *location))
    return code
