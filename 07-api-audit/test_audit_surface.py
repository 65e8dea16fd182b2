"""The vendored data: what it says of 0.1.15, how it is made, and whether the curated table agrees with it."""

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import static_all
from tla import curated
from tla.explain import was_module
from tla.surface import DEFAULT, LANGUAGE, VENDOR, Ref, find_release, load, parse_entry, releases, version_key

HERE = Path(__file__).resolve().parent
RELEASES = "0.1.3 0.1.4 0.1.5 0.1.6.post2 0.1.7.post3 0.1.8 0.1.9 0.1.10 0.1.11 0.1.12 0.1.13 0.1.14 0.1.15".split()


def installed():
    """The site-packages with the pinned TileLang, or skip."""
    from importlib import metadata

    try:
        if metadata.version("tilelang") != DEFAULT:
            pytest.skip(f"this environment has another TileLang than {DEFAULT}")
    except metadata.PackageNotFoundError:
        pytest.skip("this environment has no TileLang")
    return Path(sysconfig.get_paths()["purelib"])


def test_releases_are_in_order():
    assert list(releases()) == RELEASES


def test_default_is_the_pin_of_the_book():
    pyproject = (HERE.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'"tilelang==([\d.]+)"', pyproject).group(1) == DEFAULT


def test_extraction_reproduces_the_vendored_files(tmp_path, monkeypatch):
    installed()
    monkeypatch.setenv("TL_CUTLASS_PATH", "set by an import of TileLang in a parent process")
    command = [sys.executable, str(HERE / "extract_surface.py"), "--out", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    made = tmp_path / f"tilelang-v{DEFAULT}"
    kept = VENDOR / f"tilelang-v{DEFAULT}"
    assert sorted(f.name for f in made.iterdir()) == sorted(f.name for f in kept.iterdir())
    for file in made.iterdir():
        assert file.read_bytes() == (kept / file.name).read_bytes(), file.name


def test_a_static_reading_agrees_on_every_name_of_t():
    names = static_all.language_all(installed())
    assert len(names) == 713
    assert sorted(names) == sorted(load(DEFAULT).names(LANGUAGE))


def test_counts_of_0_1_15():
    surface = load("0.1.15")
    names = surface.names(LANGUAGE)
    assert len(names) == 713
    assert sum(parse_entry(text).accepts_dtype for text in names.values()) == 136
    assert sum(name.startswith("__") for name in names) == 11
    members = surface.entry("tilelang.transform.pass_config", "PassConfigKey").members
    assert len(members) == 59
    for dialect, count in {"rocm": 571, "metal": 562, "cpu": 554, "webgpu": 554}.items():
        names = set(surface.names(f"tilelang.{dialect}.language"))
        assert len(names - {"annotations"}) == count, dialect  # of `from __future__ import annotations`


def test_data_is_data():
    """Names, kinds and parameters: nothing long enough to be source text, and not much of it."""
    size = 0
    for file in VENDOR.rglob("*"):
        if file.is_file():
            size += file.stat().st_size
            assert file.suffix == ".json"
            for line in file.read_text(encoding="utf-8").splitlines():
                assert "\\n" not in line
    assert size < 3.2e6


@pytest.mark.parametrize("text, found", [("0.1.15", "0.1.15"), ("v0.1.9", "0.1.9"), ("==0.1.6", "0.1.6.post2"), ("9", None)])
def test_find_release(text, found):
    assert find_release(text) == found


@pytest.mark.parametrize(
    "ref, what",
    [
        (Ref("tilelang", ("language", "gemm")), "found"),
        (Ref("tilelang", ("jit",)), "found"),  # a function beside a module of that name
        (Ref("tilelang.jit", ("JITKernel",)), "found"),  # and the module, where it is imported from
        (Ref("tilelang", ("env", "CacheState")), "tail"),  # an object beside a module: its attributes are not known
        (Ref("tilelang.env", ("CacheState",)), "found"),
        (Ref("tilelang", ("testing", "requires_cuda")), "found"),
        (Ref(LANGUAGE, ("kernel", "Kernel")), "found"),
        (Ref(LANGUAGE, ("GemmWarpPolicy", "FullRow")), "member"),
        (Ref(LANGUAGE, ("GemmWarpPolicy", "FulRow")), "no member"),
        (Ref("tvm.tir"), "no module"),
        (Ref("tvm.script", ("tir",)), "no name"),
        (Ref("tvm.script", ("tirx", "prim_func")), "found"),
        (Ref("tvm.topi.nn.anything_below", ("x",)), "opaque"),
        (Ref("tilelang._private"), "opaque"),
        (Ref("tilelang.utils.target"), "no module"),
        (Ref("tilelang.metal.language.tir", ("whatever",)), "opaque"),  # a module-level __getattr__
        (Ref("#JITKernel", ("get_profiler",)), "found"),
        (Ref("#JITKernel", ("func",)), "no name"),
    ],
)
def test_locate(ref, what):
    assert load("0.1.15").locate(ref).what == what


def test_an_attribute_beside_a_submodule_of_that_name():
    """In 0.1.9 `tilelang.language.tir` is tvm.tir or TileLang's own, as the order of imports will have it."""
    surface = load("0.1.9")
    assert surface.locate(Ref("tilelang", ("language", "tir", "op", "tvm_mfma"))).what == "found"  # TileLang's
    assert surface.locate(Ref("tilelang", ("language", "tir", "Var"))).what == "found"  # tvm's
    place = surface.locate(Ref("tilelang", ("language", "tir", "op", "nope")))
    assert (place.what, place.index) == ("no name", 3)


def test_notation():
    entry = parse_entry("function(a, b=, *, c=, **kw) +dtype deprecated:T.new(...)")
    assert [(p.name, p.kind, p.required) for p in entry.parameters] == [
        ("a", "either", True),
        ("b", "either", False),
        ("c", "keyword", False),
        ("kw", "kwargs", False),
    ]
    assert entry.accepts_dtype and entry.deprecated == "T.new(...)"
    assert [p.kind for p in parse_entry("function(a, /, b, *args)").parameters] == ["positional", "either", "args"]
    assert parse_entry("module:tvm.tirx").target == "tvm.tirx"
    assert parse_entry("enum(A, B)").members == ("A", "B")


# --- the curated table against the data ------------------------------------------------------------------------


def test_every_curated_rename_is_of_a_name_that_went():
    for (module, name), rename in curated.NAMES.items():
        had = [r for r in releases() if load(r).entry(module, name)]
        assert had and had[-1] != "0.1.15", (module, name)
        if rename.name:
            assert load("0.1.15").entry(module, rename.name), (module, name, rename.name)


def test_every_name_of_t_that_went_and_matters_is_curated():
    """Functions and classes of TileLang's own that went have a word of advice; leaks of tvm and typing need none."""
    silent = {"make_node", "mem_info_local_var", "register_func", "prefetch", "allocate_const", "realize"}
    silent |= {"tvm_check_return", "retrieve_ptr", "retrieve_buffer_and_offset", "get_buffer_region_from_load"}
    silent |= {"BarrierType", "BufferLikeType", "DType", "deprecated", "is_scalar"}
    now = load("0.1.15").names(LANGUAGE)
    for release in releases():
        for name in load(release).names(LANGUAGE):
            entry = load(release).entry(LANGUAGE, name)
            if name in now or name in silent or entry.kind in ("module", "value"):
                continue
            assert (LANGUAGE, name) in curated.NAMES or was_module(LANGUAGE, name), name


def test_every_curated_module_is_gone():
    for path in curated.MODULES:
        assert not load("0.1.15").has_module(path), path
    for (module, name), to in curated.MOVED.items():
        assert load("0.1.15").locate(Ref(to, (name,))).what == "found", (module, name)
        assert load("0.1.15").locate(Ref(module, (name,))).what in ("no module", "no name"), (module, name)


def test_every_curated_keyword_was_there_and_its_successor_is():
    for (module, name, keyword), (_, new) in curated.KEYWORDS.items():
        taken = [r for r in releases() if keyword in parameters(r, module, name)]
        assert taken, (name, keyword)
        if keyword != "cluster_dims":  # gone in 0.1.12 to 0.1.14 only
            assert taken[-1] != "0.1.15", (name, keyword)
        if new:
            assert new in parameters("0.1.15", module, name), (name, new)


def test_every_changed_slot_is_in_the_data():
    """The name of the slot before and after, in the vendored signatures, is the one the table gives."""
    for (module, name), slots in curated.SLOTS.items():
        for slot in slots:
            before = [r for r in releases() if version_key(r) < version_key(slot.since) and parameters(r, module, name)]
            old, new = parameters(before[-1], module, name), parameters(slot.since, module, name)
            if slot.before.startswith("("):
                assert ", ".join(old) == slot.before.strip("()") and ", ".join(new[:4]) == slot.now.strip("()")
            else:
                assert old[slot.index] == slot.before, (name, slot, old)
                assert new[slot.index] == slot.now.split(",")[0], (name, slot, new)


def test_every_change_of_a_position_is_curated():
    """Between neighbouring releases, a parameter of T that stands where another one stood, and can be told silently."""
    made_by_tilelang = {"JITFunc"}
    for old, new in zip(releases(), releases()[1:]):
        for name in sorted(set(load(old).names(LANGUAGE)) & set(load(new).names(LANGUAGE)) - made_by_tilelang):
            before, after = positions(old, name), positions(new, name)
            if sum(p.required for p in before) > len(after):
                continue  # every old call is refused: TLA004
            pairs = enumerate(zip([p.name for p in before], [p.name for p in after]))
            moved = [i for i, (x, y) in pairs if x != y and (x in names(after) or y in names(before))]
            slots = [slot for slot in curated.SLOTS.get((LANGUAGE, name), ()) if slot.since == new]
            said = {slot.index for slot in slots} | {0 for slot in slots if slot.before.startswith("(")}  # all of them
            if moved and (LANGUAGE, name) not in curated.DEPRECATED:
                assert min(moved) in said, (new, name, moved)


def positions(release, name):
    entry = load(release).entry(LANGUAGE, name)
    return [p for p in entry.parameters or () if p.kind in ("positional", "either")]


def names(parameters):
    return {p.name for p in parameters}


def test_a_fork_is_known_by_names_no_release_has():
    for release in releases():
        names = load(release).names(LANGUAGE)
        assert not [name for name in curated.FORKS if name in names], release
        assert not [path for path in curated.FORK_MODULES if load(release).has_module(path)], release


def parameters(release, module, name):
    entry = load(release).entry(module, name)
    return [p.name for p in entry.parameters] if entry and entry.parameters else []
