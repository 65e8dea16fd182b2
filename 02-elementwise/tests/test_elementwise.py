"""Every claim of this chapter: widths and sectors by rung, dtype and architecture; values, emulated or on the GPU; errors."""

import subprocess
import sys
from pathlib import Path

import elementwise_peers as peers
import elementwise_variants as kernels
import inspect_elementwise
import pytest
import tilelang.language as T
import torch
from elementwise_cases import CASES, fp8_rows, pair

from tilescope import Case, inspect
from tilescope.checking.cases import check_one
from tilescope.checking.factory_arguments import FLOATS
from tilescope.checking.inputs import normal, special
from tilescope.display import render, tables

CHAPTER = Path(__file__).resolve().parents[1]
N = 1 << 20
ARCHS = ("sm_80", "sm_90a", "sm_100a")
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
VECTORISED = (kernels.add_thread_vec, kernels.add_register_vec, kernels.add_tail_split)


def shapes(report, guarded=None):
    """{(bytes a lane, sectors, ideal)} of the accesses of a report."""
    return {
        (a.bytes_per_lane, a.sectors_per_request, a.ideal_sectors_per_request)
        for a in report.accesses
        if guarded is None or a.guarded == guarded
    }


# -- the accesses that the README describes --------------------------------------------------------------------------
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_add_flat_is_scalar_coalesced_and_uses_every_thread(dtype, arch):
    report = inspect(kernels.add_flat, n=N, dtype=dtype, arch=arch)
    width = BYTES[dtype]
    assert report.verdict == "scalar" and shapes(report) == {(width, width, width)}
    # 256 threads, a warp a request: all of them work, not 32 as the official tutorial has it.
    assert report.block == (256, 1, 1) and {a.requests for a in report.accesses} == {N // 32}
    assert report.sass.count("LDG") == 2 and report.sass.count("STG") == 1


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rung", VECTORISED)
def test_the_other_rungs_are_vectorised_on_whole_tiles(rung, dtype, arch):
    report = inspect(rung, n=N, dtype=dtype, arch=arch)
    # Eight elements a thread are 32 bytes of float32: from sm_100 on, one 256-bit access.
    width = 32 if arch == "sm_100a" and dtype == "float32" else 16
    assert shapes(report) == {(width, width, width)} and report.verdict == f"{8 * width}-bit"
    names = {"LDG.E.ENL2.256", "STG.E.ENL2.256"} if width == 32 else {"LDG.E.128.CONSTANT", "STG.E.128"}
    assert set(report.sass.memory_counts()) == names
    per_thread = 8 * BYTES[dtype] // width
    assert report.sass.count("LDG") == 2 * per_thread and report.sass.count("STG") == per_thread
    assert report.sass.spill_bytes == 0


@pytest.mark.parametrize("dtype", FLOATS)
def test_sixteen_elements_a_thread_are_256_bits_on_blackwell(dtype):
    report = inspect(kernels.add_thread_vec, n=N, num_per_thread=16, dtype=dtype, arch="sm_100a")
    assert shapes(report) == {(32, 32, 32)} and report.verdict == "256-bit"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [N - 3, "dynamic"])
