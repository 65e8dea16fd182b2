"""Charts as SVG text, readable on light and on dark pages; the same data gives the same text.

Transparent ground, colours of middle brightness, text that follows prefers-color-scheme.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH = 860
COLOURS = ("#2f81f7", "#d9822b", "#3fa45b", "#a371f7", "#d1548f", "#8b8b3a", "#3aa6a6")
ROLES = {"rung": COLOURS[0], "peer": COLOURS[1], "ceiling": "#8b949e"}
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#3d444d}.title{font-weight:600;font-size:14px}.end{text-anchor:end}"
    ".middle{text-anchor:middle}.grid{stroke:#8b949e;stroke-opacity:.35}.roof{stroke:#8b949e;stroke-width:1.5;fill:none}"
    ".line{fill:none;stroke-width:2}@media(prefers-color-scheme:dark){text{fill:#c9d1d9}}"
)


@dataclass(frozen=True)
class Bar:
    """value, and low to high, drawn as a whisker; None: not measured, and `text` says why."""

    name: str
    role: str
    value: float | None
    low: float | None
    high: float | None
    text: str


def bars(title: str, groups: Sequence[tuple[str, Sequence[Bar], float | None]], unit: str) -> str:
    """Horizontal bars in groups (label, bars, where the ceiling's line stands)."""
    longest = max((len(bar.name) for _, of_group, _ in groups for bar in of_group), default=0)
    left, right, row, head = max(270, 16 + 7 * longest), 120, 19, 26
    width = max(WIDTH, left + 350 + right)
    top = 48
    height = top + sum(head + row * len(of_group) for _, of_group, _ in groups) + 34
    most = max([v for _, of_group, line in groups for v in (line, *(b.high for b in of_group)) if v is not None], default=1.0)
    ticks = _ticks(most)
    x = _scale(0, ticks[-1], left, width - right)
    parts = [_text(10, 20, title, "title"), *_key(ROLES, 40)]
    parts += [_line(x(t), top, x(t), height - 30, "grid") + _text(x(t), height - 14, _short(t), "middle") for t in ticks]
    parts.append(_text(width - right + 12, height - 14, unit))
    y = top
    for label, of_group, line in groups:
        parts.append(_text(10, y + 18, label, "title"))
        y += head
        if line is not None:
            dashes = ' stroke-dasharray="4 3"'
            parts.append(_line(x(line), y - 4, x(line), y + row * len(of_group), "roof", dashes))
        for bar in of_group:
            parts.append(_text(left - 8, y + 13, bar.name, "end"))
            if bar.value is not None:
                parts.append(_rect(left, y + 3, x(bar.value) - left, row - 6, ROLES[bar.role]))
            if bar.low is not None and bar.high is not None:
                parts.append(_line(x(bar.low), y + row / 2, x(bar.high), y + row / 2, "roof"))
            parts.append(_text(width - right + 12, y + 13, bar.text))
            y += row
    return _svg(width, height, parts)


def lines(title: str, series: Mapping[str, Sequence[tuple[float, float]]], x_name: str, y_name: str) -> str:
    """Lines over powers of two; points are (x, y), y from 0."""
    left, top, right, height = 60, 56, 190, 400
    points = [point for of_series in series.values() for point in of_series]
    low, high = (round(math.log2(f(x for x, _ in points))) for f in (min, max)) if points else (0, 1)
    ticks = _ticks(max((y for _, y in points), default=1.0))
    x, y = _scale(low, max(high, low + 1), left, WIDTH - right), _scale(0, ticks[-1], height - 50, top)
    parts = [_text(10, 20, title, "title")]
    parts += [_line(left, y(t), WIDTH - right, y(t), "grid") + _text(left - 8, y(t) + 4, _short(t), "end") for t in ticks]
    for power in range(low, high + 1, 2):
        parts.append(_text(x(power), height - 30, f"2^{power}", "middle"))
    parts += [_text((left + WIDTH - right) / 2, height - 10, x_name, "middle"), _text(left, top - 14, y_name)]
    for index, (name, of_series) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        places = [(x(math.log2(a)), y(b)) for a, b in of_series]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        parts.append(f'<polyline class="line" stroke="{colour}" points="{path}"/>')
        parts += [_dot(a, b, colour, name) for a, b in places]
        parts += [_rect(WIDTH - right + 14, top + 20 * index, 12, 12, colour)]
        parts.append(_text(WIDTH - right + 32, top + 11 + 20 * index, name))
    return _svg(WIDTH, height, parts)


@dataclass(frozen=True)
class Point:
    """x: warp instructions a byte; y: warp instructions a second."""

    name: str
    role: str
    x: float
    y: float


def roofline(title: str, points: Sequence[Point], bandwidth: float, issue: float | None) -> str:
    """Instructions a second over instructions a byte, both logarithmic. points: at least one. bandwidth: bytes a second; issue:
    the most instructions a second that the GPU can issue, None where its clock is not known. Points are numbered, as their
    names do not fit beside them."""
    left, top, right = 70, 72, 50 + 7 * max(len(point.name) for point in points)
    width, height = max(WIDTH, left + 400 + right), max(420, top + 60 + 18 * len(points))
    bottom = height - 50

    def roof(instructions_a_byte: float) -> float:
        return min(instructions_a_byte * bandwidth, issue or math.inf)

    low_x, high_x = _powers(p.x for p in points)
    if issue:  # so that the knee is in the picture
        high_x = max(high_x, 2.0 ** math.ceil(math.log2(2 * issue / bandwidth)))
    low_y, high_y = _powers([*(p.y for p in points), roof(low_x), roof(high_x)])
    x, y = _log_scale(low_x, high_x, left, width - right), _log_scale(low_y, high_y, bottom, top)
    parts = [_text(10, 20, title, "title"), *_key({role: ROLES[role] for role in ("rung", "peer")}, 40)]
    for power in range(round(math.log2(low_x)), round(math.log2(high_x)) + 1):
        at = x(2.0**power)
        parts += [_line(at, top, at, bottom, "grid"), _text(at, bottom + 18, f"2^{power}", "middle")]
    for power in range(round(math.log2(low_y)), round(math.log2(high_y)) + 1):
        at = y(2.0**power)
        parts += [_line(left, at, width - right, at, "grid"), _text(left - 8, at + 4, f"2^{power}", "end")]
    parts.append(_text((left + width - right) / 2, bottom + 38, "warp instructions a byte", "middle"))
    parts.append(_text(left, top - 8, "warp instructions a second"))
    knee = [issue / bandwidth] if issue and low_x < issue / bandwidth < high_x else []
    path = " ".join(f"{x(at):.1f},{y(roof(at)):.1f}" for at in (low_x, *knee, high_x))
    parts.append(f'<polyline class="roof" points="{path}"/>')
    for number, point in enumerate(points, 1):
        parts.append(_dot(x(point.x), y(point.y), ROLES[point.role], point.name))
        parts.append(_text(width - right + 18, top + 18 * number - 6, f"{number}  {point.name}"))
    places = [(x(p.x), y(p.y)) for p in points]
    for (a, b), (at, below), text in _labels(places):
        parts += [_line(a, b, at, below - 4, "grid"), _text(at, below, text, "middle")]
    return _svg(width, height, parts)


def _powers(values: Iterable[float]) -> tuple[float, float]:
    """The powers of two around them, at least one apart."""
    values = list(values)
    low, high = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
    return 2.0**low, 2.0 ** max(high, low + 1)


Place = tuple[float, float]


def _labels(places: Sequence[Place]) -> list[tuple[Place, Place, str]]:
    """(dot, middle of the label's foot, numbers) for dots numbered from 1. Dots on one place share a label; a label keeps clear
    of dots and of other labels, as near as it can."""
    together: dict[Place, list[int]] = {}
    for number, (a, b) in enumerate(places, 1):
        together.setdefault(next((at for at in together if math.dist(at, (a, b)) < 4), (a, b)), []).append(number)
    boxes = [(a - 5, b - 5, a + 5, b + 5) for a, b in places]
    found = []
    for (a, b), numbers in together.items():
        text = ", ".join(map(str, numbers))
        half = 3.5 * len(text) + 1
        rings = [
            (r, math.pi * k / 8) for r in range(14, 120, 6) for k in (2, 1, 3, 0, 4, 15, 5, 14, 6, 13, 7, 12, 8, 11, 9, 10)
        ]
        spots = [(a + (r + half - 7) * math.cos(angle), b + 4 + r * math.sin(angle)) for r, angle in rings]
        free = (spot for spot in spots if not any(_overlap(_box(spot, half), box) for box in boxes))
        spot = next(free, spots[0])
        boxes.append(_box(spot, half))
        found.append(((a, b), spot, text))
    return found


def _box(foot: Place, half: float) -> tuple[float, float, float, float]:
    """What a line of text covers, its foot's middle and half its width given: left, top, right, bottom."""
    return foot[0] - half, foot[1] - 10, foot[0] + half, foot[1] + 2


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _svg(width: float, height: float, parts: Iterable[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"' + (f' class="{kind}"' if kind else "") + f">{escape(text)}</text>"


def _line(x1: float, y1: float, x2: float, y2: float, kind: str, more: str = "") -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{more}/>'


def _rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" fill="{colour}"/>'


def _dot(x: float, y: float, colour: str, name: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"><title>{escape(name)}</title></circle>'


def _key(colours: Mapping[str, str], y: float) -> list[str]:
    return [
        _rect(10 + 90 * i, y - 10, 11, 11, colour) + _text(26 + 90 * i, y, name)
        for i, (name, colour) in enumerate(colours.items())
    ]


def _scale(low: float, high: float, start: float, end: float):
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _log_scale(low: float, high: float, start: float, end: float):
    return lambda value: start + math.log(value / low) / math.log(high / low) * (end - start)


def _ticks(most: float) -> list[float]:
    """From 0 in steps of 1, 2 or 5 times a power of ten, four to nine of them, the last not below `most`."""
    step = 10.0 ** math.floor(math.log10(most or 1.0))
    step = next(s for s in (step / 5, step / 2, step, 2 * step) if math.ceil(most / s - 1e-9) <= 9)
    return [step * i for i in range(math.ceil(most / step - 1e-9) + 1)]


def _short(value: float) -> str:
    return f"{value:.10g}"
