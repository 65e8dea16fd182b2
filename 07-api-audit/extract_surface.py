#!/usr/bin/env python3
"""Write down the surface of one TileLang release: names, kinds and parameters, nothing else.

    python extract_surface.py                      the TileLang of the running interpreter
    python extract_surface.py --release 0.1.14     its wheel, downloaded and unzipped to a temporary place

This is the one script of the chapter that imports TileLang. It writes `_vendor/tilelang-v<release>/`:

    modules.json    every module path of `tilelang` and of the tvm it bundles, found on disk, not imported
    language.json   `tilelang.language`, its dialects, and the classes and enums a kernel author touches
    package.json    every other `tilelang` module that can be imported without a GPU
    tvm.json        the bundled tvm modules that users import

A name is one line of JSON. Its value is a small notation that reads like Python (see `describe`):

    "copy": "function(src, dst, *, coalesced_width=, disable_tma=)"     `=` marks an optional parameter
    "ceil": "function(x, span=) +dtype"        a wrapper hides that dtype= is accepted as well
    "symbolic": "function(name, dtype=) deprecated:T.dynamic"
    "GemmWarpPolicy": "enum(FullCol, FullRow, Square)"
    "tirx": "module:tvm.tirx"

No source text and no docstrings are copied.
"""

import argparse
import ast
import contextlib
import enum
import importlib
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import types
import warnings
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENDOR = HERE / "_vendor"

DIALECTS = ["cuda", "rocm", "metal", "cpu", "webgpu", "ascend", "common"]
CLASSES = {"JITKernel": "tilelang.jit", "Profiler": "tilelang.profiler"}

# The tvm modules whose names are written down. Of the others only the path is known, and what is in them is not judged.
TVM_MODULES = """
tvm tvm.arith tvm.contrib tvm.driver tvm.error tvm.ffi tvm.ir tvm.ir.transform tvm.runtime tvm.script tvm.script.ir
tvm.script.tir tvm.script.tirx tvm.script.parser tvm.script.parser.ir tvm.script.parser.tir tvm.script.parser.tirx
tvm.tirx.script tvm.tirx.script.parser tvm.target tvm.te tvm.tir tvm.tirx tvm.tir.analysis tvm.tir.buffer tvm.tir.expr
tvm.tir.function tvm.tir.op tvm.tir.schedule tvm.tir.stmt tvm.tir.stmt_functor tvm.tir.transform tvm.tirx.analysis
tvm.tirx.buffer tvm.tirx.expr tvm.tirx.function tvm.tirx.op tvm.tirx.stmt tvm.tirx.stmt_functor tvm.tirx.transform
tvm.s_tir tvm.s_tir.schedule tvm.s_tir.transform
""".split()

TVM_DEPTH = 2  # dots in the tvm paths written down; below `tvm.a.b` only what is in the modules above

# Importing these needs an accelerator's packages, runs a command line or builds something: known by path alone,
# so that the result is the same on every machine.
NEVER_IMPORTED = (
    "tilelang.autodd",
    "tilelang.contrib.cutedsl",
    "tilelang.contrib.nvrtc",
    "tilelang.jit.adapter.cutedsl",
    "tilelang.jit.adapter.nvrtc",
    "tilelang.jit.adapter.torch",
    "tilelang.testing.perf_regression",
)
NOT_PACKAGES = {"3rdparty", "src", "lib", "templates", "__pycache__", "tl_templates"}

# What an old release needs beside itself to be imported today (exact reasons: README.md, "Vendored releases").
OVERLAY = {
    "0.1.3": ["Cython==3.0.12", "decorator==5.2.1", "attrs==25.3.0"],
    "0.1.4": ["Cython==3.0.12", "decorator==5.2.1", "attrs==25.3.0"],
    "0.1.5": ["Cython==3.0.12"],
    "0.1.7.post3": ["apache-tvm-ffi==0.1.6"],
    "0.1.8": ["apache-tvm-ffi==0.1.8"],
    "0.1.9": ["apache-tvm-ffi==0.1.9"],
    "0.1.10": ["apache-tvm-ffi==0.1.11"],
    "0.1.11": ["apache-tvm-ffi==0.1.11"],
    "0.1.12": ["apache-tvm-ffi==0.1.11"],
}


