"""The tensors and numbers of one emulated call: checked against the kernel's parameters, dynamic sizes bound from them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tvm import arith, tirx

from ..errors import NotEmulated
from ..frontend.program import Program


@dataclass(frozen=True)
class Argument:
    """One parameter of the program with its value.

    value: a CPU tensor; None for an output that the call makes, of `shape` and `dtype`; a number for a scalar parameter.
    index: position among the program's parameters. fresh: an output whose content nobody has given.
    """

    name: str
    index: int
    value: torch.Tensor | int | float | bool | None
    shape: tuple[int, ...]
    dtype: str
    fresh: bool

    @property
    def is_tensor(self) -> bool:
        return self.value is None or isinstance(self.value, torch.Tensor)

    @property
    def elements(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count


def bind(program: Program, given: Sequence[object]) -> tuple[tuple[Argument, ...], dict[str, int]]:
    """Return the call's arguments in parameter order, and the value of every dynamic size by name.

    given: the parameters that are not in `program.out_idx`, or all of them, in order.
    Raises ValueError that names the argument for a wrong count, dtype, shape, device or layout; NotEmulated for a dtype
    that PyTorch lacks.
    """
    params = list(program.func.params)
    inputs = [i for i in range(len(params)) if i not in program.out_idx]
    if len(given) not in (len(inputs), len(params)):
        names = ", ".join(_name(program, i) for i in inputs)
        also = f", or all {len(params)} parameters" if program.out_idx else ""
        raise ValueError(f"{program.name} got {len(given)} tensors; pass its {len(inputs)} inputs ({names}){also}")
    everything = len(given) == len(params)
    values: dict[int, object] = dict(zip(range(len(params)) if everything else inputs, given, strict=True))

    sizes: dict[str, int] = {}
    for i, value in values.items():
        buffer = program.func.buffer_map.get(params[i])
        if buffer is None:
            _check_number(program, i, value)
            if str(params[i].dtype).startswith(("int", "uint")):
                sizes[params[i].name] = int(value)
        else:
            _check_tensor(program, i, value, buffer, sizes)
    arguments = []
    for i, param in enumerate(params):
        buffer = program.func.buffer_map.get(param)
        fresh = i not in values
        if buffer is None:
            arguments.append(Argument(_name(program, i), i, values[i], (), str(param.dtype), False))
            continue
        shape = tuple(evaluate(extent, sizes) for extent in buffer.shape)
        value = None if fresh else values[i]
        if value is not None and tuple(value.shape) != shape:
            raise ValueError(f"{program.name}: {buffer.name} has shape {tuple(value.shape)}, the kernel wants {shape}")
        arguments.append(Argument(str(buffer.name), i, value, shape, str(buffer.dtype), fresh))
    return tuple(arguments), sizes


def torch_dtype(dtype: str) -> torch.dtype:
    """PyTorch's name for a TileLang dtype ("float8_e4m3fn"). Raises NotEmulated where it has none."""
    found = getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype):
        raise NotEmulated(f"PyTorch has no dtype for {dtype} tensors, so the emulator cannot pass them")
    return found


def evaluate(expression: object, sizes: dict[str, int]) -> int:
    """Value of a shape or grid expression. Raises ValueError that names a size that no tensor's shape tells."""
    if isinstance(expression, int | tirx.IntImm):
        return int(expression)
    values: dict[tirx.Var, tirx.PrimExpr] = {}

    def collect(node: object) -> None:
        if isinstance(node, tirx.Var):
            if node.name not in sizes:
                raise ValueError(f"no argument tells the size {node.name}")
            values[node] = tirx.IntImm(node.dtype, sizes[node.name])

    tirx.stmt_functor.post_order_visit(expression, collect)
    result = arith.Analyzer().simplify(tirx.stmt_functor.substitute(expression, values))
    if not isinstance(result, tirx.IntImm):
        raise NotEmulated(f"the extent {expression} has no value that the emulator can work out")
    return int(result)


def _name(program: Program, i: int) -> str:
    param = program.func.params[i]
    buffer = program.func.buffer_map.get(param)
    return str(buffer.name if buffer is not None else param.name)


def _check_number(program: Program, i: int, value: object) -> None:
    dtype = str(program.func.params[i].dtype)
    name = _name(program, i)
    if isinstance(value, torch.Tensor) or not isinstance(value, int | float | bool):
        raise ValueError(f"{program.name}: {name} is a {dtype} parameter; pass a number, not {type(value).__name__}")
    if dtype.startswith(("int", "uint")) and not isinstance(value, int):
        raise ValueError(f"{program.name}: {name}={value!r} is not an integer; the parameter is {dtype}")
    if dtype not in _NUMBERS:
        raise NotEmulated(f"scalar parameters of dtype {dtype} ({name}) cannot be passed; use float32 or a tensor")


_NUMBERS = ("int32", "int64", "uint32", "uint64", "float32", "float64", "bool", "int8", "uint8", "int16", "uint16")


def _check_tensor(program: Program, i: int, value: object, buffer: tirx.Buffer, sizes: dict[str, int]) -> None:
    where = f"{program.name}: {buffer.name}"
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"{where} is a tensor parameter; pass a CPU tensor, not {type(value).__name__}")
    if value.device.type != "cpu":
        raise ValueError(f"{where} is on {value.device}; the emulator reads CPU tensors, use .cpu()")
    wanted = torch_dtype(str(buffer.dtype))
    if value.dtype != wanted:
        raise ValueError(f"{where} is {value.dtype}, the kernel wants {wanted}; use .to({wanted})")
    if value.dim() != len(buffer.shape):
        raise ValueError(f"{where} has shape {tuple(value.shape)}, the kernel wants {len(buffer.shape)} dimension(s)")
    if not value.is_contiguous():
        raise ValueError(f"{where} has strides {value.stride()}, the kernel wants a contiguous tensor; use .contiguous()")
    for extent, expression in zip(value.shape, buffer.shape, strict=True):
        _solve(expression, int(extent), sizes)


def _solve(expression: object, extent: int, sizes: dict[str, int]) -> None:
    """Learn the one unknown size of `expression` from the extent that a tensor has there (n, or n * 8)."""
    if isinstance(expression, int | tirx.IntImm):
        return
    unknown: set[str] = set()

    def collect(node: object) -> None:
        if isinstance(node, tirx.Var) and node.name not in sizes:
            unknown.add(node.name)

    tirx.stmt_functor.post_order_visit(expression, collect)
    if len(unknown) != 1:
        return
    (name,) = unknown
    base = evaluate(expression, {**sizes, name: 0})
    slope = evaluate(expression, {**sizes, name: 1}) - base
    if slope and (extent - base) % slope == 0:
        sizes[name] = (extent - base) // slope
