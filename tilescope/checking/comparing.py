"""Compare a result with its reference: bit for bit, or as an error in ulps of the result's type."""

import torch

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# Explicit mantissa bits and smallest exponent of a normal number.
_FORMAT = {
    torch.float32: (23, -126),
    torch.float16: (10, -14),
    torch.bfloat16: (7, -126),
    torch.float64: (52, -1022),
}


def bits(x: torch.Tensor) -> torch.Tensor:
    """The bit patterns of `x` as integers of the same width."""
    return x.contiguous().view(_BITS[x.element_size()])


def differing(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Flat indices where `got` is not `want` bit for bit; any NaN equals any NaN, +0 does not equal -0.

    Raises ValueError when dtype or shape differ.
    """
    if got.dtype != want.dtype or got.shape != want.shape:
        raise ValueError(f"got {got.dtype} {tuple(got.shape)}, want {want.dtype} {tuple(want.shape)}")
    wrong = bits(got) != bits(want)
    if want.is_floating_point():
        wrong &= ~(got.float().isnan() & want.float().isnan())
    return wrong.flatten().nonzero().flatten()


def ulps(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Error of `got` against `want` (float64, same shape) in units in the last place of got's dtype, as float64.

    One ulp is the spacing of the dtype's numbers at `want`, never less than that of its denormals. Where `want` rounds to
    inf, or is NaN, the error is 0 if `got` is the same and inf if not.
    """
    mantissa, smallest = _FORMAT[got.dtype]
    value = got.double()
    exponent = torch.where(want == 0, smallest, torch.frexp(want).exponent - 1).clamp(min=smallest)
    error = (value - want).abs() / torch.ldexp(torch.ones_like(want), (exponent - mantissa).double())
    rounded = want.to(got.dtype).double()
    special = ~rounded.isfinite() | ~value.isfinite()
    same = (value == rounded) | (value.isnan() & want.isnan())
    return torch.where(special, torch.where(same, 0.0, torch.inf), error)