# --- one object ------------------------------------------------------------------------------------------------


def parameters(obj, drop_self=False):
    """The parameters of a callable, in the notation of the module docstring; None where Python cannot tell."""
    try:
        found = list(inspect.signature(obj).parameters.values())
    except (TypeError, ValueError, NameError, AttributeError):
        return None
    if drop_self and found and found[0].kind in (found[0].POSITIONAL_ONLY, found[0].POSITIONAL_OR_KEYWORD):
        found = found[1:]
    words = []
    for index, p in enumerate(found):
        before = found[index - 1] if index else None
        if before is not None and before.kind is p.POSITIONAL_ONLY and p.kind is not p.POSITIONAL_ONLY:
            words.append("/")
        if p.kind is p.KEYWORD_ONLY and (before is None or before.kind not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)):
            words.append("*")
        if p.kind is p.VAR_POSITIONAL:
            words.append("*" + p.name)
        elif p.kind is p.VAR_KEYWORD:
            words.append("**" + p.name)
        else:
            words.append(p.name + ("" if p.default is p.empty else "="))
    if found and found[-1].kind is found[-1].POSITIONAL_ONLY:
        words.append("/")
    return "(" + ", ".join(words) + ")"


def accepts_dtype(obj):
    """Whether a functools.wraps wrapper handles `dtype=` itself, which the signature of what it wraps does not show.

    One kind drops dtype=, one passes it on as the first argument: `f(x, dtype=t)` is then `f(t, x)`.
    """
    code = getattr(obj, "__code__", None)
    if code is None or not hasattr(obj, "__wrapped__") or "dtype" not in code.co_consts:
        return False
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(obj, follow_wrapped=False).parameters.values())


def deprecation(obj):
    """The replacement that a `deprecated(method_name, new_method_name)` decorator names, or None."""
    function = obj if hasattr(obj, "__code__") else inspect.getattr_static(type(obj), "__call__", None)
    code = getattr(function, "__code__", None)
    if code is None or not {"method_name", "new_method_name"} <= set(code.co_freevars):
        return None
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    return str(cells["new_method_name"].cell_contents)


def is_ours(obj):
    owner = getattr(obj, "__module__", None) or type(obj).__module__
    return str(owner).split(".")[0] in ("tilelang", "tvm", "tvm_ffi")


def describe(obj):
    """One object in the notation. What TileLang and tvm did not make (typing, torch, ...) is only a `value`."""
    if isinstance(obj, types.ModuleType):
        return "module:" + obj.__name__ if obj.__name__.split(".")[0] in ("tilelang", "tvm") else "value"
    if not is_ours(obj):
        return "value"
    if isinstance(obj, type):
        if issubclass(obj, enum.Enum):
            return "enum(" + ", ".join(sorted(obj.__members__)) + ")"
        return "class" + ((parameters(obj) or "") if writes_init(obj) else "")
    if isinstance(obj, types.FunctionType):
        text = "function" + (parameters(obj) or "")
    elif type(obj).__name__ == "dtype":
        text = "dtype" + (parameters(obj) or "")
    elif callable(obj):
        text = "object" + (parameters(getattr(obj, "orig_func", None) or obj) or "")
    else:
        return "value"
    if accepts_dtype(obj):
        text += " +dtype"
    instead = deprecation(obj)
    return text + (" deprecated:" + instead if instead else "")


