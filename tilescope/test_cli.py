"""The command line, run in this process on files written here."""

import json
import subprocess
import sys

import pytest

from tilescope.cli import main

KERNELS = """
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def copy(n, threads=256, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, threads * 8), threads=threads) as bx:
            for i in T.Parallel(threads * 8):
                Y[bx * threads * 8 + i] = X[bx * threads * 8 + i]

    return main


def plain(rows):
    @T.prim_func
    def main(X: T.Tensor((rows, 128), "float32"), Y: T.Tensor((rows,), "float32")):
        with T.Kernel(rows, threads=128) as bx:
            x = T.alloc_fragment((1, 128), "float32")
            y = T.alloc_fragment((1,), "float32")
            T.copy(X[bx, 0], x)
            T.reduce_sum(x, y, dim=1)
            T.copy(y, Y[bx])

    return main


@tilelang.jit(out_idx=[-1])
def refused(n):
    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((130,), "float32")
            T.copy(X[0], x)
            T.copy(x, Y[0])

    return main


@tilelang.jit(out_idx=[-1])
def wrong(n):
    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(n // 128, threads=128) as bx:
            for i in T.Parallel(128):
                Y[bx * 128 + i] = X[bx * 128 + i]

    return main
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return str(path)


def run(capsys, *argv):
    status = main(list(argv))
    out, err = capsys.readouterr()
    return status, out, err


def test_json_has_the_documented_keys(capsys, file):
    status, out, _ = run(capsys, f"{file}:copy", "--arg", "n=4096", "--arch", "sm_90a,sm_80", "--format", "json")
    reports = json.loads(out)
    assert status == 0 and [r["arch"] for r in reports] == ["sm_90a", "sm_80"]
    first = reports[0]
    assert set(first) == set("kernel arch args grid block registers spill_bytes accesses sass verdict notes".split())
    assert first["args"] == {"n": 4096, "threads": 256, "dtype": "float32"}
    assert first["grid"] == [2, 1, 1] and first["block"] == [256, 1, 1]
    assert set(first["accesses"][0]) == set(
        "buffer op dtype bytes_per_lane sectors_per_request ideal_sectors_per_request requests sectors"
        " guarded file line unknown".split()
    )
    assert first["sass"] == {"LDG.E.128.CONSTANT": 2, "STG.E.128": 2} and first["verdict"] == "128-bit"
    assert first["accesses"][0]["file"] == file and "Y[bx" in KERNELS.splitlines()[first["accesses"][0]["line"] - 1]


def test_dynamic_sizes_dtypes_and_no_sass(capsys, file):
    arguments = ("--arg", "n=dynamic", "--dtype", "float32,bfloat16", "--no-sass", "--format", "json")
    status, out, _ = run(capsys, f"{file}:copy", *arguments)
    reports = json.loads(out)
    assert status == 0 and [r["args"]["dtype"] for r in reports] == ["float32", "bfloat16"]
    assert reports[0]["grid"][0] == "(n + 2047) // 2048" and reports[0]["sass"] is None and reports[0]["registers"] is None
    assert {a["requests"] for a in reports[0]["accesses"]} == {None}


@pytest.mark.parametrize(
    "form, expected", [("table", "128-bit"), ("markdown", "| copy |"), ("cuda", "__global__"), ("sass", "LDG.E.128")]
)
def test_formats(capsys, file, form, expected):
    status, out, _ = run(capsys, f"{file}:copy", "--arg", "n=4096", "--arch", "sm_90a", "--format", form)
    assert status == 0 and expected in out


def test_require_width(capsys, file):
    arguments = (f"{file}:copy", "--no-sass", "--require-width", "128")
    assert run(capsys, *arguments, "--arg", "n=4096")[0] == 0
    status, _, err = run(capsys, *arguments, "--arg", "n=4095")
    assert status == 1 and err.count("\n") == 1 and "scalar" in err and f"{file}:12" in err


def test_a_plain_function_is_a_factory_when_named(capsys, file):
    status, out, _ = run(capsys, f"{file}:plain", "--arg", "rows=4", "--no-sass", "--format", "json")
    assert status == 0 and json.loads(out)[0]["kernel"] == "plain"


def test_run_reports_what_was_never_written(capsys, file):
    assert run(capsys, f"{file}:copy", "--arg", "n=1000", "--run")[0] == 0
    status, out, _ = run(capsys, f"{file}:wrong", "--arg", "n=1000", "--run")
    assert status == 1 and "104 elements never written" in out


NOISY = """
print("loading")
import tilelang
import tilelang.language as T


