"""The repository's own promises: versions in step, every file compiles and is formatted, the README's commands exist."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIN = re.compile(r'"([\w-]+)==([\w.]+)"')


def pins():
    """{package: version} of pyproject.toml, the build tool left out."""
    text = (ROOT / "pyproject.toml").read_text()
    return dict(PIN.findall(text[text.index("[project]") :]))


def documented():
    rows = re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| (.+) \|$", (ROOT / "VERSIONS.md").read_text(), re.M)
    return {name: version for name, version, _ in rows}


def test_versions_md_and_pyproject_name_the_same_pins():
    assert documented() == pins() and len(pins()) >= 10


def test_constraints_hold_every_pin():
    fixed = dict(re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / "constraints.txt").read_text(), re.M))
    assert {name: fixed.get(name) for name in pins()} == pins()


@pytest.mark.skipif(
    not (ROOT / ".venv").exists() or not sys.prefix.startswith(str(ROOT)),
    reason="another interpreter, named with PY=: its versions are its own",
)
def test_installed_versions_are_the_pinned_ones():
    installed = {name: metadata.version(name).split("+")[0] for name in pins()}  # torch says 2.13.0+cpu
    assert installed == pins()


def test_formatted_and_linted():
    pytest.importorskip("ruff", reason="an interpreter named with PY= may lack ruff")
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run([sys.executable, "-m", "ruff", *command, "."], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_make_check_compiles_every_file():
    done = subprocess.run(["make", "check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "every file compiles" in done.stdout, done.stdout + done.stderr


def test_make_help_lists_the_targets_of_the_readme():
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = set(re.findall(r"^(\w+)", listed, re.M))
    mentioned = set(re.findall(r"`make (\w+)`", (ROOT / "README.md").read_text()))
    assert mentioned <= targets and {"run", "test", "inspect", "check", "clean", "help"} <= targets


def test_links_of_the_markdown_files_resolve():
    for file in (*ROOT.glob("*.md"), *ROOT.glob("[0-9]*/*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text()):
            assert (file.parent / target).exists(), f"{file}: {target}"


def test_every_test_named_in_a_readme_exists():
    for file in ROOT.glob("[0-9]*/README.md"):
        tests = "".join(path.read_text() for path in file.parent.glob("tests/test_*.py"))
        for name in re.findall(r"`(test_\w+?)(?:_?\.\.\.)?`", file.read_text()):
            assert f"def {name}" in tests, f"{file}: {name}"


@pytest.mark.parametrize("chapter", ["01-activations", "02-elementwise"])
def test_chapters_say_how_many_names_of_tilelang_they_use(chapter):
    command = [sys.executable, "07-api-audit/api_audit.py", "--names", chapter]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    count = re.search(r"(\d+) distinct names of T", listed)[1]
    assert f"uses {count} distinct names of `T`" in (ROOT / chapter / "README.md").read_text()
