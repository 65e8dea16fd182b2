"""The program: formats, exit status, settings, --fix, --compat, --diff, --names, what it needs and what it costs."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import api_audit
import release_table
from audit_testing import audit
from tla import compare, config, fix, run, sources
from tla.findings import Edit
from tla.surface import load, releases

HERE = Path(__file__).resolve().parent
T = "import tilelang\nimport tilelang.language as T\n"
OLD_KERNEL = T + "T.gemm_v2(a, b, c)\nT.copy(a, b, 16)\nT.Buffer((1,), 'float32')\n"


@pytest.fixture
def tool(tmp_path, monkeypatch, capsys):
    """Run the program in an empty folder: tool("a.py", ...) -> (status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        try:
            status = api_audit.main(list(arguments))
        except SystemExit as end:
            status = end.code
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def write(name, text):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


# --- exit status and formats -----------------------------------------------------------------------------------


def test_exit_status(tool):
    write("clean.py", T + "T.copy(a, b)\n")
    write("warning.py", T + "T.symbolic('n')\n")
    write("error.py", OLD_KERNEL)
    Path("empty").mkdir()
    assert tool("clean.py")[0] == 0
    assert tool("warning.py")[0] == 0
    assert tool("error.py")[0] == 1
    assert tool(".")[0] == 1
    assert tool("empty")[0] == 2
    assert tool("missing.py")[0] == 2
    assert tool()[0] == 2
    assert tool("--tilelang", "9.9", "clean.py")[0] == 2
    assert tool("--select", "TLA999", "clean.py")[0] == 2
    assert tool("--format", "xml", "clean.py")[0] == 2


def test_text(tool):
    write("error.py", OLD_KERNEL)
    out = tool("error.py")[1].splitlines()
    assert out[0] == (
        "error.py:3:1: TLA002 T.gemm_v2 is gone since 0.1.9 (last in 0.1.8): "
        "one GEMM is left, tile-ai/tilelang#2033 [use T.gemm]"
    )
    assert out[-1] == "TileLang 0.1.15: 1 file, 1 mentions tilelang: 2 errors, 1 warning"


def test_json(tool):
    write("error.py", OLD_KERNEL)
    content = json.loads(tool("--format", "json", "error.py")[1])
    assert list(content) == ["tilelang", "files", "findings"]
    assert (content["tilelang"], content["files"]) == ("0.1.15", 1)
    for finding in content["findings"]:
        assert list(finding) == ["path", "line", "col", "code", "severity", "name", "message", "fix"]
    assert [f["severity"] for f in content["findings"]] == ["error", "error", "warning"]


def test_github(tool):
    write("a,b.py", OLD_KERNEL)
    rows = tool("--format", "github", "a,b.py")[1].splitlines()
    assert rows[0].startswith("::error file=a%2Cb.py,line=3,col=1,title=TLA002::T.gemm_v2 is gone")
    assert rows[2].startswith("::warning ")
    assert len(rows) == 3


def test_sarif(tool):
    """The parts of the 2.1.0 schema that apply: what is required, of which type, and nothing it does not know."""
    write("a b.py", OLD_KERNEL + "T.alloc_ub(1)\n")
    write("fork.py", T + "T.alloc_ub(1)\n")
    check_sarif(json.loads(tool("--format", "sarif", ".")[1]))
    write("clean/x.py", T)
    check_sarif(json.loads(tool("--format", "sarif", "clean")[1]))


SARIF = {
    "": {"version": str, "$schema": str, "runs": list},
    "runs": {"tool": dict, "results": list, "columnKind": str, "properties": dict},
    "tool": {"driver": dict},
    "driver": {"name": str, "semanticVersion": str, "informationUri": str, "rules": list},
    "rules": {"id": str, "shortDescription": dict, "defaultConfiguration": dict},
    "shortDescription": {"text": str},
    "defaultConfiguration": {"level": str},
    "results": {"ruleId": str, "ruleIndex": int, "level": str, "message": dict, "locations": list},
    "message": {"text": str},
    "locations": {"physicalLocation": dict},
    "physicalLocation": {"artifactLocation": dict, "region": dict},
    "artifactLocation": {"uri": str},
    "region": {"startLine": int, "startColumn": int},
}


def check_sarif(log):
    def walk(value, where):
        if where == "properties":
            return
        known = SARIF[where]
        assert set(value) == set(known), where
        for key, each in value.items():
            assert type(each) is known[key], (where, key)
            for inner in [each] if isinstance(each, dict) else each if isinstance(each, list) else []:
                walk(inner, key)

    walk(log, "")
    assert log["version"] == "2.1.0"
    (only,) = log["runs"]
    assert only["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    assert re.fullmatch(r"\d+\.\d+\.\d+", only["tool"]["driver"]["semanticVersion"])
    ids = [rule["id"] for rule in only["tool"]["driver"]["rules"]]
    assert len(ids) == len(set(ids)) == 11
    for result in only["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        place = result["locations"][0]["physicalLocation"]
        assert place["region"]["startLine"] >= 1 and place["region"]["startColumn"] >= 1
        assert " " not in place["artifactLocation"]["uri"]


def test_standard_input(tool, monkeypatch):
    import io

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((T + "T.cpoy()").encode())))
    status, out, _ = tool("-")
    assert status == 1 and out.startswith("<stdin>:3:1: TLA001")


def test_progress_is_a_line_on_a_terminal_and_only_if_it_takes_long():
    import io

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    progress = run.Progress(stream)
    progress.step(64, 3)
    progress.done()
    assert stream.getvalue() == ""
    progress.start -= 2
    progress.last -= 2
    progress.step(128, 3)
    assert "128 files, 3 mention tilelang" in stream.getvalue()
    progress.done()
    assert stream.getvalue().endswith("\r")
    pipe = io.StringIO()
    progress = run.Progress(pipe)
    progress.start -= 2
    progress.step(64, 3)
    assert pipe.getvalue() == ""


# --- which files -----------------------------------------------------------------------------------------------


def test_folders_honour_gitignore_and_exclude(tool):
    for name in (
        "a.py",
        "build/b.py",
        "gen/c.py",
        "gen/keep.py",
        "deep/gen/d.py",
        "deep/x_pb2.py",
        "docs/e.md",
        "f.txt",
    ):
        write(name, "tilelang" if name.endswith(".txt") else T)
    write("docs/g.py", T)
    write(".gitignore", "# generated\ngen/*\n!gen/keep.py\n*_pb2.py\n/docs/g.py\n")
    found = {path[2:] for path in sources.walk(["."])}
    assert found == {"a.py", "gen/keep.py", "docs/e.md"} | {"deep/gen/d.py"}
    ignored = sources.Ignored(".", ["docs", "deep/**"])
    assert {path[2:] for path in sources.walk(["."], ignored)} == {"a.py", "gen/keep.py"}
    assert list(sources.walk(["gen/c.py"])) == ["gen/c.py"]
    assert list(sources.walk(["a.py", "a.py", "."], sources.Ignored(".", ["*"]))) == ["a.py"]


def test_a_gitignore_above_the_named_folder_counts(tool):
    write("repo/.git/HEAD", "")
    write("repo/.gitignore", "*.gen.py\n.venv/\n")
    write("repo/src/a.py", T)
    write("repo/src/a.gen.py", T)
    write("repo/.venv/lib/b.py", T)
    assert list(sources.walk(["repo/src"])) == ["repo/src/a.py"]
    assert list(sources.walk(["repo/.venv/lib"])) == ["repo/.venv/lib/b.py"]


@pytest.mark.parametrize(
    "pattern, path, is_folder, ignored",
    [
        ("x.py", "x.py", False, True),
        ("x.py", "a/b/x.py", False, True),
        ("/x.py", "a/x.py", False, False),
        ("a/x.py", "a/x.py", False, True),
        ("a/x.py", "b/a/x.py", False, False),
        ("*.py", "a/x.py", False, True),
        ("a/*.py", "a/b/x.py", False, False),
        ("a/**/x.py", "a/x.py", False, True),
        ("a/**/x.py", "a/b/c/x.py", False, True),
        ("a/**", "a/b/c", True, True),
        ("**/b", "a/b", True, True),
        ("b/", "b", False, False),
        ("b/", "a/b", True, True),
        ("x?.py", "x1.py", False, True),
        ("x?.py", "x/.py", False, False),
        ("x[0-9].py", "x1.py", False, True),
        ("x[!0-9].py", "x1.py", False, False),
        ("x[!0-9].py", "xa.py", False, True),
        (r"\!x", "!x", False, True),
        ("x.py ", "x.py", False, True),
        ("a+b(c).py", "a+b(c).py", False, True),
        ("xypy", "x.py", False, False),
    ],
)
def test_patterns(pattern, path, is_folder, ignored):
    assert sources.Ignored(".", [pattern])(os.path.abspath(path), is_folder) is ignored


def test_excludes_are_relative_to_where_they_are_written(tool):
    write("pyproject.toml", "[tool.tilelang-audit]\nexclude = ['sub/old/x.py']\n")
    write("sub/old/x.py", OLD_KERNEL)
    write("sub/new/old/x.py", T)
    assert tool("sub")[0] == 0
    assert tool("sub/old/x.py")[0] == 1


def test_files_that_do_not_mention_tilelang_are_not_parsed(tool, monkeypatch):
    write("a.py", "def broken(:\n")
    monkeypatch.setattr(run, "parse", None)
    assert tool(".")[0] == 0


# --- settings --------------------------------------------------------------------------------------------------


def test_comments(tmp_path):
    assert audit(tmp_path, T + "T.gemm_v2(a)  # tla: ignore[TLA002]\n") == []
    assert audit(tmp_path, T + "T.gemm_v2(a)  # tla: ignore\n") == []
    assert audit(tmp_path, T + "T.gemm_v2(a)  # noqa  # tla: ignore[TLA001, TLA002] because\n") == []
    assert audit(tmp_path, T + "# tla: ignore-file[TLA002]\nT.gemm_v2(a)\n") == []
    assert [f.code for f in audit(tmp_path, T + "T.gemm_v2(a)  # tla: ignore[TLA003]\n")] == ["TLA002"]
    assert [f.code for f in audit(tmp_path, T + "# tla: ignore\nT.gemm_v2(a)\n")] == ["TLA002"]


PYPROJECT = """
[tool.other]
select = ["TLA009"]

[tool.tilelang-audit]  # the audit
ignore = [
    "TLA006",  # later
    'TLA004',
]
exclude = ["old#1", "*_old.py"]
tilelang = "0.1.8"

[tool.more]
tilelang = "0.1.3"
"""


def test_settings(tool):
    write("pyproject.toml", PYPROJECT)
    write("sub/a.py", OLD_KERNEL)
    write("sub/b_old.py", OLD_KERNEL)
    status, out, _ = tool("sub")
    assert (status, out) == (0, "TileLang 0.1.8: 1 file, 1 mentions tilelang: no findings\n")
    assert tool("--tilelang", "0.1.15", "sub")[0] == 1
    assert "TLA006" in tool("--ignore", "", "sub")[1]
    assert tool("--select", "TLA006", "--ignore", "", "sub")[1].count("TLA") == 1
    write("pyproject.toml", "[tool.tilelang-audit]\nignores = []\n")
    status, _, err = tool("sub")
    assert status == 2 and "has no setting ignores" in err
    write("pyproject.toml", "[tool.tilelang-audit]\nignore = 'TLA001'\n")
    assert tool("sub")[0] == 2


def test_the_little_reader_reads_what_tomllib_reads():
    wanted = {"ignore": ["TLA006", "TLA004"], "exclude": ["old#1", "*_old.py"], "tilelang": "0.1.8"}
    assert config.read_little(PYPROJECT) == wanted
    if sys.version_info >= (3, 11):
        assert config.read_table(PYPROJECT) == wanted
    assert config.read_little("[tool.x]\na = 1\n") is None


def test_baseline(tool):
    write("a.py", OLD_KERNEL)
    assert tool("--write-baseline", "known.json", "a.py")[0] == 0
    assert tool("--baseline", "known.json", "a.py")[0] == 0
    write("a.py", "\n\n" + OLD_KERNEL + "T.gemm_v2(c, b, a)\n")
    status, out, _ = tool("--baseline", "known.json", "a.py")
    assert status == 1 and out.count("TLA") == 1
    assert tool("--baseline", "missing.json", "a.py")[0] == 2


def test_pre_commit_hook():
    text = (HERE.parent / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    entry = re.search(r"entry: (\S+)", text).group(1)
    assert os.access(HERE.parent / entry, os.X_OK)
    assert {"id", "name", "entry", "language", "types_or"} <= set(re.findall(r"(\w+):", text))
    assert "language: script" in text


# --- --fix -----------------------------------------------------------------------------------------------------

FIXES = [
    ("T.gemm_v2(a, b, c)", "T.gemm(a, b, c)"),
    ("T.gemm_v1(a, b, c, transpose_B=True)", "T.gemm(a, b, c, transpose_B=True)"),
    ("x = [ T . gemm_v2 (a,b,  c) ] # odd", "x = [ T . gemm (a,b,  c) ] # odd"),
    ("T.gemm_v2(a, b, c, False, False, p, False, 2)", None),  # slot 8 was k_pack
    ("T.gemm_v2(a, b, c, k_pack=2)", None),
    ("T.gemm_v2(*a)", None),
    ("f = T.gemm_v2", None),
    ("T.gemm_sp_v2(a, e, b, c, False)", "T.gemm_sp(a, e, b, c, False)"),
    ("T.gemm_sp_v2(a, e, b, c, False, True)", None),  # transpose_B became transpose_E
    ("T.fadd2(a, b)", "T.add2(a, b)"),
    ("with T.block('b'): pass", "with T.sblock('b'): pass"),
    ("x = T.e4m3_float8", "x = T.float8_e4m3"),
    ("T.shfl_xor(v, offset=1)", "T.shfl_xor(v, delta=1)"),
    ("T.cast(dtype='int32', x = y)", "T.cast(dtype='int32', value = y)"),
    ("T.get_mbarrier(0)", None),
    ("T.cpoy(a, b)", None),  # a likely spelling is no knowledge
    ("from tilelang.utils.target import determine_target", "from tilelang.backend.target import determine_target"),
    ("from tilelang.utils.target import determine_target, target_is_cuda", None),
    ("'ä'; T.gemm_v2(a, b, c); T.gemm_v2(b, a, c)", "'ä'; T.gemm(a, b, c); T.gemm(b, a, c)"),
]


@pytest.mark.parametrize("before, after", FIXES)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_fix(tool, before, after, ends):
    def text(line):
        return (T + line + "\n# end, no line break").replace("\n", ends).encode()

    Path("a.py").write_bytes(b"\xef\xbb\xbf" + text(before))
    tool("--fix", "a.py")
    assert Path("a.py").read_bytes() == b"\xef\xbb\xbf" + text(after or before)
    tool("--fix", "a.py")
    assert Path("a.py").read_bytes() == b"\xef\xbb\xbf" + text(after or before)


def test_fix_reports_what_is_left(tool):
    write("a.py", OLD_KERNEL)
    status, out, err = tool("--fix", "a.py")
    assert status == 1 and "TLA002" not in out and "TLA004" in out
    assert "rewritten: a.py" in err
    write("a.md", "tilelang\n```python\nT.gemm_v2(a, b, c)\n```\n")
    assert "left as it is: a.md" in tool("--fix", "a.md")[2]


def test_fix_leaves_what_it_cannot_rewrite(tool):
    latin = ("# coding: latin-1\n" + T + "'\xe4'; T.gemm_v2(a, b, c)\n").encode("latin-1")
    Path("a.py").write_bytes(latin)
    assert "encoding" in tool("--fix", "a.py")[2]
    assert Path("a.py").read_bytes() == latin
    edit = audit(Path("."), T + "T.gemm_v2(a, b, c)\n", name="b.py")[0].edit
    write("b.py", "changed\nin the\nmeantime, and T.gemm_v2 moved\n")
    assert fix.fix_file("b.py", [edit])
    assert "moved" in Path("b.py").read_text()


def test_fix_changes_nothing_but_names(tool):
    """An edit that hits a string or a local name, whatever led to it, is refused by comparing the trees."""
    write("a.py", T + "x = 'gemm_v2'; gemm_v2 = 1\n")
    for start in (5, 15):
        edit = Edit(3, start, start + len("gemm_v2"), "gemm_v2", "gemm")
        assert fix.fix_file("a.py", [edit]) == "a rewriting would change more than names"
    assert "x = 'gemm_v2'; gemm_v2 = 1" in Path("a.py").read_text()


def test_fix_aims_at_the_chosen_release(tool):
    write("a.py", T + "T.gemm_v2(a, b, c)\n")
    tool("--fix", "--tilelang", "0.1.8", "a.py")
    assert "gemm_v2" in Path("a.py").read_text()


# --- several releases ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, clean",
    [
        ("T.copy(a, b)", set(releases())),
        ("T.Kernel(1, cluster_dims=2)", {"0.1.9", "0.1.10", "0.1.11", "0.1.15"}),
        ("T.gemm_v2(a, b, c)", {"0.1.6.post2", "0.1.7.post3", "0.1.8"}),
        ("T.fma(a, b, c)", {"0.1.15"}),
        ("T.gemm_v1(a, b, c)\nT.fma(a, b, c)", set()),
        (
            "if hasattr(T, 'fma'): T.fma(a, b, c)\nelse: T.gemm_v2(a, b, c)",
            {"0.1.6.post2", "0.1.7.post3", "0.1.8", "0.1.15"},
        ),
        ("import tilelang.intrinsics", {r for r in releases() if r not in ("0.1.13", "0.1.14", "0.1.15")}),
        ("T.symbolic('n')", set(releases())),  # deprecated is clean
    ],
)
def test_compat(tool, line, clean):
    write("a.py", T + line + "\n")
    results, whole = compare.compat(["a.py"])
    assert set(results[0].clean) == set(whole.clean) == clean
    assert tool("--compat", "a.py")[0] == (0 if clean else 1)


def test_compat_of_a_file_that_does_not_parse(tool):
    """Under no release, and not under all of them for want of anything to complain of."""
    write("a.py", T + "T.copy(a, b)\n")
    write("b.py", T + "T.copy(a,\n")
    code, out = tool("--compat", "a.py", "b.py")[:2]
    assert code == 1 and "b.py: no release\n    not in 0.1.3 to 0.1.15: " in out and "all 2 files: no release" in out


def test_compat_of_a_set(tool):
    write("a.py", T + "T.gemm_v2(a, b, c)\n")
    write("b.py", T + "T.Kernel(1, cluster_dims=2)\n")
    out = tool("--compat", "a.py", "b.py")[1]
    assert "a.py: 0.1.6.post2 0.1.7.post3 0.1.8\n" in out
    assert "    not in 0.1.3 to 0.1.8, 0.1.12 to 0.1.14: T.Kernel(cluster_dims=), line 3\n" in out
    assert "all 2 files: no release\n" in out
    content = json.loads(tool("--compat", "--format", "json", "a.py", "b.py")[1])
    assert content["all"]["clean"] == [] and len(content["files"]) == 2


def test_diff(tool):
    out = tool("--diff", "0.1.9", "0.1.15")[1]
    assert "-   gemm_sp_v2 -> T.gemm_sp\n" in out
    assert re.search(r"^~   gemm  .*-k_pack", out, re.M)
    assert "- tvm.tir -> tvm.tirx\n" in out
    assert "+   fma  function\n" in out
    write("a.py", T + "T.gemm_sp_v2(a, e, b, c)\nT.copy(a, b)\nT.fma(a, b, c)\nT.gemm(a, b, c)\n")
    rows = tool("--diff", "0.1.9", "0.1.15", "a.py")[1].splitlines()
    assert rows[0] == "- T.gemm_sp_v2  T.gemm_sp  (a.py:3)"
    assert [row[:8] for row in rows[1:4]] == ["~ T.copy", "~ T.gemm", "+ T.fma "]
    assert rows[-1] == "0.1.9 to 0.1.15: 1 gone, 2 changed, 1 new"
    assert tool("--diff", "0.1.9", "nope")[0] == 2
    assert json.loads(tool("--diff", "0.1.14", "0.1.15", "--format", "json")[1])[0]["module"] == "tilelang.language"


def test_names(tool):
    write("a.py", T + "T.copy(a, b)\nT.copy(b, a)\nx = T.float32\nT.GemmWarpPolicy.FullRow\ntilelang.compile(f)\nT.nope\n")
    out = tool("--names", "a.py")[1]
    assert out.splitlines()[0] == "    2 T.copy"
    assert out.splitlines()[-1] == "3 distinct names of T, 4 uses, 1 files"
    assert json.loads(tool("--names", "--format", "json", "a.py")[1])["names"]["float32"] == 1


# --- itself ----------------------------------------------------------------------------------------------------

CHECKER = [HERE / "api_audit.py", *sorted((HERE / "tla").glob("*.py"))]


def test_the_checker_imports_the_standard_library_alone():
    allowed = {"tla", "argparse", "ast", "codecs", "collections", "difflib", "fnmatch", "functools", "io", "json", "os"}
    allowed |= {"pathlib", "re", "sys", "time", "tokenize", "tomllib", "typing", "urllib", "warnings"}
    for file in CHECKER:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))):
            if isinstance(node, ast.Import):
                assert {alias.name.split(".")[0] for alias in node.names} <= allowed, file
            elif isinstance(node, ast.ImportFrom) and not node.level:
                assert node.module.split(".")[0] in allowed, file


