"""The hand-written kernels: values, emulated or on the GPU; widths and arithmetic in the SASS; each lesson's fault."""

import activation_cases as cases
import cuda_baselines as cuda
import gelu_variants as gelu
import pytest
import relu_variants as relu
import tilelang.language as T
import torch

from tilescope import Case, emulate, inspect
from tilescope.analysis.accesses import HAND_WRITTEN
from tilescope.checking.cases import check_one
from tilescope.checking.checked import check_tensors
from tilescope.checking.inputs import normal, special

N = 1 << 20
SIZES = [1, 31, 255, 4096 + 3]
ARCHS = ("sm_80", "sm_90a", "sm_100a")
TANH, ERF = gelu.gelu_tanh_reference, gelu.gelu_erf_reference

# name -> (dtype, reference, elements a thread accesses at once)
RIGHT = {
    "cuda_gelu_tanh_naive": ("bfloat16", TANH, 1),
    "cuda_gelu_tanh_packed128": ("bfloat16", TANH, 8),
    "cuda_relu_f32": ("float32", relu.relu_max_reference, 1),
    "cuda_relu_f32x4": ("float32", relu.relu_max_reference, 4),
    "cuda_relu_f32x4_hinted": ("float32", relu.relu_max_reference, 4),
    "cuda_gelu_f32": ("float32", TANH, 1),
    "cuda_gelu_f32x4": ("float32", TANH, 4),
    "cuda_gelu_erf_f32x4x2": ("float32", ERF, 4),
}
OVERRUNS = ("cuda_relu_f32x4_overrun", "cuda_gelu_f32x4_overrun")
LESSONS = (*OVERRUNS, "cuda_gelu_f32_clipped", "cuda_gelu_f32_double")


def case(name, n, size=None, make=normal, **args):
    """The kernel on n elements against float64; `size`: what it is compiled for, when it is not n."""
    factory, (dtype, reference, _) = getattr(cuda, name), RIGHT[name]
    args["n"] = n if size is None else size
    inputs = cases.vector(n, dtype, make)
    if reference is relu.relu_max_reference:
        return Case(factory, args, inputs, reference)
    return Case(factory, args, inputs, reference, 0.52 if dtype == "bfloat16" else 0.5, slack=cases.cancels)


def passes(case):
    outcome = check_one(case)
    assert outcome.status == "passed", outcome.detail


# -- values ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", RIGHT)
def test_values(name, n):
    passes(case(name, n))


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("bits", ["int32", "int64"])
def test_a_dynamic_n_is_passed_as_64_bits(name, bits):
    passes(case(name, 4096 + 3, T.dynamic("n", bits)))
    source = inspect(getattr(cuda, name), n=T.dynamic("n", bits), sass=False).source
    assert "STATIC_N" not in source.split("#include")[0].partition("#line")[0]


@pytest.mark.parametrize("n", [3, 2048, 3 * 2048 + 5, 8 * 2048 + 1027])
def test_the_loop_over_few_blocks_reaches_every_element(n):
    passes(case("cuda_gelu_erf_f32x4x2", n, max_blocks=2))


@pytest.mark.parametrize("name", ["cuda_relu_f32", "cuda_relu_f32x4", "cuda_relu_f32x4_hinted"])
def test_relu_at_the_ends_of_the_type(name):
    passes(case(name, 4096 + 3, make=special))
    x = torch.tensor([torch.nan, -0.0, torch.inf, -torch.inf, 1.0])
    assert emulate(getattr(cuda, name), x, n=5).outputs[0].tolist() == [0.0, 0.0, torch.inf, 0.0, 1.0]  # PyTorch keeps the NaN


# -- the machine code ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", RIGHT)
def test_widths_in_the_sass(name, arch):
    dtype, _, elements = RIGHT[name]
    item = 8 * torch.tensor([], dtype=getattr(torch, dtype)).element_size()
    report = inspect(getattr(cuda, name), n=N - 3, arch=arch)
    # A vector kernel has its tail beside it, and the tail is scalar.
    widths = (item,) if elements == 1 else (128, item)
    assert report.machine_bits == widths and report.narrowest_bits == item
    assert report.verdict == " and ".join(f"{bits}-bit" for bits in widths) + " in SASS"
    assert report.accesses == () and report.notes == (HAND_WRITTEN,)
    assert report.sass.spill_bytes == 0


