"""Every kind of false alarm that was met in real code. The text is ours; the shape is theirs."""

import pytest

from audit_testing import codes
from tla import run
from tla.surface import load

T = "import tilelang\nimport tilelang.language as T\n"
PRESENT, GONE, NEVER = "T.copy(a, b)", "T.gemm_v2(a, b, c)", "T.nope()"

SILENT = {
    "wrapper takes dtype=": T
    + "T.tvm_thread_allreduce(a, dtype='handle')\nT.ceil(x, dtype='float32')\nT.if_then_else(c, a, b, dtype='int32')",
    "wrapper passes dtype= on as the first": T + "T.call_extern('f', a, dtype='int32')",
    "T is TVMScript": "import tilelang\nfrom tvm.script import tirx as T\nT.handle('float32')",
    "T is TVMScript beside tilelang": T.replace("as T", "as L")
    + "from tvm.script import tirx as T\nT.match_buffer(a, (1,))\nL.copy(a, b)",
    "T is a dialect": "from tilelang.rocm import language as T\nT.gemm(a, b, c, k_pack=2)\nT.tvm_mfma(*a)",
    "T is the CPU dialect": "import tilelang.cpu.language as T\nT.Kernel(1)",
    "tl is the package": "import tilelang as tl\ntl.compile(f)\ntl.language.copy(a, b)",
    "T is the package": "import tilelang as T\nT.jit(f)\nT.language.copy(a, b)",
    "tl is Triton": "import tilelang\nimport triton.language as tl\ntl.load(p)\ntl.nope()",
    "T unpacked from a shape": T + "def f(x):\n    B, T, H = x.shape\n    return T.nope",
    "T a parameter": T + "def f(x, T):\n    return T.nope",
    "T a keyword-only parameter, a lambda's, *T": T + "def f(*, T): T.nope\ng = lambda T: T.nope\ndef h(*T): T.nope",
    "T a loop variable": T + "def f(x):\n    for T in x: T.nope",
    "T in a comprehension": T + "y = [T.nope for T in x]\nz = {T.nope: 1 for T in x}",
    "T in a with": T + "def f():\n    with open(x) as T: T.nope",
    "T by walrus": T + "def f():\n    if (T := g()): T.nope",
    "T an except name": T + "def f():\n    try: pass\n    except E as T: T.nope",
    "T global": T + "def f():\n    global T\n    T = g()\nT.nope",
    "T nonlocal": "import tilelang\ndef f():\n    import tilelang.language as T\n    def g():\n        nonlocal T\n        T = 1\n    T.nope",
    "T augmented": T + "T += 1\nT.nope",
    "T rebound by a foreign import": T + "from elsewhere import T\nT.nope",
    "T a class or function": T + "def f():\n    class T: pass\n    T.nope\ndef g():\n    def T(): pass\n    T.nope",
    "a name defined by itself": T + "x = x.y\nx.nope",
    "attribute of something else called T": T + "self.T.nope()\nx[0].T.nope",
    "patched in the same file": T + "T.gemm_v1 = mine\nT.gemm_v1(a)",
    "patched by setattr": T + "setattr(T, 'nope', 1)\nmonkeypatch.setattr(T, 'other', 1, raising=False)\nT.nope",
    "a module put into sys.modules": "import sys, tilelang\nsys.modules['tvm.tir'] = x\nimport tvm.tir\nfrom tvm.tir import Var",
    "hasattr around": T + f"if hasattr(T, 'gemm_v2'):\n    {GONE}\nelse:\n    T.gemm(a, b, c)",
    "hasattr of the new, old in the else": T + f"if hasattr(T, 'gemm'):\n    T.gemm(a, b, c)\nelse:\n    {GONE}",
    "hasattr elif chain": T + f"if hasattr(T, 'nope'): T.nope()\nelif hasattr(T, 'gemm'): T.gemm(a, b, c)\nelse: {GONE}",
    "hasattr and return": T + f"def f():\n    if hasattr(T, 'gemm'):\n        return T.gemm(a, b, c)\n    return {GONE}",
    "hasattr in a conditional expression": T + f"x = T.gemm(a, b, c) if hasattr(T, 'gemm') else {GONE}",
    "hasattr kept in a flag": T + f"NEW = hasattr(T, 'gemm')\nif NEW:\n    T.gemm(a, b, c)\nelse:\n    {GONE}",
    "not hasattr, negated and combined": T + f"if not hasattr(T, 'gemm') and x:\n    {GONE}",
    "hasattr of an enum": T + "K = tilelang.PassConfigKey\nif hasattr(K, 'TL_NOPE'): c[K.TL_NOPE] = 1",
    "in dir()": T + "if 'nope' in dir(T): T.nope()",
    "in __members__": T + "if 'TL_NOPE' in tilelang.PassConfigKey.__members__: tilelang.PassConfigKey.TL_NOPE",
    "getattr with a default": T + "f = getattr(T, 'nope', None)\nT.nope",
    "inspect.signature asked": T
    + "import inspect\nif 'wg_wait' in inspect.signature(T.gemm).parameters: T.gemm(a, b, c, wg_wait=1)",
    "version asked": T + f"if tilelang.__version__ < '0.1.9': {GONE}",
    "version parsed": T
    + f"from packaging.version import Version\nOLD = Version(tilelang.__version__) < Version('0.1.9')\nif OLD: {GONE}",
    "version in a function": T + f"def old():\n    return tilelang.__version__ < '0.1.9'\nif old(): {GONE}",
    "version of the distribution": T + f"from importlib.metadata import version\nif version('tilelang') < '0.1.9': {GONE}",
    "import with a fallback": "import tilelang\ntry:\n    from tvm import tirx as tir\nexcept ImportError:\n    from tvm import tir\ntir.Var('x', 'int32')",
    "import with a fallback, old first": "import tilelang\ntry:\n    from tvm import tir\nexcept ImportError:\n    from tvm import tirx as tir\ntir.Var('x', 'int32')",
    "import of what is gone, else None": "try:\n    from tilelang.intrinsics import x\nexcept ImportError:\n    x = None\nx.y(1)",
    "ModuleNotFoundError in a tuple": "try:\n    import tilelang.intrinsics as I\nexcept (ModuleNotFoundError, KeyError):\n    I = None",
    "a broad except": T + f"try:\n    {GONE}\nexcept Exception:\n    T.gemm(a, b, c)",
    "AttributeError": T + "try:\n    f = T.gemm_v2\nexcept AttributeError:\n    f = T.gemm",
    "TypeError": T + "try:\n    T.gemm(a, b, c, wg_wait=1)\nexcept TypeError:\n    T.gemm(a, b, c)",
    "contextlib.suppress": "import contextlib, tilelang\nwith contextlib.suppress(ImportError):\n    import tilelang.intrinsics",
    "T = None": "try:\n    import tilelang.language as T\nexcept ImportError:\n    T = None\nT.copy(a, b)",
    "T a mock": "from unittest.mock import MagicMock\ntry:\n    import tilelang.language as T\nexcept ImportError:\n    T = MagicMock()\nT.copy(a, b)",
    "pytest.raises": T + "import pytest\nwith pytest.raises(TypeError):\n    T.gemm(a, b, c, use_2cta=True)",
    "pytest.raises among others": T + "import pytest\nwith x, pytest.raises(AttributeError, match='y') as e:\n    T.nope()",
    "assertRaises": T + "class X(Case):\n    def test(self):\n        with self.assertRaises(AttributeError): T.nope",
    "assert not hasattr": T + "assert not hasattr(T, 'nope')",
    "xfail": T + f"import pytest\n@pytest.mark.xfail(reason='x')\ndef test():\n    {NEVER}",
    "module beside a name": "import tilelang\nfrom tilelang.env import CacheState\ntilelang.env.CacheState\nfrom tilelang.jit import JITKernel\ntilelang.jit(f)\nfrom tilelang.engine.lower import lower",
    "submodules of T": T
    + "T.kernel.Kernel(1)\nT.dtypes.float32\nfrom tilelang.cuda.language.intrinsics import TensorCoreIntrinEmitter",
    "testing without its import": "import tilelang\ntilelang.testing.main()",
    "attribute tails": T + "T.dtype('float16').bits\nT.float16.bits\nT.GemmWarpPolicy.FullRow.name\nT.Tensor.anything",
    "dynamic getattr": T + "getattr(T, 'reduce_' + op)(a, b)\ngetattr(T, name)",
    "tvm of another package": "import tilelang\nimport bitblas\nfrom tvm import tir",
    "tvm alone": "# not for tilelang\nfrom tvm import tir\ntir.nope",
    "text": T + '"""T.Pipeline, T.reduce_xxx"""\n# T.alloc_nope()\nx = "T.nope()"',
    "TYPE_CHECKING": T
    + "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tilelang.tvm import IRModule\n    x: T.nope",
    "relative imports": "import tilelang\nfrom . import language as T\nfrom ..tilelang import nope\nT.nope",
    "a local function of that name": T + "def gemm_v2(a): pass\ngemm_v2(1)",
    "class scope is not seen by methods": "import tilelang\nfrom x import T\nclass A:\n    import tilelang.language as T\n    def f(self): T.nope",
    "star import": "from tilelang.language import *\ncopy(a, b)\nnope()",
    "private and dunder": T
    + "T._nope\nT.__file__\ntilelang.__version__\nfrom tilelang.utils import _nope\nimport tilelang._nope",
    "jit that may be eager": T + "@tilelang.jit\ndef f(a):\n    with T.Kernel(1): pass\nf(x).nope",
    "jit under another decorator": T
    + "@mine\n@tilelang.jit\ndef f():\n    @T.prim_func\n    def m(): pass\n    return m\nf().nope",
    "starred calls": T + "T.copy(*a, **k)\nT.gemm(*a)",
    "functools.partial": T + "import functools\nfunctools.partial(T.gemm, a)",
    "del": T + "x = T\ndel x\nx = 1\nx.nope",
    "match": T + "def f(x):\n    match x:\n        case {'a': T}: T.nope\n        case [*T]: T.nope",
}
ON_3_10 = {"match"}


