"""Each code: what raises it, and the nearest thing that does not."""

import pytest

from audit_testing import audit, codes

T = "import tilelang\nimport tilelang.language as T\n"

# code -> [(text that raises it, text that does not)]
PAIRS = {
    "TLA000": [("import tilelang\ndef f(:\n", "import tilelang\ndef f(): pass\n")],
    "TLA001": [
        (T + "T.cpoy(a, b)", T + "T.copy(a, b)"),
        (T + "x = T.alloc_smem", T + "x = T.alloc_shared"),
        ("import tilelang\ntilelang.complie(f)", "import tilelang\ntilelang.compile(f)"),
        ("from tilelang.language import cpoy", "from tilelang.language import copy"),
        (T + "getattr(T, 'cpoy')", T + "getattr(T, 'cpoy', None)"),
    ],
    "TLA002": [
        (T + "T.gemm_v2(a, b, c)", T + "T.gemm(a, b, c)"),
        (T + "T.create_list_of_mbarrier(1)", T + "T.alloc_barrier(1)"),
        ("import tilelang\ntilelang.cached(f)", "import tilelang\ntilelang.compile(f)"),
    ],
    "TLA003": [
        (T + "T.gemm(a, b, c, k_pack=2)", T + "T.gemm(a, b, c, clear_accum=True)"),
        (T + "T.Kernel(1, is_cpu=True)", T + "T.Kernel(1, threads=128)"),
        (T + "T.copy(a, b, colesced_width=2)", T + "T.copy(a, b, coalesced_width=2)"),
        (
            "import tilelang\n@tilelang.jit(out_ids=[-1])\ndef f(): pass",
            "import tilelang\n@tilelang.jit(out_idx=[-1])\ndef f(): pass",
        ),
        (
            "from tilelang.language import gemm\ngemm(a, b, c, wg_wait=1)",
            "from tilelang.language import gemm\ngemm(a, b, c, mbar=m)",
        ),
    ],
    "TLA004": [
        (T + "T.copy(a)", T + "T.copy(a, b)"),
        (T + "T.copy(a, b, 16)", T + "T.copy(a, b, coalesced_width=16)"),
        (T + "T.copy(a, b, dst=c)", T + "T.copy(a, dst=b)"),
        (T + "T.copy()", T + "T.copy(*both)"),
        (T + "T.copy(src=a)", T + "T.copy(**both)"),
    ],
    "TLA005": [
        (T + "T.gemm(a, b, c, False, False, p, False, 2)", T + "T.gemm(a, b, c, False, False, p, False, mbar)"),
        (T + "T.reduce_max(a, b, 0, True, True)", T + "T.reduce_max(a, b, 0, True, batch=4)"),
        (T + "T.shfl_sync(0xFFFFFFFF, v, 0, 32)", T + "T.shfl_sync(v, 0, 32, 0xFFFFFFFF)"),
        (T + "T.ptx_cp_async(a, b, 16)", T + "T.ptx_cp_async(a, b, 16)\nT.tcgen05_gemm(a, b, c, mbar=m)"),
    ],
    "TLA006": [
        (T + "T.Buffer((1,), 'float32')", T + "isinstance(x, T.Buffer)"),
        (T + "def f(a: T.Buffer[(1,), 'float32']): pass", T + "def f(a: T.Tensor[(1,), 'float32']): pass"),
        (T + "T.symbolic('n')", T + "T.dynamic('n')"),
        (T + "T.reinterpret('uint32', x)", T + "T.reinterpret(x, 'uint32')"),
        (T + "T.reinterpret(T.uint32, x)", T + "T.reinterpret(x, T.uint32)"),
        (T + "T.alloc_reducer((1,), 'float32', replication='all')", T + "T.alloc_reducer((1,), 'float32', op='max')"),
        (T + "tilelang.compile(f).print_source_code()", T + "tilelang.compile(f).show_source()"),
        (T + "x = tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER", T + "x = tilelang.PassConfigKey.TL_SIMPLIFY"),
    ],
    "TLA007": [
        ("import tilelang\nfrom tvm import tir", "import tilelang\nfrom tvm import tirx"),
        ("import tilelang\nimport tvm.tir.op", "import tilelang\nimport tvm.tirx.op"),
        ("import tilelang\nfrom tvm.script import tir as T", "import tilelang\nfrom tvm.script import tirx as T"),
        (
            "import tilelang\nfrom tilelang import tvm\ntvm.tir.Var",
            "import tilelang\nfrom tilelang import tvm\ntvm.tirx.Var",
        ),
        ("import tilelang.intrinsics", "import tilelang.cuda.intrinsics"),
        (
            "from tilelang.intrinsics import make_mma_swizzle_layout",
            "from tilelang.cuda.intrinsics import make_mma_swizzle_layout",
        ),
        ("from tilelang.utils.target import determine_target", "from tilelang.backend.target import determine_target"),
        (
            "from tilelang.layout import make_metadata_layout",
            "from tilelang.layout import make_cutlass_metadata_layout",
        ),
    ],
    "TLA008": [
        (T + "T.GemmWarpPolicy.FulRow", T + "T.GemmWarpPolicy.FullRow.value"),
        (
            T + "{tilelang.PassConfigKey.TL_DISABLE_FAST_MATH: True}",
            T + "{tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}",
        ),
        (
            "from tilelang import PassConfigKey as K\nK.TL_NOPE",
            "from tilelang import PassConfigKey as K\nK.TL_SIMPLIFY.value",
        ),
        (T + "k = tilelang.compile(f)\nk.func(x)", T + "k = tilelang.compile(f)\nk.adapter"),
        (T + "tilelang.compile(f).get_profiler().bench()", T + "tilelang.compile(f).get_profiler().do_bench()"),
    ],
    "TLA009": [
        (T + "class A:\n    def f(self, x): return T.__exp(x)", T + "class A:\n    def f(self, x): return T.exp(x)"),
        (T + "class A:\n    f = T.__exp", T + "class _:\n    f = T.__exp"),
        (
            T + "class A:\n    def f(self):\n        def g(x): return T.__exp(x)",
            T + "class A:\n    def f(self):\n        @T.prim_func\n        def g(): T.__exp(x)",
        ),
    ],
    "TLA010": [
        (
            T + "T.alloc_ub((1,), 'float16')\nT.alloc_L1((1,), 'float16')\nT.vadd(a, b)",
            T + "T.alloc_shared((1,), 'float16')",
        ),
        (T + "T.get_rank()", T + "T.get_block_binding()"),
        ("import tilelang\nfrom tilelang.distributed import init_dist", "import tilelang\nimport torch.distributed"),
    ],
}


