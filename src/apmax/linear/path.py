"""A path of fits from logistic regression to average precision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

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
from apmax.linear.platt import platt
from apmax.objective.surrogates import Surrogate
from apmax.validation import Floats

GAIN_PER_TOL = 0.1
"""A fit of the path stops at a relative gain below this share of `tol`."""


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

    def fits(
        self, start: Anchor, data: TrainingSet, starts: Sequence[Floats] = ()
    ) -> Iterator[Minimum]:
        """Yield the logistic regression, then a fit per alpha.

        `starts` are starting points, of logistic regression and then of each alpha; a fit without
        one starts from the previous fit.
        """
        design, C = start
        first = starts[0] if len(starts) else None
        logistic = fit_logistic(
            design, data.positive, data.weight, C=C, total=data.total, start=first
        )
        raise_if_interrupted()
        yield logistic
        yield from self.along(design, data, logistic.w, starts=starts[1:])

    def along(
        self,
        design: Design,
        data: TrainingSet,
        logistic: Floats,
        *,
        reached: Floats | None = None,
        starts: Sequence[Floats] = (),
    ) -> Iterator[Minimum]:
        """Yield a fit per alpha, from a logistic regression or a point that is reached."""
        anchor = _calibrated(design, logistic, data)
        reached = anchor if reached is None else reached
        for k, alpha in enumerate(self.alphas):
            objective = ap_objective(
                design,
                data.positive,
                data.weight,
                surrogate=self.surrogate,
                gamma=self.gamma,
                penalty=relative_penalty(alpha, anchor),
                anchor=anchor,
            )
            if k < len(starts):
                reached = starts[k]
            found = minimise(
                objective,
                reached,
                max_iter=self.max_iter,
                tol=self.tol,
                least_gain=GAIN_PER_TOL * self.tol,
            )
            raise_if_interrupted()
            yield found
            reached = found.w

    def on_fold(self, fold: Fold, anchor: Anchor, start: Floats) -> FoldPath:
        """Fit the path on the training part of a fold and score it on the other."""
        train, held_out = fold.train, EvaluationSet.of(fold.test, anchor.design)
        of_fold = anchor._replace(design=anchor.design.of(train.X))
        weights = [found.w for found in self.fits(of_fold, train, [start])]
        return FoldPath(weights, [held_out.average_precision(w) for w in weights])

    def continued_on_fold(self, fold: Fold, anchor: Anchor, begun: FoldPath) -> FoldPath:
        """Fit the path beyond one on the same fold, and return both together."""
        train, held_out = fold.train, EvaluationSet.of(fold.test, anchor.design)
        design = anchor.design.of(train.X)
        first, *_, last = begun.weights
        weights = [found.w for found in self.along(design, train, first, reached=last)]
        scores = [held_out.average_precision(w) for w in weights]
        return FoldPath([*begun.weights, *weights], [*begun.scores, *scores])


def _calibrated(design: Design, w: Floats, data: TrainingSet) -> Floats:
    """Return w with its margins scaled to log-odds, which leaves the ranking as it is.

    A small C shrinks all margins to nearly the same score, where the surrogate sees no difference
    between examples.
    """
    slope, offset = platt(design.margins(w), data.positive, data.weight, data.total)
    return np.append(slope * w[:-1], slope * w[-1] + offset)