def test_one_vector_a_thread_is_one_instruction():
    counts = inspect(cuda.cuda_relu_f32x4, n=N, arch="sm_90a").sass.memory_counts()
    assert counts == {"LDG.E.128.CONSTANT": 1, "STG.E.128": 1, "LDG.E.CONSTANT": 1, "STG.E": 1}


def test_the_streaming_load_is_an_evict_first_load():
    counts = inspect(cuda.cuda_relu_f32x4_hinted, n=N - 3, arch="sm_90a").sass.memory_counts()
    assert {"LDG.E.EF.128": 1, "STG.E.EF.128": 1}.items() <= counts.items()
    counts = inspect(cuda.cuda_gelu_tanh_packed128, n=N, arch="sm_90a").sass.memory_counts()
    assert counts == {"LDG.E.EF.128": 1, "STG.E.128": 1, "LDG.E.U16": 1, "STG.E.U16": 1}
    ours = inspect(gelu.gelu_tanh_register_vec, n=N, dtype="bfloat16", arch="sm_90a").sass.memory_counts()
    assert "LDG.E.128.CONSTANT" in ours and not any(".EF." in opcode for opcode in ours)


def test_a_static_n_of_whole_vectors_may_lose_its_tail():
    """Compiled in, n = 2^20 tells the compiler that no vector is cut; whether it sees that depends on the architecture."""
    widths = {arch: inspect(cuda.cuda_gelu_tanh_packed128, n=N, arch=arch).machine_bits for arch in ARCHS}
    assert widths == {"sm_80": (128, 16), "sm_90a": (128, 16), "sm_100a": (128,)}


def test_without_sass_there_is_no_verdict():
    report = inspect(cuda.cuda_relu_f32x4, n=N, arch="sm_90a", sass=False)
    assert report.verdict == "not known without SASS" and report.narrowest_bits is None


def test_indices_pass_2_to_the_31():
    for n in (2**31 + 2**20 + 3, T.dynamic("n", "int64")):
        report = inspect(cuda.cuda_gelu_tanh_packed128, n=n, arch="sm_90a")
        assert report.machine_bits == (128, 16)


# -- lessons ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", OVERRUNS)
def test_lesson_the_vector_version_passes_the_end_of_a_ragged_n(name, n):
    """Emulated on every machine: on a GPU it may overwrite another tensor, and nobody is told."""
    factory = getattr(cuda, name)
    result = emulate(factory, torch.randn(n), n=n)
    last = n // 4 * 4
    faults = [(fault.kind, fault.buffer, fault.message) for fault in result.faults]
    assert faults == [
        ("out-of-bounds", "X", f"reads 16 bytes at X[{last}], but it has {n}"),
        ("out-of-bounds", "Y", f"writes 16 bytes at Y[{last}], but it has {n}"),
    ]
    assert {fault.file for fault in result.faults} == {"cuda_baselines.cu"}
    at = cuda.SOURCE.read_text().splitlines()[result.faults[0].line - 1]
    assert "reinterpret_cast<float4 &>(Y[i])" in at
    assert emulate(factory, torch.randn(n + -n % 4), n=n + -n % 4).ok  # why tests with round sizes pass


def test_lesson_the_clip_changes_results():
    x = torch.tensor([100.0, -100.0, 1e30, torch.nan, 3.0])
    right, clipped = (emulate(f, x, n=5).outputs[0] for f in (cuda.cuda_gelu_f32, cuda.cuda_gelu_f32_clipped))
    assert right[[0, 1, 2]].tolist() == [100.0, 0.0, torch.tensor(1e30).item()] and right[3].isnan()
    limit = torch.tensor(88.3762626647949).item()
    assert clipped[[0, 1, 2]].tolist() == [limit, 0.0, limit] and clipped[3] == 0  # and NaN is gone
    assert right[4] == clipped[4]