@pytest.mark.parametrize("code, bad, good", [(c, *pair) for c, pairs in PAIRS.items() for pair in pairs])
def test_alarm_and_silence(tmp_path, code, bad, good):
    assert codes(tmp_path, bad) == [code]
    assert codes(tmp_path, good) == []


def test_every_code_has_a_pair():
    from tla.findings import CODES

    assert set(PAIRS) == set(CODES)


@pytest.mark.parametrize(
    "text, message, fix",
    [
        (
            "T.gemm_v2(a, b, c)",
            "T.gemm_v2 is gone since 0.1.9 (last in 0.1.8): one GEMM is left, tile-ai/tilelang#2033",
            "use T.gemm",
        ),
        ("T.cpoy(a, b)", "no release of TileLang from 0.1.3 to 0.1.15 has T.cpoy", "did you mean T.copy?"),
        ("T.zzzzz(a, b)", "no release of TileLang from 0.1.3 to 0.1.15 has T.zzzzz", None),
        (
            "T.Kernel(1, is_cpu=True)",
            "T.Kernel(is_cpu=) is gone since 0.1.12 (last in 0.1.11)",
            "use Kernel of `from tilelang.cpu import language as T`, tile-ai/tilelang#2387",
        ),
        (
            "T.gemm(a, b, c, nope=1)",
            "T.gemm takes no keyword nope",
            "it takes A, B, C, transpose_A, transpose_B, policy, clear_accum, mbar, annotations",
        ),
        (
            "T.copy(a, b, 16)",
            "T.copy takes 2 positional arguments, not 3",
            "by keyword only: coalesced_width, disable_tma, eviction_policy, prefer_instruction, annotations, loop_layout",
        ),
        ("T.copy(a)", "T.copy needs dst", None),
        (
            "T.GemmWarpPolicy.FulRow",
            "T.GemmWarpPolicy.FulRow does not exist",
            "there are FullCol, FullRow, Square",
        ),
    ],
)
def test_words(tmp_path, text, message, fix):
    (finding,) = audit(tmp_path, T + text)
    assert (finding.message, finding.fix) == (message, fix)
    assert finding.line == 3


