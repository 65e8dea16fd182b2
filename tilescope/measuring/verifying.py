"""Is the output of a large kernel right? Compared with a reference on the tensors' own device, a chunk at a time.

Each function makes a check: it takes the inputs and the output or outputs, and returns None, or what is wrong.
"""

from collections.abc import Callable, Iterator, Sequence

import torch

Tensors = Sequence[torch.Tensor]
Check = Callable[[Tensors, Tensors], str | None]

CHUNK = 1 << 25  # elements: float64 temporaries stay below a few GB
POISON = 0xA5
RELATIVE = {torch.float32: 2.0**-15, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}  # an ulp, or 256 of float32


def exact(reference: Callable[..., torch.Tensor]) -> Check:
    """The output equals reference(*inputs), of the same dtype, in every element. reference works on rows one by one."""

    def check(inputs: Tensors, outputs: Tensors) -> str | None:
        (output,) = outputs
        for rows in _chunks(inputs[0]):
            got, want = output[rows], reference(*(x[rows] for x in inputs))
            if problem := _different_kind(got, want):
                return problem
            if not torch.equal(got, want):
                wrong = int((got != want).sum())
                return f"{wrong} elements of {got.numel()} from row {rows.start} on differ from the reference"
        return _same_rows(inputs[0], outputs)

    return check


def close(reference: Callable[..., torch.Tensor]) -> Check:
    """The output is close to reference(*inputs) in float64: within what rounding an activation's formula costs, which is
    relative to the result, and to the input where 1 + tanh u cancels. How close exactly is accuracy.py's question."""

    def check(inputs: Tensors, outputs: Tensors) -> str | None:
        (output,), (x,) = outputs, inputs
        for rows in _chunks(x):
            got, want = output[rows], reference(x[rows])
            if got.dtype != x.dtype or got.shape != want.shape:
                return f"the output is {got.dtype} {tuple(output.shape)}, the input {x.dtype} {tuple(x.shape)}"
            error = (got.double() - want).abs()
            allowed = 2.0**-20 * x[rows].double().abs() + 2.0**-24 + RELATIVE[x.dtype] * want.abs()
            if not bool((error <= allowed).all()):  # so that NaN fails
                return f"the error reaches {error.max().item():.3g} between rows {rows.start} and {rows.stop}"
        return _same_rows(x, outputs)

    return check


def fp8_codes(reference: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]], steps: int) -> Check:
    """Codes within `steps` neighbours of reference(x)'s, scales to a few ulps; with steps == 0 both bit for bit."""

    def check(inputs: Tensors, outputs: Tensors) -> str | None:
        codes, scales = outputs
        (x,) = inputs
        for rows in _chunks(x):
            want_codes, want_scales = reference(x[rows])
            got_codes, got_scales = codes[rows], scales[rows]
            if problem := _different_kind(got_codes, want_codes) or _different_kind(got_scales, want_scales):
                return problem
            if steps == 0 and not torch.equal(got_codes.view(torch.uint8), want_codes.view(torch.uint8)):
                return f"codes differ from row {rows.start} on"
            away = (_ordinal(got_codes) - _ordinal(want_codes)).abs().max().item()
            scale_error = ((got_scales - want_scales).abs() / want_scales).max().item()
            if away > steps or not scale_error <= steps * 2.0**-21:
                return f"codes are up to {away} steps off, scales {scale_error:.3g} relative, from row {rows.start} on"
        return _same_rows(x, outputs)

    return check


def poison(outputs: Tensors) -> None:
    """Fill tensors that are about to be freed, so that what a next kernel leaves unwritten in their memory is found."""
    for output in outputs:
        output.view(torch.uint8).fill_(POISON)


def _ordinal(codes: torch.Tensor) -> torch.Tensor:
    """float8_e4m3fn as integers in the order of the values; +0 and -0 are both 0."""
    bits = codes.view(torch.uint8).to(torch.int16)
    return torch.where(bits >= 128, 128 - bits, bits)


def _chunks(x: torch.Tensor) -> Iterator[slice]:
    """Slices of the first dimension of about CHUNK elements each."""
    step = max(1, CHUNK // max(1, x[0].numel()))
    return (slice(at, min(at + step, x.shape[0])) for at in range(0, x.shape[0], step))


def _different_kind(got: torch.Tensor, want: torch.Tensor) -> str | None:
    if got.dtype == want.dtype and got.shape == want.shape:
        return None
    return f"the output is {got.dtype} {tuple(got.shape)}, the reference {want.dtype} {tuple(want.shape)}"


def _same_rows(x: torch.Tensor, outputs: Tensors) -> str | None:
    for output in outputs:
        if output.shape[0] != x.shape[0]:
            return f"the output has {output.shape[0]} rows, the input {x.shape[0]}"
    return None
