"""The kernels of cuda_baselines.cu as TileLang factories, so that they are called, checked and inspected like the rungs.

cuda_gelu_tanh_naive      against gelu_tanh_flat: the same scalar accesses.
cuda_gelu_tanh_packed128  against gelu_tanh_register_vec: the same 128 bits, with the cache hint that TileLang does not emit.
cuda_relu_f32             against relu_flat.
cuda_relu_f32x4           against relu_thread_vec and relu_register_vec.
cuda_relu_f32x4_hinted    against cuda_relu_f32x4: cache hints on both sides.
cuda_gelu_f32             against gelu_tanh_flat in float32.
cuda_gelu_f32x4           against gelu_tanh_register_vec in float32.
cuda_gelu_erf_f32x4x2     against gelu_erf_grid_stride.
Lessons, each with one fault: cuda_relu_f32x4_overrun, cuda_gelu_f32x4_overrun, cuda_gelu_f32_clipped, cuda_gelu_f32_double.

X, Y: (n,) of bfloat16 in the first two, of float32 in the others; any n > 0 below 2^63, static or T.dynamic("n").
Each raises ValueError on a bad n, threads or max_blocks. The model of sectors reads TileLang's own code only: of these
kernels tilescope reports the widths in the machine code, and no sectors. test_cuda_baselines.py checks their values.
"""

from pathlib import Path

import tilelang
import tilelang.language as T

from tilescope import checked
from tilescope.checking.factory_arguments import blocks_for, check_size, check_threads, is_dynamic

SOURCE = Path(__file__).with_suffix(".cu")


def launch(entry, n, threads, per_thread, dtype, max_blocks=None):
    """The PrimFunc that launches the kernel `entry`: one thread for `per_thread` elements, at most `max_blocks` blocks."""
    check_size("n", n)
    check_threads(threads)
    if is_dynamic(n):
        n = T.dynamic(n.name, "int64")  # the kernels take a size_t, whatever the width that was asked for
    # Compiler messages and the emulator's faults then name a line of the file, with or without the definition before it.
    prelude = ("" if is_dynamic(n) else f"#define STATIC_N {n}\n") + f'#line 1 "{SOURCE.name}"'
    blocks = blocks_for(n, threads * per_thread)
    if max_blocks is not None:
        blocks = T.min(blocks, max_blocks)

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        T.CUDASourceCodeKernel(blocks, threads=threads, source_code_or_path=SOURCE, entry_name=entry, prelude=prelude)

    return main


@checked
@tilelang.jit(out_idx=[-1])
def cuda_gelu_tanh_naive(n, threads=256):
    """GELU, tanh form, bfloat16, one element a thread."""
    return launch("gelu_tanh_naive", n, threads, 1, "bfloat16")


@checked
@tilelang.jit(out_idx=[-1])
def cuda_gelu_tanh_packed128(n, threads=256):
    """GELU, tanh form, bfloat16, eight elements a thread in one 128-bit access, streaming load."""
    return launch("gelu_tanh_packed128", n, threads, 8, "bfloat16")


@checked
@tilelang.jit(out_idx=[-1])
def cuda_relu_f32(n, threads=256):
    """max(x, 0), float32, one element a thread; NaN becomes 0."""
    return launch("relu_f32", n, threads, 1, "float32")


@checked
@tilelang.jit(out_idx=[-1])
def cuda_relu_f32x4(n, threads=256):
    """max(x, 0), float32, one float4 a thread; NaN becomes 0."""
    return launch("relu_f32x4", n, threads, 4, "float32")


@checked
@tilelang.jit(out_idx=[-1])
def cuda_relu_f32x4_hinted(n, threads=256):
    """max(x, 0), float32, one float4 a thread, streaming load and store; NaN becomes 0."""
    return launch("relu_f32x4_hinted", n, threads, 4, "float32")


@checked
@tilelang.jit(out_idx=[-1])
def cuda_gelu_f32(n, threads=256):
    """GELU, tanh form, float32, one element a thread."""
    return launch("gelu_f32", n, threads, 1, "float32")


@checked
@tilelang.jit(out_idx=[-1])
def cuda_gelu_f32x4(n, threads=256):
    """GELU, tanh form, float32, one float4 a thread."""
    return launch("gelu_f32x4", n, threads, 4, "float32")


@checked
@tilelang.jit(out_idx=[-1])
def cuda_gelu_erf_f32x4x2(n, threads=256, max_blocks=2112):
    """Exact GELU, float32, two float4 a thread, in at most `max_blocks` blocks that loop over the rest. The default is 16
    for each of the 132 multiprocessors of an H100 or H200."""
    check_size("max_blocks", max_blocks, dynamic=False)
    return launch("gelu_erf_f32x4x2", n, threads, 8, "float32", max_blocks)


@checked
@tilelang.jit(out_idx=[-1])
def cuda_relu_f32x4_overrun(n, threads=256):
    """Lesson: reads and writes past the end of an n that is not a multiple of 4. Never launch it on one on a GPU."""
    return launch("relu_f32x4_overrun", n, threads, 4, "float32")


@checked
@tilelang.jit(out_idx=[-1])
def cuda_gelu_f32x4_overrun(n, threads=256):
    """Lesson: reads and writes past the end of an n that is not a multiple of 4. Never launch it on one on a GPU."""
    return launch("gelu_f32x4_overrun", n, threads, 4, "float32")


@checked
@tilelang.jit(out_idx=[-1])
def cuda_gelu_f32_clipped(n, threads=256):
    """Lesson: GELU of x clipped to +-88.376, so gelu(100) is 88.376."""
    return launch("gelu_f32_clipped", n, threads, 1, "float32")


@checked
@tilelang.jit(out_idx=[-1])
def cuda_gelu_f32_double(n, threads=256):
    """Lesson: a constant without the suffix f, so part of the arithmetic is in double."""
    return launch("gelu_f32_double", n, threads, 1, "float32")
