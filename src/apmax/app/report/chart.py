"""Charts as inline SVG that stretches to any width while its text keeps its size.

Curves live in a square of 1000 units that the browser stretches; strokes do not scale, and
labels are HTML beside the drawing, placed by percentages. So one chart serves a phone and a
desktop without a script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from apmax.app.report.wording import text
from apmax.validation import Floats

SERIES = 7
"""How many colours report.css has, as classes s0 to s6."""

DASHES = ("", "8 6", "0.5 5.5", "12 6 0.5 6", "4 5", "16 7", "0.5 4")
"""Line styles, so that models can be told apart without colours."""


def _identity(values: Floats) -> Floats:
    return values


@dataclass(frozen=True)
class Axis:
    """A range, its labelled ticks, and the scale on which it is drawn."""

    label: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    scale: Callable[[Floats], Floats] = _identity

    def place(self, values: Floats | float) -> Floats:
        """Where values lie, from 0 to 1."""
        ends = self.scale(np.array([self.low, self.high]))
        placed = (self.scale(np.asarray(values, np.float64)) - ends[0]) / (ends[1] - ends[0])
        return np.asarray(np.clip(placed, 0, 1), dtype=np.float64)


@dataclass(frozen=True)
class Chart:
    """Two axes to draw upon."""

    x: Axis
    y: Axis

    def line(self, x: Floats, y: Floats, series: int) -> str:
        """Straight lines from point to point; gaps where y is NaN are bridged."""
        seen = np.isfinite(y)
        points = self._points(x[seen], y[seen])
        if len(points) == 1:
            return self.dots(x[seen], y[seen], series)
        return _path("M" + "L".join(f"{a} {b}" for a, b in points), series, "line")

    def steps(self, x: Floats, y: Floats, series: int) -> str:
        """Along x at the height of the point it leads to: the area below a PR curve is AP."""
        points = self._points(x, y)
        start = f"M{self._points(np.array([self.x.low]), y[:1])[0][0]} {points[0][1]}"
        return _path(start + "".join(f"V{b}H{a}" for a, b in points), series, "line")

    def band(self, x: Floats, low: Floats, high: Floats, series: int) -> str:
        """The area between two lines."""
        there = self._points(x, high) + self._points(x[::-1], low[::-1])
        outline = "M" + "L".join(f"{a} {b}" for a, b in there) + "Z"
        return f'<path class="band s{series % SERIES}" d="{outline}"/>'

    def dots(self, x: Floats, y: Floats, series: int) -> str:
        """Round dots: strokes of no length, which stretching cannot deform."""
        return _path("".join(f"M{a} {b}h0" for a, b in self._points(x, y)), series, "dots")

    def whiskers(self, x: Floats, low: Floats, high: Floats, series: int) -> str:
        """A vertical line from low to high at each x."""
        ends = zip(self._points(x, low), self._points(x, high), strict=True)
        return _path("".join(f"M{a} {b}V{c}" for (a, b), (_, c) in ends), series, "whisker")

    def rule(self, start: tuple[float, float], end: tuple[float, float]) -> str:
        """A thin reference line."""
        (a, b), (c, d) = self._points(np.array([start[0], end[0]]), np.array([start[1], end[1]]))
        return f'<path class="rule" d="M{a} {b}L{c} {d}"/>'

    def html(self, drawn: Sequence[str], alternative: str, overlay: str = "") -> str:
        """The chart with grid and labels; `alternative` is what a screen reader says."""
        at_x = [(1000 * float(self.x.place(v)), label) for v, label in self.x.ticks]
        at_y = [(1000 - 1000 * float(self.y.place(v)), label) for v, label in self.y.ticks]
        grid = "".join(f"M{p:.5g} 0V1000" for p, _ in at_x)
        grid += "".join(f"M0 {p:.5g}H1000" for p, _ in at_y)
        left = "".join(f'<span style="top:{p / 10:.5g}%">{text(s)}</span>' for p, s in at_y)
        below = "".join(f'<span style="left:{p / 10:.5g}%">{text(s)}</span>' for p, s in at_x)
        return (
            f'<div class="chart"><div class="y-label" aria-hidden="true">{text(self.y.label)}</div>'
            f'<div class="y-ticks" aria-hidden="true">{left}</div>'
            f'<div class="plot"><svg viewBox="0 0 1000 1000" preserveAspectRatio="none" '
            f'role="img" aria-label="{text(alternative)}">'
            f'<path class="grid" d="{grid}"/>{"".join(drawn)}</svg>'
            f'{overlay}</div><div class="x-ticks" aria-hidden="true">{below}</div>'
            f'<div class="x-label" aria-hidden="true">{text(self.x.label)}</div></div>'
        )

    def _points(self, x: Floats, y: Floats) -> list[tuple[str, str]]:
        across, down = 1000 * self.x.place(x), 1000 - 1000 * self.y.place(y)
        return [(f"{a:.5g}", f"{b:.5g}") for a, b in zip(across, down, strict=True)]


def swatch(series: int) -> str:
    """A short piece of a model's line, for legends."""
    drawn = _path("M2 5H34", series, "line")
    return f'<svg class="swatch" viewBox="0 0 36 10" aria-hidden="true">{drawn}</svg>'


def nice_ticks(low: float, high: float, most: int = 5) -> list[tuple[float, str]]:
    """Round numbers within [low, high], at most `most` of them, with their labels."""
    span = high - low
    if span <= 0:
        return [(low, f"{low:g}")]
    power = 10.0 ** np.floor(np.log10(span / most))
    step = next(power * k for k in (1, 2, 2.5, 5, 10, 20) if span / (power * k) <= most - 1)
    first = int(np.ceil(low / step - 1e-9))
    last = int(np.floor(high / step + 1e-9))
    return [(k * step, f"{float(f'{k * step:.10g}'):g}") for k in range(first, last + 1)]


def _path(d: str, series: int, kind: str) -> str:
    # Beyond the last colour, colours come again with another dash.
    dash = DASHES[(series + series // SERIES) % len(DASHES)] if kind == "line" else ""
    style = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path class="{kind} s{series % SERIES}"{style} d="{d}"/>'