def writes_init(cls):
    """Whether a class's own Python says how it is called; C-backed and metaclass-made ones do not say it reliably."""
    if type(cls) is not type and "__call__" in vars(type(cls)):
        return False
    return any(isinstance(vars(base).get("__init__"), types.FunctionType) for base in cls.__mro__) or any(
        isinstance(vars(base).get("__new__"), (types.FunctionType, staticmethod)) for base in cls.__mro__
    )


# --- one module, one class -------------------------------------------------------------------------------------


def is_dunder(name):
    return name.startswith("__") and name.endswith("__")


def names_of(module):
    """{name: notation} of one imported module. Its own submodules are left to modules.json."""
    lazy = list(getattr(module, "__all__", ())) if hasattr(module, "__getattr__") else []
    lazy += list(getattr(module, "_DIALECT_REGISTRY", ()))
    table = {}
    for name in sorted(set(dir(module)) | set(lazy)):
        if is_dunder(name):
            continue
        try:
            obj = getattr(module, name)
        except Exception:  # a lazy name whose module does not import here
            continue
        if isinstance(obj, types.ModuleType) and obj.__name__ == module.__name__ + "." + name:
            continue
        table[name] = describe(obj)
    if hasattr(module, "__getattr__") and not hasattr(module, "_DIALECT_REGISTRY"):
        table["*"] = "open"
    return table


def abbreviated(path, module, homes):
    """The names of a module, shorter: what lives in another written module is grouped by its home.

    `"<tilelang.jit.kernel": "JITKernel"` means: the entry JITKernel of that module. `"<dtype"` groups the dtype
    objects, `"<"` what only exists (typing, torch, numpy, ...). Private names are left out: nobody's business.
    """
    table, groups = {}, {}
    package = path.split(".")[0]
    for name, text in names_of(module).items():
        obj = getattr(module, name, None)
        home = str(getattr(obj, "__module__", ""))
        if name.startswith("_") and not name.startswith("__"):
            continue
        elif name == "*" or text.startswith("module:"):
            table[name] = text
        elif text.startswith("dtype"):
            groups.setdefault("<dtype", []).append(name)
        elif text == "value" or home.split(".")[0] != package:
            groups.setdefault("<", []).append(name)
        elif home != path and home in homes and getattr(sys.modules.get(home), name, None) is obj:
            groups.setdefault("<" + home, []).append(name)
        else:
            table[name] = text
    return {**{key: " ".join(names) for key, names in sorted(groups.items())}, **table}


def members_of(cls):
    """{member: notation} of the objects of a class: methods, properties, annotations, and what its methods store."""
    table = {}
    for base in reversed(cls.__mro__[:-1]):
        for name in getattr(base, "__annotations__", {}):
            table.setdefault(name, "value")
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):
            tree = ast.Module(body=[], type_ignores=[])
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if isinstance(node.value, ast.Name) and node.value.id == "self":
                    table.setdefault(node.attr, "value")
    for name in dir(cls):
        if is_dunder(name):
            continue
        raw = inspect.getattr_static(cls, name)
        if isinstance(raw, types.FunctionType):
            table[name] = "function" + (parameters(raw, drop_self=True) or "")
        elif isinstance(raw, (classmethod, staticmethod)):
            table[name] = "function" + (parameters(getattr(cls, name)) or "")
        else:
            table[name] = "value"
    if any("__getattr__" in vars(base) for base in cls.__mro__[:-1]):
        table["*"] = "open"
    return dict(sorted(table.items()))


# --- one release -----------------------------------------------------------------------------------------------


def module_paths(root, package):
    """Every public dotted module path below a package folder, read from the disk."""
    found = [package]
    for entry in sorted(root.iterdir()):
        name = entry.name.split(".")[0]
        if name in NOT_PACKAGES or name.startswith("_") or not name.isidentifier():
            continue
        if entry.is_dir():
            if any(entry.glob("*.py")) or any(entry.glob("*/*.py")):
                found += module_paths(entry, package + "." + name)
        elif entry.suffix in (".py", ".so", ".pyd"):
            found.append(package + "." + name)
    return sorted(set(found))


