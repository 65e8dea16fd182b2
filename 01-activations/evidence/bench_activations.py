"""Bandwidth of this chapter's kernels, on a GPU, into results/<gpu>/activations.json.

python3 evidence/bench_activations.py                 everything
python3 evidence/bench_activations.py --quick         small sizes, not recorded: does everything run?
python3 evidence/bench_activations.py --only gelu     the works whose name contains a text
python3 evidence/bench_activations.py --budget 120    start nothing new after two minutes; the rest is recorded as not run
python3 evidence/bench_activations.py --tune          threads and elements a thread, into results/<gpu>/activations-tuning.json
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the chapter's kernels

import activation_peers as peers
import cuda_baselines as cuda
import functional
import gelu_variants as gelu
import relu_variants as relu
import tilelang.language as T
import torch
import torch.nn.functional as F

from tilescope.checking.factory_arguments import item_bytes
from tilescope.measuring import bench
from tilescope.measuring.bench import Candidate, Work, compiled_peer, copy_ceiling, peer, rung, tuning_work
from tilescope.measuring.verifying import Check, close, exact

DYNAMIC = T.dynamic("n")


@dataclass(frozen=True)
class Op:
    """What computes one activation. rungs: in the order of the chapter. best: the one that `functional` is made of.
    baselines: hand-written CUDA by dtype. api, torch: the calls of the chapter's and of PyTorch's functional module."""

    name: str
    check: Check
    rungs: tuple[Callable, ...]
    torch: Callable[[torch.Tensor], torch.Tensor]
    triton: Callable[[torch.Tensor], torch.Tensor]
    api: Callable[[torch.Tensor], torch.Tensor]
    baselines: dict[str, tuple[Callable, ...]]

    @property
    def best(self) -> Callable:
        return functional.RUNGS[self.name][0]


RELU = Op(
    "relu",
    exact(relu.relu_reference),  # normal numbers have no NaN, so the rungs that drop it agree
    (relu.relu_flat, relu.relu_thread_vec, relu.relu_select, relu.relu_register_vec),
    F.relu,
    peers.triton_relu,
    functional.relu,
    {"float32": (cuda.cuda_relu_f32, cuda.cuda_relu_f32x4, cuda.cuda_relu_f32x4_hinted)},
)
GELU_TANH = Op(
    "gelu_tanh",
    close(gelu.gelu_tanh_reference),
    (gelu.gelu_tanh_flat, gelu.gelu_tanh_thread_vec, gelu.gelu_tanh_register_vec, gelu.gelu_tanh_fast),
    peers.torch_gelu_tanh,
    peers.triton_gelu_tanh,
    partial(functional.gelu, approximate="tanh"),
    {
        "float32": (cuda.cuda_gelu_f32, cuda.cuda_gelu_f32x4),
        "bfloat16": (cuda.cuda_gelu_tanh_naive, cuda.cuda_gelu_tanh_packed128),
    },
)
GELU_ERF = Op(
    "gelu_erf",
    close(gelu.gelu_erf_reference),
    (gelu.gelu_erf_thread_vec, gelu.gelu_erf_grid_stride, gelu.gelu_erf_register_vec, gelu.gelu_erf_as7126),
    F.gelu,
    peers.triton_gelu_erf,
    functional.gelu,
    {"float32": (cuda.cuda_gelu_erf_f32x4x2,)},
)


def unary_bytes(n: int, dtype: str) -> int:
    """X read once, Y written once."""
    return 2 * n * item_bytes(dtype)


def normal(n: int, dtype: str) -> tuple[torch.Tensor, ...]:
    """(n,) normally distributed, made on the GPU."""
    return (torch.randn(n, dtype=getattr(torch, dtype), device=bench.DEVICE),)


def misaligned(n: int, dtype: str) -> tuple[torch.Tensor, ...]:
    """A view that starts one element late."""
    return (normal(n + 1, dtype)[0][1:],)


def work(group: str, op: Op, size: str, n: int, dtype: str, candidates: Iterable[Candidate], **more: object) -> Work:
    inputs = more.pop("inputs", partial(normal, n, dtype))
    every = (copy_ceiling(), *candidates)
    return Work(group, op.name, dtype, size, n, unary_bytes(n, dtype), inputs, op.check, every, **more)


def large(op: Op, size: str, n: int, dtype: str) -> Work:
    """Every rung and every peer."""
    every = [rung(factory, n=n, dtype=dtype) for factory in op.rungs]
    if op is GELU_TANH:
        fast_math = rung(peers.gelu_tanh_fast_math, n=n, dtype=dtype)
        every += [replace(fast_math, name="gelu_tanh_register_vec, fast math")]
    every += [peer("PyTorch", op.torch), compiled_peer(op.torch), peer("Triton", op.triton)]
    every += [replace(rung(factory, n=n), role="peer") for factory in op.baselines.get(dtype, ())]
    return work("large", op, size, n, dtype, every)


def ragged(op: Op, size: str, n: int, dtype: str) -> Work:
    """Whole tiles and not, static and dynamic n; the dynamic one is measured at both."""
    every = [rung(factory, n=n, dtype=dtype) for factory in (op.rungs[1], op.best)]
    every += [rung(op.best, "dynamic n", n=DYNAMIC, dtype=dtype)]
    every += [peer("PyTorch", op.torch), peer("Triton", op.triton)]
    return work("ragged", op, size, n, dtype, every)


def api_candidates(op: Op, dtype: str) -> list[Candidate]:
    """The chapter's function against PyTorch's; its kernels are known beforehand, so that they compile with the others."""
    args = {"n": DYNAMIC, "dtype": dtype}
    specs = ((op.best, args), (functional.any_alignment, {"op": op.name, **args}))
    ours = replace(peer(f"functional.{op.name.split('_')[0]}", op.api, role="rung"), specs=specs)
    return [ours, peer("PyTorch", op.torch)]


def api(group: str, op: Op, size: str, n: int, dtype: str, **more: object) -> Work:
    every = [*api_candidates(op, dtype), peer("Triton", op.triton)]
    return work(group, op, size, n, dtype, every, calls=True, **more)


def works(quick: bool = False) -> list[Work]:
    """Everything, the most telling first. quick: the same at sizes that take no time."""
    power, huge, whole = (14, 15, "2^14, quick") if quick else (28, 29, "2^28")
    n = 1 << power
    found = [large(GELU_TANH, whole, n, dtype) for dtype in ("bfloat16", "float32", "float16")]
    found += [large(GELU_ERF, whole, n, "float32")]
    found += [large(RELU, whole, n, dtype) for dtype in ("float32", "bfloat16")]
    rows, columns = (16, 1536) if quick else (4096, 393216)
    found += [large(GELU_ERF, f"{rows} x {columns}", rows * columns, "float32")]
    for op, dtype in ((GELU_TANH, "bfloat16"), (RELU, "float32")):
        found += [ragged(op, f"2^{huge}", 1 << huge, dtype), ragged(op, f"2^{huge} + 3", (1 << huge) + 3, dtype)]
    small = (12, 13) if quick else (12, 16, 20, 24)
    for op, dtype in ((GELU_TANH, "bfloat16"), (GELU_ERF, "float32")):
        found += [api("call", op, f"2^{k}", 1 << k, dtype, rounds=3) for k in (*small, power)]
    found += [
        api("misaligned", op, whole, n, dtype, inputs=partial(misaligned, n, dtype), rounds=4)
        for op, dtype in ((GELU_TANH, "bfloat16"), (GELU_ERF, "float32"), (RELU, "float32"))
    ]
    found += [api("sweep", GELU_TANH, f"2^{k}", 1 << k, "bfloat16", rounds=3) for k in range(10, power + 1, 2)]
    return found


def tuning(quick: bool = False) -> list[Work]:
    """Threads and elements a thread, of the rungs that `functional` is made of."""
    power, size = (14, "2^14, quick") if quick else (28, "2^28")
    n = 1 << power
    cases = ((GELU_TANH, "bfloat16"), (GELU_TANH, "float32"), (GELU_ERF, "float32"), (RELU, "bfloat16"))
    grid = {"threads": (128, 256, 512), "num_per_thread": (4, 8, 16, 32, 64, 128)}
    return [tuning_work(large(op, size, n, dtype), op.best, {"n": n, "dtype": dtype}, grid) for op, dtype in cases]


if __name__ == "__main__":
    raise SystemExit(bench.bench_main("activations", works, tuning))
