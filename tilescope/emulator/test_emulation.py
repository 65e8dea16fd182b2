"""Right kernels run right on the CPU, planted faults are found at their line, and what cannot run says so."""

import inspect
import re
import subprocess

import pytest
import tilelang
import tilelang.language as T
import torch

from tilescope.emulator.emulation import emulate
from tilescope.emulator.ptx import rewrite_asm
from tilescope.errors import NotEmulated
from tilescope.frontend.source_lines import pin_lines

DTYPES = ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "int16", "int32", "int64", "uint8"]


def lines_of(factory, text: str) -> set[int]:
    """Lines of this file, inside `factory`, that hold `text`. For a loop that it vectorises TileLang often names the loop's
    line, not the statement's, so both are marked in the kernels."""
    lines, first = inspect.getsourcelines(factory.func.orig_func)
    return {first + i for i, line in enumerate(lines) if text in line}


def values(dtype: str, *shape: int) -> torch.Tensor:
    """Small values that every dtype holds, in a fixed order."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 7) % 13).reshape(shape).to(getattr(torch, dtype))


def same(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Bitwise equality, NaN included."""
    assert got.dtype == want.dtype and got.shape == want.shape
    return torch.equal(got.contiguous().view(torch.uint8), want.contiguous().view(torch.uint8))


# ---- kernels -------------------------------------------------------------------------------------------------------


@tilelang.jit(out_idx=[-1])
def copy(n, threads=64, num_per_thread=4, dtype="float32"):
    tile = threads * num_per_thread

    @T.prim_func
    def kernel(x: T.Tensor((n,), dtype), y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, tile), threads=threads) as bx:
            for i in T.Parallel(tile):
                y[bx * tile + i] = x[bx * tile + i]

    return kernel


@tilelang.jit(out_idx=[-1])
def add(n, threads=64, num_per_thread=8, dtype="float32"):
    tile = threads * num_per_thread

    @T.prim_func
    def kernel(a: T.Tensor((n,), dtype), b: T.Tensor((n,), dtype), c: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, tile), threads=threads) as bx:
            for i in T.Parallel(tile):
                c[bx * tile + i] = a[bx * tile + i] + b[bx * tile + i]

    return kernel


@tilelang.jit(out_idx=[-1])
def cast(n, source, dest, threads=64, num_per_thread=8):
    tile = threads * num_per_thread

    @T.prim_func
    def kernel(x: T.Tensor((n,), source), y: T.Tensor((n,), dest)):
        with T.Kernel(T.ceildiv(n, tile), threads=threads) as bx:
            for i in T.Parallel(tile):
                y[bx * tile + i] = T.cast(x[bx * tile + i], dest)

    return kernel


@tilelang.jit(out_idx=[-1])
def row_reduce(rows, columns, op, threads=128, dtype="float32", accumulator="float32"):
    @T.prim_func
    def kernel(x: T.Tensor((rows, columns), dtype), y: T.Tensor((rows,), accumulator)):
        with T.Kernel(rows, threads=threads) as bx:
            tile = T.alloc_fragment((1, columns), dtype)
            total = T.alloc_fragment((1,), accumulator)
            T.copy(x[bx, 0], tile)
            getattr(T, f"reduce_{op}")(tile, total, dim=1)
            y[bx] = total[0]

    return kernel


@tilelang.jit(out_idx=[-1])
def transpose(rows, columns, tile=16, dtype="float32", scope="shared.dyn"):
    @T.prim_func
    def kernel(x: T.Tensor((rows, columns), dtype), y: T.Tensor((columns, rows), dtype)):
        with T.Kernel(T.ceildiv(columns, tile), T.ceildiv(rows, tile), threads=64) as (bx, by):
            buffer = T.alloc_shared((tile, tile), dtype, scope=scope)
            for i, j in T.Parallel(tile, tile):
                buffer[i, j] = x[by * tile + i, bx * tile + j]
            for i, j in T.Parallel(tile, tile):
                y[bx * tile + i, by * tile + j] = buffer[j, i]

    return kernel