def test_a_ragged_n_makes_add_thread_vec_scalar_and_strided(n, dtype):
    """16 sectors a request, the stride of the 128-bit layout that was chosen and then taken apart: 8 x the ideal in
    16-bit types, 4 x in float32."""
    n = T.dynamic("n") if n == "dynamic" else n
    report = inspect(kernels.add_thread_vec, n=n, dtype=dtype, arch="sm_90a")
    width = BYTES[dtype]
    assert report.verdict == "scalar, strided" and shapes(report) == {(width, 16, width)}
    assert all(a.guarded for a in report.accesses)
    assert report.sass.count("LDG") == 16 and report.sass.count("STG") == 8


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("n", [N - 3, N + 1, "dynamic"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_add_tail_split_keeps_its_width_for_any_n(n, dtype, arch):
    n = T.dynamic("n") if n == "dynamic" else n
    report = inspect(kernels.add_tail_split, n=n, dtype=dtype, arch=arch, sass=arch == "sm_90a")
    width = 32 if arch == "sm_100a" and dtype == "float32" else 16
    small = BYTES[dtype]
    assert report.verdict == f"{8 * width}-bit"
    assert shapes(report, guarded=False) == {(width, width, width)}
    # The tail is scalar, each access behind its bounds check, and coalesced: as many sectors as its bytes need.
    assert {shape[0] for shape in shapes(report, guarded=True)} == {small} and not report.strided


def test_the_tail_is_one_block():
    report = inspect(kernels.add_tail_split, n=N - 3, dtype="bfloat16", arch="sm_90a", sass=False)
    whole, tail = ([a for a in report.accesses if a.guarded is g] for g in (False, True))
    assert all(a.requests == 1023 * 4 and a.sectors == 1023 * 4 * 16 for a in whole)
    assert all(a.requests == 32 and a.sectors == 64 for a in tail)  # 1021 elements of 2 bytes: 63.8 sectors


def test_sizes_beyond_32_bits_index_with_64():
    for n in (2**31 + 2**20, T.dynamic("n", "int64")):
        source = inspect(kernels.add_tail_split, n=n, dtype="bfloat16", arch="sm_90a", sass=False).source
        body = source[source.rindex("__launch_bounds__") :]
        assert "int64_t" in body and ("int64_t n" in body or isinstance(n, int))


@pytest.mark.parametrize("factory", [kernels.add_flat, kernels.add_thread_vec, kernels.add_tail_split, kernels.scale_cast])
def test_around_2_to_the_31_elements(factory):
    """T.ceildiv(n, 256) is computed in int32, and negative from 2^31 - 255 on; the end of the last tile is one too many."""
    tile = inspect(factory, n=1 << 20, arch="sm_90a", sass=False).block[0] * (1 if factory is kernels.add_flat else 8)
    for n in (2**31 - 2 * tile + 1, 2**31 - tile, 2**31, 2**31 + 1):
        report = inspect(factory, n=n, arch="sm_90a", sass=False)
        assert report.grid[0] == -(-n // tile) and all(a.requests for a in report.accesses)
    for n in (2**31 - tile + 1, 2**31 - 1):
        with pytest.raises(ValueError, match=rf"n={n} has a last tile of {tile} that ends past 2\^31"):
            inspect(factory, n=n, arch="sm_90a", sass=False)
    assert inspect(factory, n=T.dynamic("n"), arch="sm_90a", sass=False).grid[0].startswith("(n - 1) // ")


def test_fp8_matrices_of_more_than_2_to_the_31_elements():
    report = inspect(kernels.per_token_cast_to_fp8, M=1 << 20, N=4096, arch="sm_90a", sass=False)
    assert next(a for a in report.accesses if a.buffer == "X").requests == (1 << 32) // 128
    with pytest.raises(ValueError, match="M \\* N = 4294967296 passes 2.31 elements.*per_token_cast_to_fp8 takes them, with"):
        kernels.per_token_cast_to_fp8_contiguous(1 << 20, 4096)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [N, N - 3, T.dynamic("n")])
def test_any_alignment_means_scalar_and_coalesced(n, dtype):
    report = inspect(kernels.add_tail_split, n=n, any_alignment=True, dtype=dtype, arch="sm_90a")
    assert report.verdict == "scalar" and {a.bytes_per_lane for a in report.accesses} == {report.accesses[0].element_bytes}
    assert not any(".128" in opcode or ".64" in opcode for opcode in report.sass.memory_counts())


@pytest.mark.parametrize("out_dtype", ["float16", "bfloat16"])
def test_the_wider_type_decides_the_width_of_a_cast(out_dtype):
    report = inspect(kernels.scale_cast, n=N - 3, out_dtype=out_dtype, arch="sm_90a")
    load, store = [a for a in report.accesses if not a.guarded]
    assert (load.bytes_per_lane, store.bytes_per_lane) == (16, 8) and not report.strided
    assert report.sass.count("LDG.E.128.CONSTANT") == 2 and report.sass.count("STG.E.64") == 2


@pytest.mark.parametrize("dtype, sectors", [("float32", 32), ("bfloat16", 16), ("float16", 16)])
def test_the_row_group_tile_reads_at_twice_the_ideal_in_float32(dtype, sectors):
    report = inspect(kernels.per_token_cast_to_fp8, M=512, N=4096, dtype=dtype, arch="sm_90a")
    load = next(a for a in report.accesses if a.op == "load")
    assert (load.bytes_per_lane, load.sectors_per_request, load.ideal_sectors_per_request) == (16, sectors, 16)


@pytest.mark.parametrize("M, N_", [(512, 4096), (3, 384)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_contiguous_tile_stores_its_scales_at_once(dtype, M, N_):
    """One request a block for 16 scales, two sectors; stored group by group it is one a warp, of part of a sector."""
    at_once = inspect(kernels.per_token_cast_to_fp8_contiguous, M=M, N=N_, dtype=dtype, arch="sm_90a")
    by_group = inspect(kernels.per_token_cast_to_fp8_contiguous, M=M, N=N_, scales_at_once=False, dtype=dtype, arch="sm_90a")
    blocks, warps = -(-M * N_ // 2048), at_once.block[0] // 32
    scales, one_by_one = (next(a for a in r.accesses if a.buffer == "S") for r in (at_once, by_group))
    assert (scales.requests, scales.sectors_per_request) == (blocks, 2)
    assert one_by_one.sectors_per_request == 1 and one_by_one.requests >= blocks * warps - warps
    codes = next(a for a in at_once.accesses if a.buffer == "Y")
    assert codes.sectors_per_request == codes.ideal_sectors_per_request == codes.bytes_per_lane
    assert at_once.sass.registers <= 34 and at_once.sass.spill_bytes == 0


def test_columns_first_makes_the_same_accesses_in_another_order():
    rows, columns = (
        inspect(kernels.per_token_cast_to_fp8, M=512, N=4096, columns_first=first, arch="sm_90a") for first in (False, True)
    )
    assert (rows.grid[:2], columns.grid[:2]) == ((64, 32), (32, 64))
    assert [(a.op, a.requests, a.sectors) for a in rows.accesses] == [(a.op, a.requests, a.sectors) for a in columns.accesses]


def test_the_two_vectors_of_a_thread_are_not_neighbours():
    """The layout pass gives a thread elements 4 t .. 4 t + 3 and 1024 further on, so that each access is coalesced."""
    source = inspect(kernels.add_thread_vec, n=N, arch="sm_90a", sass=False).source
    assert "(i * 1024)) + (((int)threadIdx.x) * 4)" in source


def test_the_bound_of_add_tail_split_cannot_overflow():
    """`(bx + 1) * tile <= n`, the usual way to write it, is computed in int32 and passes 2^31 in the last block."""

    @T.prim_func
    def usual(A: T.Tensor((T.dynamic("n"),), "float32")):
        n = A.shape[0]
        with T.Kernel(T.ceildiv(n, 2048), threads=256) as bx:
            if (bx + 1) * 2048 <= n:
                for i in T.Parallel(2048):
                    A[bx * 2048 + i] = 0.0

    assert "((((int)blockIdx.x) * 2048) + 2048) <= n" in inspect(usual, arch="sm_90a", sass=False).source
    ours = render.cuda(inspect(kernels.add_tail_split, n=T.dynamic("n"), arch="sm_90a", sass=False))
    assert "if (((int)blockIdx.x) < (n >> 10))" in ours and "< (n - (((int)blockIdx.x) * 1024))" in ours


def test_an_assumption_keeps_the_width_of_a_dynamic_n():
    n = T.dynamic("n")

    @T.prim_func
    def assumed(A: T.Tensor((n,), "bfloat16"), B: T.Tensor((n,), "bfloat16")):
        with T.Kernel(n // 2048, threads=256) as bx:
            T.assume(n % 2048 == 0)
            for i in T.Parallel(2048):
                B[bx * 2048 + i] = A[bx * 2048 + i]

    assert inspect(assumed, arch="sm_90a", sass=False).verdict == "128-bit"


def test_dividing_by_the_scale_is_not_multiplying_by_its_inverse():
    x = torch.rand(1 << 16) + 1
    amax = torch.rand(1 << 16) + 2
    largest = torch.full_like(amax, 448)
    assert (x * (largest / amax) != x / (amax / largest)).float().mean() > 0.1
    assert (448.0 / amax != largest / amax).any()  # PyTorch's scalar / tensor rounds twice


# -- values ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_values(case):
    outcome = check_one(case)
    assert outcome.status == "passed", outcome.detail


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("n", [31, 2047, 2048, 2049])
def test_every_way_to_end_a_tile(n, dtype):
    for n_argument in (n, T.dynamic("n")):
        args = {"n": n_argument, "dtype": dtype}
        outcome = check_one(Case(kernels.add_tail_split, args, pair(n, dtype), kernels.add_reference))
        assert outcome.status == "passed", outcome.detail


def test_casts_round_to_even_overflow_to_inf_and_keep_denormals():
    """Written out, so that the reference is not PyTorch's own cast."""
    wanted = {
        1 + 2**-11: 2.0,  # twice this lies between two numbers, and the even one is below
        1 + 3 * 2**-11: 2 + 2**-8,  # here it is above
        32759.0: 65504.0,  # the largest
        32760.0: torch.inf,  # between the largest and what would come next
        -1e30: -torch.inf,
        2**-25: 2**-24,  # the smallest denormal
        1.5 * 2**-25: 2**-23,  # between two denormals
        2**-26: 0.0,
        torch.nan: torch.nan,
    }
    x, want = torch.tensor(list(wanted)), torch.tensor(list(wanted.values())).half()
    case = Case(kernels.scale_cast, {"n": len(x)}, lambda g: (x,), lambda x: want, about="written out")
    outcome = check_one(case)
    assert outcome.status == "passed", outcome.detail


@pytest.mark.parametrize("factory, note, form", kernels.FP8_RUNGS)
def test_fp8_rows_written_out(factory, note, form):
    """Zero, below the floor, edges, NaN and inf: codes and scales worked out by hand."""
    x = torch.zeros(6, 128)
    x[1] = 1e-6
    x[2, 0], x[2, 1], x[2, 2] = 448.0, -448.0, 1.0
    x[3, 0], x[3, 1] = torch.nan, 2.0
    x[4] = torch.nan
    x[5, 0], x[5, 1] = torch.inf, 3.0
    codes = torch.zeros(6, 128)
    codes[1] = 4.5  # 1e-6 * 448 / 1e-4 = 4.48
    codes[2, 0], codes[2, 1], codes[2, 2] = 448.0, -448.0, 1.0
    codes[3, 0], codes[3, 1] = torch.nan, 448.0
    codes[4] = torch.nan
    codes[5, 0] = torch.nan
    floor = torch.tensor(1e-4)
    scales = torch.stack([floor, floor, torch.tensor(448.0), torch.tensor(2.0), floor, torch.tensor(torch.inf)]) / 448
    expected = (codes.to(torch.float8_e4m3fn), scales[:, None])
    outcome = check_one(Case(factory, {"M": 6, "N": 128, **form}, lambda g: (x,), lambda x: expected, about="written out"))
    assert outcome.status == "passed", outcome.detail
    reference = kernels.per_token_cast_to_fp8_reference(x)
    assert torch.equal(reference[1], expected[1])
    assert torch.equal(reference[0].float().nan_to_num(nan=7), expected[0].float().nan_to_num(nan=7))


def test_the_scale_is_what_a_code_is_worth():
    x = torch.randn(16, 256)
    codes, scales = kernels.per_token_cast_to_fp8_reference(x)
    restored = (codes.float().unflatten(-1, (-1, 128)) * scales.unsqueeze(-1)).flatten(-2)
    # Half a step of a 3-bit mantissa, of the largest magnitude of the group at worst.
    assert ((restored - x).abs() <= 2**-4 * x.abs() + 2**-9 * scales.max()).all()


# -- errors ----------------------------------------------------------------------------------------------------------
ADDS = (kernels.add_flat, kernels.add_thread_vec, kernels.add_register_vec, kernels.add_tail_split)


@pytest.mark.parametrize("factory", [*ADDS, kernels.scale_cast])
@pytest.mark.parametrize("n", [0, -1, 2.5, "12"])
def test_bad_sizes(factory, n):
    with pytest.raises(ValueError, match=f"n={n!r} is not a positive integer"):
        factory(n)


@pytest.mark.parametrize("factory", [*ADDS, kernels.scale_cast])
@pytest.mark.parametrize("threads", [0, 31, 48, 2048])
def test_bad_threads(factory, threads):
    with pytest.raises(ValueError, match=f"threads={threads} is not a multiple of 32 between 32 and 1024"):
        factory(1 << 16, threads=threads)


@pytest.mark.parametrize("factory", ADDS)
def test_bad_dtypes(factory):
    with pytest.raises(ValueError, match="dtype='int32' is not supported; use one of float32, float16, bfloat16"):
        factory(1 << 16, dtype="int32")


def test_a_dtype_may_be_torchs():
    assert inspect(kernels.add_flat, n=64, dtype=torch.bfloat16, sass=False).accesses[0].dtype == "bfloat16"


def test_add_register_vec_refuses_a_ragged_n_and_says_what_takes_it():
    with pytest.raises(ValueError, match="n=1048573 is not a multiple of 2048; add_tail_split takes any n"):
        kernels.add_register_vec(N - 3)
    with pytest.raises(ValueError, match="n=n is dynamic"):
        kernels.add_register_vec(T.dynamic("n"))


@pytest.mark.parametrize("factory", [kernels.per_token_cast_to_fp8, kernels.per_token_cast_to_fp8_contiguous])
def test_fp8_refuses_columns_that_are_no_whole_groups(factory):
    """The kind of fault: groups counted with N // 128 leave the last columns unwritten, without an error."""
    with pytest.raises(ValueError, match="N=200 is not a multiple of 128; pad the rows with zeros"):
        factory(8, 200)
    with pytest.raises(ValueError, match="M=0 is not a positive integer"):
        factory(0, 128)


def test_fp8_refuses_more_blocks_than_a_grid_has():
    with pytest.raises(ValueError, match="needs more than 65535 blocks along y"):
        kernels.per_token_cast_to_fp8(1, 128 * 65536)
    with pytest.raises(ValueError, match="N=8388608 .* use columns_first=True, or below 2.31 elements"):
        kernels.per_token_cast_to_fp8(256, 128 * 65536)
    assert inspect(kernels.per_token_cast_to_fp8, M=256, N=128 * 65536, columns_first=True, sass=False).grid[:2] == (65536, 32)
    with pytest.raises(ValueError, match="M=524288 needs more than 65535 blocks along y"):
        kernels.per_token_cast_to_fp8(8 * 65536, 128, columns_first=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("groups", [1, 3, 5, 16, 64])
def test_any_number_of_groups_a_block(groups, dtype):
    args = {"M": 11, "N": 384, "groups_per_block": groups, "dtype": dtype}
    case = Case(
        kernels.per_token_cast_to_fp8_contiguous, args, fp8_rows(11, 384, dtype), kernels.per_token_cast_to_fp8_reference
    )
    outcome = check_one(case)
    assert outcome.status == "passed", outcome.detail


@pytest.mark.parametrize("groups, threads", [(1, 128), (2, 256), (3, 384), (3, 96), (4, 512), (16, 1024), (64, 128)])
def test_every_count_of_threads_that_is_accepted_works(groups, threads):
    args = {"M": 11, "N": 384, "groups_per_block": groups, "threads": threads}
    case = Case(
        kernels.per_token_cast_to_fp8_contiguous,
        args,
        fp8_rows(11, 384, "float32"),
        kernels.per_token_cast_to_fp8_reference,
    )
    outcome = check_one(case)
    assert outcome.status == "passed", outcome.detail


@pytest.mark.parametrize("groups, threads", [(3, 1024), (2, 544), (1, 96), (1, 256), (100, 96), (7, 96)])
def test_threads_that_do_not_divide_the_tile_are_refused(groups, threads):
    """The kind of fault: with some of these TileLang's reduction waits for threads that never come, and the GPU hangs."""
    with pytest.raises(ValueError, match=f"threads={threads} does not divide the {groups * 128} elements of a tile"):
        kernels.per_token_cast_to_fp8_contiguous(9, 384, groups_per_block=groups, threads=threads)
    with pytest.raises(ValueError, match=f"threads={threads} does not divide .*blk_m={groups} times 128"):
        kernels.per_token_cast_to_fp8(9, 384, blk_m=groups, threads=threads)
    with pytest.raises(ValueError, match=f"threads={threads} does not divide .*blk_m={groups} times 128"):
        peers.per_token_cast_to_fp8_divided(9, 384, blk_m=groups, threads=threads)


def test_a_tile_that_fits_no_registers_is_refused():
    with pytest.raises(ValueError, match="groups_per_block=1024 gives each of 1024 threads more than 64 elements"):
        kernels.per_token_cast_to_fp8_contiguous(1024, 4096, groups_per_block=1024)


@pytest.mark.parametrize("value", ["no", 1, None, "bfloat16"])
def test_flags_are_true_or_false(value):
    for factory, sizes, flag in (
        (kernels.add_tail_split, (64,), "any_alignment"),
        (kernels.per_token_cast_to_fp8, (8, 128), "columns_first"),
        (kernels.per_token_cast_to_fp8_contiguous, (8, 128), "scales_at_once"),
    ):
        with pytest.raises(ValueError, match=f"{flag}={value!r} is not True or False"):
            factory(*sizes, **{flag: value})


@pytest.mark.parametrize("groups", [0, -1, "16"])
def test_bad_groups_a_block(groups):
    with pytest.raises(ValueError, match=f"groups_per_block={groups!r} is not a positive integer"):
        kernels.per_token_cast_to_fp8_contiguous(8, 128, groups_per_block=groups)


# -- the chapter as a reader meets it ----------------------------------------------------------------------------------
def test_public_names_and_parameters():
    for factory in (kernels.add_flat, kernels.add_thread_vec, kernels.add_register_vec):
        assert "__global__" in factory(1 << 12, threads=256, dtype="float32").get_kernel_source()
    assert "uint4" in kernels.add_thread_vec(1 << 12, threads=256, num_per_thread=8, dtype="bfloat16").get_kernel_source()
    assert "half_t" in kernels.scale_cast(1 << 12, in_dtype="float32", out_dtype="float16").get_kernel_source()
    assert "fp8" in kernels.per_token_cast_to_fp8(16, 256, 8).get_kernel_source()


def test_the_files_compile_alone():
    for path in CHAPTER.rglob("*.py"):
        subprocess.run([sys.executable, "-m", "py_compile", str(path)], check=True)


@pytest.mark.parametrize("name", inspect_elementwise.TABLES)
def test_the_readme_says_what_the_tools_say(name):
    made = {name: inspect_elementwise.TABLES[name]()}
    assert tables.stale(inspect_elementwise.README, made) == [], "run `make tables`"


# -- what TileLang's official tutorial shows (docs/deeplearning_operators/elementwise.md) and 0.1.15 does otherwise ------
def body(report):
    """The statements of a generated kernel."""
    return render.cuda(report)


def test_tutorial_one_element_a_thread_is_not_folded_into_uint4():
    """There: 32 of the 256 threads move 8 elements each as uint4. Here: 256 threads, one element each."""
    report = inspect(kernels.add_flat, n=1024, dtype="bfloat16", arch="sm_90a")
    assert "uint4" not in body(report) and "threadIdx.x) < 32" not in body(report)
    assert shapes(report) == {(2, 2, 2)} and not any(a.guarded for a in report.accesses)


def test_tutorial_2047_elements_are_not_coalesced():
    """There: element i * 256 + thread, unrolled. Here: thread * 8 + i, a loop, 8 x the ideal sectors."""
    report = inspect(kernels.add_thread_vec, n=2047, dtype="bfloat16", arch="sm_90a")
    assert "(i * 256)" not in body(report) and "threadIdx.x) * 8) + " in body(report) and "#pragma unroll" not in body(report)
    assert shapes(report) == {(2, 16, 2)}


def test_tutorial_the_sum_of_two_vectors_is_packed():
    """There: eight scalar sums. Here: four of two elements each."""
    report = inspect(kernels.add_thread_vec, n=1 << 11, dtype="bfloat16", arch="sm_90a")
    assert body(report).count("tl::add2(") == 4 and ")->x+((nv_bfloat162*)" not in body(report)
    # A packed sum is HADD2, or HFMA2 with a factor of one: the compiler spreads them over two pipes.
    assert report.sass.count("HADD2") + report.sass.count("HFMA2") == 4


def test_tutorial_fragments_keep_three_arrays():
    """There: the sum goes back into the array of A. Here: an array each, none of them in the SASS."""
    report = inspect(kernels.add_register_vec, n=1 << 26, dtype="bfloat16", arch="sm_90a")
    assert all(f"bfloat16_t {name}[8];" in body(report) for name in "abc")
    assert report.sass.count("LDL") == report.sass.count("STL") == 0
    assert "__launch_bounds__(256, 1)" in body(report) and "const bfloat16_t* __restrict__ A" in body(report)


def test_tutorial_a_dynamic_n_costs_more_than_a_parameter():
    """There: an `int N` appears. Here also: every access is scalar, and its index 64 bits wide."""
    report = inspect(kernels.add_thread_vec, n=T.dynamic("n"), dtype="bfloat16", arch="sm_90a")
    assert "int n)" in body(report) and "int64_t" in body(report) and shapes(report) == {(2, 16, 2)}


# -- on a GPU: the sizes that the chapter names -------------------------------------------------------------------------
LARGE = [1, 31, 255, N, N + 3, (1 << 28) + 3]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", LARGE)
def test_adds_on_the_gpu(n, dtype):
    make = normal if n > N + 3 else special
    for factory in (kernels.add_flat, kernels.add_thread_vec, kernels.add_tail_split):
        for size in (n, T.dynamic("n")):
            outcome = check_one(Case(factory, {"n": size, "dtype": dtype}, pair(n, dtype, make), kernels.add_reference))
            assert outcome.status == "passed", outcome.detail


@pytest.mark.gpu
@pytest.mark.parametrize("M, columns", [(8192, 7168), (4096, 7168), (1000, 384)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_fp8_on_the_gpu(M, columns, dtype):
    for factory, _, form in kernels.FP8_RUNGS:
        args = {"M": M, "N": columns, "dtype": dtype, **form}
        outcome = check_one(Case(factory, args, fp8_rows(M, columns, dtype), kernels.per_token_cast_to_fp8_reference))
        assert outcome.status == "passed", outcome.detail


@pytest.mark.gpu
@pytest.mark.parametrize("in_dtype", FLOATS)
@pytest.mark.parametrize("out_dtype", FLOATS)
def test_casts_on_the_gpu(in_dtype, out_dtype):
    n = N + 3
    case = Case(
        kernels.scale_cast,
        {"n": n, "in_dtype": in_dtype, "out_dtype": out_dtype},
        lambda g: (special(n, in_dtype, g),),
        lambda x: kernels.scale_cast_reference(x, 2.0, getattr(torch, out_dtype)),
    )
    outcome = check_one(case)
    assert outcome.status == "passed", outcome.detail


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements_on_the_gpu():
    n = 2**31 + 2**20 + 3
    a = torch.randn(n, device="cuda", dtype=torch.bfloat16)
    for size in (n, T.dynamic("n", "int64")):
        assert torch.equal(kernels.add_tail_split(size, dtype="bfloat16")(a, a), a + a)
    with pytest.raises(ValueError, match="past the int32 of n"):
        kernels.add_tail_split(T.dynamic("n"), dtype="bfloat16")(a, a)


@pytest.mark.gpu
def test_a_misaligned_view_never_reaches_the_gpu():
    for dtype, offset in (("float32", 1), ("bfloat16", 1), ("bfloat16", 4)):
        x = torch.randn(N + 8, device="cuda").to(getattr(torch, dtype))[offset : offset + N]
        y = torch.randn(N, device="cuda").to(x.dtype)
        with pytest.raises(ValueError, match="tensor A starts .* use .clone"):
            kernels.add_tail_split(N, dtype=dtype)(x, y)
        assert torch.equal(kernels.add_tail_split(N, dtype=dtype)(x.clone(), y), x + y)
        for factory, args in ((kernels.add_flat, {}), (kernels.add_tail_split, {"any_alignment": True})):
            assert torch.equal(factory(N, dtype=dtype, **args)(x, y), x + y)  # scalar accesses take any view
