"""Find every global-memory access in lowered TIR, with the loops and conditions around it. Nothing is evaluated here."""

from collections.abc import Callable
from dataclasses import dataclass, field

import tvm_ffi
from tilelang.ir import get_stmt_span
from tvm import DataType, tirx

from ..frontend.lowering import DeviceKernel
from .tir_values import call_name

# T.ldg128 and its kind: what they do, and the bytes that they move.
_WIDE = {f"ldg{8 * width}": ("load", width) for width in (4, 8, 16, 32)}
_WIDE |= {f"stg{8 * width}": ("store", width) for width in (4, 8, 16, 32)}


@dataclass(frozen=True)
class Site:
    """One load or store of global memory, as it stands in the code.

    pointer: its name in the generated code. op: "load" or "store". dtype, element_bytes: of one element.
    index: first element. lanes: elements that one thread accesses at once, contiguous.
    loops: (variable, first value, extent) from the outside in. conditions: all hold when the access runs.
    file, line: the Python line of the statement, or None.
    """

    pointer: str
    op: str
    dtype: str
    element_bytes: int
    index: object
    lanes: int
    loops: tuple[tuple[tirx.Var, object, object], ...]
    conditions: tuple[object, ...]
    file: str | None
    line: int | None


@dataclass
class Sites:
    """All sites of one kernel. bindings: variable -> the expression that it names. notes: what the model leaves out."""

    sites: list[Site] = field(default_factory=list)
    bindings: dict[tirx.Var, object] = field(default_factory=dict)
    threads: dict[str, tirx.Var] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def find_sites(kernel: DeviceKernel) -> Sites:
    """Walk the body of `kernel` in program order."""
    walker = _Walker()
    walker.statement(kernel.body)
    return walker.found


