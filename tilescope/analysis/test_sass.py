"""Machine code: the same as TileLang's, each instruction at its Python line, local memory reported."""

import inspect as python_inspect

import tilelang
import tilelang.language as T
from tilelang.cuda.backend import tilelang_callback_cuda_compile
from tvm.target import Target

from tilescope import inspect
from tilescope.analysis.sass import _parse, _run, disassemble
from tilescope.analysis.toolchain import tool
from tilescope.frontend.lowering import lower
from tilescope.frontend.program import build


@tilelang.jit(out_idx=[-1])
def double(n, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 1024), threads=256) as bx:
            x = T.alloc_fragment((1024,), dtype)
            T.copy(X[bx * 1024], x)  # the load
            for i in T.Parallel(1024):
                x[i] = x[i] * 2
            T.copy(x, Y[bx * 1024])  # the store

    return main


def line_of(text):
    lines, first = python_inspect.getsourcelines(double.func.orig_func)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_machine_code_is_what_tilelang_compiles(tmp_path):
    """Same text, same flags: what tilescope shows is what a GPU would run."""
    lowered = lower(build(double, n=4096, dtype="bfloat16"), "sm_90a")
    ours = disassemble(lowered)["main_kernel"]
    binary = tilelang_callback_cuda_compile(lowered.source, Target({"kind": "cuda", "arch": "sm_90a"}), {})
    (tmp_path / "tilelang.cubin").write_bytes(bytes(binary))
    theirs = _parse(_run([str(tool("nvdisasm")), "-gi", "-c", "tilelang.cubin"], tmp_path, "nvdisasm"))["main_kernel"]
    assert [str(i) for i in ours.instructions] == [str(i) for i in theirs]


def test_each_memory_instruction_names_its_python_line():
    report = inspect(double, n=4096, arch="sm_90a")
    memory = [i for i in report.sass.instructions if i.touches_memory]
    assert [(i.opcode, i.line) for i in memory] == [
        ("LDG.E.128.CONSTANT", line_of("# the load")),
        ("STG.E.128", line_of("# the store")),
    ]
    assert all(i.file == __file__ for i in memory)
    assert [a.line for a in report.accesses] == [i.line for i in memory]


def test_local_memory_and_spills_are_reported():
    @T.prim_func
    def indexed(X: T.Tensor((32 * 300,), "float32"), I: T.Tensor((32,), "int32"), Y: T.Tensor((32,), "float32")):  # noqa: E741
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            values = T.alloc_local((300,), "float32")
            for i in T.unroll(300):
                values[i] = X[tx + i * 32]
            # Indices that the compiler does not know: the array cannot live in registers.
            values[I[tx]] = 1.0
            Y[tx] = values[I[31 - tx]]

    counts = inspect(indexed, arch="sm_90a").sass.memory_counts()
    assert any(name.startswith("LDL") for name in counts) and any(name.startswith("STL") for name in counts)

    @T.prim_func
    def crowded(X: T.Tensor((1024 * 200,), "float32")):
        with T.Kernel(1, threads=1024):
            tx = T.get_thread_binding()
            values = T.alloc_local((200,), "float32")
            for i in T.unroll(200):
                values[i] = X[tx + i * 1024]
            T.sync_threads()
            for i in T.unroll(200):
                X[tx + i * 1024] = values[199 - i]  # in place: every load has to come first

    report = inspect(crowded, arch="sm_90a")  # 1024 threads leave 64 registers each
    assert report.sass.registers == 64 and report.sass.spill_bytes > 0


def test_pass_configs_and_flags_reach_the_compiler():
    @tilelang.jit(out_idx=[-1], pass_configs={"tl.enable_fast_math": True})
    def fast(n):
        @T.prim_func
        def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
            with T.Kernel(n // 128, threads=128) as bx:
                for i in T.Parallel(128):
                    Y[bx * 128 + i] = T.tanh(X[bx * 128 + i])

        return main

    slow = tilelang.jit(out_idx=[-1])(fast.func.orig_func)
    assert inspect(fast, n=1024, arch="sm_90a").sass.count("MUFU.TANH") == 1
    assert inspect(slow, n=1024, arch="sm_90a").sass.count("MUFU.TANH") == 0
