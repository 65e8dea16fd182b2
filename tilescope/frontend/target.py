"""Which GPU architecture a kernel is compiled for, and with which CUDA compiler.

There is no GPU on most readers' machines, and TileLang's own default target ("auto") raises there. Importing tilescope
names a default once: the GPU when there is one, else `FALLBACK_ARCH`. Whatever the user has set stays as it is.
"""

import importlib.util
import json
import os
from pathlib import Path

FALLBACK_ARCH = "sm_90a"
ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_103a", "sm_120a")


def pip_cuda_home() -> Path | None:
    """Folder of the CUDA compiler that pip installed (nvidia-cuda-nvcc), or None."""
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec else ():
        home = Path(root) / "cu13"
        if (home / "bin" / "nvcc").exists():
            return home
    return None


def gpu_arch() -> str | None:
    """Architecture of the current CUDA device ("sm_90a" on an H200), or None without one."""
    # Without a driver there is nothing to ask PyTorch, whose import takes seconds.
    if not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/dxg")):
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def default_arch() -> str:
    """The architecture that tilescope inspects when none is asked for."""
    return gpu_arch() or FALLBACK_ARCH


def check_arch(arch: str) -> str:
    """Return `arch`, or raise ValueError that lists the known ones."""
    if arch not in ARCHS:
        raise ValueError(f"arch={arch!r} is not known; use one of {', '.join(ARCHS)}")
    return arch


def set_defaults() -> None:
    """Make `import tilelang` usable here. Called on `import tilescope`, before TileLang is imported.

    - CUDA_HOME: pip's compiler, so that everybody reads the same SASS; a toolkit on PATH is used only where pip's is missing.
    - TILELANG_DEFAULT_TARGET: `FALLBACK_ARCH` where there is no GPU (TileLang's "auto" serves where there is one).
    - TILELANG_PRINT_ON_COMPILATION: off; two log lines a kernel drown the tables.
    """
    home = pip_cuda_home()
    if home and "CUDA_PATH" not in os.environ:
        os.environ.setdefault("CUDA_HOME", str(home))
    os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")
    if "TILELANG_DEFAULT_TARGET" not in os.environ and gpu_arch() is None:
        os.environ["TILELANG_DEFAULT_TARGET"] = json.dumps({"kind": "cuda", "arch": FALLBACK_ARCH})
