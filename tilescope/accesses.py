"""How wide each global access is, and how many 32-byte sectors it touches.

Model: the 32 lanes of a warp execute one load or store together; that is one request, and it touches the distinct
32-byte sectors that the active lanes' addresses cover. Addresses come from the index expressions of the lowered TIR,
evaluated for every lane; tensors are taken to start at a multiple of 32 bytes, as PyTorch's allocations do. On a GPU
these are the counters l1tex__t_requests_pipe_lsu_mem_global_op_{ld,st} and l1tex__t_sectors_pipe_lsu_mem_global_op_{ld,st}.
"""

from dataclasses import dataclass

import numpy as np
from tilelang import tvm

from .access_sites import Site, Sites, find_sites
from .lowering import DeviceKernel, Lowered
from .tir_values import Unknown, evaluate, variables

tirx = tvm.tirx
SECTOR = 32  # bytes
WARP = 32  # lanes
_NONE = np.iinfo(np.int64).max  # the sector of a lane that is not active
_MAX_LANES_AT_ONCE = 1 << 22  # bounds the memory of one evaluation
_MAX_SPLITS = 1 << 12  # bounds the time of one site

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
    """The global accesses of `kernel` in program order, and notes on what the model leaves out."""
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
    # Inside a loop a condition can depend on the thread through a variable that was computed from it.
    guarded = any(variables(condition, found.bindings) & threads for condition in site.conditions)
    width = min(site.lanes * site.element_bytes, widest)
    parts = site.lanes * site.element_bytes // width
    dynamic = any(not isinstance(extent, int) for extent in kernel.grid)
    unknown = None
    count = _NOTHING
    try:
        for part in range(parts):
            count = count.plus(_Counter(site, found, kernel, width, part, dynamic).whole_grid())
    except Unknown as reason:
        unknown = f"the index {reason}"
    per_request = round(count.full_sectors / count.full_requests, 2) if count.full_requests else None
    ideal = max(1, -(-count.lanes * width // SECTOR)) if count.full_requests else None
    counted = unknown is None and not dynamic
    return Access(
        buffer=kernel.tensors.get(site.pointer, site.pointer),
        op=site.op,
        dtype=site.dtype,
        bytes_per_lane=width,
        sectors_per_request=per_request,
        ideal_sectors_per_request=ideal,
        requests=count.requests if counted else None,
        sectors=count.sectors if counted else None,
        guarded=guarded,
        file=site.file,
        line=site.line,
        element_bytes=site.element_bytes,
        unknown=unknown,
    )


class _Counter:
    """Counts one site. Blocks whose conditions are proved equal are counted once and multiplied."""

    def __init__(self, site: Site, found: Sites, kernel: DeviceKernel, width: int, part: int, dynamic: bool) -> None:
        self.site, self.kernel, self.width, self.dynamic = site, kernel, width, dynamic
        self.bindings = found.bindings
        self.splits = 0
        self.offset = part * width
        self.blocks = {axis: found.threads.get(f"blockIdx.{axis}") for axis in "xyz"}
        self.conditions = [self.inline(condition) for condition in site.conditions]
        self.index = self.inline(site.index)
        linear = np.arange(-(-int(np.prod(kernel.block)) // WARP) * WARP)
        dx, dy, _ = kernel.block
        self.exists = linear < int(np.prod(kernel.block))
        self.lanes = {
            found.threads[f"threadIdx.{axis}"]: value
            for axis, value in zip("xyz", (linear % dx, linear // dx % dy, linear // (dx * dy)), strict=True)
            if f"threadIdx.{axis}" in found.threads
        }

    def inline(self, expr: object) -> object:
        """`expr` with bound variables replaced, so that the prover sees what they stand for."""
        for _ in range(len(self.bindings)):
            names = {var: self.bindings[var] for var in variables(expr, {}) if var in self.bindings}
            if not names:
                break
            expr = tirx.stmt_functor.substitute(expr, names)
        return expr

    # -- the grid ---------------------------------------------------------------------------------------------------
    def whole_grid(self) -> _Count:
        if self.dynamic:
            return self.blocks_at_once(((0, 1),) * 3)
        return self.box(tuple((0, extent) for extent in self.kernel.grid))

    def box(self, ranges: Ranges) -> _Count:
        """Count the blocks of a box of the grid: proved alike, one stands for all; few, all at once; else half by half."""
        blocks = int(np.prod([high - low for low, high in ranges]))
        if blocks == 0:
            return _NOTHING
        if blocks > 1 and self.alike(ranges):
            return self.blocks_at_once(tuple((low, low + 1) for low, _ in ranges)).times(blocks)
        if blocks == 1 or blocks * self.lanes_of_a_block(ranges) <= _MAX_LANES_AT_ONCE:
            return self.blocks_at_once(ranges)
        self.splits += 1
        if self.splits > _MAX_SPLITS:
            raise Unknown("changes from block to block in too many ways to count")
        axis = max(range(3), key=lambda axis: ranges[axis][1] - ranges[axis][0])
        low, high = ranges[axis]
        middle = (low + high) // 2
        halves = ((low, middle), (middle, high))
        first, second = (self.box(ranges[:axis] + (half,) + ranges[axis + 1 :]) for half in halves)
        return first.plus(second)

    def alike(self, ranges: Ranges) -> bool:
        """Proved: over these blocks every condition is constant, and moving a block moves all lanes by whole sectors."""
        if not any(self.depends_on_block(expr) for expr in (*self.conditions, self.index, *self.extents())):
            return True
        analyzer = tvm.arith.Analyzer()
        for axis, (low, high) in zip("xyz", ranges, strict=True):
            if self.blocks[axis] is not None:
                analyzer.bind(self.blocks[axis], tvm.ir.Range(low, high))
        for axis_var, values in self.lanes.items():
            analyzer.bind(axis_var, tvm.ir.Range(0, int(values.max()) + 1))
        for var, first, extent in self.site.loops:
            if self.depends_on_block(first) or self.depends_on_block(extent):
                return False
            analyzer.bind(var, tvm.ir.Range.from_min_extent(first, extent))
        for condition in self.conditions:
            if self.depends_on_block(condition):
                if not (analyzer.can_prove(condition) or analyzer.can_prove(tirx.Not(condition))):
                    return False
        step = max(1, SECTOR // self.site.element_bytes)
        for axis, (low, high) in zip("xyz", ranges, strict=True):
            var = self.blocks[axis]
            if var is None or high - low == 1:
                continue
            moved = tirx.stmt_functor.substitute(self.index, {var: var + 1}) - self.index
            if not analyzer.can_prove(tvm.tirx.floormod(moved, step) == 0):
                return False
        return True

    def extents(self) -> list[object]:
        return [bound for _, first, extent in self.site.loops for bound in (first, extent)]

    def depends_on_block(self, expr: object) -> bool:
        return bool(variables(expr, self.bindings) & {var for var in self.blocks.values() if var is not None})

    def lanes_of_a_block(self, ranges: Ranges) -> int:
        """Lanes times iterations of the first block of a box."""
        env: dict[tirx.Var, object] = dict(self.bindings)
        env.update({var: low for var, (low, _) in zip(self.blocks.values(), ranges, strict=True) if var is not None})
        return self.iterate(env).shape[1] * self.exists.size

    # -- blocks -----------------------------------------------------------------------------------------------------
    def blocks_at_once(self, ranges: Ranges) -> _Count:
        """Evaluate every lane of every iteration of the blocks of a box: arrays of (blocks, iterations, lanes)."""
        env: dict[tirx.Var, object] = dict(self.bindings)
        grid = np.meshgrid(*(np.arange(low, high) for low, high in ranges), indexing="ij")
        for var, at in zip(self.blocks.values(), grid, strict=True):
            if var is not None:
                env[var] = at.reshape(-1, 1, 1)
        env.update(self.lanes)
        runs = self.iterate(env)
        shape = (grid[0].size, runs.shape[1], self.exists.size)
        if int(np.prod(shape)) > _MAX_LANES_AT_ONCE:
            raise Unknown(f"is in loops of {runs.shape[1]} iterations, too many to evaluate")
        active = np.broadcast_to(self.exists & runs, shape)
        for condition in self.conditions:
            try:
                active = active & evaluate(condition, env)
            except Unknown:
                if not self.dynamic:
                    raise
                # A bound that depends on a dynamic n: the whole tiles, where it holds, are what is reported.
        first_byte = np.broadcast_to(evaluate(self.index, env) * self.site.element_bytes + self.offset, shape)
        return self.count(first_byte.reshape(-1, WARP), active.reshape(-1, WARP))

    def iterate(self, env: dict[tirx.Var, object]) -> np.ndarray:
        """Give each loop variable its values, arrays of (blocks or 1, iterations, 1), for as many iterations as the
        longest loop has; return where an iteration really runs."""
        runs = np.ones((1, 1, 1), bool)
        seen: list[tirx.Var] = []
        for var, first, extent in self.site.loops:
            try:
                start, steps = evaluate(first, env), evaluate(extent, env)
            except Unknown as reason:
                if not self.dynamic:
                    raise Unknown(f"is in a loop whose length {reason}") from reason
                start, steps = np.asarray(0), np.asarray(1)  # depends on a dynamic n: one iteration stands for all
            longest = max(int(steps.max()), 0)
            if longest * runs.shape[1] > _MAX_LANES_AT_ONCE:
                raise Unknown(f"is in loops of {longest * runs.shape[1]} iterations, too many to evaluate")
            step = np.tile(np.arange(longest), runs.shape[1]).reshape(1, -1, 1)

            def again(values: np.ndarray, before: int = runs.shape[1], times: int = longest) -> np.ndarray:
                """Values of each iteration so far, once for each step of the new loop."""
                values = values if values.ndim == 3 else values.reshape(1, 1, 1)
                return np.broadcast_to(values, (values.shape[0], before, 1)).repeat(times, axis=1)

            for outer in seen:
                env[outer] = again(env[outer])
            runs = again(runs) & (step < again(steps))
            env[var] = again(start) + step
            seen.append(var)
        return runs

    def count(self, first_byte: np.ndarray, active: np.ndarray) -> _Count:
        """first_byte, active: (requests, 32). Counts the distinct sectors of each request."""
        lanes = active.sum(axis=1)
        first_byte, active, lanes = first_byte[lanes > 0], active[lanes > 0], lanes[lanes > 0]
        if not lanes.size:
            return _NOTHING
        touched = np.concatenate([first_byte // SECTOR, (first_byte + self.width - 1) // SECTOR], axis=1)
        touched = np.sort(np.where(np.concatenate([active, active], axis=1), touched, _NONE), axis=1)
        new = np.concatenate([np.ones((len(touched), 1), bool), np.diff(touched, axis=1) != 0], axis=1)
        sectors = (new & (touched != _NONE)).sum(axis=1)
        full = lanes == lanes.max()
        return _Count(len(lanes), int(sectors.sum()), int(lanes.max()), int(full.sum()), int(sectors[full].sum()))
