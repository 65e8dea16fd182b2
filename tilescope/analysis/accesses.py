"""How wide each global access is, and how many 32-byte sectors it touches.

Model: the 32 lanes of a warp execute one load or store together; that is one request, and it touches the distinct
32-byte sectors that the active lanes' addresses cover. Addresses come from the index expressions of the lowered TIR,
evaluated for every lane; tensors are taken to start at a multiple of 32 bytes, as PyTorch's allocations do. On a GPU
these are the counters l1tex__t_requests_pipe_lsu_mem_global_op_{ld,st} and l1tex__t_sectors_pipe_lsu_mem_global_op_{ld,st}.
"""

import math
from dataclasses import dataclass

import numpy as np
from tilelang import tvm

from ..frontend.lowering import DeviceKernel, Lowered
from .access_sites import Site, Sites, find_sites
from .tir_values import DependsOnData, Unknown, evaluate, variables

tirx = tvm.tirx
SECTOR = 32  # bytes
WARP = 32  # lanes
HAND_WRITTEN = "hand-written CUDA: widths are read off the SASS, sectors are not predicted"
_NONE = np.iinfo(np.int64).max  # the sector of a lane that is not active
_MAX_LANES_AT_ONCE = 1 << 22  # bounds the memory of one evaluation
_MAX_SPLITS = 1 << 10  # bounds the time of one site
_SAMPLE = 16  # blocks along each axis that stand for a grid of unknown size: a whole period of 32 bytes of 2-byte elements

Ranges = tuple[tuple[int, int], ...]  # of blocks, along x, y and z


@dataclass(frozen=True)
class Access:
    """One load or store of global memory in the generated code.

    bytes_per_lane: width of one lane's access. sectors_per_request, ideal_sectors_per_request: mean over the requests
    in which the most lanes are active; ideal is what the same bytes need when they lie side by side. requests, sectors:
    totals over the whole grid; None when n is dynamic. guarded: under a condition that depends on the thread.
    unknown: why there are no sectors (the index depends on data), else None. file, line: the Python line.
    """

    buffer: str
    op: str
    dtype: str
    bytes_per_lane: int
    sectors_per_request: float | None
    ideal_sectors_per_request: float | None
    requests: int | None
    sectors: int | None
    guarded: bool
    file: str | None
    line: int | None
    element_bytes: int
    unknown: str | None = None


def accesses(lowered: Lowered, kernel: DeviceKernel) -> tuple[tuple[Access, ...], tuple[str, ...]]:
    """The global accesses of `kernel` in program order, and notes on what the model leaves out.

    Of hand-written CUDA there are none, with the note HAND_WRITTEN; `Sass.global_widths` is what there is to know.
    """
    if kernel.hand_written:
        return (), (HAND_WRITTEN,)
    found = find_sites(kernel)
    # One instruction moves at most 16 bytes a lane; 32 from Blackwell (sm_100) on.
    widest = 32 if int("".join(filter(str.isdigit, lowered.arch))) >= 100 else 16
    return tuple(_access(site, found, kernel, widest) for site in found.sites), tuple(found.notes)


@dataclass(frozen=True)
class _Count:
    """requests and sectors of some blocks; `full` holds the same for the requests with the most active lanes."""

    requests: int
    sectors: int
    lanes: int  # active lanes of a request in `full`
    full_requests: int
    full_sectors: int

    def times(self, blocks: int) -> "_Count":
        return _Count(
            self.requests * blocks,
            self.sectors * blocks,
            self.lanes,
            self.full_requests * blocks,
            self.full_sectors * blocks,
        )

    def plus(self, other: "_Count") -> "_Count":
        most = max(self.lanes, other.lanes)
        fullest = [count for count in (self, other) if count.lanes == most]
        return _Count(
            self.requests + other.requests,
            self.sectors + other.sectors,
            most,
            sum(count.full_requests for count in fullest),
            sum(count.full_sectors for count in fullest),
        )


_NOTHING = _Count(0, 0, 0, 0, 0)


