"""Run a kernel once, on the GPU when there is one, else emulated, and say how it ran and what went wrong."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tilelang
import torch
from tilelang import tvm

from .errors import ScopeError
from .program import Program, build
from .target import FALLBACK_ARCH, default_arch, gpu_arch

GUARD_BYTES = 4096  # before and after every tensor on the GPU; the emulator's own bands are wider
POISON = 0xA5  # fills the bands and, before a run, every output


@dataclass(frozen=True)
class Run:
    """how: "NVIDIA H200" or "emulated sm_90a". outputs: what the kernel returns. problems: faults, empty when clean."""

    how: str
    outputs: tuple[torch.Tensor, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        return "\n".join([f"{self.how}: " + ("no fault" if self.ok else "FAULTS"), *self.problems])


def run(factory: Callable, inputs: Sequence[torch.Tensor], *, arch: str | None = None, **args: object) -> Run:
    """Run `factory(**args)` on `inputs` (CPU tensors, in parameter order without the outputs).

    arch: what to emulate where there is no GPU of it; the default is the GPU's, else sm_90a.
    Raises NotEmulated when there is no GPU and the emulator lacks something: the kernel did not run.
    """
    if gpu_arch() and arch in (None, gpu_arch()):
        return _run_on_gpu(build(factory, **args), inputs)
    from .emulation import emulate

    arch = arch or FALLBACK_ARCH
    result = emulate(factory, *inputs, arch=arch, **args)
    problems = [str(fault) for fault in result.faults]
    problems += [f"{name}: {count} elements never written" for name, count in result.unwritten.items() if count]
    return Run(f"emulated {arch}", result.outputs, tuple(problems))


def run_random(factory: Callable, *, arch: str | None = None, **args: object) -> Run:
    """`run` on normally distributed inputs (integers: 0 to 99). Raises ScopeError when a size is dynamic."""
    program = build(factory, **args)
    inputs = []
    for index, param in enumerate(program.func.params):
        if index in program.out_idx:
            continue
        buffer = program.func.buffer_map.get(param)
        if buffer is None or not all(isinstance(size, tvm.tirx.IntImm) for size in buffer.shape):
            raise ScopeError(f"{program.name}: --run needs every size; give {param.name.removesuffix('_handle')}'s as integers")
        shape, dtype = [int(size) for size in buffer.shape], getattr(torch, str(buffer.dtype))
        if dtype.is_floating_point:
            inputs.append(torch.randn(shape).to(dtype))
        else:
            inputs.append(torch.randint(0, 2 if dtype == torch.bool else 100, shape).to(dtype))
    return run(factory, inputs, arch=arch, **args)


def _run_on_gpu(program: Program, inputs: Sequence[torch.Tensor]) -> Run:
    """The same kernel, compiled to take its outputs as arguments, so that they can be poisoned and fenced in."""
    kernel = tilelang.compile(
        program.func,
        out_idx=None,
        pass_configs=program.pass_configs or None,
        compile_flags=list(program.compile_flags) or None,
    )
    names, sizes = [], {}
    given = iter(inputs)
    fenced, tensors = [], []
    for index, param in enumerate(program.func.params):
        buffer = program.func.buffer_map[param]
        names.append(buffer.name)
        if index in program.out_idx:
            shape = [_size(size, sizes) for size in buffer.shape]
            raw, tensor = _fence(shape, getattr(torch, str(buffer.dtype)))
        else:
            source = next(given)
            sizes.update({s: n for s, n in zip(buffer.shape, source.shape, strict=True) if isinstance(s, tvm.tirx.Var)})
            raw, tensor = _fence(source.shape, source.dtype)
            tensor.copy_(source)
        fenced.append(raw)
        tensors.append(tensor)
    kernel(*tensors)
    torch.cuda.synchronize()
    problems = []
    for name, raw in zip(names, fenced, strict=True):
        if (raw[:GUARD_BYTES] != POISON).any() or (raw[-GUARD_BYTES:] != POISON).any():
            problems.append(f"{name}: bytes outside the tensor were overwritten")
    outputs = tuple(tensors[index].cpu() for index in program.out_idx)
    return Run(torch.cuda.get_device_name(), outputs, tuple(problems))


def _size(size: object, sizes: dict) -> int:
    return int(size) if isinstance(size, tvm.tirx.IntImm) else sizes[size]


def _fence(shape: Sequence[int], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """(all bytes, the tensor between the bands)."""
    size = torch.Size(shape).numel() * dtype.itemsize
    raw = torch.full((GUARD_BYTES + size + GUARD_BYTES,), POISON, dtype=torch.uint8, device="cuda")
    return raw, raw[GUARD_BYTES : GUARD_BYTES + size].view(dtype).view(torch.Size(shape))


def describe_machine(arch: str | None = None) -> str:
    """How `run` would run here."""
    if gpu_arch():
        return f"on the GPU: {torch.cuda.get_device_name()}"
    return f"emulated on the CPU (no GPU here): the CUDA generated for {arch or default_arch()}, under sanitizers"