def test_it_runs_without_packages_and_imports_nothing_it_reads(tmp_path):
    bomb = tmp_path / "bomb.py"
    bomb.write_text(T + "raise SystemExit('imported')\n")
    for python in (sys.executable, "python3.9"):
        if not shutil.which(python) or subprocess.run([python, "-c", ""], capture_output=True).returncode:
            continue  # not installed, or only a shim
        command = [python, "-I", "-S", str(HERE / "api_audit.py"), str(bomb)]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr


def test_the_repository_is_clean():
    result = run.audit([str(HERE.parent)], load("0.1.15"))
    assert [f for f in result.findings if f.severity == "error"] == []


def test_speed(tmp_path):
    """A tenth of what is claimed in README.md, so that a busy machine does not fail: 1,000 files/s, 100 parsed/s."""
    for number in range(400):
        (tmp_path / f"plain{number}.py").write_text("x = 1\n" * 200)
    kernel = T + "".join(f"def f{i}(a, b):\n    T.copy(a, b)\n    T.gemm(a, b, a, transpose_B=True)\n" for i in range(60))
    for number in range(40):
        (tmp_path / f"kernel{number}.py").write_text(kernel)
    surface = load("0.1.15")
    start = time.perf_counter()
    assert run.audit([str(tmp_path)], surface).parsed == 40
    assert time.perf_counter() - start < 40 / 10 + 440 / 100