@pytest.mark.parametrize("kind", SILENT)
def test_silent(tmp_path, kind):
    import sys

    if kind in ON_3_10 and sys.version_info < (3, 10):
        pytest.skip("syntax of Python 3.10")
    assert codes(tmp_path, SILENT[kind]) == []


# The same shapes, one step nearer: here something is wrong and has to be said, so that silence is not bought by deafness.
HEARD = {
    "dtype= where nothing takes it": (T + "T.copy(a, b, dtype='x')", ["TLA003"]),
    "gone from TVMScript as well": ("import tilelang\nfrom tvm.script import tirx as T\nT.nope()", ["TLA001"]),
    "not in that dialect": ("from tilelang.cpu import language as T\nT.tma_copy(a, b)", ["TLA001"]),
    "keyword of another dialect": ("from tilelang.cpu import language as T\nT.Kernel(1, threads=128)", ["TLA003"]),
    "through the package": ("import tilelang as tl\ntl.language.gemm_v2(a, b, c)", ["TLA002"]),
    "T in one function only": (T + "def f(x):\n    B, T = x.shape\ndef g():\n    T.nope()", ["TLA001"]),
    "annotations see the module's T": (T + "def f(T: T.nope): pass", ["TLA001"]),
    "defaults see the module's T": (T + "def f(T=T.nope): pass", ["TLA001"]),
    "the first iterable sees the outer T": (T + "y = [T for T in T.nope()]", ["TLA001"]),
    "an alias": (T + "L = T\nL.nope()", ["TLA001"]),
    "an alias of a function": (T + "g = T.gemm\ng(a, b, c, k_pack=2)", ["TLA003"]),
    "import inside a function": (
        "def f():\n    import tilelang.language as T\n    def g():\n        T.nope()",
        ["TLA001"],
    ),
    "importlib": ("import importlib\nT = importlib.import_module('tilelang.language')\nT.nope()", ["TLA001"]),
    "importorskip": ("import pytest\nT = pytest.importorskip('tilelang.language')\nT.nope()", ["TLA001"]),
    "an unrelated guard": (T + "if hasattr(T, 'gemm'):\n    T.nope()", ["TLA001"]),
    "an unrelated except": (T + "try:\n    T.nope()\nexcept KeyError:\n    pass", ["TLA001"]),
    "ImportError does not catch a missing attribute": (
        T + "try:\n    T.nope()\nexcept ImportError:\n    pass",
        ["TLA001"],
    ),
    "an except that raises again": ("try:\n    import tilelang.intrinsics\nexcept ImportError:\n    raise", ["TLA007"]),
    "T = None does not hide the rest": (
        "try:\n    import tilelang.language as T\nexcept ImportError:\n    T = None\nT.nope()",
        ["TLA001"],
    ),
    "both branches wrong": (
        "import tilelang\nif x:\n    import tilelang.language as T\nelse:\n    from tvm.script import tirx as T\nT.nope()",
        ["TLA001"],
    ),
    "after the with": (T + "import pytest\nwith pytest.raises(E):\n    pass\nT.nope()", ["TLA001"]),
    "getattr of a constant": (T + "getattr(T, 'nope')()", ["TLA001"]),
    "a lazy jit's kernel": (
        T + "@tilelang.jit(out_idx=[-1])\ndef f():\n    @T.prim_func\n    def m(): pass\n    return m\nf().nope",
        ["TLA008"],
    ),
    "an alias of an enum": (T + "P = T.GemmWarpPolicy\nP.Nope", ["TLA008"]),
    "a method's keyword": (T + "k = tilelang.compile(f)\nk.get_profiler(supply=1)", ["TLA003"]),
    "f-strings": (T + "x = f'{T.nope}'", ["TLA001"]),
    "decorators": (T + "@T.nope\ndef f(): pass", ["TLA001"]),
    "one import, one finding": ("from tilelang.utils.target import determine_target, target_is_cuda", ["TLA007"]),
}