def imported(path):
    """The module at a dotted path, or None where it does not import on this machine."""
    if any(path == skip or path.startswith(skip + ".") for skip in NEVER_IMPORTED):
        return None
    noise = io.StringIO()
    try:
        with contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
            return importlib.import_module(path)
    except BaseException as reason:  # SystemExit included: some modules are programs
        if isinstance(reason, KeyboardInterrupt):
            raise
        print(f"  known by path only: {path}: {type(reason).__name__}: {str(reason)[:80]}", file=sys.stderr)
        return None


def differences(table, base_name, base):
    """A dialect is written as what it lacks and changes relative to `tilelang.language`."""
    small = {name: text for name, text in table.items() if base.get(name) != text}
    return {"=": base_name, "-": sorted(set(base) - set(table)), **small}


def surface():
    """{file name: content} for the TileLang that `import tilelang` finds."""
    # TileLang notes its folders in the environment, and with them set defines fewer names: so does a child of a process
    # that imported it.
    for name in [name for name in os.environ if name.startswith(("TL_", "TVM_", "TILELANG_"))]:
        del os.environ[name]
    warnings.simplefilter("ignore")
    import tilelang
    import tvm

    ours = module_paths(Path(tilelang.__file__).parent, "tilelang")
    theirs = [
        path
        for path in module_paths(Path(tvm.__file__).parent, "tvm")
        if path.count(".") <= TVM_DEPTH or path.rpartition(".")[0] in TVM_MODULES
    ]
    importlib.import_module("tilelang.language")
    loaded = {path: module for path in ours if (module := imported(path)) is not None}

    language = {"tilelang.language": names_of(loaded["tilelang.language"])}
    for dialect in DIALECTS:
        path = f"tilelang.{dialect}.language" if dialect != "common" else "tilelang.language.common"
        if path in loaded:
            table = names_of(loaded[path])
            language[path] = differences(table, "tilelang.language", language["tilelang.language"])
    for name, home in CLASSES.items():
        if hasattr(loaded.get(home), name):
            language["#" + name] = members_of(getattr(loaded[home], name))

    package = {path: abbreviated(path, module, loaded) for path, module in loaded.items() if path not in language}
    bundled = {path: module for path in TVM_MODULES if (module := tvm_module(path, theirs)) is not None}
    tvm_names, whole = {}, {}
    for path, module in bundled.items():
        table = whole[path] = names_of(module)
        near = [like for like in tvm_names if len(set(table.items()) ^ set(whole[like].items())) < len(table) // 2]
        if near:
            tvm_names[path] = differences(table, near[0], whole[near[0]])
        else:
            tvm_names[path] = abbreviated(path, module, bundled)
    return {
        "modules.json": {"tilelang": ours, "tvm": theirs},
        "language.json": language,
        "package.json": package,
        "tvm.json": tvm_names,
    }


def tvm_module(path, on_disk):
    """A bundled tvm module. `tvm.script.tirx` and its like are attributes that answer as modules, with no file."""
    if path in on_disk:
        return imported(path)
    owner, _, name = path.rpartition(".")
    found = getattr(imported(owner), name, None) if owner.startswith("tvm.script") and imported(owner) else None
    return found if isinstance(found, types.ModuleType) else None


def to_json(content):
    return json.dumps(content, indent=0, ensure_ascii=True) + "\n"


def write(release, out):
    """Extract from the running interpreter and write the files of one release; return the folder."""
    folder = Path(out) / ("tilelang-v" + release)
    files = surface()  # all of it before the first byte is written
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(to_json(content), encoding="utf-8")
    return folder


# --- another release, in an environment of its own -----------------------------------------------------------------


CUDA_NAME = re.compile(rb"\0((?:cu|cuda|nvrtc)[A-Z]\w+)(?=\0)")
CUDA_FILE = re.compile(rb"\0(lib(?:cuda|cudart|nvrtc)\.so[.\d]*)(?=\0)")


def stub_function(name):
    """A function that reports "no device" (100); those that turn an error into text have to give a text."""
    if name.startswith("cuGetError"):
        return f'int {name}(int error, const char **text) {{ *text = "stub"; return 0; }}\n'
    if name in ("cudaGetErrorString", "cudaGetErrorName", "nvrtcGetErrorString"):
        return f'const char *{name}(int error) {{ return "stub"; }}\n'
    return f"int {name}(void) {{ return 100; }}\n"


def stub_libraries(unzipped, place):
    """CUDA libraries that export every name the shared objects mention and do nothing: enough to import them."""
    names, files = set(), {b"libcudart.so.12"}
    for shared in Path(unzipped).rglob("*.so*"):
        data = shared.read_bytes()
        names |= set(CUDA_NAME.findall(data))
        files |= set(CUDA_FILE.findall(data))
    source = place / "stub.c"
    source.write_text("".join(stub_function(name.decode()) for name in sorted(names)))
    for name in sorted(file.decode() for file in files):
        versions = place / (name + ".map")  # the real libraries version their symbols by their own name
        versions.write_text(name + " { *; };\n")
        linker = f"-Wl,-soname,{name},--version-script={versions}"
        subprocess.run(["cc", "-shared", "-fPIC", "-w", linker, "-o", str(place / name), str(source)], check=True)
    return place / "libcudart.so.12"


def extract_release(release, out, wheels=None):
    """Download a release's wheel, unzip it to a temporary place, import it there in a process of its own, write."""
    with tempfile.TemporaryDirectory(prefix="tla-") as temporary:
        place = Path(temporary)
        pip = [sys.executable, "-m", "pip"]
        where = Path(wheels) if wheels else place
        found = sorted(where.glob(f"tilelang-{release}-*.whl"))
        if not found:
            subprocess.run([*pip, "download", "-q", "--no-deps", "-d", str(where), "tilelang==" + release], check=True)
            found = sorted(where.glob(f"tilelang-{release}-*.whl"))
        with zipfile.ZipFile(found[0]) as wheel:
            wheel.extractall(place / "wheel")
        paths = [str(place / "wheel")]
        if release in OVERLAY:
            target = place / "overlay"
            subprocess.run([*pip, "install", "-q", "--no-deps", "--target", str(target), *OVERLAY[release]], check=True)
            paths.insert(0, str(target))
        runtime = stub_libraries(place / "wheel", place)
        library = [str(place)] + [str(p) for p in Path(sys.prefix).rglob("z3/lib")]
        environment = dict(
            os.environ,
            PYTHONPATH=os.pathsep.join(paths),
            LD_LIBRARY_PATH=os.pathsep.join(library),
            LD_PRELOAD=str(runtime),
            PATH=os.pathsep.join([str(place / "overlay" / "bin"), os.environ["PATH"]]),
            HOME=str(place),
            TILELANG_CACHE_DIR=str(place / "cache"),
        )
        if not shutil.which("nvcc"):
            environment.setdefault("CUDA_HOME", str(place))
        command = [sys.executable, str(Path(__file__).resolve()), "--here", release, "--out", str(out)]
        subprocess.run(command, check=True, env=environment, cwd=str(place))
    return Path(out) / ("tilelang-v" + release)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--release", help="extract this release from its wheel, not the installed one")
    parser.add_argument("--here", metavar="RELEASE", help=argparse.SUPPRESS)
    parser.add_argument("--wheels", metavar="DIR", help="where wheels already lie")
    parser.add_argument("--out", default=str(VENDOR), help="the vendor folder")
    options = parser.parse_args(argv)
    if options.release:
        folder = extract_release(options.release, options.out, options.wheels)
    else:
        release = options.here
        if release is None:
            from importlib.metadata import version

            release = version("tilelang")
        folder = write(release, options.out)
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{folder}: {size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
