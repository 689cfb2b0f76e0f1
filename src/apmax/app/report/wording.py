"""How numbers and names are written on the page; report.js writes the same way."""

from __future__ import annotations

import math
from html import escape

NARROW = "\u202f"
"""A narrow space that does not break, between a number and its %."""


def text(value: object) -> str:
    """Plain text made safe for HTML, also inside attributes."""
    return escape(str(value), quote=True)


def count(value: float) -> str:
    """A whole number with separated thousands."""
    return f"{int(value):,}"


def share(value: float) -> str:
    """A share as a percentage; those below 1 % keep two significant digits."""
    percent = 100 * value
    shown = f"{percent:.1f}" if percent == 0 or percent >= 1 else f"{percent:.2g}"
    return f"{shown}{NARROW}%"


def per_thousand(rate: float) -> str:
    """How many of 1,000."""
    value = 1000 * rate
    if value == 0 or value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def ap(value: float) -> str:
    """An average precision; those below 0.01 keep two significant digits."""
    return f"{value:.2g}" if 0 < value < 0.01 else f"{value:.3f}"


def spread(value: float) -> str:
    """A standard deviation or error of average precisions; a dash where it is not known."""
    return "–" if math.isnan(value) else f"± {value:.3f}"


def signed(value: float) -> str:
    """A difference of average precisions."""
    return f"{value:+.3f}".replace("-", "−")