class _Walker:
    """Recursive walk; `loops`, `conditions` and the source line are what surrounds the node at hand."""

    def __init__(self) -> None:
        self.found = Sites()
        self.loops: list[tuple[tirx.Var, object, object]] = []
        self.conditions: list[object] = []
        self.location: tuple[str | None, int | None] = (None, None)
        self.seen: list[Site] = []  # loads of the statement at hand, for the compiler loads each once

    # -- statements -------------------------------------------------------------------------------------------------
    def statement(self, stmt: object) -> None:
        if stmt is None:
            return
        span = get_stmt_span(stmt)
        outer = self.location
        if span is not None:
            self.location = (span.source_name.name, span.line)
        self.seen = []
        getattr(self, f"_{type(stmt).__name__.lower()}", self._other)(stmt)
        self.location = outer

    def _seqstmt(self, stmt: tirx.SeqStmt) -> None:
        for child in stmt.seq:
            self.statement(child)

    def _attrstmt(self, stmt: tirx.AttrStmt) -> None:
        if stmt.attr_key == "thread_extent":
            self.found.threads[str(stmt.node.thread_tag)] = stmt.node.var
        elif stmt.attr_key != "tl.assume":
            self.expression(stmt.value)
        self.statement(stmt.body)

    def _bind(self, stmt: tirx.Bind) -> None:
        self.expression(stmt.value)
        self.found.bindings[stmt.var] = stmt.value

    def _for(self, stmt: tirx.For) -> None:
        self.expression(stmt.min)
        self.expression(stmt.extent)
        self.loops.append((stmt.loop_var, stmt.min, stmt.extent))
        self.statement(stmt.body)
        self.loops.pop()

    def _while(self, stmt: tirx.While) -> None:
        self.expression(stmt.condition)
        self.note("a while loop: its accesses are counted for one iteration")
        self.statement(stmt.body)

    def _ifthenelse(self, stmt: tirx.IfThenElse) -> None:
        self.expression(stmt.condition)
        self.under(stmt.condition, visit=lambda: self.statement(stmt.then_case))
        self.under(tirx.Not(stmt.condition), visit=lambda: self.statement(stmt.else_case))

    def _bufferstore(self, stmt: tirx.BufferStore) -> None:
        for index in stmt.indices:
            self.expression(index)
        self.expression(stmt.value)
        if stmt.buffer.scope() == "global":
            self.access("store", stmt.buffer.data.name, stmt.buffer.dtype, stmt.indices)

    def _evaluate(self, stmt: tirx.Evaluate) -> None:
        self.expression(stmt.value)

    def _other(self, stmt: object) -> None:
        for name in ("condition", "value"):
            if (expr := getattr(stmt, name, None)) is not None:
                self.expression(expr)
        if (body := getattr(stmt, "body", None)) is not None:
            self.statement(body)

    def under(self, *conditions: object, visit: Callable[[], None]) -> None:
        self.conditions += conditions
        visit()
        del self.conditions[len(self.conditions) - len(conditions) :]

    def either(self, condition: object, then: object, otherwise: object) -> None:
        self.expression(condition)
        self.under(condition, visit=lambda: self.expression(then))
        self.under(tirx.Not(condition), visit=lambda: self.expression(otherwise))

    # -- expressions ------------------------------------------------------------------------------------------------
    def expression(self, expr: object) -> None:
        if isinstance(expr, tirx.BufferLoad):
            for index in expr.indices:
                self.expression(index)
            if expr.buffer.scope() == "global":
                self.access("load", expr.buffer.data.name, expr.buffer.dtype, expr.indices)
        elif isinstance(expr, tirx.Select):  # printed as a C conditional: one side is read
            self.either(expr.condition, expr.true_value, expr.false_value)
        elif isinstance(expr, tirx.Let):
            self.expression(expr.value)
            self.found.bindings[expr.var] = expr.value
            self.expression(expr.body)
        elif isinstance(expr, tirx.Call):
            self.call(expr)
        else:
            for name in ("a", "b", "value", "base", "vectors"):
                child = getattr(expr, name, None)
                for part in child if isinstance(child, tvm_ffi.Array) else (child,):
                    if isinstance(part, tirx.PrimExpr):
                        self.expression(part)

    def call(self, call: tirx.Call) -> None:
        name, args = call_name(call), list(call.args)
        if name == "if_then_else":
            self.either(*args)
        elif name in _WIDE:  # ldg(pointer, [predicate]), stg(pointer, value, [predicate])
            op, width = _WIDE[name]
            for arg in args[1:]:
                self.expression(arg)
            predicate = args[1:] if op == "load" else args[2:]
            self.under(*predicate, visit=lambda: self.pointer(op, args[0], width))
        elif name == "ptx_cp_async":  # (shared destination, global source, elements, [predicate])
            width = int(args[2]) * _pointer_dtype(args[1]).itemsize
            self.under(*args[3:], visit=lambda: self.pointer("load", args[1], width))
        elif name.startswith("tma_"):  # its tensor is behind a descriptor that the host makes
            self.note(f"{name}: the bulk copy engine moves a tile, its sectors are not counted")
        else:
            for arg in args:
                if (target := _global_pointer(arg)) is not None:
                    self.note(f"{_callee(call)} on {target}: not a plain load or store, its sectors are not counted")
                self.expression(arg)

    # -- records ----------------------------------------------------------------------------------------------------
    def pointer(self, op: str, pointer: object, width: int) -> None:
        """An access of `width` bytes through tvm_access_ptr(dtype, data, offset, ...) or address_of(load)."""
        if isinstance(pointer, tirx.Call) and call_name(pointer) == "tvm_access_ptr":
            dtype = _pointer_dtype(pointer)
            self.record(op, pointer.args[1].name, dtype, pointer.args[2], width // dtype.itemsize)
        elif isinstance(pointer, tirx.Call) and call_name(pointer) == "address_of":
            load = pointer.args[0]
            dtype = DataType(str(load.buffer.dtype))
            self.record(op, load.buffer.data.name, dtype, load.indices[0], width // dtype.itemsize)
        else:
            self.note(f"a {op} through a pointer that is not understood: its sectors are not counted")

    def access(self, op: str, pointer: str, dtype: object, indices: object) -> None:
        element = DataType(str(dtype))
        if len(indices) != 1:
            self.note(f"{pointer} is indexed in {len(indices)} dimensions after lowering: its sectors are not counted")
            return
        index = indices[0]
        if isinstance(index, tirx.Ramp) and int(index.stride) == 1:
            self.record(op, pointer, element, index.base, int(index.lanes))
        elif isinstance(index, tirx.Ramp):  # strided vector: TileLang prints one scalar access a lane
            for lane in range(int(index.lanes)):
                self.record(op, pointer, element, index.base + lane * index.stride, 1)
        elif isinstance(index, tirx.Broadcast):
            self.record(op, pointer, element, index.value, 1)
        else:
            self.record(op, pointer, element, index, 1)

    def record(self, op: str, pointer: str, dtype: DataType, index: object, lanes: int) -> None:
        if dtype.bits < 8:
            self.note(f"{pointer} has elements of {dtype.bits} bits: accesses of less than a byte are not counted")
            return
        site = Site(
            pointer=pointer,
            op=op,
            dtype=str(dtype).split("x")[0] if dtype.lanes > 1 else str(dtype),
            element_bytes=(dtype.bits + 7) // 8,
            index=index,
            lanes=lanes * dtype.lanes,
            loops=tuple(self.loops),
            conditions=tuple(self.conditions),
            file=self.location[0],
            line=self.location[1],
        )
        if op == "load":
            for before in self.seen:
                if before.pointer == pointer and tvm_ffi.structural_equal(before.index, index):
                    shared = min(len(before.conditions), len(site.conditions))
                    if all(map(_same, before.conditions[:shared], site.conditions[:shared])):
                        if len(before.conditions) == shared:
                            return  # it was loaded under no more conditions than now
                        self.seen.remove(before)
                        self.found.sites.remove(before)
                        break
            self.seen.append(site)
        self.found.sites.append(site)

    def note(self, text: str) -> None:
        file, line = self.location
        where = f"{file}:{line}: " if file else ""
        if where + text not in self.found.notes:
            self.found.notes.append(where + text)


def _same(a: object, b: object) -> bool:
    return tvm_ffi.structural_equal(a, b)


def _pointer_dtype(pointer: tirx.Call) -> DataType:
    return DataType(str(pointer.args[0].dtype))


def _global_pointer(expr: object) -> str | None:
    """Name of the tensor that `expr` points into, when it is a pointer to global memory."""
    if not isinstance(expr, tirx.Call):
        return None
    if call_name(expr) == "tvm_access_ptr" and _is_global(expr.args[1]):
        return expr.args[1].name
    if call_name(expr) == "address_of" and isinstance(expr.args[0], tirx.BufferLoad):
        buffer = expr.args[0].buffer
        return buffer.data.name if buffer.scope() == "global" else None
    return None


def _is_global(var: tirx.Var) -> bool:
    return getattr(var.type_annotation, "storage_scope", "") in ("", "global")


def _callee(call: tirx.Call) -> str:
    name = call_name(call)
    return str(call.args[0].value) if name in ("call_extern", "call_pure_extern") else name
