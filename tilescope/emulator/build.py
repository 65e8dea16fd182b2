"""From generated CUDA text to a program that runs it on the CPU, with g++ and the headers in `host/`.

Two cached steps: the part that all kernels share (TileLang's templates with their PTX rewritten, compiled ahead as a
precompiled header, and the runtime), and the kernel's own text. Loads and stores are compiled into calls that
`host/runtime.cpp` answers.
"""

import fcntl
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from ..analysis.toolchain import cuda_home
from ..cache import cache_root, cached
from ..errors import NotEmulated
from ..frontend.source_lines import pin_lines
from .ptx import rewrite_asm

HOST = Path(__file__).parent / "host"
GENERATED = "generated.cu"  # the name of lines that no line of a Python file made

# -O1 is for what the header brings; kernels themselves are compiled at -O0 (host/templates.h says why).
# -ffp-contract=off and no fast math: IEEE, as written.
_FLAGS = (
    "-std=c++17 -O1 -g1 -w -fmax-errors=3 -fno-pie -fno-exceptions -fno-strict-aliasing -fwrapv -ffp-contract=off "
    "-fno-builtin-fmaxf -fno-builtin-fminf -fno-builtin-fmax -fno-builtin-fmin "
    "-fsanitize=kernel-address,alignment,bounds,float-cast-overflow -fsanitize-recover=all"
).split()

# What generated text uses when it needs hardware that has no stand-in here; the name is what the user reads.
_MISSING = (
    (r"CUtensorMap|\btl::tma_\w+", "TMA"),
    (r"__cluster_dims__|\btl::cluster_\w+|\btl::block_rank_in_cluster", "thread block clusters"),
    (r"\btl::(?:wgmma\w*|warpgroup_(?:arrive|commit_batch|wait)|wait_wgmma)", "wgmma"),
    (r"\btl::tcgen05\w*|\btl::tmem_\w+", "tcgen05 tensor core instructions"),
    (r"\btl::(?:gemm\w*|mma_\w+|ptx_ldmatrix\w*)|\bwmma::", "tensor core instructions"),
    (r"\bmbarrier\w*|\btl::mbarrier\w*|\bBarrier\b(?=\s*\*|\s+\w+\[)", "mbarrier"),
    (r"cooperative_groups|\bcudaGridDependencySynchronize", "grid-wide synchronisation"),
)


def compiler() -> str:
    """The C++ compiler: $CXX or g++. Raises NotEmulated when there is none, or when it is not GCC."""
    name = os.environ.get("CXX") or "g++"
    path = shutil.which(name)
    if not path:
        raise NotEmulated(f"running a kernel on the CPU needs g++, and {name!r} is not on PATH; install it or set CXX")
    if "Free Software Foundation" not in _version(path):
        raise NotEmulated(f"running a kernel on the CPU needs GCC's g++; CXX={name!r} is another compiler")
    return path


@cache
def _version(path: str) -> str:
    return subprocess.run([path, "--version"], capture_output=True, text=True).stdout


def cuda_includes() -> list[str]:
    """`-I` flags for CUDA's headers, wherever the toolkit keeps them."""
    home = cuda_home()
    roots = [
        home / "include",
        home / "targets" / "x86_64-linux" / "include",
        home / "targets" / "sbsa-linux" / "include",
    ]
    found = [str(path) for root in roots for path in (root, root / "cccl") if path.is_dir()]
    if not any((Path(path) / "cuda_fp8.h").exists() for path in found):
        raise NotEmulated(f"running a kernel on the CPU needs CUDA's headers, and {home} holds no include/cuda_fp8.h")
    return [f"-I{path}" for path in found]