def test_a_name_that_is_still_to_come(tmp_path):
    (finding,) = audit(tmp_path, T + "T.fma(a, b, c)", release="0.1.14")
    assert (finding.code, finding.message) == ("TLA001", "T.fma is not in 0.1.14; it came with 0.1.15")


def test_a_keyword_that_went_and_came_back(tmp_path):
    """Sets and not ranges: T.Kernel(cluster_dims=) is in 0.1.9 to 0.1.11 and in 0.1.15."""
    text = T + "T.Kernel(1, cluster_dims=2)"
    for release, count in {"0.1.8": 1, "0.1.9": 0, "0.1.11": 0, "0.1.12": 1, "0.1.14": 1, "0.1.15": 0}.items():
        assert codes(tmp_path, text, release=release) == ["TLA003"] * count, release
    (finding,) = audit(tmp_path, text, release="0.1.13")
    assert finding.message == "T.Kernel(cluster_dims=) is gone since 0.1.12 (last in 0.1.11, back in 0.1.15)"


def test_where_a_finding_is(tmp_path):
    (finding,) = audit(tmp_path, T + "\nx = (1,\n     T.gemm(a, b, c,\n            k_pack=2))\n")
    assert (finding.line, finding.col) == (6, 13)
    (finding,) = audit(tmp_path, T + "y = T.cpoy\n")
    assert (finding.line, finding.col) == (3, 5)


def test_undecodable_and_null_bytes_are_reported_and_the_rest_is_checked(tmp_path):
    from tla import run
    from tla.surface import load

    (tmp_path / "a.py").write_bytes(b"import tilelang\nx = '\xff'\n")
    (tmp_path / "b.py").write_bytes(b"import tilelang\n\0\n")
    (tmp_path / "c.py").write_text(T + "T.cpoy")
    (tmp_path / "d.py").write_text("import tilelang\n\nprint 'two'\n")
    found = run.audit([str(tmp_path)], load("0.1.15")).findings
    assert [(f.path[-4:], f.code) for f in found] == [
        ("a.py", "TLA000"),
        ("b.py", "TLA000"),
        ("c.py", "TLA001"),
        ("d.py", "TLA000"),
    ]
    assert [f.line for f in found if f.path.endswith("d.py")] == [3]


def test_a_fork_is_one_note(tmp_path):
    found = audit(tmp_path, T + "T.alloc_ub(1)\nT.alloc_L1(1)\nT.npuir_add(a)\nT.gemm(a, b, c, init=True)\n")
    assert [(f.code, f.severity, f.fix) for f in found] == [("TLA010", "note", "https://github.com/tile-ai/tilelang-ascend")]
    assert "4 uses" in found[0].message


def test_very_deep_nesting_is_reported_and_not_a_crash(tmp_path):
    found = audit(tmp_path, "import tilelang\nx = " + "+".join(["a.b"] * 50000) + "\n")
    assert [f.code for f in found] in (["TLA000"], [])