def _access(site: Site, found: Sites, kernel: DeviceKernel, widest: int) -> Access:
    threads = {var for tag, var in found.threads.items() if tag.startswith("threadIdx")}
    width = min(site.lanes * site.element_bytes, widest)
    dynamic = any(not isinstance(extent, int) for extent in kernel.grid)
    count, unknown = _NOTHING, None
    try:
        for offset in range(0, site.lanes * site.element_bytes, width):
            counter = _Counter(site, found, kernel, width, offset, dynamic)
            count = count.plus(counter.whole_grid())
            unknown = counter.unknown
    except Unknown as reason:
        count, unknown = _NOTHING, f"the index {reason}"
    counted = unknown is None and not dynamic
    return Access(
        buffer=kernel.tensors.get(site.pointer, site.pointer),
        op=site.op,
        dtype=site.dtype,
        bytes_per_lane=width,
        sectors_per_request=round(count.full_sectors / count.full_requests, 2) if count.full_requests else None,
        ideal_sectors_per_request=max(1, -(-count.lanes * width // SECTOR)) if count.full_requests else None,
        requests=count.requests if counted else None,
        sectors=count.sectors if counted else None,
        # A condition can depend on the thread through a variable that was computed from it.
        guarded=any(variables(condition, found.bindings) & threads for condition in site.conditions),
        file=site.file,
        line=site.line,
        element_bytes=site.element_bytes,
        unknown=unknown,
    )


class _Counter:
    """Counts one site over the grid. `unknown` says why not every lane that runs is known, else None."""

    def __init__(self, site: Site, found: Sites, kernel: DeviceKernel, width: int, offset: int, dynamic: bool) -> None:
        self.site, self.kernel, self.width, self.offset, self.dynamic = site, kernel, width, offset, dynamic
        self.bindings = found.bindings
        self.unknown: str | None = None
        self.splits = 0
        self.blocks = [found.threads.get(f"blockIdx.{axis}") for axis in "xyz"]
        threads = int(np.prod(kernel.block))
        linear = np.arange(-(-threads // WARP) * WARP)
        dx, dy, _ = kernel.block
        self.exists = linear < threads
        places = zip("xyz", (linear % dx, linear // dx % dy, linear // (dx * dy)), strict=True)
        self.lanes = {found.threads[tag]: at for axis, at in places if (tag := f"threadIdx.{axis}") in found.threads}
        self.index = self.inline(site.index)
        self.conditions = [known for condition in site.conditions if (known := self.known(condition)) is not None]
        self.periods = [self.period(axis) for axis in range(3)]

    def inline(self, expr: object) -> object:
        """`expr` with bound variables replaced, so that the prover sees what they stand for."""
        for _ in range(len(self.bindings)):
            names = {var: self.bindings[var] for var in variables(expr, {}) if var in self.bindings}
            if not names:
                break
            expr = tirx.stmt_functor.substitute(expr, names)
        return expr

    def known(self, condition: object) -> object | None:
        """The condition, or None where it cannot be evaluated: it depends on data, or on a dynamic n.

        On data: all lanes are taken to run, and `unknown` says so. On n: whole tiles, where a bound holds, are reported.
        """
        condition = self.inline(condition)
        env = {**self.bindings, **self.lanes, **{var: 0 for var in self.blocks if var is not None}}
        env.update({var: 0 for var, _, _ in self.site.loops})
        try:
            evaluate(condition, env)
        except Unknown as reason:
            if isinstance(reason, DependsOnData) or not self.dynamic:
                self.unknown = f"which lanes run {reason}"
            return None
        return condition

    def period(self, axis: int) -> int | None:
        """After how many blocks along `axis` the lanes' addresses have moved by whole sectors; None when not proved."""
        var = self.blocks[axis]
        if var is None or var not in variables(self.index, {}):
            return 1
        moved = tirx.stmt_functor.substitute(self.index, {var: var + 1}) - self.index
        analyzer = tvm.arith.Analyzer()
        step = analyzer.simplify(moved)
        if isinstance(step, tirx.IntImm):
            return SECTOR // math.gcd(SECTOR, int(step) * self.site.element_bytes)
        whole = max(1, SECTOR // self.site.element_bytes)
        return 1 if analyzer.can_prove(tirx.floormod(moved, whole) == 0) else None

    # -- the grid -------------------------------------------------------------------------------------------------------
    def whole_grid(self) -> _Count:
        if self.dynamic:
            sample = (_SAMPLE if var is not None else 1 for var in self.blocks)
            known = (min(size, n) if isinstance(n, int) else size for size, n in zip(sample, self.kernel.grid, strict=True))
            return self.box(tuple((0, size) for size in known))
        if min(self.kernel.grid) < 1:
            raise Unknown(f"is in a grid of {self.kernel.grid} blocks, which cannot be launched: a size overflowed, or is 0")
        return self.box(tuple((0, extent) for extent in self.kernel.grid))

    def box(self, ranges: Ranges) -> _Count:
        """Count the blocks of a box of the grid: one period stands for all, where the conditions are constant; else all
        at once when they are few, else half by half."""
        blocks = int(np.prod([high - low for low, high in ranges]))
        if blocks == 0:
            return _NOTHING
        changing = self.axes_of_changing_conditions(ranges)
        if not changing:
            for axis, (low, high) in enumerate(ranges):
                if (period := self.periods[axis]) and high - low > period:
                    times = (high - low) // period
                    first = self.box(_replaced(ranges, axis, (low, low + period))).times(times)
                    return first.plus(self.box(_replaced(ranges, axis, (low + times * period, high))))
        if blocks == 1 or blocks * self.lanes_of_a_block(ranges) <= _MAX_LANES_AT_ONCE // 4:
            return self.blocks_at_once(ranges)
        self.splits += 1
        if self.splits > _MAX_SPLITS:
            raise Unknown("changes from block to block in too many ways to count")
        axis = max(changing or range(3), key=lambda axis: ranges[axis][1] - ranges[axis][0])
        if ranges[axis][1] - ranges[axis][0] == 1:
            axis = max(range(3), key=lambda axis: ranges[axis][1] - ranges[axis][0])
        low, high = ranges[axis]
        middle = (low + high) // 2
        first = self.box(_replaced(ranges, axis, (low, middle)))
        return first.plus(self.box(_replaced(ranges, axis, (middle, high))))

    def axes_of_changing_conditions(self, ranges: Ranges) -> set[int]:
        """Axes along which, within the box, a condition or the length of a loop is not proved to be constant."""
        axes: set[int] = set()
        analyzer = tvm.arith.Analyzer()
        for var, (low, high) in zip(self.blocks, ranges, strict=True):
            if var is not None:
                analyzer.bind(var, tvm.ir.Range(low, high))
        for var, at in self.lanes.items():
            analyzer.bind(var, tvm.ir.Range(0, int(at.max()) + 1))
        for var, first, extent in self.site.loops:
            depends = self.axes(first) | self.axes(extent)
            axes |= {axis for axis in depends if ranges[axis][1] - ranges[axis][0] > 1}
            if not depends:
                analyzer.bind(var, tvm.ir.Range.from_min_extent(first, extent))
        for condition in self.conditions:
            depends = {axis for axis in self.axes(condition) if ranges[axis][1] - ranges[axis][0] > 1}
            if depends and not (analyzer.can_prove(condition) or analyzer.can_prove(tirx.Not(condition))):
                axes |= depends
        return axes

    def axes(self, expr: object) -> set[int]:
        """Axes of the grid that `expr` depends on."""
        used = variables(expr, self.bindings)
        return {axis for axis, var in enumerate(self.blocks) if var is not None and var in used}

    # -- blocks -----------------------------------------------------------------------------------------------------------
    def environment(self, ranges: Ranges) -> tuple[dict[tirx.Var, object], np.ndarray]:
        """Values of every variable in the blocks of a box, arrays that broadcast to (blocks, iterations, lanes); and where
        a lane of an iteration really runs."""
        env: dict[tirx.Var, object] = dict(self.bindings)
        grid = np.meshgrid(*(np.arange(low, high) for low, high in ranges), indexing="ij")
        env.update({var: at.reshape(-1, 1, 1) for var, at in zip(self.blocks, grid, strict=True) if var is not None})
        env.update(self.lanes)
        return env, _iterate(self.site.loops, env, self.dynamic)

    def lanes_of_a_block(self, ranges: Ranges) -> int:
        """Lanes times iterations of the first block of a box."""
        _, runs = self.environment(tuple((low, low + 1) for low, _ in ranges))
        return runs.shape[1] * self.exists.size

    def blocks_at_once(self, ranges: Ranges) -> _Count:
        env, runs = self.environment(ranges)
        shape = (int(np.prod([high - low for low, high in ranges])), runs.shape[1], self.exists.size)
        if int(np.prod(shape)) > 4 * _MAX_LANES_AT_ONCE:
            raise Unknown(f"is in loops of {runs.shape[1]} iterations, too many to evaluate")
        active = np.broadcast_to(self.exists & runs, shape)
        for condition in self.conditions:
            active = active & evaluate(condition, env)
        first_byte = np.broadcast_to(evaluate(self.index, env) * self.site.element_bytes + self.offset, shape)
        return _count(first_byte.reshape(-1, WARP), active.reshape(-1, WARP), self.width)


def _replaced(ranges: Ranges, axis: int, value: tuple[int, int]) -> Ranges:
    return ranges[:axis] + (value,) + ranges[axis + 1 :]


def _iterate(loops: tuple, env: dict[tirx.Var, object], dynamic: bool) -> np.ndarray:
    """Add each loop variable to `env`, an array over (blocks, iterations, lanes) with as many iterations as the longest
    loop has; return where an iteration runs. A length that depends on a dynamic n: one iteration stands for all."""
    runs = np.ones((1, 1, 1), bool)
    seen: list[tirx.Var] = []
    for var, first, extent in loops:
        try:
            start, steps = evaluate(first, env), evaluate(extent, env)
        except Unknown as reason:
            if not dynamic:
                raise Unknown(f"is in a loop whose length {reason}") from reason
            start, steps = np.asarray(0), np.asarray(1)
        before, longest = runs.shape[1], max(int(steps.max()), 0)
        if longest * before > _MAX_LANES_AT_ONCE:
            raise Unknown(f"is in loops of {longest * before} iterations, too many to evaluate")
        step = np.tile(np.arange(longest), before).reshape(1, -1, 1)
        for outer in seen:
            env[outer] = _repeat(env[outer], before, longest)
        runs = _repeat(runs, before, longest) & (step < _repeat(steps, before, longest))
        env[var] = _repeat(start, before, longest) + step
        seen.append(var)
    return runs


def _repeat(values: np.ndarray, iterations: int, times: int) -> np.ndarray:
    """The values of each of `iterations`, `times` in a row."""
    values = values.reshape((1,) * (3 - values.ndim) + values.shape)
    return np.broadcast_to(values, (values.shape[0], iterations, values.shape[2])).repeat(times, axis=1)


def _count(first_byte: np.ndarray, active: np.ndarray, width: int) -> _Count:
    """first_byte, active: (requests, 32); width: bytes a lane. Counts the distinct sectors of each request."""
    lanes = active.sum(axis=1)
    first_byte, active, lanes = first_byte[lanes > 0], active[lanes > 0], lanes[lanes > 0]
    if not lanes.size:
        return _NOTHING
    touched = np.concatenate([first_byte // SECTOR, (first_byte + width - 1) // SECTOR], axis=1)
    touched = np.sort(np.where(np.concatenate([active, active], axis=1), touched, _NONE), axis=1)
    new = np.concatenate([np.ones((len(touched), 1), bool), np.diff(touched, axis=1) != 0], axis=1)
    sectors = (new & (touched != _NONE)).sum(axis=1)
    full = lanes == lanes.max()
    return _Count(len(lanes), int(sectors.sum()), int(lanes.max()), int(full.sum()), int(sectors[full].sum()))
