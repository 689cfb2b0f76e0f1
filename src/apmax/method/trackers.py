r"""Trackers: what U, the memory of the ranks g_i of all m positives, does with a new estimate.

=========================  ==================================  ===================
name                       rows in the batch                   other rows
=========================  ==================================  ===================
``none``                   U_i = Π[g̃_i]                       never kept
``moving_average``         U_i ← Π[(1−β₀) U_i + β₀ g̃_i]       unchanged
``randomized_coordinate``  U_i ← Π[(1−β₀) U_i + β₀ (m/B) g̃_i] U_i ← Π[(1−β₀) U_i]
=========================  ==================================  ===================

The second is step 5 of Algorithm 1 (and SOAP, without Π); the third, the randomized
coordinate update, is step 5 of Algorithms 2 and 3.

Differs from the paper: U₁ is free there. Here a row starts at its first estimate, because a
zero start multiplies the first gradient of every row by 1/β₀. ``first_visit="zero"`` keeps
the zero start, or the point of Ω nearest to it, for study.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from apmax.errors import NonFiniteError, ShapeError
from apmax.problem.outer import Box
from apmax.registry import Registry
from apmax.validation import Floats, check_count, check_real

Rows = NDArray[np.int64]

LOG_OF_NOTHING = -800.0
"""log(1 − β₀) at β₀ = 1: finite, so that differences are defined, and exp of it is 0."""


FIRST_VISITS = Registry("first_visit", {"estimate": False, "zero": True})
"""Whether a row counts as seen, with U_i = 0, before its first estimate."""


class Tracker(Protocol):
    """The memory of one run."""

    def update(self, rows: Rows, estimate: Floats, beta0: float) -> Floats:
        """Take the (B, 2) estimates of these distinct rows; return the rows of U_{t+1}."""
        ...

    def values(self) -> Floats:
        """All of U as it stands now, (m, 2); NaN where a row has not been seen."""
        ...


class _Memory:
    """U itself, the box, and which rows have been seen."""

    def __init__(self, m: int, *, box: Box | None = None, first_visit: str = "estimate") -> None:
        check_count(m, "m", why="it is the number of positives")
        self.m = m
        self.box = box
        self.seen = np.full(m, FIRST_VISITS.choose(first_visit))
        self.u = self._project(np.zeros((m, 2)))

    def values(self) -> Floats:
        """All of U as it stands now; NaN where a row has not been seen."""
        return np.where(self.seen[:, None], self._project(self.u), np.nan)

    def _project(self, u: Floats) -> Floats:
        return u if self.box is None else self.box.project(u)

    def _check(self, rows: Rows, estimate: Floats, beta0: float) -> None:
        """Nothing is written unless all of it can be: one bad batch must not poison a row."""
        check_beta0(beta0)
        if estimate.shape != (rows.size, 2) or np.unique(rows).size != rows.size:
            raise ShapeError(
                f"{rows.size} rows (all different) need estimates of shape ({rows.size}, 2), got "
                f"{estimate.shape} for rows {rows.tolist()[:5]}"
            )
        if not np.isfinite(estimate).all():
            raise NonFiniteError(
                "an estimate is NaN or infinite, U is unchanged: look at the scores of this batch"
            )

    def _store(self, rows: Rows, moved: Floats, estimate: Floats) -> Floats:
        """Write the moved rows, and the estimate itself for rows not seen before."""
        fresh = self._project(np.where(self.seen[rows, None], moved, estimate))
        self.u[rows] = fresh
        self.seen[rows] = True
        return fresh


class NoTracker(_Memory):
    """The mini-batch is all there is: U_i = g̃_i for the batch, and nothing is remembered."""

    def update(self, rows: Rows, estimate: Floats, beta0: float) -> Floats:
        """Return the estimates."""
        self._check(rows, estimate, beta0)
        return self._project(estimate)


class MovingAverage(_Memory):
    """U_i ← Π[(1−β₀) U_i + β₀ g̃_i] for rows of the batch only (Algorithm 1; SOAP; SOX)."""

    def update(self, rows: Rows, estimate: Floats, beta0: float) -> Floats:
        """Move the rows of the batch towards their estimates."""
        self._check(rows, estimate, beta0)
        return self._store(rows, (1 - beta0) * self.u[rows] + beta0 * estimate, estimate)


class RandomizedCoordinate(_Memory):
    r"""Every row decays by 1−β₀ each round; rows of the batch gain β₀ (m/B) g̃_i (Algorithm 2).

    The decay is lazy. L_t = Σ_{r ≤ t} log(1−β₀ᵣ) is kept once, and for each row the L at which
    it was last written; the row's value now is Π[U_i exp(L_t − L_last)]. Projecting at the end
    equals projecting every round: a decay moves u₁ and u₂ down only, 0 is a fixed point of
    the first, and a u₂ that has reached the bottom of Ω stays there. So a round costs O(B)
    whatever m is. L is kept in two doubles: after 10⁶ rounds one alone has lost ten digits.
    """

    def __init__(self, m: int, *, box: Box | None = None, first_visit: str = "estimate") -> None:
        super().__init__(m, box=box, first_visit=first_visit)
        self.log_decay = (0.0, 0.0)
        self.written_at = np.zeros((m, 2))

    def update(self, rows: Rows, estimate: Floats, beta0: float) -> Floats:
        """Decay all rows, and add the scaled estimates to those of the batch."""
        self._check(rows, estimate, beta0)
        log_step = math.log1p(-beta0) if beta0 < 1 else LOG_OF_NOTHING
        decayed = self._project(self._decayed(rows))
        self.log_decay = add_exactly(*self.log_decay, log_step)
        self.written_at[rows] = self.log_decay
        moved = (1 - beta0) * decayed + beta0 * (self.m / rows.size) * estimate
        return self._store(rows, moved, estimate)

    def values(self) -> Floats:
        """All of U as it stands now, every delayed decay applied."""
        u = self._project(self._decayed(np.arange(self.m)))
        return np.where(self.seen[:, None], u, np.nan)

    def _decayed(self, rows: Rows) -> Floats:
        high, low = self.log_decay
        then = self.written_at[rows]
        factor = np.exp((high - then[:, 0]) + (low - then[:, 1]))
        return np.asarray(self.u[rows] * factor[:, None])


def add_exactly(high: float, low: float, term: float) -> tuple[float, float]:
    """(high + low) + term as a sum of two doubles, the second below the first's last digit."""
    total = high + term
    back = total - high
    low += (high - (total - back)) + (term - back)  # Knuth's TwoSum
    rounded = total + low
    return rounded, low - (rounded - total)


class TrackerFactory(Protocol):
    """What makes a fresh tracker for m positives."""

    def __call__(self, m: int, *, box: Box | None, first_visit: str) -> Tracker:
        """Make it."""
        ...


TRACKERS: Registry[TrackerFactory] = Registry(
    "tracker",
    {
        "none": NoTracker,
        "moving_average": MovingAverage,
        "randomized_coordinate": RandomizedCoordinate,
    },
)


def check_beta0(beta0: float) -> float:
    """β₀ in (0, 1]: the weight of the NEW estimate."""
    why = "it is the weight of the new estimate; 1 forgets the past, 0 would never learn"
    return check_real(beta0, "beta0", above=0, at_most=1, why=why)
