"""`relu` and `gelu` as drop-ins: shapes, strides, dtypes, alignment, errors, emulated; and against PyTorch on a GPU."""

import threading
from concurrent.futures import ThreadPoolExecutor

import functional
import pytest
import tilelang.language as T
import torch
import torch.nn.functional as F
from functional import gelu, relu
from gelu_variants import gelu_erf_reference, gelu_tanh_reference
from relu_variants import relu_reference

from tilescope import emulate, inspect
from tilescope.checking.comparing import differing
from tilescope.checking.factory_arguments import FLOATS
from tilescope.checking.inputs import special

OPS = {
    "relu": (relu, F.relu, relu_reference),
    "gelu": (gelu, F.gelu, gelu_erf_reference),
    "gelu tanh": (lambda x: gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh"), gelu_tanh_reference),
}
TOLERANCE = {"float32": (2e-6, 1e-6), "float16": (2**-10, 1e-6), "bfloat16": (2**-7, 1e-6)}


@pytest.fixture
def emulated(monkeypatch):
    """Launches are emulated, on CPU tensors; returns the list of specialisations that were launched."""
    launched = []

    def launch(key, memory):
        launched.append(key)
        factory, args = functional._rung(key)
        result = emulate(factory, memory, **args)
        assert result.ok, result
        return result.outputs[0]

    monkeypatch.setattr(functional, "_launch", launch)
    monkeypatch.setattr(functional, "DEVICE", "cpu")
    return launched


def close(got, want):
    """got: a tensor; want: the float64 reference, same shape."""
    rtol, atol = TOLERANCE[str(got.dtype).removeprefix("torch.")]
    torch.testing.assert_close(got.double(), want, rtol=rtol, atol=atol)


def layouts(dtype=torch.float32, device="cpu"):
    """Every kind of shape and layout, by name."""

    def x(*shape):
        return torch.randn(shape, device=device).to(dtype)

    return {
        "0-d": x(),
        "one": x(1),
        "1-d ragged": x(2051),
        "3-d": x(3, 5, 7),
        "transposed": x(33, 65).t(),
        "permuted": x(3, 4, 5).permute(2, 0, 1),
        "channels last": x(2, 3, 8, 8).to(memory_format=torch.channels_last),
        "columns": x(16, 40)[:, ::2],
        "some columns": x(16, 40)[:, 3:20],
        "transposed columns": x(16, 40)[:, 3:20].t(),
        "expanded row": x(1, 7).expand(5, 7),
        "expanded column": x(5, 1).expand(5, 7),
        "expanded scalar": x().expand(4, 4),
        "from the second": x(300)[1:],
        "from the fifth": x(300)[4:],
        "a row": x(9, 33)[5],
        "sliding windows": x(50).unfold(0, 8, 2),
    }


# -- values, shapes, strides, emulated ---------------------------------------------------------------------------------
@pytest.mark.parametrize("layout", layouts())
@pytest.mark.parametrize("op", OPS)
def test_every_layout(op, layout, emulated):
    x = layouts()[layout]
    before = x.clone()
    ours, torchs, reference = OPS[op]
    got, want = ours(x), torchs(x)
    assert (got.shape, got.dtype, got.device, got.stride()) == (want.shape, want.dtype, want.device, want.stride())
    assert torch.equal(x, before) and got.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    close(got, reference(x).double())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", OPS)
def test_every_dtype(op, dtype, emulated):
    x = torch.randn(2051, generator=torch.Generator().manual_seed(1)).to(getattr(torch, dtype))
    ours, _, reference = OPS[op]
    for view in (x, x[1:]):
        got = ours(view)
        assert got.dtype == x.dtype
        close(got, reference(view).double())


@pytest.mark.parametrize("dtype", FLOATS)
def test_relu_is_bit_for_bit_the_reference(dtype, emulated):
    """NaN kept, and +0 for -0.0, of which PyTorch's vectorised code for CPUs makes -0.0."""
    x = special(2051, dtype, torch.Generator().manual_seed(2))
    for view in (x, x[1:]):
        assert len(differing(relu(view), relu_reference(view))) == 0
        torch.testing.assert_close(relu(view), F.relu(view), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (0, 0)])
@pytest.mark.parametrize("op", OPS)
def test_an_empty_tensor_launches_nothing(op, shape, emulated):
    got = OPS[op][0](torch.empty(shape, dtype=torch.bfloat16))
    assert got.shape == shape and got.dtype == torch.bfloat16 and emulated == []


def test_a_lazily_negated_tensor(emulated):
    x = torch.randn(9, dtype=torch.complex64).conj().imag
    assert x.is_neg() and torch.equal(relu(x), F.relu(x))


def test_the_default_is_the_exact_form(emulated):
    x = torch.linspace(-3, 3, 100)
    assert torch.equal(gelu(x), gelu(x, approximate="none")) and not torch.equal(gelu(x), gelu(x, approximate="tanh"))


