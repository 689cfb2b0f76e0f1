r"""Trackers for any finite-sum coupled compositional problem: U ≈ (g_1(w), …, g_m(w)).

=========================  ==========================================  =====================
name                       rows in the batch                           other rows
=========================  ==========================================  =====================
``none``                   U_i = g̃_i                                   never kept
``moving_average``         U_i ← (1−β₀) U_i + β₀ g̃_i                   unchanged
``randomized_coordinate``  U_i ← (1−β₀) U_i + β₀ (m/B) g̃_i             U_i ← (1−β₀) U_i
``msvr``                   U_i ← (1−β₀) U_i + β₀ g̃_i + θ (g̃_i − g̃′_i)  unchanged
=========================  ==========================================  =====================

The first three are those of :mod:`apmax.methods`. MSVR (Jiang et al., 2022) also
wants g̃′, the same samples' estimate at the last parameters; θ = (m−B) / (B (1−β₀)) + 1 − β₀.
Every result is projected on the box.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from apmax.registry import Registry


class Move(NamedTuple):
    """What a tracker knows of the rows in a batch."""

    old: Tensor  # (B, k), the decay of the rounds since then applied
    estimate: Tensor  # (B, k)
    previous: Tensor | None  # (B, k), the estimate at the last parameters
    beta0: float
    scale: Tensor | float  # m/B, or (B, 1)


class Tracker(NamedTuple):
    """One row of the table."""

    move: Callable[[Move], Tensor] | None
    """None keeps the estimate itself and remembers nothing."""
    decays: bool = False
    needs_previous: bool = False

    @property
    def remembers(self) -> bool:
        """Whether U is kept at all."""
        return self.move is not None


def _moving_average(rows: Move) -> Tensor:
    return torch.lerp(rows.old, rows.estimate, rows.beta0)


def _randomized_coordinate(rows: Move) -> Tensor:
    return (1 - rows.beta0) * rows.old + (rows.beta0 * rows.scale) * rows.estimate


def _msvr(rows: Move) -> Tensor:
    average, keep = _moving_average(rows), 1 - rows.beta0
    if rows.previous is None or keep == 0:  # β₀ = 1 forgets U, and with it what θ would correct
        return average
    theta = (rows.scale - 1) / keep + keep
    return average + theta * (rows.estimate - rows.previous)


TRACKERS: Registry[Tracker] = Registry(
    "tracker",
    {
        "none": Tracker(None),
        "moving_average": Tracker(_moving_average),
        "randomized_coordinate": Tracker(_randomized_coordinate, decays=True),
        "msvr": Tracker(_msvr, needs_previous=True),
    },
)