def cuda(source: str, in_dtype: str, out_dtype: str, size: int, threads: int, blocks: int = 1):
    """A factory of one kernel given as CUDA text: `kernel(const in *x, out *y)`, both of `size` elements.

    TileLang hands a kernel its tensors sorted by name, whatever the order of the prim_func's parameters.
    """

    @tilelang.jit(out_idx=[-1])
    def hand_written():
        @T.prim_func
        def main(x: T.Tensor((size,), in_dtype), y: T.Tensor((size,), out_dtype)):
            T.CUDASourceCodeKernel(blocks, threads=threads, source_code_or_path=source, entry_name="kernel")

        return main

    return hand_written


# ---- right kernels ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
@pytest.mark.parametrize("n", [255, 512])
def test_copy(dtype, n):
    x = values(dtype, n)
    result = emulate(copy, x, n=n, dtype=dtype)
    assert result.ok, result
    assert same(result.outputs[0], x)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_add_on_every_arch(dtype, arch):
    n = 2048
    a, b = torch.randn(n).to(getattr(torch, dtype)), torch.randn(n).to(getattr(torch, dtype))
    result = emulate(add, a, b, n=n, dtype=dtype, arch=arch, num_per_thread=16)
    assert result.ok, result
    assert same(result.outputs[0], a + b)


@pytest.mark.parametrize("dtype", ["float16", "int8", "int32", "int64", "uint8"])
def test_add(dtype):
    a, b = values(dtype, 1000), values(dtype, 1000).flip(0)
    result = emulate(add, a, b, n=1000, dtype=dtype)
    assert result.ok, result
    assert same(result.outputs[0], a + b)


def test_dynamic_size_is_read_off_the_tensors():
    for n in (1, 7, 511, 513):
        a, b = torch.randn(n), torch.randn(n)
        result = emulate(add, a, b, n=T.dynamic("n"))
        assert result.ok, result
        assert same(result.outputs[0], a + b)


def test_nan_and_inf_travel_like_on_a_gpu():
    @tilelang.jit(out_idx=[-1])
    def relu():
        @T.prim_func
        def kernel(x: T.Tensor((64,), "float32"), y: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    y[i] = T.max(x[i], T.float32(0))

        return kernel

    x = torch.randn(64)
    x[:5] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0])
    got = emulate(relu, x).outputs[0]
    # FMNMX drops the NaN and prefers +0.
    assert same(got[:5], torch.tensor([0.0, float("inf"), 0.0, 0.0, 0.0]))


@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
def test_two_dimensions_and_shared_memory(scope):
    x = torch.randn(48, 80)
    result = emulate(transpose, x, rows=48, columns=80, scope=scope)
    assert result.ok, result
    assert same(result.outputs[0], x.T.contiguous())


@pytest.mark.parametrize("op, threads", [("sum", 256), ("max", 128), ("absmax", 32), ("absmax", 256)])
def test_block_reduction(op, threads):
    x = torch.randint(-99, 99, (3, 1024)).float()  # sums of small integers are exact in every order
    result = emulate(row_reduce, x, rows=3, columns=1024, op=op, threads=threads)
    assert result.ok, result
    want = {"sum": x.sum(1), "max": x.amax(1), "absmax": x.abs().amax(1)}[op]
    assert same(result.outputs[0], want)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_block_reduction_in_16_bits(dtype):
    x = torch.randn(2, 512).to(getattr(torch, dtype))
    result = emulate(row_reduce, x, rows=2, columns=512, op="max", dtype=dtype, accumulator=dtype)
    assert result.ok, result
    assert same(result.outputs[0], x.amax(1))


def all_bits(dtype: str) -> torch.Tensor:
    return torch.arange(65536, dtype=torch.int32).to(torch.int16).view(getattr(torch, dtype))


