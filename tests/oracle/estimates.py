r"""Estimates g̃_i and ∇g̃_i from a mini-batch of B positives and b negatives.

Differs from the paper: it averages over points drawn from all data. A batch that holds more
positives than their share would then track another problem, so each class is weighted by
its own rate, and the pair of x_i with itself, which is known, is counted once and exactly.
With c_i the positives k ≠ i in the batch,

    g̃₁ᵢ = (1/n) [ℓᵢᵢ + (m−1)/c_i · Σ_{k ≠ i} ℓₖᵢ],      g̃₂ᵢ = g̃₁ᵢ + (n−m)/(n·b) · Σ_neg ℓₖᵢ,

which is unbiased for g_i. That is ``pairs="population"``. With ``pairs="batch"`` the
mini-batch stands for itself alone, as in SmoothAP: every pair weighs 1, and the pair of x_i
with itself is the indicator's 1 and not ℓ(0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import expit

from apmax.errors import LabelError, NoPositiveError, ParameterError, ShapeError
from tests.oracle.sampling import Batch, Draw, Rows
from apmax.objective.outer import Box
from apmax.objective.surrogates import Surrogate
from apmax.registry import Registry
from apmax.validation import Floats, check_gamma, check_real


class Scorer(Protocol):
    """A model: s_w(x) and its derivative in w, for the rows of the data that are asked for."""

    def scores(self, w: Floats, rows: Rows) -> Floats:
        """s_w(x_j) for each row: (k,)."""
        ...

    def jacobian(self, w: Floats, rows: Rows) -> Floats:
        """∂s_w(x_j)/∂w for each row: (k, d)."""
        ...


class LinearScorer:
    """σ(Xw), the paper's linear model, whose scores lie in [0, 1]."""

    def __init__(self, X: Floats) -> None:
        self.X = X

    def scores(self, w: Floats, rows: Rows) -> Floats:
        """σ(x_j·w)."""
        return np.asarray(expit(self.X[rows] @ w))

    def jacobian(self, w: Floats, rows: Rows) -> Floats:
        """σ(1 − σ) x_j."""
        s = self.scores(w, rows)
        return np.asarray((s * (1 - s))[:, None] * self.X[rows])


class PairWeights(NamedTuple):
    """Weights of the pairs of each row: with itself, with positives, with negatives."""

    own: float
    positives: Floats
    negatives: float


def population_weights(rows: Rows, batch: Batch, m: int, n: int, own: float) -> PairWeights:
    """Each class by its own rate: the estimates are unbiased for g_i, in units of 1/n."""
    others = batch.positives[None, :] != rows[:, None]
    count = others.sum(axis=1, keepdims=True)
    if m > 1 and not count.all():
        raise ParameterError(
            "a batch with one positive says nothing about the other positives: draw at least 2"
        )
    positives = others * ((m - 1) / n) / np.maximum(count, 1)
    negatives = (n - m) / (n * batch.negatives.size) if batch.negatives.size else 0.0
    return PairWeights(own / n, positives, negatives)


def batch_weights(rows: Rows, batch: Batch, m: int, n: int, own: float) -> PairWeights:
    """Each pair weighs 1, and the pair of a row with itself counts as 1."""
    others = batch.positives[None, :] != rows[:, None]
    return PairWeights(1.0, others.astype(np.float64), 1.0)


class WeighPairs(Protocol):
    """How much each pair of a batch counts."""

    def __call__(self, rows: Rows, batch: Batch, m: int, n: int, own: float) -> PairWeights:
        """`own` is ℓ(0)."""
        ...


PAIRS: Registry[WeighPairs] = Registry(
    "pairs", {"population": population_weights, "batch": batch_weights}
)


