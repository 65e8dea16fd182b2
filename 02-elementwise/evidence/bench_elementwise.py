"""Bandwidth of this chapter's kernels, on a GPU, into results/<gpu>/elementwise.json.

python3 evidence/bench_elementwise.py                 everything
python3 evidence/bench_elementwise.py --quick         small sizes, not recorded: does everything run?
python3 evidence/bench_elementwise.py --only fp8      the works whose name contains a text
python3 evidence/bench_elementwise.py --budget 120    start nothing new after two minutes; the rest is recorded as not run
python3 evidence/bench_elementwise.py --tune          threads and elements a thread, into results/<gpu>/elementwise-tuning.json
"""

import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the chapter's kernels

import elementwise_peers as peers
import elementwise_variants as kernels
import tilelang.language as T
import torch

from tilescope.checking.factory_arguments import item_bytes
from tilescope.measuring import bench
from tilescope.measuring.bench import Candidate, Work, ceiling, compiled_peer, peer, rung, tuning_work
from tilescope.measuring.verifying import exact, fp8_codes

SCALE = 2.0
DYNAMIC = T.dynamic("n")


# -- bytes: each input read once, each output written once ----------------------------------------------------------------
def add_bytes(n: int, dtype: str) -> int:
    return 3 * n * item_bytes(dtype)


def scale_cast_bytes(n: int, in_dtype: str, out_dtype: str) -> int:
    return n * (item_bytes(in_dtype) + item_bytes(out_dtype))


def fp8_bytes(rows: int, columns: int, dtype: str) -> int:
    return rows * columns * (item_bytes(dtype) + 1) + rows * columns // kernels.GROUP * 4


# -- works ------------------------------------------------------------------------------------------------------------------
def normal(*shape: int, dtype: str, count: int = 1) -> tuple[torch.Tensor, ...]:
    """Normally distributed inputs on the GPU, made there."""
    return tuple(torch.randn(shape, dtype=getattr(torch, dtype), device=bench.DEVICE) for _ in range(count))


def add_ceiling() -> Candidate:
    """Two reads for one write."""
    return ceiling(
        "torch.add, out=", lambda inputs: torch.empty_like(inputs[0]), lambda out, a, b: torch.add(a, b, out=out), None
    )


def add_work(group: str, size: str, n: int, dtype: str, candidates: Iterable[Candidate], **more: object) -> Work:
    inputs = partial(normal, n, dtype=dtype, count=2)
    every = (add_ceiling(), *candidates)
    return Work(group, "add", dtype, size, n, add_bytes(n, dtype), inputs, exact(kernels.add_reference), every, **more)


def add_whole(size: str, n: int, dtype: str) -> Work:
    """Every rung, on whole tiles."""
    rungs = (kernels.add_flat, kernels.add_thread_vec, kernels.add_register_vec, kernels.add_tail_split)
    every = [rung(factory, n=n, dtype=dtype) for factory in rungs]
    every += [peer("PyTorch", torch.add), compiled_peer(torch.add), peer("Triton", peers.triton_add)]
    return add_work("large", size, n, dtype, every)


def add_ragged(size: str, n: int, dtype: str) -> Work:
    """The same at an n of whole tiles and at one that is not, static and dynamic. The dynamic one is measured at both."""
    rungs = (kernels.add_flat, kernels.add_thread_vec, kernels.add_tail_split)
    every = [rung(factory, n=n, dtype=dtype) for factory in rungs]
    every += [rung(factory, "dynamic n", n=DYNAMIC, dtype=dtype) for factory in rungs[1:]]
    every += [peer("PyTorch", torch.add), peer("Triton", peers.triton_add)]
    every += [peer("Triton, tail split", peers.triton_add_tail_split)]
    return add_work("ragged", size, n, dtype, every)


def add_sweep(size: str, n: int) -> Work:
    """From launch cost to bandwidth, float32: one kernel for every n, and the peers that users have."""
    every = [rung(factory, "dynamic n", n=DYNAMIC) for factory in (kernels.add_flat, kernels.add_tail_split)]
    every += [peer("PyTorch", torch.add), peer("Triton", peers.triton_add)]
    return add_work("sweep", size, n, "float32", every, calls=True, rounds=3)


