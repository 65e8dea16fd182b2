"""Run a kernel once, on the GPU when there is one, else emulated, and say how it ran and what went wrong."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import tilelang
import torch
from tilelang import tvm

from ..analysis.access_sites import find_sites
from ..emulator.arguments import torch_dtype
from ..errors import ScopeError
from ..frontend.lowering import Lowered, lower_factory
from ..frontend.program import Program, build
from ..frontend.target import FALLBACK_ARCH, default_arch, gpu_arch

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
    if _on_gpu(arch):
        return _run_on_gpu(build(factory, **args), inputs)
    return _emulated(lower_factory(factory, arch or FALLBACK_ARCH, args), inputs)


def run_random(factory: Callable, *, arch: str | None = None, **args: object) -> Run:
    """`run` on normally distributed inputs (integers: 0 to 99). Tensors that the kernel only stores to are outputs, whether
    the factory says so with `out_idx` or not. Raises ScopeError when a size is dynamic."""
    lowered = lower_factory(factory, arch or gpu_arch() or FALLBACK_ARCH, args)
    program = lowered.program
    if not program.out_idx:
        program = replace(program, out_idx=_only_stored(lowered))
    inputs = [_random(program, param) for index, param in enumerate(program.func.params) if index not in program.out_idx]
    if _on_gpu(arch):
        return _run_on_gpu(program, inputs)
    return _emulated(replace(lowered, program=program), inputs)


def _on_gpu(arch: str | None) -> bool:
    return gpu_arch() is not None and arch in (None, gpu_arch())


def _emulated(lowered: Lowered, inputs: Sequence[torch.Tensor]) -> Run:
    from ..emulator.emulation import run_lowered

    result = run_lowered(lowered, *inputs)
    problems = [str(fault) for fault in result.faults]
    problems += [f"{name}: {count} elements never written" for name, count in result.unwritten.items() if count]
    return Run(f"emulated {lowered.arch}", result.outputs, tuple(problems))


def _only_stored(lowered: Lowered) -> tuple[int, ...]:
    """Positions of the tensors that no kernel of the program loads."""
    program = lowered.program
    sites = [(kernel, site) for kernel in lowered.kernels for site in find_sites(kernel).sites]
    loaded, stored = ({kernel.tensors.get(site.pointer) for kernel, site in sites if site.op == op} for op in ("load", "store"))
    names = [program.func.buffer_map[param].name if param in program.func.buffer_map else "" for param in program.func.params]
    return tuple(index for index, name in enumerate(names) if name in stored - loaded)


def _random(program: Program, param: tvm.tirx.Var) -> torch.Tensor:
    buffer = program.func.buffer_map.get(param)
    name = param.name.removesuffix("_handle")
    if buffer is None:
        raise ScopeError(
            f"{program.name}: --run makes random tensors, and {name} is a number; write a test with tilescope.emulate"
        )
    if not all(isinstance(size, tvm.tirx.IntImm) for size in buffer.shape):
        raise ScopeError(f"{program.name}: --run needs every size as a number, and {name} has shape {list(buffer.shape)}")
    shape, dtype = [int(size) for size in buffer.shape], torch_dtype(str(buffer.dtype))
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 100, shape).to(dtype)


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