@T.prim_func
def in_place(X: T.Tensor((1000,), "float32"), Y: T.Tensor((1000,), "float32")):
    with T.Kernel(7, threads=128) as bx:
        for i in T.Parallel(128):
            Y[bx * 128 + i] = X[bx * 128 + i]


def leaves(n):
    raise SystemExit(3)


def broken(n):
    @T.prim_func
    def main(X: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            X[0] = nothing  # noqa: F821

    return main


@tilelang.jit
def eager(A, B):
    N = T.const("N")
    A: T.Tensor[[N], "float32"]
    B: T.Tensor[[N], "float32"]
    with T.Kernel(1, threads=128):
        for i in T.Parallel(128):
            B[i] = A[i]
"""


@pytest.fixture
def noisy(tmp_path):
    path = tmp_path / "noisy kernels.py"
    path.write_text(NOISY)
    return str(path)


def test_what_a_file_prints_is_no_part_of_the_report(capsys, noisy):
    status, out, err = run(capsys, f"{noisy}:in_place", "--no-sass", "--format", "json")
    assert status == 0 and json.loads(out)[0]["kernel"] == "in_place" and "loading" in err


def test_a_kernel_without_out_idx_is_run_with_its_outputs_fresh(capsys, noisy):
    status, out, _ = run(capsys, f"{noisy}:in_place", "--run")
    assert status == 1 and "Y: 104 elements never written" in out


@pytest.mark.parametrize(
    "name, words",
    [
        ("leaves", "leaves(n=5): SystemExit"),
        ("broken", "broken(n=5): NameError: name 'nothing' is not defined"),
    ],
)
def test_a_factory_that_fails_is_one_line(capsys, noisy, name, words):
    status, out, err = run(capsys, f"{noisy}:{name}", "--arg", "n=5")
    lines = [line for line in err.splitlines() if line != "loading"]
    assert status == 2 and out == "" and len(lines) == 1 and words in lines[0]


def test_eager_kernels_are_refused_with_the_way_out(capsys, noisy):
    status, _, err = run(capsys, f"{noisy}:eager")
    assert status == 2 and "eager style" in err and "returns a PrimFunc" in err


def test_of_several_factories_one_that_fails_does_not_hide_the_others(capsys, file):
    status, out, err = run(capsys, file, "--arg", "n=1024", "--no-sass", "--format", "json")
    assert status == 2 and {r["kernel"] for r in json.loads(out)} == {"copy", "wrong"}
    assert "refused does not lower" in err


def test_sizes_may_be_powers(capsys, file):
    for text in ("n=2**12", "n=2^12", "n=4096"):
        status, out, _ = run(capsys, f"{file}:copy", "--arg", text, "--no-sass", "--format", "json")
        assert status == 0 and json.loads(out)[0]["args"]["n"] == 4096


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["nowhere.py"], "nowhere.py: no such file"),
        (["{file}:copy"], "copy needs n (command line: --arg n=...)"),
        (["{file}:copy", "--arg", "m=3"], "copy has no argument 'm'; it takes: n, threads, dtype"),
        (["{file}:copy", "--arg", "n"], "write it as NAME=VALUE"),
        (["{file}:copy", "--arg", "n=64", "--arch", "sm_12"], "arch='sm_12' is not known; use one of sm_80"),
        (["{file}:absent"], "has no factory 'absent'; it has: copy, refused, wrong"),
        (["{file}:refused", "--arg", "n=130"], "refused does not lower for sm_90a"),
        (["{file}:copy", "--arg", "n=dynamic", "--run"], "--run needs every size"),
        (["{file}:copy", "--arg", "n=64", "--run", "--format", "json"], "does not go with --format"),
        ([__file__.replace(".py", ".txt")], "no such file"),
    ],
)
def test_usage_errors_are_one_clear_line(capsys, file, arguments, words):
    status, out, err = run(capsys, *(text.format(file=file) for text in arguments))
    assert status == 2 and out == "" and words in err and err.count("\n") == 1
    assert "File " not in err and "tvm::" not in err


@pytest.mark.parametrize(
    "text, words", [("import nothing_here", "does not import: ModuleNotFoundError"), ("x = 1", "no PrimFunc")]
)
def test_files_without_a_kernel(capsys, tmp_path, text, words):
    path = tmp_path / "file.py"
    path.write_text(text)
    status, _, err = run(capsys, str(path))
    assert status == 2 and words in err and err.count("\n") == 1


def test_help_is_quick_and_needs_no_tilelang():
    code = "import sys; from tilescope.cli import main\ntry: main(['--help'])\nfinally: print('tilelang' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--require-width" in done.stdout and done.stdout.endswith("False\n")
