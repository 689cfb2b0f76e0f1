"""One loop for every row of the table: tracker × direction × schedule, in NumPy.

This is the meaning of a row. Fast front ends run the same rounds on the same draws and are
tested against it; it is itself tested against the paper's algorithms, line by line, in
:mod:`apmax.method.reference`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from apmax.errors import ParameterError
from apmax.method.directions import BOUNDS, DELTA, DIRECTIONS, check_beta
from apmax.method.estimates import StochasticProblem
from apmax.method.sampling import Draw
from apmax.method.schedules import SCHEDULES, fade
from apmax.method.table import Method, resolve_method
from apmax.method.trackers import TRACKERS
from apmax.problem.outer import outer_gradient
from apmax.validation import Floats, check_count, check_real


class Round(NamedTuple):
    """What one round left behind."""

    t: int
    w: Floats
    """w_{t+1}."""
    gradient: Floats
    """∇̃_t, penalty included."""
    u: Floats
    """The rows of U_{t+1} that were in the batch: (B, 2)."""


def descend(
    method: str | Method,
    problem: StochasticProblem,
    w: ArrayLike,
    draws: Iterable[Draw],
    *,
    learning_rate: float,
    beta0: float = 0.9,
    beta1: float = 0.1,
    beta2: float = 0.001,
    delta: float = DELTA,
    bounds: tuple[float, float] = BOUNDS,
    first_visit: str = "estimate",
    fade_over: int | None = None,
) -> Iterator[Round]:
    """Run one round per draw from `w`, and yield what each round left.

    The first values of η (`learning_rate`), β₀ and β₁ follow the method's schedule; betas
    weigh the new value. `delta` and `bounds` are read by adaptive directions only. With
    `fade_over`, η also falls evenly to nothing over so many rounds.
    """
    chosen = resolve_method(method)
    _check_fit(chosen, problem)
    start = np.array(w, dtype=np.float64)
    why = "it is the step size η"
    check_real(learning_rate, "learning_rate", above=0, why=why)
    for name, beta in (("beta0", beta0), ("beta1", beta1), ("beta2", beta2)):
        check_beta(beta, name)
    if fade_over is not None:
        check_count(fade_over, "fade_over", why="it is the number of rounds until η is 0")
    schedule = SCHEDULES.choose(chosen.schedule)
    box = problem.box() if chosen.projected else None
    tracker = TRACKERS.choose(chosen.tracker)(problem.m, box=box, first_visit=first_visit)
    direction = DIRECTIONS.choose(chosen.direction)(start.size, delta, bounds)

    def rounds(w: Floats) -> Iterator[Round]:
        for t, draw in enumerate(draws, start=1):
            estimate = problem.inner(w, draw)
            u = tracker.update(draw.rows, estimate, schedule(beta0, t))
            pull = outer_gradient(u) / draw.rows.size
            gradient = np.einsum("ik,ikd->d", pull, problem.inner_jacobian(w, draw))
            gradient = gradient + problem.penalty_gradient(w)
            step = direction.step(gradient, t, schedule(beta1, t), beta2)
            w = w - schedule(learning_rate, t) * fade(t, fade_over) * step
            yield Round(t, w, gradient, u)

    return rounds(start)


def _check_fit(method: Method, problem: StochasticProblem) -> None:
    """The problem has the surrogate and the pairs that the row names."""
    of_row = (method.surrogate, method.pairs)
    of_problem = (problem.surrogate.name, problem.pairs)
    if of_row != of_problem:
        raise ParameterError(
            f"the method {method.name!r} means surrogate and pairs {of_row}, and the problem has "
            f"{of_problem}: build it with apmax.method.table.problem_for, or make a variant of the "
            "row with dataclasses.replace"
        )