def build_program(source: str, kernels: tuple[str, ...], arch: str) -> Path:
    """Return the folder that holds `program` and its `kernel.cpp`.

    source: CUDA text. kernels: its `__global__` functions; a launch names one by its position here. arch: "sm_90a".
    Raises NotEmulated, naming the feature, for text that needs what the emulator lacks.
    """
    for pattern, feature in _MISSING:
        if found := re.search(pattern, source):
            raise NotEmulated(f"{feature} cannot be run on the CPU (the generated CUDA uses {found[0]})")
    cxx = compiler()
    base = _shared_part(cxx, arch)
    text = host_text(source, kernels)

    def make(folder: Path) -> None:
        (folder / "kernel.cpp").write_text(text)
        flags = [*_FLAGS, *_architecture(arch), *_include_flags(base)]
        command = [cxx, *flags, "-Winvalid-pch", "-include", "templates.h", "-c", "kernel.cpp", "-o", "kernel.o"]
        _run(command, folder, "the generated CUDA does not compile for the CPU")
        link = [cxx, "-no-pie", "kernel.o", str(base / "runtime.o"), "-lm", "-o", "program"]
        _run(link, folder, "the generated CUDA does not link for the CPU")
        (folder / "kernel.o").unlink()

    return cached("emulate", (base.name, arch, text, *_FLAGS), make)


def host_text(source: str, kernels: tuple[str, ...]) -> str:
    """The C++ that is compiled: `source` with pinned lines, rewritten PTX and shared memory, and an entry for the runtime."""
    text = pin_lines(source)
    # The precompiled header has these; leaving them out saves opening two dozen files. math.h redefines names, so it stays.
    text = re.sub(r"^\s*#include\s*<tl_templates/cuda/(?!math\.h)(?:\w+)\.h>", _keep_unknown, text, flags=re.M)
    alignment = r"((?:(?:__align__|alignas)\s*\([^)]*\)\s*)?)"
    text = re.sub(
        rf"extern\s+__shared__\s+{alignment}([^;\[]*?)\b(\w+)\s*\[\s*\]\s*;",
        r"\2 *volatile \3 = reinterpret_cast<\2 *>(emulator_dynamic_shared());",
        text,
    )
    if re.search(r"extern\s+__shared__", text):
        raise NotEmulated("a declaration of dynamic shared memory is in a form that the emulator does not read")
    text, seen = re.subn(
        rf"__shared__\s+{alignment}([^;=\[,()]*?)\b(\w+)((?:\s*\[[^\]]+\])*)\s*;",
        r"__shared__ \1\2\3_storage\4; auto &\3 = emulator::hidden(\3_storage);",
        text,
    )
    checked = "true" if seen == len(re.findall(r"\b__shared__\b", text)) else "false"
    cases = "\n".join(f"  case {i}: return emulator::call(::{name}, arguments);" for i, name in enumerate(kernels))
    return (
        f'#line 1 "{GENERATED}"\n{rewrite_asm(text)}\n#line 1 "launch"\n'
        f"const bool emulator_static_shared_checked = {checked};\n"
        'extern "C" EMULATOR_UNCHECKED void emulator_call(unsigned kernel, void *const *arguments) {\n'
        f"  switch (kernel) {{\n{cases}\n  }}\n}}\n"
    )


@cache
def _precompiled() -> frozenset[str]:
    return frozenset(re.findall(r"#include (<tl_templates/\S+>)", (HOST / "templates.h").read_text()))


def _keep_unknown(found: re.Match) -> str:
    include = found[0].strip()
    return f"// {include}" if include.split()[-1] in _precompiled() else include


def _architecture(arch: str) -> list[str]:
    number = int(re.search(r"\d+", arch)[0])
    # No __CUDA_ARCH__: it would switch CUDA's headers to device-only code. The templates read EMULATED_ARCH in its place.
    return [
        f"-D__CUDA_ARCH_LIST__={number * 10}",
        f"-DEMULATED_ARCH={number * 10}",
        "-D__CUDACC_VER_MAJOR__=13",
        "-D__CUDACC_VER_MINOR__=0",
    ]


