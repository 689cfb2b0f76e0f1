r"""How η, β₀ and β₁ change with the round t = 1, 2, …

==================  ==========
name                value at t
==================  ==========
``constant``        c
``inverse_sqrt``    c / √t
==================  ==========

The theorems hold for both (Theorems 3 and 4 and the remark after them); the paper's
experiments use 1/√t for MOAP and ADAP and constants for the rest. β′, the weight of the
second moment, stays constant.

Not the paper's: with :func:`fade`, η also falls evenly to nothing over a known number of rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from apmax.registry import Registry

Schedule = Callable[[float, Any], Any]
"""(first value c, round t) → value at t; for an array of rounds, an array or a constant."""


def constant(first: float, t: Any) -> Any:
    """c at every round."""
    return first


def inverse_sqrt(first: float, t: Any) -> Any:
    """c / √t."""
    return first / np.sqrt(t)


def fade(t: Any, over: int | None) -> Any:
    """What is left of η at round t if it falls evenly over so many rounds; all if None."""
    return 1.0 if over is None else np.maximum(over - t + 1, 0) / over


SCHEDULES: Registry[Schedule] = Registry(
    "schedule", {"constant": constant, "inverse_sqrt": inverse_sqrt}
)