@pytest.mark.parametrize("source", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("num_per_thread", [1, 8])  # scalar and vector conversions are different functions
def test_cast_to_e4m3_of_every_value(source, num_per_thread):
    x = all_bits("bfloat16").float() if source == "float32" else all_bits(source)
    args = {"source": source, "dest": "float8_e4m3fn", "num_per_thread": num_per_thread}
    result = emulate(cast, x, n=65536, **args)
    assert result.ok, result
    got = result.outputs[0].float()
    # A GPU saturates to 448 and keeps NaN.
    want = x.float().clamp(-448, 448).to(torch.float8_e4m3fn).float()
    assert torch.equal(got.nan_to_num(1e9), want.nan_to_num(1e9))


@pytest.mark.parametrize("num_per_thread", [1, 8])
def test_cast_to_e5m2_of_every_value(num_per_thread):
    x = all_bits("bfloat16").float()
    args = {"source": "float32", "dest": "float8_e5m2", "num_per_thread": num_per_thread}
    result = emulate(cast, x, n=65536, **args)
    assert result.ok, result
    want = x.clamp(-57344, 57344).to(torch.float8_e5m2).float()
    assert torch.equal(result.outputs[0].float().nan_to_num(1e9), want.nan_to_num(1e9))


@pytest.mark.parametrize("source, dest", [("float8_e4m3fn", "float32"), ("float8_e5m2", "bfloat16")])
def test_cast_from_fp8_of_every_value(source, dest):
    x = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(getattr(torch, source))
    result = emulate(cast, x, n=256, source=source, dest=dest)
    assert result.ok, result
    want = x.to(getattr(torch, dest))
    assert torch.equal(result.outputs[0].nan_to_num(1e9), want.nan_to_num(1e9))


@pytest.mark.parametrize("dest", ["bfloat16", "float16"])
def test_cast_to_16_bits_rounds_to_nearest_even(dest):
    x = torch.randint(-(2**31), 2**31 - 1, (4096,), dtype=torch.int32).view(torch.float32)
    result = emulate(cast, x, n=4096, source="float32", dest=dest)
    assert result.ok, result
    want = x.to(getattr(torch, dest))
    assert torch.equal(result.outputs[0].float().nan_to_num(1e38), want.float().nan_to_num(1e38))


def test_atomics_meet_in_global_and_shared_memory():
    source = """
extern "C" __global__ void kernel(const int *x, int *y) {
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&total, x[i]);
  __syncthreads();
  y[i] = total + atomicMax(&total, x[i]) * 0;
}"""
    z = torch.arange(128, dtype=torch.int32)
    result = emulate(cuda(source, "int32", "int32", 128, 64, 2), z)
    assert result.ok, result
    assert result.outputs[0].tolist() == [sum(range(64))] * 64 + [sum(range(64, 128))] * 64


def test_tilelang_atomic_add_into_an_argument():
    @tilelang.jit
    def histogram(n):
        @T.prim_func
        def kernel(x: T.Tensor((n,), "int32"), y: T.Tensor((8,), "float32"), z: T.Tensor((8,), "float16")):
            with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
                for i in T.Parallel(128):
                    if bx * 128 + i < n:
                        T.atomic_add(y[x[bx * 128 + i]], T.float32(1))
                        T.atomic_max(z[x[bx * 128 + i]], T.cast(bx * 128 + i, "float16"))

        return kernel

    x = torch.arange(200, dtype=torch.int32) % 8
    result = emulate(histogram, x, torch.full((8,), 2.0), torch.zeros(8).half(), n=200)
    assert result.ok, result
    assert result.outputs[0].tolist() == [27.0] * 8
    assert result.outputs[1].tolist() == [192.0 + i for i in range(8)]


SHUFFLES = """
__device__ float lane_sum(float v) {
  for (int step = 16; step; step >>= 1) v += __shfl_down_sync(0xffffffffu, v, step);
  return __shfl_sync(0xffffffffu, v, 0);
}
extern "C" __global__ void kernel(const float *x, float *y) {
  int t = threadIdx.x, lane = t % 32;
  float v = x[t], r = 0;
  if (t < 32) r = lane_sum(v);
  else if (t < 64) r = __shfl_up_sync(0xffffffffu, v, 3, 8);
  else if (t < 96) r = float(__shfl_xor_sync(0xffffffffu, half_t(v), 5)) + float(__shfl_sync(~0u, bfloat16_t(v), 33, 16));
  else if (lane < 10) r = __popc(__ballot_sync(0x3ffu, v > 100)) + 100 * __any_sync(0x3ffu, lane == 9);
  else r = __all_sync(0xfffffc00u, lane > 9) + 10 * __reduce_add_sync(0xfffffc00u, lane);
  y[t] = r;
}"""


def test_warp_intrinsics():
    z = torch.arange(128).float()
    result = emulate(cuda(SHUFFLES, "float32", "float32", 128, 128), z)
    assert result.ok, result
    got = result.outputs[0]
    assert got[:32].tolist() == [sum(range(32))] * 32
    assert got[32:64].tolist() == [32 + lane - 3 if lane % 8 >= 3 else 32 + lane for lane in range(32)]
    assert got[64:96].tolist() == [64 + (lane ^ 5) + 64 + (lane & 16) + 1 for lane in range(32)]
    assert got[96:106].tolist() == [5 + 100] * 10
    assert got[106:].tolist() == [1 + 10 * sum(range(10, 32))] * 22


def test_asynchronous_copy_and_ldg():
    source = """
#include <tl_templates/cuda/copy.h>
extern "C" __global__ void kernel(const float *x, float *y) {
  extern __shared__ __align__(16) float unused[];
  __shared__ __align__(16) float s[128];
  tl::cp_async_gs<16>(s + 4 * threadIdx.x, x + 4 * threadIdx.x);
  tl::cp_async_commit();
  tl::cp_async_wait<0>();
  __syncthreads();
  for (int i = 0; i < 4; ++i) {
    int at = i * 32 + threadIdx.x;
    __stcs(y + at, s[127 - at] + __ldg(x + at));
  }
}"""
    z = torch.randn(128)
    result = emulate(cuda(source, "float32", "float32", 128, 32), z)
    assert result.ok, result
    assert same(result.outputs[0], z.flip(0) + z)


def test_kernels_of_one_program_run_in_the_hosts_order():
    @tilelang.jit(out_idx=[-1])
    def pair(n):
        @T.prim_func
        def kernel(scale: T.float32, x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
            with T.Kernel(n // 32, threads=32) as bx:
                for i in T.Parallel(32):
                    y[bx * 32 + i] = x[bx * 32 + i] * scale
            with T.Kernel(n // 32, threads=32) as bx:
                for i in T.Parallel(32):
                    y[bx * 32 + i] = y[bx * 32 + i] + 1

        return kernel

    x = torch.randn(64)
    result = emulate(pair, 2.5, x, n=64)
    assert result.ok, result
    assert same(result.outputs[0], x * 2.5 + 1)


def test_all_parameters_may_be_passed_and_written_ones_come_back():
    x, y = torch.randn(100), torch.full((100,), 7.0)
    result = emulate(copy, x, y, n=100)
    assert result.ok and len(result.outputs) == 1
    assert same(result.outputs[0], x)
    assert y[0] == 7  # the caller's tensors stay as they are


def test_a_second_run_with_other_data_needs_no_compiler(monkeypatch):
    x = torch.randn(100)
    emulate(copy, x, n=100)
    real = subprocess.run

    def no_compiler(command, **kwargs):
        assert "-o" not in command, "compiled again"
        return real(command, **kwargs)

    monkeypatch.setattr("subprocess.run", no_compiler)
    assert same(emulate(copy, x + 1, n=100).outputs[0], x + 1)


def test_fused_multiply_add_of_bf16_rounds_once():
    source = """
extern "C" __global__ void kernel(const float *x, float *y) {
  __nv_bfloat16 a = __float2bfloat16(2.3125f), b = __float2bfloat16(0.875f), c = __float2bfloat16(x[0]);
  y[threadIdx.x] = __bfloat162float(__hfma(a, b, c));
}"""
    # 2.3125 * 0.875 = 259/128 lies halfway between two bf16 values, so a c far below double's precision decides.
    for c, want in ((0.0, 260 / 128), (2.0**-100, 260 / 128), (-(2.0**-100), 258 / 128)):
        got = emulate(cuda(source, "float32", "float32", 32, 32), torch.full((32,), c)).outputs[0]
        assert got.tolist() == [want] * 32


# ---- faults ------------------------------------------------------------------------------------------------------------

UNGUARDED = {"tl.disable_safe_memory_legalize": True}


@tilelang.jit(out_idx=[-1], pass_configs=UNGUARDED)
def unguarded_add(n, threads=64, num_per_thread=4):
    tile = threads * num_per_thread

    @T.prim_func
    def kernel(a: T.Tensor((n,), "float32"), b: T.Tensor((n,), "float32"), c: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, tile), threads=threads) as bx:
            for i in T.Parallel(tile):  # wrong
                c[bx * tile + i] = a[bx * tile + i] + b[bx * tile + i]  # wrong

    return kernel


@pytest.mark.parametrize("size", ["static", "dynamic"])
def test_a_missing_guard_is_found_for_reads_and_writes(size):
    n = 1001
    result = emulate(unguarded_add, torch.randn(n), torch.randn(n), n=n if size == "static" else T.dynamic("n"))
    found = {(fault.kind, fault.buffer, fault.message.split()[0]) for fault in result.faults}
    assert found == {("out-of-bounds", "a", "reads"), ("out-of-bounds", "b", "reads"), ("out-of-bounds", "c", "writes")}
    assert {fault.line for fault in result.faults} <= lines_of(unguarded_add, "# wrong")
    assert all(fault.file == __file__ for fault in result.faults)
    assert "it has 1001" in str(result) and not result.ok


@tilelang.jit(out_idx=[-1], pass_configs=UNGUARDED)
def shifted(n, by, write):
    @T.prim_func
    def kernel(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):  # wrong
                if write:
                    y[i + by] = x[i]  # wrong
                else:
                    y[i] = x[i + by]  # wrong

    return kernel


@pytest.mark.parametrize("by", [1, -1, -20, 100_000, 2**30])
@pytest.mark.parametrize("write", [False, True])
def test_wrong_indices_near_and_far(by, write):
    result = emulate(shifted, torch.randn(32), n=32, by=by, write=write)
    (fault,) = [fault for fault in result.faults if fault.kind == "out-of-bounds"]
    assert fault.buffer == ("y" if write else "x")
    assert fault.line in lines_of(shifted, "# wrong")
    assert fault.count == min(abs(by), 32)
    first = by if by < 0 else max(by, 32)
    assert f"{fault.buffer}[{first}]" in fault.message
    assert fault.thread == (first - by, 0, 0) and fault.block == (0, 0, 0)


@pytest.mark.parametrize("dtype, num_per_thread", [("float32", 4), ("bfloat16", 8)])
@pytest.mark.parametrize("offset, misaligned", [(0, False), (1, True), (2, True), (8, False)])
def test_a_view_is_misaligned_for_a_vector_kernel(dtype, num_per_thread, offset, misaligned):
    n = 64 * num_per_thread
    x = torch.randn(n + offset).to(getattr(torch, dtype))[offset:]
    result = emulate(copy, x, n=n, dtype=dtype, num_per_thread=num_per_thread)
    if not misaligned:
        assert result.ok, result
        return
    (fault,) = result.faults
    assert (fault.kind, fault.buffer) == ("misaligned", "x")
    assert fault.line in lines_of(copy, "tile")
    assert "no multiple of 16" in fault.message


def test_a_misaligned_view_is_fine_for_a_scalar_kernel():
    x = torch.randn(65)[1:]
    assert emulate(copy, x, n=64, num_per_thread=1).ok


def test_a_256_bit_access_wants_32_bytes():
    n = 512
    a, b = torch.randn(n + 4)[4:], torch.randn(n)
    assert emulate(add, a, b, n=n, arch="sm_90a").ok
    (fault,) = emulate(add, a, b, n=n, arch="sm_100a").faults
    assert fault.kind == "misaligned" and fault.buffer == "a" and "no multiple of 32" in fault.message
    assert fault.line in lines_of(add, "tile + i")


@tilelang.jit(out_idx=[-1])
def floor_grid(n, threads=64):
    @T.prim_func
    def kernel(x: T.Tensor((n,), "bfloat16"), y: T.Tensor((n,), "bfloat16")):
        with T.Kernel(n // threads, threads=threads) as bx:
            for i in T.Parallel(threads):
                y[bx * threads + i] = x[bx * threads + i]

    return kernel


def test_elements_that_no_thread_writes_are_counted():
    result = emulate(floor_grid, torch.randn(1000).bfloat16(), n=1000)
    assert result.unwritten == {"y": 1000 % 64} and not result.faults and not result.ok
    assert "y: 40 elements" in str(result)


def test_an_output_that_is_only_added_to_was_never_initialised():
    @tilelang.jit(out_idx=[-1])
    def accumulate():
        @T.prim_func
        def kernel(x: T.Tensor((64,), "float32"), y: T.Tensor((1,), "float32")):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    T.atomic_add(y[0], x[i])

        return kernel

    (fault,) = emulate(accumulate, torch.ones(64)).faults
    assert fault.kind == "uninitialized" and fault.buffer == "y"


def test_reading_an_output_does_not_count_as_writing_it():
    source = SHARED.replace("SYNC", "if (y[threadIdx.x] == 1) __trap(); return;")
    result = emulate(cuda(source, "float32", "float32", 64, 64), torch.ones(64))
    assert {fault.kind for fault in result.faults} == {"uninitialized"} and result.unwritten == {"y": 64}


def test_a_write_that_no_check_sees_is_found_by_the_canary():
    source = SHARED.replace("SYNC", "__syncthreads(); auto fill = &memset; if (threadIdx.x == 0) fill(y + 70, 0, 4);")
    (fault,) = emulate(cuda(source, "float32", "float32", 64, 64), torch.ones(64)).faults
    assert (fault.kind, fault.buffer) == ("out-of-bounds", "y") and "y[70]" in fault.message


@tilelang.jit
def racing_sum():
    @T.prim_func
    def kernel(x: T.Tensor((64,), "float32"), y: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                y[0] = y[0] + x[i]  # not atomic

    return kernel


def test_threads_that_accumulate_without_an_atomic_race():
    faults = emulate(racing_sum, torch.ones(64), torch.zeros(1)).faults
    assert {(fault.kind, fault.buffer) for fault in faults} == {("race", "y")}
    assert {fault.line for fault in faults} == lines_of(racing_sum, "# not atomic")


SHARED = """extern "C" __global__ void kernel(const float *x, float *y) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  SYNC
  y[threadIdx.x] = s[63 - threadIdx.x];
}"""


def test_a_missing_barrier_is_found():
    z = torch.randn(64)
    good = emulate(cuda(SHARED.replace("SYNC", "__syncthreads();"), "float32", "float32", 64, 64), z)
    assert good.ok and same(good.outputs[0], z.flip(0))
    bad = emulate(cuda(SHARED.replace("SYNC", ""), "float32", "float32", 64, 64), z)
    assert {fault.kind for fault in bad.faults} == {"race", "uninitialized"}
    assert {fault.line for fault in bad.faults} <= {3, 5}
    # A warp barrier orders the lanes of one warp, not the two warps.
    warp = emulate(cuda(SHARED.replace("SYNC", "__syncwarp();"), "float32", "float32", 64, 64), z)
    assert not warp.ok


@pytest.mark.parametrize(
    "statement, what",
    [
        ("if (threadIdx.x < 40) __syncthreads();", "40 of 64 threads wait here for 64; 24 have left the kernel"),
        ("if (threadIdx.x >= 50) return; __syncthreads();", "50 of 64 threads wait here"),
        ("if (threadIdx.x < 32) __syncwarp(); else __syncthreads();", "32 of 64 threads wait here for 64"),
        ("if (threadIdx.x % 2) __shfl_xor_sync(~0u, 1, 1); else __syncthreads();", "wait here in __shfl_xor_sync"),
    ],
)
def test_a_barrier_that_some_threads_never_reach(statement, what):
    source = SHARED.replace("SYNC", statement)
    faults = emulate(cuda(source, "float32", "float32", 64, 64), torch.randn(64)).faults
    # Threads that did not wait may have read too early.
    assert "deadlock" in {fault.kind for fault in faults} <= {"deadlock", "race"}
    faults = [fault for fault in faults if fault.kind == "deadlock"]
    assert any(what in fault.message for fault in faults), faults
    assert {(fault.file, fault.line) for fault in faults} == {("kernel.cu", 4)}


def test_barriers_at_different_places_are_divergent():
    source = SHARED.replace("SYNC", "if (threadIdx.x < 32)\n  __syncthreads();\n else __syncthreads();")
    faults = emulate(cuda(source, "float32", "float32", 64, 64), torch.randn(64)).faults
    assert [fault.kind for fault in faults] == ["divergent-barrier"]


@pytest.mark.parametrize("index", ["threadIdx.x + 1", "int(threadIdx.x) - 1"])
def test_shared_memory_overruns(index):
    source = SHARED.replace("SYNC", f"__syncthreads(); s[{index}] = 0; __syncthreads();")
    faults = emulate(cuda(source, "float32", "float32", 64, 64), torch.randn(64)).faults
    assert ("out-of-bounds", 4) in {(fault.kind, fault.line) for fault in faults}


@tilelang.jit(out_idx=[-1], pass_configs=UNGUARDED)
def shared_overrun():
    @T.prim_func
    def kernel(x: T.Tensor((64,), "float32"), y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            buffer = T.alloc_shared((64,), "float32")
            for i in T.Parallel(64):  # one too far
                buffer[i + 1] = x[i]  # one too far
            for i in T.Parallel(64):
                y[i] = buffer[i]

    return kernel


def test_dynamic_shared_memory_overruns():
    faults = emulate(shared_overrun, torch.randn(64)).faults
    overruns = [fault for fault in faults if fault.kind == "out-of-bounds"]
    assert [fault.buffer for fault in overruns] == ["shared memory"]
    assert overruns[0].line in lines_of(shared_overrun, "# one too far")


def test_a_shuffle_from_a_lane_that_is_not_there():
    source = SHARED.replace("SYNC", "__syncthreads(); if (threadIdx.x < 8) __shfl_sync(0xffu, 1.0f, 9);")
    (fault,) = emulate(cuda(source, "float32", "float32", 64, 64), torch.randn(64)).faults
    assert fault.kind == "warp" and "lane 9" in fault.message and fault.count == 8


@pytest.mark.parametrize("bad", [3e9, float("nan"), -float("inf")])
def test_a_cast_that_a_gpu_would_saturate_is_not_passed_as_right(bad):
    x = torch.tensor([1.5, -2.5] * 32)
    assert emulate(cast, x, n=64, source="float32", dest="int32").ok
    x[5] = bad
    faults = emulate(cast, x, n=64, source="float32", dest="int32").faults
    assert [fault.kind for fault in faults] == ["cast-overflow"]
    assert faults[0].line in lines_of(cast, "tile")


def test_an_assertion_in_the_kernel():
    source = SHARED.replace("SYNC", "__syncthreads(); assert(x[threadIdx.x] < 5);")
    (fault,) = emulate(cuda(source, "float32", "float32", 64, 64), torch.arange(64).float()).faults
    assert (fault.kind, fault.line, fault.count) == ("assert", 4, 59)


def test_launches_that_cuda_refuses():
    (fault,) = emulate(copy, torch.empty(0), n=T.dynamic("n")).faults
    assert fault.kind == "launch" and "x has to be from 1" in fault.message


def test_a_loop_without_end_is_stopped(monkeypatch):
    monkeypatch.setenv("TILESCOPE_EMULATE_TIMEOUT", "1")
    source = SHARED.replace("SYNC", "while (x[0] == 1) ;")
    (fault,) = emulate(cuda(source, "float32", "float32", 64, 64), torch.ones(64)).faults
    assert fault.kind == "timeout"


# ---- what is not emulated ----------------------------------------------------------------------------------------------


@tilelang.jit(out_idx=[-1])
def matmul(n=128):
    @T.prim_func
    def kernel(a: T.Tensor((n, n), "float16"), b: T.Tensor((n, n), "float16"), c: T.Tensor((n, n), "float32")):
        with T.Kernel(1, threads=128):
            left, right = T.alloc_shared((n, n), "float16"), T.alloc_shared((n, n), "float16")
            total = T.alloc_fragment((n, n), "float32")
            T.copy(a, left)
            T.copy(b, right)
            T.clear(total)
            T.gemm(left, right, total)
            T.copy(total, c)

    return kernel


@pytest.mark.parametrize("arch, what", [("sm_80", "tensor core"), ("sm_90a", "TMA|wgmma|mbarrier")])
def test_a_matrix_product_is_not_emulated(arch, what):
    x = torch.randn(128, 128).half()
    with pytest.raises(NotEmulated, match=what):
        emulate(matmul, x, x, arch=arch)


def test_unknown_ptx_is_named_when_it_is_reached():
    source = SHARED.replace("SYNC", '__syncthreads(); if (x[0] > 0) asm volatile("nanosleep.u32 %0;" :: "r"(5));')
    kernel = cuda(source, "float32", "float32", 64, 64)
    assert emulate(kernel, torch.zeros(64)).ok
    with pytest.raises(NotEmulated, match="nanosleep"):
        emulate(kernel, torch.ones(64))


def test_unknown_intrinsics_are_named():
    with pytest.raises(NotEmulated, match="__vabsdiffu4"):
        emulate(cuda(SHARED.replace("SYNC", "__vabsdiffu4(1, 2);"), "float32", "float32", 64, 64), torch.ones(64))


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(NotEmulated, match="no-such-compiler"):
        emulate(copy, torch.ones(4), n=4)


# ---- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tensors, message",
    [
        ((), "got 0 tensors; pass its 1 inputs"),
        ((torch.ones(8).double(),), "x is torch.float64, the kernel wants torch.float32"),
        ((torch.ones(9),), r"x has shape \(9,\), the kernel wants \(8,\)"),
        ((torch.ones(2, 4),), "1 dimension"),
        ((torch.ones(16)[::2],), r"strides \(2,\)"),
        ((3.0,), "pass a CPU tensor, not float"),
    ],
)
def test_wrong_tensors_are_refused_by_name(tensors, message):
    with pytest.raises(ValueError, match=message):
        emulate(copy, *tensors, n=8)


# ---- text ----------------------------------------------------------------------------------------------------------------


def test_pinned_lines_repeat_the_users_line_and_skip_the_librarys():
    library = tilelang.__file__.replace("__init__", "language/reduce_op")
    source = f'''#include <a.h>
extern "C" __global__ void k() {{
  int first;
#line 7 "k.py"
  a = b;
  c = d;
#line 160 "{library}"
  e = f;
  #pragma unroll
  for (;;) {{
#line 9 "k.py"
  }}
}}'''
    pinned = pin_lines(source).splitlines()
    assert library not in "\n".join(pinned)
    line, seen = None, {}
    for text in pinned:
        if found := re.match(r'#line (\d+) "k.py"', text):
            line = int(found[1])
            continue
        seen[text.strip()] = line
        line = line + 1 if line is not None else None
    assert seen["#include <a.h>"] is None
    assert [seen[text] for text in ("int first;", "a = b;", "c = d;", "e = f;", "for (;;) {")] == [7, 7, 7, 7, 7]
    assert seen["}"] == 9


def test_text_without_directives_is_left_alone():
    assert pin_lines("int a;\nint b;") == "int a;\nint b;"


def test_ptx_is_rewritten_or_named():
    text = 'asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(count)); asm("weird.op %0;\\n" :: "r"(f(1, 2)));'
    assert rewrite_asm(text) == 'emulator_barrier((id), (count), false); emulator_missing("PTX weird.op %0;");'
