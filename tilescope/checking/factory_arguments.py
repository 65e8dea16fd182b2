"""Checks that a kernel factory makes of its arguments before anything is compiled.

Each raises ValueError that names the argument, its value and the way out.
"""

from collections.abc import Sequence

import tilelang.language as T
from tilelang import tvm

FLOATS = ("float32", "float16", "bfloat16")
WARP = 32
MAX_THREADS = 1024  # of a block, on every architecture so far; TileLang compiles more without a word
MAX_GRID_Y = 65535


def is_dynamic(n: object) -> bool:
    """Whether `n` is a `T.dynamic(...)` size, known only at launch."""
    return isinstance(n, tvm.tirx.Var)


def blocks_for(n: object, tile: int) -> object:
    """How many tiles hold n elements: T.ceildiv(n, tile), whose n + tile - 1 passes int32 just below 2^31 elements."""
    return (n - 1) // tile + 1


def check_size(name: str, value: object, *, dynamic: bool = True) -> None:
    """A positive integer, or with `dynamic` a T.dynamic size."""
    if is_dynamic(value):
        if not dynamic:
            raise ValueError(f"{name}={value} is dynamic; this kernel needs an integer")
        return
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name}={value!r} is not a positive integer; an empty tensor needs no kernel")


def check_last_tile(n: object, tile: int) -> None:
    """A static n below 2^31 is indexed in int32, and so must the end of its last tile be; TileLang says so in no clear way."""
    if isinstance(n, int) and n < 2**31 <= -(-n // tile) * tile:
        raise ValueError(f'n={n} has a last tile of {tile} that ends past 2^31, where int32 ends; use T.dynamic("n", "int64")')


def check_threads(threads: object) -> None:
    """Threads of a block: whole warps, at most 1024."""
    if not isinstance(threads, int) or threads <= 0 or threads % WARP or threads > MAX_THREADS:
        raise ValueError(f"threads={threads!r} is not a multiple of {WARP} between {WARP} and {MAX_THREADS}; 256 is usual")


def check_multiple(name: str, value: int, of: int, instead: str) -> None:
    """`value` is a multiple of `of`; `instead` says what to use when it is not."""
    if value % of:
        raise ValueError(f"{name}={value} is not a multiple of {of}; {instead}")


def check_flag(name: str, value: object) -> None:
    """True or False: whatever else counts as one in Python may be another argument in the wrong place."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r} is not True or False")


def check_dtype(name: str, dtype: object, allowed: Sequence[str]) -> str:
    """The dtype's name, such as "bfloat16", for a string, a T.dtype or a torch.dtype among `allowed`."""
    plain = str(dtype).removeprefix("torch.")
    if plain not in allowed:
        raise ValueError(f"{name}={plain!r} is not supported; use one of {', '.join(allowed)}")
    return plain


def check_elementwise(n: object, threads: object, num_per_thread: object, dtype: object, name: str = "dtype") -> str:
    """What every elementwise factory of the book asks of its arguments; returns the name of `dtype`, one of FLOATS."""
    check_size("n", n)
    check_threads(threads)
    check_size("num_per_thread", num_per_thread, dynamic=False)
    check_last_tile(n, threads * num_per_thread)
    return check_dtype(name, dtype, FLOATS)


def item_bytes(dtype: str) -> int:
    """Bytes of one element of `dtype`."""
    return (T.dtype(dtype).bits + 7) // 8


def vector_elements(dtype: object) -> int:
    """How many elements of `dtype`, one of FLOATS, one 128-bit access moves."""
    return 16 // item_bytes(check_dtype("dtype", dtype, FLOATS))