# --- README.md -------------------------------------------------------------------------------------------------

README = (HERE / "README.md").read_text(encoding="utf-8")


def test_the_release_table_is_current():
    assert release_table.rewritten(README) == README


def test_the_examples_of_the_codes_raise_what_they_say(tmp_path):
    """Each row of the table of codes has a bad and a good line; both are audited."""
    from tla.findings import CODES

    rows = re.findall(r"^\| (TLA\d{3}) \| (\w+) \| [^|]+ \| (`+)(.+?)\3 \| (`+)(.+?)\5 \|$", README, re.M)
    assert [row[0] for row in rows] == sorted(CODES)
    for code, severity, _, bad, _, good in rows:
        assert CODES[code][0] == severity
        assert [f.code for f in audit(tmp_path, T + unfold(bad))] == [code], bad
        assert audit(tmp_path, T + unfold(good)) == [], good


def unfold(line):
    return line.replace(" / ", "\n")


def test_the_worked_upgrade_is_what_the_tool_says(tmp_path):
    """README.md shows an old kernel, what the tool says of it, and the new kernel."""
    old, new = re.findall(r"```python\n(import tilelang\n.*?)```", README, re.S)[:2]
    said = re.search(r"```\n(old\.py:.*?)```", README, re.S).group(1)
    found = audit(tmp_path, old, name="old.py")
    shown = [f"old.py:{f.line}:{f.col}: {f.code} {f.message}" + (f" [{f.fix}]" if f.fix else "") for f in found]
    assert said.strip().splitlines() == shown
    assert audit(tmp_path, new, name="new.py") == []
    (tmp_path / "old.py").write_text(old)
    fix.fix_all(audit(tmp_path, old, name="old.py"))
    assert "T.gemm(" in (tmp_path / "old.py").read_text()
