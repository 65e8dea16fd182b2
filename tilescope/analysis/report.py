"""What tilescope says of one kernel, dtype and architecture. Plain data; `to_json` is the format that users may rely on."""

from dataclasses import dataclass, field
from typing import Any

from .accesses import HAND_WRITTEN, Access
from .sass import Sass


@dataclass(frozen=True)
class KernelReport:
    """Everything known about one generated kernel.

    grid: blocks along x, y, z; an entry is text such as "(n + 2047) // 2048" when n is dynamic. block: threads.
    sass: None when no machine code was asked for. source: the generated CUDA. notes: what the model leaves out.
    """

    kernel: str
    arch: str
    args: dict[str, Any]
    grid: tuple[int | str, ...]
    block: tuple[int, ...]
    accesses: tuple[Access, ...]
    sass: Sass | None
    source: str = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def deciding(self) -> tuple[Access, ...]:
        """The accesses that the verdict is about: the unguarded ones, or all when every one is guarded."""
        return tuple(a for a in self.accesses if not a.guarded) or self.accesses

    @property
    def hand_written(self) -> bool:
        """Whether the kernel is a T.CUDASourceCodeKernel: no accesses, and a verdict that the SASS gives."""
        return HAND_WRITTEN in self.notes

    @property
    def machine_bits(self) -> tuple[int, ...]:
        """The different widths of the global accesses in the SASS, in bits, widest first; () without SASS."""
        return tuple(8 * width for width in self.sass.global_widths()) if self.sass else ()

    @property
    def narrowest_bits(self) -> int | None:
        """Width in bits of the narrowest deciding access; None for a kernel with no access that the model counts.

        In the SASS of a hand-written kernel nothing tells the accesses of a tail from the others, so all of them decide.
        """
        if self.hand_written:
            return min(self.machine_bits, default=None)
        return min((8 * a.bytes_per_lane for a in self.deciding), default=None)

    @property
    def strided(self) -> bool:
        """Whether an access touches more sectors than its bytes need."""
        return any(a.sectors_per_request > a.ideal_sectors_per_request for a in self.accesses if a.sectors_per_request)

    @property
    def verdict(self) -> str:
        """ "128-bit", ..., or "scalar" when the narrowest access moves one element; with ", strided" where it applies.

        Of a hand-written kernel every width in its SASS, widest first: "128-bit and 32-bit in SASS".
        """
        if self.hand_written and self.sass is None:
            return "not known without SASS"
        if self.hand_written and self.machine_bits:
            return " and ".join(f"{bits}-bit" for bits in self.machine_bits) + " in SASS"
        if not self.accesses:
            return "no global access"
        narrowest = min(self.deciding, key=lambda a: a.bytes_per_lane)
        one_element = narrowest.bytes_per_lane == narrowest.element_bytes
        width = "scalar" if one_element else f"{8 * narrowest.bytes_per_lane}-bit"
        return width + (", strided" if self.strided else "")

    def to_json(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "arch": self.arch,
            "args": {key: _plain(value) for key, value in self.args.items()},
            "grid": list(self.grid),
            "block": list(self.block),
            "registers": self.sass.registers if self.sass else None,
            "spill_bytes": self.sass.spill_bytes if self.sass else None,
            "accesses": [
                {
                    "buffer": a.buffer,
                    "op": a.op,
                    "dtype": a.dtype,
                    "bytes_per_lane": a.bytes_per_lane,
                    "sectors_per_request": _number(a.sectors_per_request),
                    "ideal_sectors_per_request": a.ideal_sectors_per_request,
                    "requests": a.requests,
                    "sectors": a.sectors,
                    "guarded": a.guarded,
                    "file": a.file,
                    "line": a.line,
                    "unknown": a.unknown,
                }
                for a in self.accesses
            ],
            "sass": self.sass.memory_counts() if self.sass else None,
            "verdict": self.verdict,
            "notes": list(self.notes),
        }


def _number(value: float | None) -> float | int | None:
    return int(value) if value is not None and value == int(value) else value


def _plain(value: object) -> object:
    return value if isinstance(value, int | float | str | bool | None) else str(value)
