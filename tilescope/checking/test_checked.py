"""A bad tensor gets a clear error before anything is launched. What needs a launch is tested on a GPU."""

import pytest
import tilelang
import tilelang.language as T
import torch

from tilescope import checked
from tilescope.checking.checked import check_tensors

N = 2048


@checked
@tilelang.jit(out_idx=[-1])
def scale(n, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 1024), threads=128) as bx:
            for i in T.Parallel(1024):
                C[bx * 1024 + i] = A[bx * 1024 + i] * B[bx * 1024 + i]

    return main


def ones(n=N, **options):
    return torch.ones(n, **options)


BAD = [
    ((ones(),), "scale takes 2 tensors (A, B), got 1"),
    ((ones(), 3), "tensor B is int, not a torch.Tensor"),
    ((ones(), None), "tensor B is NoneType, not a torch.Tensor"),
    ((ones(dtype=torch.float16), ones()), "tensor A has dtype torch.float16, the kernel was compiled for torch.float32"),
    ((ones(N - 1), ones()), "tensor A has shape (2047,), the kernel was compiled for (2048,)"),
    ((ones().view(2, -1), ones()), "tensor A has shape (2, 1024), the kernel was compiled for (2048,)"),
    ((ones(2 * N)[::2], ones()), "tensor A has strides (2,), it has to be contiguous; use .contiguous()"),
    ((ones(N + 1)[1:], ones()), "tensor A starts 4 bytes past a multiple of 16"),
]


@pytest.mark.parametrize("tensors, words", BAD)
def test_each_fault_is_named_with_its_value_and_the_way_out(tensors, words):
    kernel = scale(N)
    launch = kernel.torch_function
    with pytest.raises((ValueError, TypeError)) as caught:
        check_tensors("scale", launch.buffers, tensors, launch.alignment, None)
    assert words in str(caught.value)


@pytest.mark.parametrize("tensors, words", BAD)
def test_a_call_raises_before_any_launch(tensors, words):
    """On a machine without a GPU a launch is impossible, so every call has to be refused, in words of ours."""
    if torch.cuda.is_available():
        tensors = [
            t.cuda() if isinstance(t, torch.Tensor) and "strides" not in words and "starts" not in words else t for t in tensors
        ]
    with pytest.raises((ValueError, TypeError), match=r"^scale"):
        scale(N)(*tensors)


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens where there is no GPU")
def test_a_cpu_tensor_is_refused():
    with pytest.raises(ValueError, match=r"tensor A is on cpu, the kernel runs on cuda; use .to\('cuda'\)"):
        scale(N)(ones(), ones())


def test_alignment_is_that_of_the_generated_accesses():
    assert scale(N).torch_function.alignment == {"A": 16, "B": 16, "C": 16}
    assert scale(N - 1).torch_function.alignment == {"A": 4, "B": 4, "C": 4}  # ragged: scalar, so any view will do


def test_a_tensor_that_only_the_bulk_copy_engine_touches_has_to_be_aligned_too():
    @checked
    @tilelang.jit(out_idx=[-1], target={"kind": "cuda", "arch": "sm_90a"})
    def doubled(n):
        @T.prim_func
        def main(X: T.Tensor((8, n), "float32"), Y: T.Tensor((8, n), "float32")):
            with T.Kernel(8, threads=128) as bx:
                tile = T.alloc_shared((512,), "float32")
                for k in T.Pipelined(n // 512, num_stages=2):
                    T.copy(X[bx, k * 512], tile)
                    for i in T.Parallel(512):
                        Y[bx, k * 512 + i] = tile[i] * 2

        return main

    assert doubled(4096).torch_function.alignment == {"X": 16, "Y": 16}


def test_dynamic_sizes_agree_and_fit():
    launch = scale(T.dynamic("n")).torch_function
    good = (ones(5), ones(5))
    check_tensors("scale", launch.buffers, good, launch.alignment, None)
    with pytest.raises(ValueError, match="tensor B has n=4, tensor A has n=5"):
        check_tensors("scale", launch.buffers, (ones(5), ones(4)), launch.alignment, None)
    with pytest.raises(ValueError, match="tensor A is empty"):
        check_tensors("scale", launch.buffers, (ones(0), ones(0)), launch.alignment, None)
    huge = torch.empty(1).expand(2**31)  # no memory behind it
    with pytest.raises(ValueError, match=r'past the int32 of n; use T.dynamic\("n", "int64"\)'):
        check_tensors("scale", launch.buffers, (huge, huge), launch.alignment, None)


def test_the_kernel_is_still_tilelangs():
    kernel = scale(N)
    assert isinstance(kernel, tilelang.JITKernel) and "__global__" in kernel.get_kernel_source()
    assert scale(N) is kernel


@pytest.mark.gpu
@pytest.mark.parametrize("tensors, words", BAD)
def test_on_a_gpu_the_next_valid_call_works(tensors, words):
    kernel = scale(N)
    on_gpu = []
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            on_gpu.append(tensor)
        elif "starts" in words and tensor.data_ptr() % 16:
            on_gpu.append(torch.ones(N + 1, device="cuda")[1:])
        elif "strides" in words and not tensor.is_contiguous():
            on_gpu.append(torch.ones(2 * N, device="cuda")[::2])
        else:
            on_gpu.append(tensor.cuda())
    with pytest.raises((ValueError, TypeError)) as caught:
        kernel(*on_gpu)
    assert words in str(caught.value)
    a, b = torch.randn(N, device="cuda"), torch.randn(N, device="cuda")
    assert torch.equal(kernel(a, b), a * b)
    torch.cuda.synchronize()
