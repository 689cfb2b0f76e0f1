"""A path of fits from logistic regression to average precision, on all data or on a fold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

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
from apmax.linear.history import watch
from apmax.objective.surrogates import Surrogate
from apmax.validation import Floats


class Anchor(NamedTuple):
    """Where a path starts: features on some scale, and a logistic regression's C."""

    design: Design
    C: float


class FoldPath(NamedTuple):
    """Logistic regression and the path after it, fitted on one fold."""

    weights: list[Floats]
    scores: list[float]


class Path(NamedTuple):
    """What is fitted along a path, from any anchor."""

    alphas: tuple[float, ...]
    surrogate: Surrogate
    gamma: float
    max_iter: int
    tol: float

    def through(self, start: Anchor, data: TrainingSet) -> Iterable[Minimum]:
        """The logistic regression, then a fit for each alpha from where the last one ended."""
        design, C = start
        anchor = fit_logistic(design, data.positive, data.weight, C=C, total=data.total)
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
            yield found
            reached = found.w

    def on(self, fold: Fold, anchor: Anchor) -> FoldPath:
        """The path fitted on one part of a fold, and judged on the other."""
        train, watched = fold.train, watch(fold.test, anchor.design)
        of_fold = anchor._replace(design=anchor.design.of(train.X))
        weights = [found.w for found in self.through(of_fold, train)]
        return FoldPath(weights, [watched.average_precision(w) for w in weights])
