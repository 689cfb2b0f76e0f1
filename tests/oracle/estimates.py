r"""Batch estimates g̃_i and ∇g̃_i of a linear model, written out pair by pair.

A draw holds the rows 𝓑_t, a batch for g̃ and a batch for ∇g̃. With c_i positives k ≠ i in a batch,

    g̃₁ᵢ = (1/n) [ℓᵢᵢ + (m−1)/c_i · Σ_{k ≠ i} ℓₖᵢ],      g̃₂ᵢ = g̃₁ᵢ + (n−m)/(n·b) · Σ_neg ℓₖᵢ

for pairs "population". For "batch", every pair weighs 1 and the pair of x_i with itself counts 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from apmax.methods import Method
from apmax.objective.omega import Omega
from apmax.objective.surrogates import Surrogate, resolve
from apmax.validation import Floats

Rows = NDArray[np.int64]


class Batch(NamedTuple):
    """Examples of each class, counted within their class, all distinct."""

    positives: Rows
    negatives: Rows


class Draw(NamedTuple):
    """One round: the rows of 𝓑_t, a batch for g̃ and a batch for ∇g̃."""

    rows: Rows
    values: Batch
    slopes: Batch


def draw_batches(
    seed: int, m: int, negatives: int, b_plus: int, b_minus: int, sampling: str, count: int
) -> list[Draw]:
    """Draw `count` rounds without replacement, "shared" or "independent"."""
    rng = np.random.default_rng(seed)

    def batch() -> Batch:
        return Batch(
            rng.choice(m, b_plus, replace=False), rng.choice(negatives, b_minus, replace=False)
        )

    def rounds() -> Iterator[Draw]:
        for _ in range(count):
            first = batch()
            if sampling == "shared":
                yield Draw(first.positives, first, first)
            else:
                yield Draw(first.positives, batch(), batch())

    return list(rounds())


@dataclass(frozen=True)
class Problem:
    """σ(Xw) with the classes, ℓ, and the penalty λ‖w‖²; `intercept` exempts the last weight."""

    X: Floats
    positives: Rows
    negatives: Rows
    surrogate: Surrogate
    gamma: float
    penalty: float = 0.0
    pairs: str = "population"
    intercept: bool = False

    @classmethod
    def of(cls, method: Method, X: Floats, positive: Floats, gamma: float, **options) -> Problem:
        """Build the problem that a method of the table solves."""
        rows = np.flatnonzero(positive), np.flatnonzero(~positive)
        return cls(X, *rows, resolve(method.surrogate), gamma, pairs=method.pairs, **options)

    @property
    def m(self) -> int:
        return int(self.positives.size)

    @property
    def n(self) -> int:
        return int(self.positives.size + self.negatives.size)

    def omega(self) -> Omega:
        return Omega.of(self.surrogate, self.gamma, m=self.m, n=self.n)

    def scores(self, w: Floats, rows: Rows) -> Floats:
        """s_w(x_j) = σ(x_j·w)."""
        return np.asarray(expit(self.X[rows] @ w))

    def score_jacobian(self, w: Floats, rows: Rows) -> Floats:
        """∂s_w(x_j)/∂w = σ(1 − σ) x_j."""
        s = self.scores(w, rows)
        return np.asarray((s * (1 - s))[:, None] * self.X[rows])

    def inner(self, w: Floats, draw: Draw) -> Floats:
        """g̃_i(w) for the rows of the draw, from its first batch: (B, 2)."""
        own, plus_weight, minus_weight = self._weights(draw.rows, draw.values)
        s = self.scores(w, self.positives[draw.rows])[:, None]
        plus = self.scores(w, self.positives[draw.values.positives]) - s
        minus = self.scores(w, self.negatives[draw.values.negatives]) - s
        g1 = own + (plus_weight * self.surrogate.value(plus, self.gamma)).sum(axis=1)
        g2 = g1 + minus_weight * self.surrogate.value(minus, self.gamma).sum(axis=1)
        return np.stack([g1, g2], axis=1)

    def inner_jacobian(self, w: Floats, draw: Draw) -> Floats:
        """∇g̃_i(w) for the rows of the draw, from its second batch: (B, 2, d)."""
        _, plus_weight, minus_weight = self._weights(draw.rows, draw.slopes)
        own = self.positives[draw.rows]
        s, own_jacobian = self.scores(w, own)[:, None], self.score_jacobian(w, own)
        parts = []
        for weight, rows in (
            (plus_weight, self.positives[draw.slopes.positives]),
            (minus_weight, self.negatives[draw.slopes.negatives]),
        ):
            slope = weight * self.surrogate.slope(self.scores(w, rows) - s, self.gamma)
            at_others = slope @ self.score_jacobian(w, rows)
            parts.append(at_others - slope.sum(axis=1, keepdims=True) * own_jacobian)
        plus, minus = parts
        return np.stack([plus, plus + minus], axis=1)

    def penalty_gradient(self, w: Floats) -> Floats:
        """∇ λ‖w‖² = 2λw."""
        counted = np.append(w[:-1], 0.0) if self.intercept else w
        return 2 * self.penalty * counted

    def _weights(self, rows: Rows, batch: Batch) -> tuple[float, Floats, float]:
        """Weights of a row's pairs: with itself, with positives (B, k), with negatives."""
        others = (batch.positives[None, :] != rows[:, None]).astype(np.float64)
        if self.pairs == "batch":
            return 1.0, others, 1.0
        count = np.maximum(others.sum(axis=1, keepdims=True), 1)
        negatives = (self.n - self.m) / (self.n * batch.negatives.size)
        own = self.surrogate.lower_bound(self.gamma) / self.n
        return own, others * ((self.m - 1) / self.n) / count, negatives
