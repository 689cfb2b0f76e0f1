r"""Algorithms 1, 2 and 3 of the paper, line by line: slow and eager, the oracle of both runtimes.

Every line carries its number. U is a plain (m, 2) array of which every row is touched in every
round, as the paper writes it. `eta`, `beta0` and `beta1` are functions of t.

Differs from the paper: g̃ is a mean and not a sum (see :mod:`apmax.objective.omega`), a penalty
λ‖w‖² is added as the text after eq. (4) allows, and U₁ and m₁ are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from apmax.methods import BOUNDS, Method
from apmax.objective.omega import Omega
from apmax.validation import Floats
from tests.oracle.equations import outer_gradient, project
from tests.oracle.estimates import Draw, Problem

OfRound = Callable[[int], float]
SecondMomentUpdate = Callable[[int, Floats], Floats]
"""h_t of line 8: (t, ∇̃_t²) → v_{t+1}; it keeps v_t itself."""


class State(NamedTuple):
    """w, U and m after a round."""

    w: Floats
    u: Floats
    m: Floats


def moap_v1(
    problem: Problem,
    start: State,
    draws: Iterable[Draw],
    *,
    eta: OfRound,
    beta0: OfRound,
    beta1: OfRound,
) -> Iterator[State]:
    """Algorithm 1, MOAP-V1."""
    w, U, m = (part.copy() for part in start)  # line 2
    for t, draw in enumerate(draws, start=1):  # line 3
        B = draw.rows  # line 4
        estimate = problem.inner(w, draw)
        U[B] = project(problem.omega(), (1 - beta0(t)) * U[B] + beta0(t) * estimate)  # line 5
        gradient = _gradient(problem, w, draw, U)  # line 6
        m = (1 - beta1(t)) * m + beta1(t) * gradient  # line 7
        w = w - eta(t) * m  # line 8
        yield State(w, U.copy(), m)


def moap_v2(
    problem: Problem,
    start: State,
    draws: Iterable[Draw],
    *,
    eta: OfRound,
    beta0: OfRound,
    beta1: OfRound,
) -> Iterator[State]:
    """Algorithm 2, MOAP-V2: the randomized coordinate update of U."""
    w, U, m = (part.copy() for part in start)  # line 2
    for t, draw in enumerate(draws, start=1):  # line 3
        U = _randomized_coordinate_update(problem, w, U, draw, beta0(t))  # lines 4, 5
        gradient = _gradient(problem, w, draw, U)  # line 6
        m = (1 - beta1(t)) * m + beta1(t) * gradient  # line 7
        w = w - eta(t) * m  # line 8
        yield State(w, U.copy(), m)


def adap(
    problem: Problem,
    start: State,
    draws: Iterable[Draw],
    *,
    eta: OfRound,
    beta0: OfRound,
    beta1: OfRound,
    second_moment: SecondMomentUpdate,
    delta: float,
) -> Iterator[State]:
    """Algorithm 3, ADAP; `second_moment` is any of the methods in eq. (ada)."""
    w, U, m = (part.copy() for part in start)  # line 2
    for t, draw in enumerate(draws, start=1):  # line 3
        U = _randomized_coordinate_update(problem, w, U, draw, beta0(t))  # lines 4, 5
        gradient = _gradient(problem, w, draw, U)  # line 6
        m = (1 - beta1(t)) * m + beta1(t) * gradient  # line 7
        v = second_moment(t, gradient**2)  # line 8
        w = w - eta(t) / (np.sqrt(v) + delta) * m  # line 9
        yield State(w, U.copy(), m)


def second_moment_of(style: str, beta2: float, bounds: tuple[float, float] = BOUNDS):
    """h_t of eq. (ada), as sums over all past rounds."""
    squares: list[Floats] = []
    largest = [np.zeros(1)]

    def update(t: int, square: Floats) -> Floats:
        squares.append(square)
        past = np.array(squares)
        moving = (beta2 * (1 - beta2) ** np.arange(t)[::-1]) @ past
        largest[0] = np.maximum(largest[0], moving)
        lower, upper = bounds
        return {
            "adam": moving,
            "adagrad": past.sum(axis=0) / (t + 1),
            "amsgrad": largest[0],
            "adabound": np.clip(moving, 1 / upper**2, 1 / lower**2),
        }[style]

    return update


def rounds_of(
    method: Method,
    problem: Problem,
    w: Floats,
    draws: Iterable[Draw],
    *,
    eta: float,
    beta0: float,
    beta1: float,
    beta2: float,
    delta: float,
    fade_over: int | None = None,
    first_visit: str = "estimate",
) -> Iterator[State]:
    """Any method of the table, from the lines of the algorithms above.

    A row of U is NaN until its first estimate, at which it starts; with ``first_visit="zero"`` it
    starts at the point of Ω nearest to 0.
    """
    omega = problem.omega() if method.projected else Omega()
    style, h_t = method.direction.name, None
    if method.direction.second_moment != "none":
        h_t = second_moment_of(style, beta2)
    U = np.full((problem.m, 2), np.nan)
    if first_visit == "zero":
        U = project(omega, np.zeros((problem.m, 2)))
    m = np.zeros_like(w)
    phi = np.ones((problem.m, 1))  # Π (1 − β₀) since each row was updated
    for t, draw in enumerate(draws, start=1):
        B, estimate, b0 = draw.rows, problem.inner(w, draw), method.schedule.at(beta0, t)
        seen = ~np.isnan(U[B])
        if not method.tracker.remembers:
            U[B] = estimate
        elif method.tracker.normalised:
            phi *= 1 - b0
            U[B] = np.where(seen, phi[B] * U[B] + (1 - phi[B]) * estimate, estimate)
            phi[B] = 1.0
        elif method.tracker.decays:  # line 5 of Algorithm 2
            moved = project(omega, (1 - b0) * U)
            moved[B] = (1 - b0) * U[B] + b0 * (problem.m / B.size) * estimate
            moved[B] = np.where(seen, moved[B], estimate)
            U = moved
        else:  # line 5 of Algorithm 1
            U[B] = np.where(seen, (1 - b0) * U[B] + b0 * estimate, estimate)
        U[B] = project(omega, U[B])
        gradient = _gradient(problem, w, draw, U)  # line 6
        b1 = method.schedule.at(beta1, t) if method.direction.momentum else 1.0
        m = (1 - b1) * m + b1 * gradient  # line 7
        step = m if h_t is None else m / (np.sqrt(h_t(t, gradient**2)) + delta)  # lines 8, 9
        fade = 1.0 if fade_over is None else max(fade_over - t + 1, 0) / fade_over
        w = w - method.schedule.at(eta, t) * fade * step
        yield State(w, U.copy(), m)


def _randomized_coordinate_update(
    problem: Problem, w: Floats, U: Floats, draw: Draw, beta0: float
) -> Floats:
    """Lines 4 and 5 of Algorithms 2 and 3: all rows decay, those of 𝓑_t gain."""
    B = draw.rows
    moved = (1 - beta0) * U
    moved[B] += beta0 * (problem.m / B.size) * problem.inner(w, draw)
    return project(problem.omega(), moved)


def _gradient(problem: Problem, w: Floats, draw: Draw, U: Floats) -> Floats:
    """Line 6: ∇̃ = 1/B Σ_{i∈𝓑} ∇g̃_i(w)ᵀ ∇f([U]_i), and the gradient of the penalty."""
    jacobian = problem.inner_jacobian(w, draw)
    total = np.zeros_like(w)
    for i, row in enumerate(draw.rows):
        total += jacobian[i].T @ outer_gradient(U[row])
    return total / draw.rows.size + problem.penalty_gradient(w)
