"""How long does a call take on the GPU? TileLang's `do_bench`, and what is made of its numbers."""

import time
from collections.abc import Callable, Sequence

import torch

WARMUP_MS, ROUND_MS = 2.0, 10.0  # of one round; a candidate is measured in several rounds
CALLS_MS = 10.0  # how long `per_call_us` calls
SLOW_S = 0.6  # a round of CUPTI that takes longer costs more than it tells
AGREE = (0.8, 1.1)  # CUPTI over events on a long kernel: outside of this, CUPTI counts something else


def pick_backend(call: Callable[[], object]) -> tuple[str, str]:
    """(backend, why): "cupti", which times kernels alone, where it works and agrees with events, else "event".

    call: launches a kernel of about a millisecond, so that the launch weighs nothing.
    """
    from tilelang.profiler import do_bench

    events = do_bench(call, warmup=5, rep=30, backend="event", return_mode="median")
    try:
        do_bench(call, warmup=5, rep=30, backend="cupti")  # the first starts the profiler, for seconds
        start = time.perf_counter()
        cupti = do_bench(call, warmup=5, rep=30, backend="cupti")
        seconds = time.perf_counter() - start
    except Exception as error:  # whatever the profiler says: events always work
        return "event", f"CUPTI: {type(error).__name__}: {error}"
    agree = AGREE[0] * events <= cupti <= AGREE[1] * events
    why = f"CUPTI {cupti:.4f} ms, events {events:.4f} ms for one call; a round of CUPTI takes {seconds:.2f} s"
    return ("cupti" if agree and seconds < SLOW_S else "event"), why


def round_ms(call: Callable[[], object], backend: str) -> float:
    """Milliseconds of one call, over a round of some calls, the L2 flushed before each: their mean by CUPTI, which reports
    nothing else, or their median by events."""
    from tilelang.profiler import do_bench

    return do_bench(call, warmup=WARMUP_MS, rep=ROUND_MS, backend=backend, return_mode="median")


def per_call_us(call: Callable[[], object]) -> float:
    """Microseconds a call when calls follow each other, by the host's clock: the launch for a small tensor, the kernel for
    a large one. The L2 is warm."""
    count = 1
    while True:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        if seconds * 1e3 >= CALLS_MS / 2 or count >= 4096:
            return seconds / count * 1e6
        count = min(4096, max(2 * count, int(count * CALLS_MS * 1e-3 / max(seconds, 1e-6))))


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile (0 to 1) of at least one value, linear between neighbours."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
