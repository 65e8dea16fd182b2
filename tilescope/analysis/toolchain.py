"""Where the CUDA compiler, its headers and TileLang's templates are.

CUDA_HOME decides when it is set, else the compiler that pip installed, else a toolkit on PATH: the same order that
`target.set_defaults` gives to TileLang, so that tilescope's SASS is the SASS of the kernel that would run.
"""

import os
import shutil
from functools import cache
from pathlib import Path

from ..errors import ScopeError
from ..frontend.target import pip_cuda_home


@cache
def cuda_home() -> Path:
    """Root of the CUDA toolkit in use. Raises ScopeError when there is none."""
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if named:
        if not (Path(named) / "bin" / "nvcc").exists():
            raise ScopeError(f"CUDA_HOME={named} holds no bin/nvcc; unset it to use the compiler that pip installed")
        return Path(named)
    if home := pip_cuda_home():
        return home
    if nvcc := shutil.which("nvcc"):
        return Path(nvcc).resolve().parents[1]
    raise ScopeError("no CUDA compiler: install the pins of pyproject.toml (nvidia-cuda-nvcc and its set)")


def tool(name: str) -> Path:
    """Path of a CUDA tool ("nvcc", "nvdisasm"): in the toolkit, in pip's set, or on PATH."""
    for home in (cuda_home(), pip_cuda_home()):
        if home and (home / "bin" / name).exists():
            return home / "bin" / name
    if found := shutil.which(name):
        return Path(found)
    raise ScopeError(f"{name} not found in {cuda_home()} or on PATH")


def include_flags() -> list[str]:
    """`-I` flags for TileLang's templates and CUTLASS, as TileLang itself passes them."""
    from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

    return [f"-I{TILELANG_TEMPLATE_PATH}", f"-I{CUTLASS_INCLUDE_DIR}"]
