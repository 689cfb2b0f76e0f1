r"""Algorithms 1, 2 and 3 of the paper, line by line: slow, eager, the oracle of the loop.

Every line carries its number. U is a plain (m, 2) array of which every row is touched in
every round, as the paper writes it. `eta`, `beta0` and `beta1` are functions of t, so that
constants and the 1/√t of the remark after Theorem 4 are both at hand.

Differs from the paper: g̃ is a mean and not a sum (see :mod:`apmax.objective.outer`), a
penalty λ‖w‖² is added as the text after eq. (4) allows, and U₁ and m₁ are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from tests.oracle.estimates import StochasticProblem
from tests.oracle.sampling import Draw
from apmax.objective.outer import outer_gradient
from apmax.validation import Floats

OfRound = Callable[[int], float]
SecondMomentUpdate = Callable[[int, Floats], Floats]
"""h_t of line 8: (t, ∇̃_t²) → v_{t+1}; it keeps v_t itself."""


class State(NamedTuple):
    """w, U and m after a round."""

    w: Floats
    u: Floats
    m: Floats


def moap_v1(
    problem: StochasticProblem,
    start: State,
    draws: Iterable[Draw],
    *,
    eta: OfRound,
    beta0: OfRound,
    beta1: OfRound,
) -> Iterator[State]:
    """Algorithm 1, MOAP-V1. SOAP is the same with beta1 = 1 and no projection."""
    w, U, m = (part.copy() for part in start)  # line 2
    box = problem.box()
    for t, draw in enumerate(draws, start=1):  # line 3
        B = draw.rows  # line 4
        estimate = problem.inner(w, draw)
        U[B] = box.project((1 - beta0(t)) * U[B] + beta0(t) * estimate)  # line 5
        gradient = _gradient(problem, w, draw, U)  # line 6
        m = (1 - beta1(t)) * m + beta1(t) * gradient  # line 7
        w = w - eta(t) * m  # line 8
        yield State(w, U.copy(), m)


def moap_v2(
    problem: StochasticProblem,
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
    problem: StochasticProblem,
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


def _randomized_coordinate_update(
    problem: StochasticProblem, w: Floats, U: Floats, draw: Draw, beta0: float
) -> Floats:
    """Lines 4 and 5 of Algorithms 2 and 3: all rows decay, those of 𝓑_t gain."""
    B = draw.rows
    moved = (1 - beta0) * U
    moved[B] += beta0 * (problem.m / B.size) * problem.inner(w, draw)
    return problem.box().project(moved)


def _gradient(problem: StochasticProblem, w: Floats, draw: Draw, U: Floats) -> Floats:
    """Line 6: ∇̃ = 1/B Σ_{i∈𝓑} ∇g̃_i(w)ᵀ ∇f([U]_i), and the gradient of the penalty."""
    jacobian = problem.inner_jacobian(w, draw)
    total = np.zeros_like(w)
    for i, row in enumerate(draw.rows):
        total += jacobian[i].T @ outer_gradient(U[row])
    return total / draw.rows.size + problem.penalty_gradient(w)