@pytest.mark.parametrize("kind", HEARD)
def test_heard(tmp_path, kind):
    text, expected = HEARD[kind]
    assert codes(tmp_path, text) == expected


def test_patched_in_another_file_of_the_set(tmp_path):
    (tmp_path / "patch.py").write_text(T + "T.gemm_v1 = mine\n")
    (tmp_path / "use.py").write_text(T + "T.gemm_v1(a, b)\n")
    assert run.audit([str(tmp_path)], load("0.1.15")).findings == []
    assert [f.code for f in run.audit([str(tmp_path / "use.py")], load("0.1.15")).findings] == ["TLA002"]


# --- Markdown and notebooks ------------------------------------------------------------------------------------


def markdown(*fences):
    return "# tilelang\n" + "".join(f"\n```python\n{fence}\n```\n" for fence in fences)


def test_fences_share_their_names_and_keep_their_lines(tmp_path):
    from audit_testing import audit

    found = audit(tmp_path, markdown("import tilelang.language as L", "L.cpoy(a)"), name="a.md")
    assert [(f.code, f.line, f.col) for f in found] == [("TLA001", 8, 1)]


def test_an_unbound_t_in_markdown_is_the_language(tmp_path):
    assert codes(tmp_path, markdown("T.cpoy(a)"), name="a.md") == ["TLA001"]
    assert codes(tmp_path, markdown("T = 5", "T.cpoy(a)"), name="a.md") == []
    assert codes(tmp_path, "import tilelang\nT.cpoy(a)", name="a.py") == []


