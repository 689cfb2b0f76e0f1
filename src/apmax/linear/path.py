"""A path of fits from logistic regression to average precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from apmax.interrupts import raise_if_interrupted
from apmax.linear.base import TrainingSet
from apmax.linear.design import Design
from apmax.linear.folds import Fold
from apmax.linear.full_batch import (
    Minimum,
    ap_objective,
    fit_logistic,
    minimise,
    relative_penalty,
)
from apmax.linear.history import EvaluationSet
from apmax.objective.surrogates import Surrogate
from apmax.validation import Floats


class Anchor(NamedTuple):
    """Start of a path: scaled features, and C of the logistic regression."""

    design: Design
    C: float


class FoldPath(NamedTuple):
    """Weights of logistic regression and of the path, fitted on one fold, and their AP."""

    weights: list[Floats]
    scores: list[float]


class Path(NamedTuple):
    """Parameters of a path."""

    alphas: tuple[float, ...]
    surrogate: Surrogate
    gamma: float
    max_iter: int
    tol: float

    def fits(self, start: Anchor, data: TrainingSet) -> Iterator[Minimum]:
        """Yield the logistic regression, then a fit per alpha, each from the previous one."""
        design, C = start
        anchor = fit_logistic(design, data.positive, data.weight, C=C, total=data.total)
        raise_if_interrupted()
        yield anchor
        reached = anchor.w
        for alpha in self.alphas:
            objective = ap_objective(
                design,
                data.positive,
                data.weight,
                surrogate=self.surrogate,
                gamma=self.gamma,
                penalty=relative_penalty(alpha, anchor.w),
                anchor=anchor.w,
            )
            found = minimise(objective, reached, max_iter=self.max_iter, tol=self.tol)
            raise_if_interrupted()
            yield found
            reached = found.w

    def on_fold(self, fold: Fold, anchor: Anchor) -> FoldPath:
        """Fit the path on the training part of a fold and score it on the other."""
        train, held_out = fold.train, EvaluationSet.of(fold.test, anchor.design)
        of_fold = anchor._replace(design=anchor.design.of(train.X))
        weights = [found.w for found in self.fits(of_fold, train)]
        return FoldPath(weights, [held_out.average_precision(w) for w in weights])
