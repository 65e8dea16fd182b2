"""Test inputs: random numbers, and the values at the ends of a type where kernels go wrong."""

import torch


def normal(shape: tuple[int, ...], dtype: str, generator: torch.Generator) -> torch.Tensor:
    """Normally distributed numbers of `dtype`, on the CPU."""
    return torch.randn(shape, generator=generator).to(getattr(torch, dtype))


def special(n: int, dtype: str, generator: torch.Generator) -> torch.Tensor:
    """(n,) random bit patterns, so of every magnitude, a fifth of them replaced by the values at the ends of the type:
    signed zeros, infinities, NaN, the smallest and largest denormal, the smallest and largest normal number."""
    kind = getattr(torch, dtype)
    info = torch.finfo(kind)
    integer = {2: torch.int16, 4: torch.int32}[kind.itemsize]
    low, high = torch.iinfo(integer).min, torch.iinfo(integer).max
    x = torch.randint(low, high + 1, (n,), generator=generator, dtype=torch.int64).to(integer).view(kind)
    least = torch.tensor([1], dtype=integer).view(kind).item()
    normal_least = info.smallest_normal
    ends = [0.0, torch.inf, torch.nan, least, normal_least - least, normal_least, info.max, 1.0]
    values = torch.tensor([sign * end for end in ends for sign in (1.0, -1.0)], dtype=torch.float64).to(kind)
    chosen = torch.rand(n, generator=generator) < 0.2
    picks = values[torch.randint(len(values), (n,), generator=generator)]
    return torch.where(chosen, picks, x)