# -- which kernel ------------------------------------------------------------------------------------------------------
def test_only_a_misaligned_view_takes_the_scalar_kernel(emulated):
    x = torch.randn(4, 64)
    for view, misaligned in ((x, False), (x[1], False), (x.t(), False), (x[:, ::2], False), (x[0, 1:], True)):
        relu(view)
        assert emulated.pop() == ("relu", "float32", misaligned, False)


def test_the_best_rung_of_each():
    for op, dtype in (("relu", "float32"), ("gelu_tanh", "bfloat16"), ("gelu_erf", "float16")):
        factory, args = functional._rung((op, dtype, False, False))
        assert inspect(factory, arch="sm_90a", sass=False, **args).verdict == "128-bit"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", functional.OPS)
def test_the_scalar_kernel_is_coalesced(op, dtype):
    for wide in (False, True):
        factory, args = functional._rung((op, dtype, True, wide))
        report = inspect(factory, arch="sm_90a", sass=False, **args)
        assert report.verdict == "scalar" and {a.bytes_per_lane for a in report.accesses} == {
            a.element_bytes for a in report.accesses
        }


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", functional.OPS)
def test_a_result_does_not_depend_on_where_a_view_starts(op, dtype):
    """Bit for bit, in whole tiles and in the last one: both kernels compute one formula."""
    generator = torch.Generator().manual_seed(5)
    x = torch.cat([special(4100, dtype, generator), torch.linspace(-6, 6, 4099).to(getattr(torch, dtype))])
    results = []
    for misaligned, view in ((False, x[1:].clone()), (True, x[1:])):
        factory, args = functional._rung((op, dtype, misaligned, False))
        result = emulate(factory, view, **args)
        assert result.ok, result
        results.append(result.outputs[0])
    assert len(differing(*results)) == 0


@pytest.mark.parametrize("dtype, loads", [("float32", 8), ("float16", 16), ("bfloat16", 16)])
@pytest.mark.parametrize("op", functional.OPS)
def test_the_scalar_kernel_has_32_bytes_a_thread_and_32_registers(op, dtype, loads):
    sass = inspect(functional.any_alignment, op=op, n=1 << 20, dtype=dtype, arch="sm_90a").sass
    assert sass.count("LDG") == sass.count("STG") == loads
    dynamic = inspect(functional.any_alignment, op=op, n=T.dynamic("n"), dtype=dtype, arch="sm_90a").sass
    assert dynamic.registers <= 32 and dynamic.spill_bytes == 0


def test_64_bits_from_2_to_the_31_elements():
    small, large = (torch.empty(1).expand(n) for n in (2**31 - 1, 2**31))  # no memory behind them
    assert functional._specialisation("relu", small)[3] is False and functional._specialisation("relu", large)[3] is True
    for wide, bits in ((False, "int32"), (True, "int64")):
        assert str(functional._rung(("relu", "float32", False, wide))[1]["n"].dtype) == bits


@pytest.mark.parametrize("misaligned", [False, True])
@pytest.mark.parametrize("op", functional.OPS)
def test_the_kernels_for_large_n_on_a_small_one(op, misaligned):
    x = torch.randn(4099)
    factory, args = functional._rung((op, "float32", misaligned, True))
    result = emulate(factory, x, **args)
    assert result.ok, result
    reference = {"relu": relu_reference, "gelu_tanh": gelu_tanh_reference, "gelu_erf": gelu_erf_reference}[op]
    close(result.outputs[0], reference(x).double())


def test_each_specialisation_is_compiled_once_by_any_number_of_threads(monkeypatch):
    compiled, start = [], threading.Barrier(8)

    def factory(**args):
        compiled.append(args)
        return lambda memory: None

    monkeypatch.setattr(functional, "RUNGS", dict.fromkeys(functional.RUNGS, (factory, None)))
    monkeypatch.setattr(functional, "_kernels", {})

    def first_call(number):
        start.wait()
        return functional._kernel(("relu", ("float32", "bfloat16")[number % 2], False, False), (9, 0))

    with ThreadPoolExecutor(8) as pool:
        kernels = list(pool.map(first_call, range(8)))
    assert len(compiled) == 2 and len(set(kernels)) == 2
    functional._kernel(("relu", "float32", False, False), (10, 0))  # a GPU of another architecture beside it
    assert len(compiled) == 3


def test_a_specialisation_compiles():
    kernel = functional._kernel(("gelu_tanh", "bfloat16", False, False), (9, 0))
    assert "int n)" in kernel.get_kernel_source()