@dataclass(frozen=True)
class StochasticProblem:
    """The problem as a stochastic method sees it: a model, the classes, and ℓ.

    `positives` and `negatives` are rows of the data; a method's own rows 0 … m−1 count the
    positives. `penalty` is λ of λ‖w‖². `spread` bounds the difference of two scores, and with
    it Ω: 1 for scores in [0, 1].
    """

    scorer: Scorer
    positives: Rows
    negatives: Rows
    surrogate: Surrogate
    gamma: float
    penalty: float = 0.0
    pairs: str = "population"
    spread: float = 1.0

    def __post_init__(self) -> None:
        """Check before a run starts what would break in the middle of it."""
        check_gamma(self.gamma)
        PAIRS.choose(self.pairs)
        check_real(self.penalty, "penalty", at_least=0, why="it is λ of λ‖w‖²; 0 is none")
        why = "it is the largest difference of two scores; 1 for scores in [0, 1]"
        check_real(self.spread, "spread", above=0, why=why)
        if not isinstance(self.surrogate, Surrogate):
            raise ParameterError(
                f"`surrogate` = {self.surrogate!r} is not a Surrogate: problem_for takes names"
            )
        for name in ("positives", "negatives"):
            rows = getattr(self, name)
            if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "iu" or rows.ndim != 1:
                raise ShapeError(
                    f"`{name}` must be an array of row numbers, got {type(rows).__name__}: use "
                    "np.flatnonzero(mask)"
                )
        if not self.positives.size:
            raise NoPositiveError("`positives` is empty: average precision needs one positive")
        if np.intersect1d(self.positives, self.negatives).size:
            raise LabelError("a row is both in `positives` and in `negatives`: it has one label")

    @property
    def m(self) -> int:
        """Number of positives."""
        return int(self.positives.size)

    @property
    def n(self) -> int:
        """Number of examples."""
        return int(self.positives.size + self.negatives.size)

    def box(self) -> Box:
        """Ω for scores that differ by at most `spread`."""
        return Box.of(self.surrogate, self.gamma, m=self.m, n=self.n, spread=self.spread)

    def inner(self, w: Floats, draw: Draw) -> Floats:
        """g̃_i(w) for the rows of the draw, from its first batch: (B, 2)."""
        own, positives, negatives = self._weights(draw.rows, draw.values)
        s = self._scores(w, draw.rows)[:, None]
        to_positives = self._scores(w, draw.values.positives) - s
        to_negatives = self.scorer.scores(w, self.negatives[draw.values.negatives]) - s
        plus = own + (positives * self.surrogate.value(to_positives, self.gamma)).sum(axis=1)
        minus = negatives * self.surrogate.value(to_negatives, self.gamma).sum(axis=1)
        return np.stack([plus, plus + minus], axis=1)

    def inner_jacobian(self, w: Floats, draw: Draw) -> Floats:
        """∇g̃_i(w) for the rows of the draw, from its second batch: (B, 2, d)."""
        _, positives, negatives = self._weights(draw.rows, draw.slopes)
        in_positives = self.positives[draw.slopes.positives]
        in_negatives = self.negatives[draw.slopes.negatives]
        s = self._scores(w, draw.rows)[:, None]
        plus_slope = positives * self.surrogate.slope(
            self.scorer.scores(w, in_positives) - s, self.gamma
        )
        minus_slope = negatives * self.surrogate.slope(
            self.scorer.scores(w, in_negatives) - s, self.gamma
        )
        own = self.scorer.jacobian(w, self.positives[draw.rows])
        plus = plus_slope @ self.scorer.jacobian(w, in_positives)
        plus -= plus_slope.sum(axis=1, keepdims=True) * own
        minus = minus_slope @ self.scorer.jacobian(w, in_negatives)
        minus -= minus_slope.sum(axis=1, keepdims=True) * own
        return np.stack([plus, plus + minus], axis=1)

    def penalty_gradient(self, w: Floats) -> Floats:
        """∇ λ‖w‖² = 2λw."""
        return 2 * self.penalty * w

    def _scores(self, w: Floats, rows: Rows) -> Floats:
        return self.scorer.scores(w, self.positives[rows])

    def _weights(self, rows: Rows, batch: Batch) -> PairWeights:
        own = self.surrogate.lower_bound(self.gamma)
        return PAIRS.choose(self.pairs)(rows, batch, self.m, self.n, own)