def test_a_fragment_in_markdown_is_a_warning(tmp_path):
    from audit_testing import audit

    found = audit(tmp_path, markdown("with T.Kernel(", "T.cpoy(a)"), name="a.md")
    assert [(f.code, f.severity, f.line) for f in found] == [("TLA000", "warning", 4), ("TLA001", "error", 8)]


@pytest.mark.parametrize(
    "text",
    [
        "tilelang\n```\nT.nope()\n```\n",
        "tilelang\n```bash\nT.nope()\n```\n",
        "tilelang\n```cpp\nT.nope();\n```\n",
        "tilelang: `T.nope()` in a line\n",
        "tilelang\n<!-- tla: skip -->\n```python\nT.nope()\n```\n",
        "tilelang\n````markdown\n```python\nT.nope()\n```\n````\n",
    ],
)
def test_what_is_not_python_in_markdown(tmp_path, text):
    assert codes(tmp_path, text, name="a.md") == []


@pytest.mark.parametrize(
    "text",
    [
        "tilelang\n~~~py\nT.nope()\n~~~\n",
        "tilelang\n- a list\n\n  ```python\n  if x:\n      T.nope()\n  ```\n",
        "tilelang\n> ```python\n> T.nope()\n> ```\n",
        "tilelang\n```python title=x\nT.nope()\n```\n",
        "tilelang\n```{.python}\nT.nope()\n```\n",
        "tilelang\n```python\n>>> T.nope()\nresult\n>>> 1\n```\n",
        "tilelang\n```python\nT.nope()\n",
    ][:-1],
)
def test_what_is_python_in_markdown(tmp_path, text):
    assert codes(tmp_path, text, name="a.md") == ["TLA001"]


def test_notebook(tmp_path):
    import json

    from audit_testing import audit

    notebook = {
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": ["T.nope()"]},
            {
                "cell_type": "code",
                "metadata": {},
                "source": ["%pip install tilelang\n", "import tilelang.language as T"],
            },
            {"cell_type": "code", "metadata": {}, "source": ["%%bash\n", "T.nope()"]},
            {
                "cell_type": "code",
                "metadata": {},
                "source": ["%%time\n", "!ls\n", "for i in x:\n", "    !ls\n", "    T.cpoy(a)"],
            },
            {"cell_type": "code", "metadata": {}, "source": ["await x\n", "T.copy?\n", "T.copy(a, b)"]},
            {"cell_type": "code", "metadata": {}, "source": ["def ("]},
        ],
        "nbformat": 4,
    }
    text = json.dumps(notebook, indent=1)
    found = audit(tmp_path, text, name="a.ipynb")
    assert [(f.code, f.severity) for f in found] == [("TLA001", "error"), ("TLA000", "warning")]
    assert "T.cpoy(a)" in text.splitlines()[found[0].line - 1]
    compact = audit(tmp_path, json.dumps(notebook), name="b.ipynb")
    assert [f.code for f in compact] == ["TLA001", "TLA000"]
    assert codes(tmp_path, "tilelang, no notebook", name="c.ipynb") == ["TLA000"]