def add_misaligned(size: str, n: int, dtype: str) -> Work:
    """Views that start one element late: only scalar accesses take them, so a vectorised kernel needs copies first."""

    def inputs() -> tuple[torch.Tensor, ...]:
        return tuple(x[1:] for x in normal(n + 1, dtype=dtype, count=2))

    def clone_first(inputs: tuple[torch.Tensor, ...]) -> object:
        kernel = bench.compile_rung(kernels.add_tail_split, {"n": DYNAMIC, "dtype": dtype})
        return lambda: kernel(*(x.clone() for x in inputs))

    cloned = Candidate(
        "add_tail_split of clones", "rung", clone_first, ((kernels.add_tail_split, {"n": DYNAMIC, "dtype": dtype}),)
    )
    scalar = rung(kernels.add_tail_split, "any alignment, dynamic n", n=DYNAMIC, any_alignment=True, dtype=dtype)
    every = [add_ceiling(), rung(kernels.add_flat, "dynamic n", n=DYNAMIC, dtype=dtype), scalar, cloned]
    every += [peer("PyTorch", torch.add), peer("Triton", peers.triton_add)]
    return Work("misaligned", "add", dtype, size, n, add_bytes(n, dtype), inputs, exact(kernels.add_reference), every, rounds=4)


def cast_ceiling(out_dtype: torch.dtype) -> Candidate:
    """Reads and writes in the ratio of the two types."""

    def empty(inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return torch.empty_like(inputs[0], dtype=out_dtype)

    return ceiling("cast", empty, lambda out, x: out.copy_(x), exact(lambda x: x.to(out_dtype)))


def scale_cast_work(group: str, size: str, n: int, in_dtype: str, out_dtype: str) -> Work:
    to = getattr(torch, out_dtype)
    eager = partial(peers.torch_scale_cast, scale=SCALE, out_dtype=to)
    args = {"scale": SCALE, "in_dtype": in_dtype, "out_dtype": out_dtype}
    every = [cast_ceiling(to), rung(kernels.scale_cast, n=n, **args)]
    every += [rung(kernels.scale_cast, "dynamic n", n=DYNAMIC, **args)] if group == "ragged" else []
    every += [peer("PyTorch", eager), compiled_peer(eager)] if group == "large" else []
    every += [peer("Triton", partial(peers.triton_scale_cast, scale=SCALE, out_dtype=to))]
    check = exact(lambda x: kernels.scale_cast_reference(x, SCALE, to))
    moved = scale_cast_bytes(n, in_dtype, out_dtype)
    inputs = partial(normal, n, dtype=in_dtype)
    return Work(group, "scale_cast", f"{in_dtype} to {out_dtype}", size, n, moved, inputs, check, every)


def byte_cast_ceiling(dtype: str) -> Candidate:
    """Integers of the input's width cast to bytes: the traffic of an fp8 cast, without its conversion."""
    integer = {4: torch.int32, 2: torch.int16}[item_bytes(dtype)]

    def empty(inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return torch.empty_like(inputs[0], dtype=torch.uint8)

    return ceiling(
        "integer cast",
        empty,
        lambda out, x: out.copy_(x.view(integer)),
        exact(lambda x: x.view(integer).to(torch.uint8)),
    )


def fp8_cast_ceiling() -> Candidate:
    """The plain cast, with no scale. Values beyond 448 would be NaN or saturate, by version; normal numbers are none."""
    to = torch.float8_e4m3fn

    def same(inputs: tuple[torch.Tensor, ...], outputs: tuple[torch.Tensor, ...]) -> str | None:
        return exact(lambda x: x.to(to).view(torch.uint8))(inputs, [outputs[0].view(torch.uint8)])

    return ceiling("cast", lambda inputs: torch.empty_like(inputs[0], dtype=to), lambda out, x: out.copy_(x), same)


def fp8_work(rows: int, columns: int, dtype: str) -> Work:
    reference = kernels.per_token_cast_to_fp8_reference
    # These peers divide, or divide approximately, so a code may round the other way.
    near = fp8_codes(reference, steps=1)
    every = [fp8_cast_ceiling(), byte_cast_ceiling(dtype)]
    every += [rung(factory, note, M=rows, N=columns, dtype=dtype, **form) for factory, note, form in kernels.FP8_RUNGS]
    divided = rung(peers.per_token_cast_to_fp8_divided, M=rows, N=columns, dtype=dtype)
    every += [replace(divided, name="TileLang's example form", role="peer", check=near)]
    eager = peers.torch_per_token_cast_to_fp8
    every += [peer("PyTorch", eager, check=near), compiled_peer(eager, near)]
    for groups, warps in ((16, 4), (32, 8)):
        call = partial(peers.triton_per_token_cast_to_fp8, groups=groups, warps=warps)
        every += [peer(f"Triton, {groups} groups, {warps} warps", call, check=near)]
    every += [peer("TileKernels", peers.tile_kernels_per_token_cast_to_fp8)]
    moved, size = fp8_bytes(rows, columns, dtype), f"{rows} x {columns}"
    inputs = partial(normal, rows, columns, dtype=dtype)
    check = fp8_codes(reference, steps=0)
    return Work("large", "per_token_cast_to_fp8", dtype, size, rows * columns, moved, inputs, check, every)


def works(quick: bool = False) -> list[Work]:
    """Everything, the most telling first. quick: the same at sizes that take no time."""
    large, huge, whole = (14, 15, "2^14, quick") if quick else (28, 29, "2^28")
    matrices = ((16, 256), (8, 384)) if quick else ((8192, 32768), (4096, 7168))
    ragged = f"2^{huge} + 3"
    found = [add_whole(whole, 1 << large, dtype) for dtype in ("float32", "bfloat16")]
    found += [fp8_work(*shape, dtype) for shape in matrices for dtype in ("float32", "bfloat16")]
    found += [scale_cast_work("large", whole, 1 << large, "float32", to) for to in ("float16", "bfloat16")]
    for dtype in ("bfloat16", "float32"):
        found += [add_ragged(f"2^{huge}", 1 << huge, dtype), add_ragged(ragged, (1 << huge) + 3, dtype)]
    found += [scale_cast_work("ragged", f"2^{huge}", 1 << huge, "float32", "float16")]
    found += [scale_cast_work("ragged", ragged, (1 << huge) + 3, "float32", "float16")]
    found += [add_sweep(f"2^{power}", 1 << power) for power in range(10, large + 1, 2)]
    found += [add_misaligned(whole, 1 << large, dtype) for dtype in ("float32", "bfloat16")]
    return found


def tuning(quick: bool = False) -> list[Work]:
    """Threads with elements a thread, or with groups a block."""
    power, size = (14, "2^14, quick") if quick else (28, "2^28")
    n, matrices = 1 << power, ((16, 256),) if quick else ((8192, 32768), (4096, 7168))
    grid = {"threads": (128, 256, 512), "num_per_thread": (4, 8, 16, 32, 64, 128)}
    groups = {"threads": (128, 256, 512), "groups_per_block": (16, 32, 64)}
    found = []
    for dtype in ("float32", "bfloat16"):
        args = {"n": n, "dtype": dtype}
        found += [tuning_work(add_whole(size, n, dtype), kernels.add_tail_split, args, grid)]
        for rows, columns in matrices:
            args = {"M": rows, "N": columns, "dtype": dtype}
            fp8 = fp8_work(rows, columns, dtype)
            found += [tuning_work(fp8, kernels.per_token_cast_to_fp8_contiguous, args, groups)]
    cast = scale_cast_work("large", size, n, "float32", "float16")
    found += [tuning_work(cast, kernels.scale_cast, {"n": n, "out_dtype": "float16"}, grid)]
    return found


if __name__ == "__main__":
    raise SystemExit(bench.bench_main("elementwise", works, tuning))