def _template_on_host(text: str) -> str:
    """A TileLang template as the host compiles it: the device's branches, PTX rewritten, no library that assumes a device."""
    text = re.sub(r"\b__CUDA_ARCH__\b", "EMULATED_ARCH", text)
    # libcu++'s atomics read plainly, which would look like a race; the two helpers answer for a device only.
    text = re.sub(r"cuda::atomic_ref<(\w+), cuda::thread_scope_device>", r"emulator::atomic_ref<\1>", text)
    text = text.replace("cute::elect_one_sync()", "emulator::elect_one()")
    text = text.replace("cutlass::canonical_warp_idx()", "(threadIdx.x / 32)")
    return rewrite_asm(text)


def _include_flags(base: Path) -> list[str]:
    from tilelang.env import CUTLASS_INCLUDE_DIR

    return [f"-I{base / 'include'}", f"-I{CUTLASS_INCLUDE_DIR}", *cuda_includes()]


@cache
def _shared_part(cxx: str, arch: str) -> Path:
    """Folder with the rewritten templates, the precompiled header and the runtime: made once for one arch and toolchain."""
    from tilelang.env import TILELANG_TEMPLATE_PATH

    templates = Path(TILELANG_TEMPLATE_PATH) / "tl_templates" / "cuda"
    files = sorted(path for path in templates.rglob("*") if path.is_file())
    texts = {path.relative_to(templates): path.read_text() for path in files}
    host = {path.name: path.read_text() for path in sorted(HOST.iterdir()) if path.is_file()}

    def make(folder: Path) -> None:
        include = folder / "include"
        for name, text in texts.items():
            target = include / "tl_templates" / "cuda" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_template_on_host(text))
        for name, text in host.items():
            (include / name).write_text(text)
        flags = [*_FLAGS, *_architecture(arch), *_include_flags(folder)]
        why = "TileLang's templates do not compile for the CPU"
        _run([cxx, *flags, "-x", "c++-header", "include/templates.h", "-o", "include/templates.h.gch"], folder, why)
        runtime = [cxx, "-std=c++17", "-O2", "-fno-pie", "-g1", "-c", "include/runtime.cpp", "-o", "runtime.o"]
        _run(runtime, folder, "the emulator's runtime does not compile")

    parts = (_version(cxx), arch, *_FLAGS, *cuda_includes(), *host.values(), *texts.values())
    rewriting = (Path(__file__).read_text(), (Path(__file__).parent / "ptx.py").read_text())
    # Seconds of work that every test process asks for first: one does it, the others wait.
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / "emulate-base.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return cached("emulate-base", (*parts, *rewriting), make)


def _run(command: list[str], folder: Path, what: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        telling = ("error:", "Error:", "undefined reference")
        lines = [line for line in done.stderr.splitlines() if any(word in line for word in telling)]
        lines = lines or done.stderr.splitlines()
        raise NotEmulated(f"{what}: " + "\n".join(lines[:3]))


def named_files(folder: Path) -> set[str]:
    """Files that the kernel's lines are said to come from: its Python file, or the name of a hand-written kernel."""
    return set(re.findall(r'^#line\s+\d+\s+"(.*)"', (folder / "kernel.cpp").read_text(), flags=re.M)) - {"launch"}


def source_places(folder: Path, addresses: list[int]) -> dict[int, list[tuple[str, int]]]:
    """For each code address of `program`, its source places (file, line), the innermost inlined one first."""
    tool = shutil.which("addr2line")
    if not tool or not addresses:
        return {}
    # Return addresses point after the call.
    asked = [hex(address - 1) for address in addresses]
    command = [tool, "-a", "-i", "-e", str(folder / "program"), *asked]
    done = subprocess.run(command, capture_output=True, text=True)
    places: dict[int, list[tuple[str, int]]] = {}
    current: list[tuple[str, int]] = []
    for line in done.stdout.splitlines():
        if line.startswith("0x"):
            current = places.setdefault(int(line, 16) + 1, [])
        elif found := re.match(r"(.*):(\d+)(?: \(discriminator \d+\))?$", line):
            current.append((found[1], int(found[2])))
    return places