@pytest.mark.parametrize("arch", ARCHS)
def test_lesson_an_unsuffixed_constant_makes_the_arithmetic_double(arch):
    def doubles(factory):
        sass = inspect(factory, n=N, arch=arch).sass
        counts = {opcode: sass.count(opcode) for opcode in ("DADD", "DMUL", "DFMA", "F2F.F64.F32", "F2F.F32.F64")}
        return {opcode: count for opcode, count in counts.items() if count}

    assert doubles(cuda.cuda_gelu_f32) == {}
    assert doubles(cuda.cuda_gelu_f32_double) == {"DMUL": 1, "F2F.F64.F32": 1, "F2F.F32.F64": 1}


# -- errors ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [*RIGHT, *LESSONS])
def test_bad_arguments(name):
    for n in (0, -1, 2.5, "12"):
        with pytest.raises(ValueError, match=f"n={n!r} is not a positive integer"):
            getattr(cuda, name)(n)
    for threads in (0, 48, 2048):
        with pytest.raises(ValueError, match=f"threads={threads} is not a multiple of 32 between 32 and 1024"):
            getattr(cuda, name)(N, threads=threads)


def test_bad_max_blocks():
    with pytest.raises(ValueError, match="max_blocks=0 is not a positive integer"):
        cuda.cuda_gelu_erf_f32x4x2(N, max_blocks=0)


@pytest.mark.parametrize("name", RIGHT)
def test_a_misaligned_view_is_refused(name):
    """The alignment is the widest access in the machine code; a scalar kernel takes any view."""
    dtype, _, elements = RIGHT[name]
    view = torch.ones(N + 1, dtype=getattr(torch, dtype))[1:]
    launch = getattr(cuda, name)(N).torch_function
    assert launch.alignment == dict.fromkeys("XY", elements * view.element_size())
    if elements == 1:
        return check_tensors(name, launch.buffers, (view,), launch.alignment, None)
    with pytest.raises(ValueError, match=f"{name}: tensor X starts {view.element_size()} bytes past a multiple of 16"):
        check_tensors(name, launch.buffers, (view,), launch.alignment, None)


# -- on a GPU --------------------------------------------------------------------------------------------------------
@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 31, 255, N, N + 3])
@pytest.mark.parametrize("name", RIGHT)
def test_values_on_the_gpu(name, n):
    for size in (n, T.dynamic("n")):
        passes(case(name, n, size))


@pytest.mark.gpu
@pytest.mark.parametrize("name", LESSONS)
def test_the_lessons_run_where_their_fault_does_not_show(name):
    x = torch.randn(N, device="cuda")
    wanted = relu.relu_max_reference(x) if name == "cuda_relu_f32x4_overrun" else TANH(x).float()
    torch.testing.assert_close(getattr(cuda, name)(N)(x), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
def test_lesson_the_clip_on_the_gpu():
    x = torch.tensor([100.0, 3.0], device="cuda")
    assert cuda.cuda_gelu_f32(2)(x)[0] == 100 and 88.37 < cuda.cuda_gelu_f32_clipped(2)(x)[0] < 88.38


@pytest.mark.gpu
def test_a_misaligned_view_never_reaches_the_gpu():
    x = torch.randn(N + 1, device="cuda")[1:]
    with pytest.raises(ValueError, match="tensor X starts 4 bytes past a multiple of 16.*use .clone"):
        cuda.cuda_relu_f32x4(N)(x)
    assert torch.equal(cuda.cuda_relu_f32x4(N)(x.clone()), x.relu())
    assert torch.equal(cuda.cuda_relu_f32(N)(x), x.relu())


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements_on_the_gpu():
    n = 2**31 + 2**20 + 3
    x = torch.randn(n, device="cuda", dtype=torch.bfloat16)
    for size in (n, T.dynamic("n", "int64")):
        y = cuda.cuda_gelu_tanh_packed128(size)(x)
        for part in (slice(0, 1 << 20), slice(n - (1 << 20), n)):
            torch.testing.assert_close(y[part].double(), TANH(x[part]), rtol=2**-7, atol=1e-6)
