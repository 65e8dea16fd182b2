"""`@checked`: a compiled kernel that refuses a bad tensor before anything reaches the GPU, in words that help.

TileLang's launch code checks dtype, shape, strides and device, but not whether a pointer is aligned for the vector
accesses that it generated: a view such as `x[1:]` would fault on the GPU and poison the CUDA context for good. And its
messages name no value. `checked` adds the one check that is missing, and explains the others.
"""

import functools
from collections.abc import Sequence

import torch
from tilelang import tvm
from tilelang.jit import JITImpl, JITKernel

from ..analysis.accesses import accesses
from ..analysis.sass import disassemble
from ..frontend.lowering import lower
from ..frontend.program import Program, factory_name

WIDEST = 32  # bytes: no generated access is wider, and PyTorch's allocations are aligned to more
BULK_COPY = 16  # bytes: what a tensor that the bulk copy engine reads or writes has to be aligned to
INT32_MAX = 2**31 - 1


def checked(factory: JITImpl) -> JITImpl:
    """Make every kernel that `factory` compiles check its tensors. Goes above `@tilelang.jit(out_idx=...)`.

    A call that passes costs one pointer test a tensor. Otherwise ValueError or TypeError names the tensor, its value
    and the way out; nothing was launched, and the next valid call works.
    """
    compile_ = factory.compile

    @functools.wraps(compile_)
    def compile_checked(*args, **kwargs):
        kernel = compile_(*args, **kwargs)
        if not isinstance(kernel.torch_function, _CheckedLaunch):
            kernel.torch_function = _CheckedLaunch(factory_name(factory), kernel, factory.out_idx)
        return kernel

    factory.compile = compile_checked
    return factory


class _CheckedLaunch:
    """Stands where the kernel's launch function stood."""

    def __init__(self, name: str, kernel: JITKernel, out_idx: Sequence[int] | int | None) -> None:
        self.name, self.kernel, self.launch = name, kernel, kernel.torch_function
        func = kernel.prim_func
        outputs = [out_idx] if isinstance(out_idx, int) else list(out_idx or ())
        outputs = {index % len(func.params) for index in outputs}
        self.buffers = [func.buffer_map[p] for i, p in enumerate(func.params) if i not in outputs and p in func.buffer_map]

    def __call__(self, *tensors):
        try:
            aligned = all(tensor.data_ptr() % WIDEST == 0 for tensor in tensors)
            if aligned and len(tensors) == len(self.buffers):
                self.refuse_large(tensors)
                return self.launch(*tensors)
        except (AttributeError, RuntimeError):
            # Not a tensor, or TileLang's launch code refused one: say which, and why.
            check_tensors(self.name, self.buffers, tensors, self.alignment, self.device_type)
            raise
        check_tensors(self.name, self.buffers, tensors, self.alignment, self.device_type)
        return self.launch(*tensors)

    def refuse_large(self, tensors: Sequence[torch.Tensor]) -> None:
        """TileLang's launch code cuts a size to the 32 bits of T.dynamic("n") without a word."""
        if any(tensor.numel() > INT32_MAX for tensor in tensors):
            check_tensors(self.name, self.buffers, tensors, self.alignment, self.device_type)

    @functools.cached_property
    def alignment(self) -> dict[str, int]:
        """Bytes that each tensor has to be aligned to: the widest access that the generated code makes of it; of a
        hand-written kernel, the widest in its machine code, which does not say of which tensor."""
        kernel = self.kernel
        program = Program(self.name, kernel.prim_func, {}, (), dict(kernel.pass_configs or {}), ())
        lowered = lower(program, str(kernel.target.attrs["arch"]))
        found = [access for part in lowered.kernels for access in accesses(lowered, part)[0]]
        widest: dict[str, int] = {}
        for access in found:
            widest[access.buffer] = max(widest.get(access.buffer, 1), access.bytes_per_lane)
        for part in lowered.kernels:
            if part.hand_written:
                width = max(disassemble(lowered)[part.name].global_widths(), default=1)
                widest.update({name: max(widest.get(name, 1), width) for name in part.tensors.values()})
            for name in part.tensors.values():
                widest.setdefault(name, BULK_COPY)  # no access of it is counted: the bulk copy engine moves it
        return widest

    @property
    def device_type(self) -> str:
        return str(self.kernel.target.kind.name)


def check_tensors(
    name: str,
    buffers: Sequence[tvm.tirx.Buffer],
    tensors: Sequence[object],
    alignment: dict[str, int],
    device_type: str | None,
) -> None:
    """Compare `tensors` with the parameters that a kernel declares; raise on the first that does not fit.

    alignment: bytes by tensor name. device_type: "cuda", or None when any device will do.
    """
    if len(tensors) != len(buffers):
        expected = ", ".join(buffer.name for buffer in buffers)
        raise ValueError(f"{name} takes {len(buffers)} tensors ({expected}), got {len(tensors)}")
    sizes: dict[str, tuple[int, str]] = {}
    first_device = None
    for buffer, tensor in zip(buffers, tensors, strict=True):
        what = f"{name}: tensor {buffer.name}"
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{what} is {type(tensor).__name__}, not a torch.Tensor")
        dtype = getattr(torch, str(buffer.dtype))
        if tensor.dtype != dtype:
            raise ValueError(f"{what} has dtype {tensor.dtype}, the kernel was compiled for {dtype}; convert it with .to()")
        _check_shape(what, buffer, tensor, sizes)
        if not tensor.is_contiguous():
            raise ValueError(f"{what} has strides {tuple(tensor.stride())}, it has to be contiguous; use .contiguous()")
        if device_type is not None and tensor.device.type != device_type:
            raise ValueError(f"{what} is on {tensor.device}, the kernel runs on {device_type}; use .to({device_type!r})")
        if first_device is not None and tensor.device != first_device:
            raise ValueError(f"{what} is on {tensor.device}, the tensors before it are on {first_device}")
        first_device = tensor.device
        needed = alignment.get(buffer.name, 1)
        if tensor.data_ptr() % needed:
            raise ValueError(
                f"{what} starts {tensor.data_ptr() % needed} bytes past a multiple of {needed}, and the kernel accesses it "
                f"{needed} bytes at a time; use .clone(), or a kernel with scalar accesses"
            )


def _check_shape(what: str, buffer: tvm.tirx.Buffer, tensor: torch.Tensor, sizes: dict[str, tuple[int, str]]) -> None:
    """Static sizes are equal; a dynamic one is the same wherever it appears, and fits its integer type."""
    shape = tuple(tensor.shape)
    declared = "(" + ", ".join(map(str, buffer.shape)) + ("," if len(buffer.shape) == 1 else "") + ")"
    if len(shape) != len(buffer.shape):
        raise ValueError(f"{what} has shape {shape}, the kernel was compiled for {declared}")
    for have, want in zip(shape, buffer.shape, strict=True):
        if isinstance(want, tvm.tirx.IntImm):
            if have != int(want):
                raise ValueError(f"{what} has shape {shape}, the kernel was compiled for {declared}")
        elif isinstance(want, tvm.tirx.Var):
            if str(want.dtype) == "int32" and have > INT32_MAX:
                raise ValueError(f'{what} has {have} elements, past the int32 of {want}; use T.dynamic("{want}", "int64")')
            if have == 0:
                raise ValueError(f"{what} is empty, {want}=0; an empty tensor needs no kernel")
            before, owner = sizes.setdefault(want.name, (have, buffer.name))
            if before != have:
                raise ValueError(f"{what} has {want}={have}, tensor {owner} has {want}={before}")
