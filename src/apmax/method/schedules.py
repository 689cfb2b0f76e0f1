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
"""

from __future__ import annotations

import math
from collections.abc import Callable

from apmax.registry import Registry

Schedule = Callable[[float, int], float]
"""(first value c, round t) → value at t."""


def constant(first: float, t: int) -> float:
    """c at every round."""
    return first


def inverse_sqrt(first: float, t: int) -> float:
    """c / √t."""
    return first / math.sqrt(t)


SCHEDULES: Registry[Schedule] = Registry(
    "schedule", {"constant": constant, "inverse_sqrt": inverse_sqrt}
)
