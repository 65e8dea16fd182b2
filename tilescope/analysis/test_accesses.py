"""Widths and sectors, against values worked out by hand and against a plain count of every block."""

import time

import pytest
import tilelang
import tilelang.language as T

from tilescope import inspect
from tilescope.analysis import accesses as module

THREADS = 64


def elementwise(body, n=4096, m=4096, threads=THREADS, dtype="float32"):
    """A kernel of one block per `threads` elements whose body is `body(X, Y, bx, tx)`."""

    @T.prim_func
    def main(X: T.Tensor((m,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(n // threads, threads=threads) as bx:
            tx = T.get_thread_binding()
            body(X, Y, bx, tx)

    return main


def only(func, op, **options):
    """The single access of kind `op` in `func`."""
    found = [a for a in inspect(func, sass=False, **options).accesses if a.op == op]
    assert len(found) == 1, found
    return found[0]


def sectors(access):
    return access.bytes_per_lane, access.sectors_per_request, access.ideal_sectors_per_request


@pytest.mark.parametrize(
    "index, expected",
    [
        (lambda bx, tx: bx * THREADS + tx, 4),  # side by side: 128 bytes
        (lambda bx, tx: bx * THREADS + tx + 1, 5),  # one element further: a fifth sector
        (lambda bx, tx: tx * 2, 8),
        (lambda bx, tx: tx * 8, 32),  # a sector each
        (lambda bx, tx: tx * 64, 32),  # further apart costs no more
        (lambda bx, tx: bx, 1),  # all lanes at one address
        (lambda bx, tx: tx // 2, 2),
        (lambda bx, tx: tx % 8, 1),
        (lambda bx, tx: (tx >> 3) * 8 + (tx & 7) * 32, 32),
        (lambda bx, tx: tx ^ 1, 4),
        (lambda bx, tx: T.min(tx, 7), 1),
        (lambda bx, tx: T.Select(tx < 16, tx, tx + 100), 5),  # 0..63 bytes: 2 sectors; 464..527: 3
    ],
)
def test_sectors_of_a_load(index, expected):
    @T.macro
    def body(X, Y, bx, tx):
        Y[bx * THREADS + tx] = X[index(bx, tx)]

    assert sectors(only(elementwise(body), "load", arch="sm_90a")) == (4, expected, 4)


def test_vector_accesses_and_two_dimensional_thread_maps():
    @T.prim_func
    def main(X: T.Tensor((64, 64), "float32"), Y: T.Tensor((64, 64), "float32")):
        with T.Kernel(8, threads=(8, 8)) as bx:
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            for j in T.vectorized(4):
                Y[bx * 8 + ty, tx * 4 + j] = X[bx * 8 + ty, 32 + tx * 4 + j]

    # A warp is 8 lanes of 16 bytes in each of 4 rows: 128 contiguous bytes a row.
    report = inspect(main, sass=False, arch="sm_90a")
    assert [sectors(a) for a in report.accesses] == [(16, 16, 16)] * 2
    assert report.accesses[0].requests == 8 * 2


def test_a_strided_vector_is_several_scalar_accesses():
    """Transposed store: TileLang prints one scalar store a lane of the vector."""

    @T.prim_func
    def main(X: T.Tensor((64, 64), "float32"), Y: T.Tensor((64, 64), "float32")):
        with T.Kernel(64, threads=32) as bx:
            for j in T.Parallel(64):
                Y[j, bx] = X[bx, j]

    report = inspect(main, sass=False, arch="sm_90a")
    store = [a for a in report.accesses if a.op == "store"]
    assert all(sectors(a) == (4, 32, 4) for a in store)
    assert report.strided


def test_an_index_that_depends_on_data_has_no_sectors():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), I: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "float32")):  # noqa: E741
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            Y[tx] = X[I[tx]]

    report = inspect(main, sass=False, arch="sm_90a")
    gather = [a for a in report.accesses if a.buffer == "X"]
    assert gather and all(a.sectors_per_request is None and "depends on data: it reads I" in a.unknown for a in gather)
    assert [sectors(a) for a in report.accesses if a.buffer == "Y"] == [(4, 4, 4)]


def test_guarded_means_a_condition_on_the_thread_not_on_the_block():
    @T.macro
    def by_block(X, Y, bx, tx):
        if bx < 3:
            Y[bx * THREADS + tx] = X[bx * THREADS + tx]

    @T.macro
    def by_thread(X, Y, bx, tx):
        if bx * THREADS + tx < 1000:
            Y[bx * THREADS + tx] = X[bx * THREADS + tx]

    block, thread = (inspect(elementwise(body), sass=False, arch="sm_90a") for body in (by_block, by_thread))
    assert not any(a.guarded for a in block.accesses)
    assert all(a.requests == 3 * 2 and a.sectors == 3 * 2 * 4 for a in block.accesses)
    assert all(a.guarded for a in thread.accesses)
    # 1000 elements: 31 whole warps and 8 lanes of another, which is 1 sector.
    assert all(a.requests == 32 and a.sectors == 31 * 4 + 1 for a in thread.accesses)
    # The figure per request is that of full warps.
    assert all(sectors(a) == (4, 4, 4) for a in thread.accesses)


def test_predicated_loads_explicit_wide_loads_and_atomics():
    @T.macro
    def body(X, Y, bx, tx):
        v = T.ldg128(X[tx * 4])
        T.stg128(Y[tx * 4 : tx * 4 + 4], v)
        T.atomic_add(Y[bx], T.if_then_else(tx < 5, X[tx], T.float32(0)))

    report = inspect(elementwise(body), sass=False, arch="sm_90a")
    wide = [sectors(a) for a in report.accesses if not a.guarded]
    assert wide == [(16, 16, 16), (16, 16, 16)]
    assert [sectors(a) for a in report.accesses if a.guarded] == [(4, 1, 1)]
    assert any("atomic" in note and "Y" in note for note in report.notes)


def test_asynchronous_and_bulk_copies():
    """cp.async is a load of its own width (sm_80); the bulk copy engine (sm_90a) is named and not counted."""

    @T.prim_func
    def main(X: T.Tensor((8, 4096), "float32"), Y: T.Tensor((8, 4096), "float32")):
        with T.Kernel(8, threads=128) as bx:
            tile = T.alloc_shared((512,), "float32")
            for k in T.Pipelined(8, num_stages=2):
                T.copy(X[bx, k * 512], tile)
                for i in T.Parallel(512):
                    Y[bx, k * 512 + i] = tile[i] * 2

    ampere = inspect(main, sass=False, arch="sm_80")
    loads = [a for a in ampere.accesses if a.op == "load"]
    assert sum(a.requests for a in loads) == 8 * 8 * 4 and all(sectors(a) == (16, 16, 16) for a in loads)
    hopper = inspect(main, sass=False, arch="sm_90a")
    assert not [a for a in hopper.accesses if a.op == "load"] and any("tma_load" in note for note in hopper.notes)


@pytest.mark.parametrize(
    "columns, threads, width, count",
    [
        (512, 64, 16, 1),
        (576, 64, 4, 9),
        (576, 72, 16, 1),
        (768, 256, 4, 3),
        (1536, 256, 8, 1),
        (1000, 128, 16, 1),
        (4100, 128, 4, 33),
    ],
)
def test_width_depends_on_columns_and_threads(columns, threads, width, count):
    """One row a block, T.Parallel over its columns: no warning from TileLang when it turns scalar."""

    @T.prim_func
    def main(X: T.Tensor((4, columns), "float32"), Y: T.Tensor((4, columns), "float32")):
        with T.Kernel(4, threads=threads) as bx:
            for i in T.Parallel(columns):
                Y[bx, i] = 2 * X[bx, i]

    report = inspect(main, arch="sm_90a")
    assert {a.bytes_per_lane for a in report.accesses} == {width}
    bits = "" if width == 4 else f".{8 * width}"
    loads = {name: n for name, n in report.sass.memory_counts().items() if name.startswith("LDG")}
    assert set(loads) == {f"LDG.E{bits}.CONSTANT"} and (width != 4 or sum(loads.values()) == count)


@pytest.mark.parametrize("n", [1, 31, 33, 1000, 4099, 70001])
@pytest.mark.parametrize("threads, per_thread", [(32, 1), (64, 3), (96, 8)])
def test_blocks_counted_together_equal_blocks_counted_one_by_one(monkeypatch, n, threads, per_thread):
    tile = threads * per_thread

    @T.prim_func
    def main(X: T.Tensor((n,), "bfloat16"), Y: T.Tensor((n,), "bfloat16")):
        with T.Kernel(T.ceildiv(n, tile), threads=threads) as bx:
            for i, j in T.Parallel(threads, per_thread):
                k = (bx * threads + i) * per_thread + j
                Y[k] = X[k]

    together = inspect(main, sass=False, arch="sm_90a").accesses
    monkeypatch.setattr(module._Counter, "period", lambda self, axis: None)
    assert inspect(main, sass=False, arch="sm_90a").accesses == together
    # and the elements are all there: a request of `lanes` lanes, summed, is n
    assert all(a.requests for a in together)


def test_loops_of_different_lengths():
    """A triangle, and a loop that is shorter in some blocks than in others."""

    @T.prim_func
    def triangle(X: T.Tensor((64 * 8,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            for i in T.serial(4):
                for j in T.serial(i + 1):
                    X[(i + j) * 64 + tx] = 0.0

    store = only(triangle, "store", arch="sm_90a")
    assert store.requests == (1 + 2 + 3 + 4) * 2 and store.sectors == 4 * store.requests

    @T.prim_func
    def strided(X: T.Tensor((64 * 10,), "float32")):
        with T.Kernel(4, threads=64) as bx:
            tx = T.get_thread_binding()
            for k in T.serial(T.ceildiv(10 - bx, 4)):
                X[(bx + k * 4) * 64 + tx] = 0.0

    store = only(strided, "store", arch="sm_90a")
    assert store.requests == 10 * 2 and store.sectors == 4 * store.requests


def test_a_loop_that_starts_at_the_thread():
    """Each thread takes every 128th element: 4000 of them are 31 rounds of four warps, and one of 32 lanes."""

    @T.prim_func
    def rounds(X: T.Tensor((4000,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            for k in T.serial(T.ceildiv(4000 - tx, 128)):
                X[tx + k * 128] = 0.0

    store = only(rounds, "store", arch="sm_90a")
    assert (store.requests, store.sectors, store.sectors_per_request) == (125, 500, 4)


def test_a_load_under_a_condition_does_not_hide_the_one_without():
    @T.macro
    def body(X, Y, bx, tx):
        Y[bx * THREADS + tx] = T.if_then_else(tx < 4, X[bx * THREADS + tx], T.float32(0)) + X[bx * THREADS + tx]

    load = only(elementwise(body), "load", arch="sm_90a")
    assert not load.guarded and sectors(load) == (4, 4, 4)


def test_a_cast_to_a_narrow_type_wraps():
    @T.macro
    def body(X, Y, bx, tx):
        Y[bx * THREADS + tx] = X[T.cast(T.cast(tx * 16, "uint8"), "int32")]

    # tx * 16 mod 256: 16 addresses, 64 bytes apart, each twice in a warp.
    assert sectors(only(elementwise(body), "load", arch="sm_90a")) == (4, 16, 4)


def test_a_select_reads_one_side():
    @T.macro
    def body(X, Y, bx, tx):
        Y[bx * THREADS + tx] = T.Select(tx % 32 < 8, X[tx % 32], X[tx % 32 + 100])

    report = inspect(elementwise(body), sass=False, arch="sm_90a")
    loads = [a for a in report.accesses if a.op == "load"]
    assert [(a.guarded, a.sectors_per_request) for a in loads] == [(True, 1), (True, 4)]  # bytes 0 to 31; 432 to 527


def test_rows_of_a_grid_of_unknown_size_stand_for_their_kind():
    """Rows of 1001 floats start at every multiple of 4 bytes in turn; row 0 alone would look aligned."""

    def rows(m):
        @T.prim_func
        def main(X: T.Tensor((m, 1001), "float32"), Y: T.Tensor((m, 1001), "float32")):
            with T.Kernel(m, threads=128) as bx:
                tx = T.get_thread_binding()
                Y[bx, tx] = X[bx, tx]

        return inspect(main, sass=False, arch="sm_90a")

    known, unknown = rows(64), rows(T.dynamic("m"))
    assert known.strided and unknown.strided
    assert unknown.accesses[0].sectors_per_request == known.accesses[0].sectors_per_request == 4.88


def test_a_condition_on_data_leaves_the_width_and_says_so():
    @T.prim_func
    def masked(X: T.Tensor((64,), "float32"), M: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if M[tx] > 0:
                Y[tx] = X[tx]

    report = inspect(masked, sass=False, arch="sm_90a")
    load = next(a for a in report.accesses if a.buffer == "X")
    assert sectors(load) == (4, 4, 4) and load.requests is None
    assert "which lanes run depends on data: it reads M" in load.unknown


def test_a_grid_that_cannot_be_launched_is_named():
    """2^31 - 1 elements in blocks of 256, counted with T.ceildiv in int32."""

    @T.prim_func
    def overflows(X: T.Tensor((2**31 - 1,), "uint8")):
        with T.Kernel(T.ceildiv(2**31 - 1, 256), threads=256) as bx:
            for i in T.Parallel(256):
                X[bx * 256 + i] = T.uint8(0)

    access = inspect(overflows, sass=False, arch="sm_90a").accesses[0]
    assert access.requests is None and "cannot be launched" in access.unknown


def test_elements_of_less_than_a_byte_are_named():
    @T.prim_func
    def fp4(X: T.Tensor((1024,), "float4_e2m1fn"), Y: T.Tensor((1024,), "float4_e2m1fn")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(1024):
                Y[i] = X[i]

    report = inspect(fp4, sass=False, arch="sm_100a")
    assert not report.accesses and any("elements of 4 bits" in note for note in report.notes)


def test_large_grids_take_no_longer():
    """A million rows of 257 elements: the pattern repeats after 16 of them."""

    @T.prim_func
    def rows(X: T.Tensor((1 << 20, 257), "bfloat16")):
        with T.Kernel(1 << 20, threads=128) as bx:
            for i in T.Parallel(257):
                X[bx, i] = T.bfloat16(0)

    start = time.perf_counter()
    report = inspect(rows, sass=False, arch="sm_90a")
    assert sum(a.requests for a in report.accesses) == (1 << 20) * 9 and time.perf_counter() - start < 3


def test_views_carry_the_name_of_the_tensor():
    @T.prim_func
    def main(X: T.Tensor((8, 64), "float32"), Y: T.Tensor((512,), "float32")):
        with T.Kernel(2, threads=256) as bx:
            flat = T.view(X, (512,))
            for i in T.Parallel(256):
                Y[bx * 256 + i] = flat[bx * 256 + i]

    assert [a.buffer for a in inspect(main, sass=False, arch="sm_90a").accesses] == ["X", "Y"]


def test_several_kernels_of_one_program_come_in_launch_order():
    @T.prim_func
    def main(X: T.Tensor((128,), "float32"), Y: T.Tensor((128,), "float32"), Z: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            Y[tx] = X[tx]
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            Z[tx] = Y[tx]

    from tilescope import inspect_all

    first, second = inspect_all(main, arch="sm_90a")
    assert (first.block[0], second.block[0]) == (128, 64)
    assert [a.buffer for a in second.accesses] == ["Y", "Z"] and second.sass.count("STG") == 1
    with pytest.raises(ValueError, match="inspect_all"):
        inspect(main, sass=False)


def test_the_pinned_tilelang():
    """Every expectation here was made with this release."""
    assert tilelang.__version__ == "0.1.15"
