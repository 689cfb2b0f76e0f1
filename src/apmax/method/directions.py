r"""Directions: from the gradient estimate ∇̃_t to the vector that η multiplies (paper, eq. ada).

==============  ==================================================================
name            w_{t+1} = w_t − η · direction
==============  ==================================================================
``plain``       ∇̃_t
``momentum``    m_{t+1} = (1−β₁) m_t + β₁ ∇̃_t
others          m_{t+1} / (√v_{t+1} + δ), v being one of
``adam``        v_{t+1} = (1−β′) v_t + β′ ∇̃_t²
``adagrad``     v_{t+1} = 1/(t+1) Σ_{r ≤ t} ∇̃_r²
``amsgrad``     v′_{t+1} = (1−β′) v′_t + β′ ∇̃_t²,  v_{t+1} = max(v_t, v′_{t+1})
``adabound``    v′_{t+1} as above,  v_{t+1} = Π_{[1/c_u², 1/c_l²]}[v′_{t+1}]
==============  ==================================================================

Symbols: β₁ is `beta1`, β′ is `beta2`, δ is `delta`, (c_l, c_u) is `bounds`. Betas weigh the
NEW value, as in the paper: torch's and Adam's own β is one minus ours. δ stands outside the
root, and there is no bias correction: m₁ = v₁ = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from apmax.registry import Registry
from apmax.validation import Floats, check_real

DELTA = 1e-8
BOUNDS = (0.1, 1e3)


class Direction(Protocol):
    """The state of one run, of the shape of w."""

    def step(self, gradient: Floats, t: int, beta1: float, beta2: float) -> Floats:
        """Take ∇̃_t at round t = 1, 2, …; return what η multiplies."""
        ...


class Plain:
    """∇̃_t itself."""

    def step(self, gradient: Floats, t: int, beta1: float, beta2: float) -> Floats:
        """Return the gradient."""
        return gradient


class Momentum:
    """m_{t+1} = (1−β₁) m_t + β₁ ∇̃_t (eq. mom)."""

    def __init__(self, size: int) -> None:
        self.m = np.zeros(size)

    def step(self, gradient: Floats, t: int, beta1: float, beta2: float) -> Floats:
        """Move m towards the gradient and return it."""
        check_beta(beta1, "beta1")
        self.m = (1 - beta1) * self.m + beta1 * gradient
        return self.m.copy()


class SecondMoment(NamedTuple):
    """h_t of Algorithm 3 in two parts: an average v′ of ∇̃², and the v that is used."""

    average: Callable[[Floats, Floats, int, float], Floats]
    """(v′_t, ∇̃_t², t, β′) → v′_{t+1}."""
    used: Callable[[Floats, Floats, tuple[float, float]], Floats]
    """(v_t, v′_{t+1}, (c_l, c_u)) → v_{t+1}."""


def _moving(v: Floats, square: Floats, t: int, beta2: float) -> Floats:
    return (1 - beta2) * v + beta2 * square


def _running_mean(v: Floats, square: Floats, t: int, beta2: float) -> Floats:
    """1/(t+1) Σ_{r ≤ t}: a mean of t squares and one zero, since v₁ = 0."""
    return (t * v + square) / (t + 1)


def _as_it_is(v: Floats, average: Floats, bounds: tuple[float, float]) -> Floats:
    return average


def _never_smaller(v: Floats, average: Floats, bounds: tuple[float, float]) -> Floats:
    return np.maximum(v, average)


def _clipped(v: Floats, average: Floats, bounds: tuple[float, float]) -> Floats:
    lower, upper = bounds
    return np.clip(average, 1 / upper**2, 1 / lower**2)


SECOND_MOMENTS: Registry[SecondMoment] = Registry(
    "style",
    {
        "adam": SecondMoment(_moving, _as_it_is),
        "adagrad": SecondMoment(_running_mean, _as_it_is),
        "amsgrad": SecondMoment(_moving, _never_smaller),
        "adabound": SecondMoment(_moving, _clipped),
    },
)


class Adaptive(Momentum):
    """m_{t+1} / (√v_{t+1} + δ): steps 7-9 of Algorithm 3."""

    def __init__(
        self,
        size: int,
        style: str,
        *,
        delta: float = DELTA,
        bounds: tuple[float, float] = BOUNDS,
    ) -> None:
        super().__init__(size)
        self.second_moment = SECOND_MOMENTS.choose(style)
        why = "it keeps the step finite where the gradient has been zero; 1e-8 is usual"
        self.delta = check_real(delta, "delta", above=0, why=why)
        lower = check_real(bounds[0], "bounds[0]", above=0, why="it is c_l of AdaBound")
        why = "c_u of AdaBound bounds the step from above, c_l from below"
        self.bounds = (lower, check_real(bounds[1], "bounds[1]", above=lower, why=why))
        self.average = np.zeros(size)
        self.v = np.zeros(size)

    def step(self, gradient: Floats, t: int, beta1: float, beta2: float) -> Floats:
        """Update both moments and return their quotient."""
        check_beta(beta2, "beta2")
        m = super().step(gradient, t, beta1, beta2)
        self.average = self.second_moment.average(self.average, gradient**2, t, beta2)
        self.v = self.second_moment.used(self.v, self.average, self.bounds)
        return np.asarray(m / (np.sqrt(self.v) + self.delta))


DirectionFactory = Callable[[int, float, tuple[float, float]], Direction]
"""(size of w, δ, (c_l, c_u)) → a fresh direction."""


def _plain(size: int, delta: float, bounds: tuple[float, float]) -> Direction:
    return Plain()


def _momentum(size: int, delta: float, bounds: tuple[float, float]) -> Direction:
    return Momentum(size)


def _adaptive(style: str) -> DirectionFactory:
    return lambda size, delta, bounds: Adaptive(size, style, delta=delta, bounds=bounds)


DIRECTIONS: Registry[DirectionFactory] = Registry(
    "direction",
    {
        "plain": _plain,
        "momentum": _momentum,
        **{style: _adaptive(style) for style in SECOND_MOMENTS},
    },
)


def check_beta(beta: float, name: str) -> float:
    """β in (0, 1]: the weight of the NEW value."""
    why = "it is the weight of the new value, one minus torch's beta; 1 forgets the past"
    return check_real(beta, name, above=0, at_most=1, why=why)