# -- errors ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("function", [relu, gelu])
@pytest.mark.parametrize(
    "x, kind, words",
    [
        ([1.0], TypeError, "x is list, not a torch.Tensor"),
        (None, TypeError, "x is NoneType, not a torch.Tensor"),
        (torch.ones(3, dtype=torch.float64), ValueError, "x has dtype torch.float64; use .to() with one of float32, float16"),
        (torch.ones(3, dtype=torch.int32), ValueError, "x has dtype torch.int32; use .to()"),
        (torch.eye(3).to_sparse(), ValueError, "x has layout torch.sparse_coo; use .to_dense()"),
        (torch.ones(3), ValueError, "x is on cpu, the kernel runs on cuda; use .to('cuda')"),
        (torch.ones(3, device="meta"), ValueError, "x is on meta, the kernel runs on cuda"),
        (torch.ones(0), ValueError, "x is on cpu"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused(function, x, kind, words):
    with pytest.raises(kind) as caught:
        function(x)
    assert str(caught.value).startswith(f"{function.__name__}: ") and words in str(caught.value)


@pytest.mark.parametrize("value", ["fast", "", None, True, ["tanh"]])
def test_an_unknown_form_is_refused(value):
    with pytest.raises(ValueError, match="gelu: approximate=.* is not known; use 'none' or 'tanh'"):
        gelu(torch.ones(3), approximate=value)


def test_no_backward_is_said_and_not_skipped(emulated):
    x = torch.randn(5, requires_grad=True)
    for function in (relu, gelu):
        with pytest.raises(ValueError, match=f"{function.__name__}: x has requires_grad=True, and there is no backward"):
            function(x)
        with pytest.raises(ValueError, match="no backward"):
            function(torch.empty(0, requires_grad=True))
        with torch.no_grad():
            assert not function(x).requires_grad
        with torch.inference_mode():
            assert function(x).shape == x.shape
        assert function(x.detach()).shape == x.shape


@pytest.mark.parametrize(
    "args, words",
    [
        ({"op": "selu"}, "op='selu' is not known"),
        ({"n": 0}, "n=0 is not a positive integer"),
        ({"threads": 48}, "threads=48 is not a multiple of 32"),
        ({"num_per_thread": 0}, "num_per_thread=0 is not a positive integer"),
        ({"dtype": "int32"}, "dtype='int32' is not supported"),
        ({"dtype": "garbage"}, "dtype='garbage' is not supported"),
    ],
)
def test_bad_arguments_of_the_scalar_kernel(args, words):
    with pytest.raises(ValueError) as caught:
        functional.any_alignment(**{"op": "relu", "n": T.dynamic("n"), **args})
    assert words in str(caught.value)


# -- on a GPU ----------------------------------------------------------------------------------------------------------
@pytest.mark.gpu
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", OPS)
def test_against_pytorch_on_the_gpu(op, dtype):
    ours, torchs, reference = OPS[op]
    inputs = layouts(getattr(torch, dtype), "cuda")
    inputs |= {n: torch.randn(n, device="cuda").to(getattr(torch, dtype)) for n in (0, 31, 255, 1 << 20, (1 << 20) + 3)}
    inputs["large from the second"] = inputs[1 << 20][1:]
    assert len(differing(ours(inputs[1 << 20][1:]), ours(inputs[1 << 20])[1:])) == 0
    for layout, x in inputs.items():
        got, want = ours(x), torchs(x)
        assert (got.shape, got.dtype, got.device, got.stride()) == (want.shape, want.dtype, want.device, want.stride()), layout
        close(got, reference(x).double())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", FLOATS)
def test_relu_is_bit_for_bit_the_reference_on_the_gpu(dtype):
    x = special((1 << 20) + 3, dtype, torch.Generator().manual_seed(3)).cuda()
    for view in (x, x[1:]):
        assert len(differing(relu(view), relu_reference(view))) == 0
        torch.testing.assert_close(relu(view), F.relu(view), rtol=0, atol=0, equal_nan=True)


@pytest.mark.gpu
def test_new_sizes_compile_nothing_on_the_gpu():
    relu(torch.ones(5, device="cuda"))
    before = len(functional._kernels)
    for n in range(1, 100):
        assert relu(-torch.ones(n, device="cuda")).sum() == 0
    assert len(functional._kernels) == before


@pytest.mark.gpu
def test_the_current_stream_and_a_cuda_graph():
    x, stream = torch.randn(1 << 16, device="cuda"), torch.cuda.Stream()
    gelu(x)  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        y = gelu(x)
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    close(y, gelu_erf_reference(x))


@pytest.mark.gpu
def test_the_device_of_the_input_decides():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x = torch.randn(4099, device="cuda:1")
    assert relu(x).device == x.device and torch.equal(relu(x), F.relu(x)) and torch.cuda.current_device() == 0


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements_on_the_gpu():
    x = torch.randn(2**31 + 2**20 + 3, device="cuda", dtype=torch.bfloat16)
    assert torch.equal(relu(x), F.relu(x))
    assert torch.equal(relu(x[1:]), F.relu(x[1:]))
