"""The search for scaling and C of the logistic regression that anchors a path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from apmax.interrupts import raise_if_interrupted
from apmax.linear.design import Design
from apmax.linear.folds import Fold
from apmax.linear.full_batch import fit_logistic
from apmax.linear.history import EvaluationSet
from apmax.linear.path import Anchor
from apmax.validation import Floats

SEARCH_GAIN = 1e-5
"""Relative gain of an iteration below which a fit stops while C is chosen."""


class LogisticFits(NamedTuple):
    """AP of logistic regression on one fold by scaling and C, and the weights."""

    scores: Floats
    weights: list[list[Floats]]


class LogisticSearch(NamedTuple):
    """The outcome of the search for scaling and C of logistic regression."""

    scores: dict[str, Floats]
    scale: str
    anchor: Anchor
    starts: list[Floats]
    """Weights on each fold, for the chosen scaling and C."""

    @classmethod
    def of(
        cls, found: Sequence[LogisticFits], designs: dict[str, Design], Cs: Sequence[float]
    ) -> LogisticSearch:
        """Choose scaling and C by mean AP over the folds."""
        scores = np.stack([fold.scores for fold in found], axis=-1)  # (scales, Cs, folds)
        best, place = np.unravel_index(np.argmax(scores.mean(axis=-1)), scores.shape[:2])
        scale = list(designs)[best]
        return cls(
            dict(zip(designs, scores, strict=True)),
            scale,
            Anchor(designs[scale], float(Cs[int(place)])),
            [fold.weights[best][place] for fold in found],
        )


def logistic_fits(fold: Fold, designs: dict[str, Design], Cs: Sequence[float]) -> LogisticFits:
    """Fit logistic regression for every scaling and C, each fit starting from the previous one."""
    train, test = fold.train, fold.test
    order = np.argsort(Cs)
    scores = np.empty((len(designs), len(Cs)))
    weights: list[list[Floats]] = []
    for s, like in enumerate(designs.values()):
        design, held_out = like.of(train.X), EvaluationSet.of(test, like)
        w = np.zeros(design.parameters)
        of_scale = [w] * len(Cs)
        for k in order:
            w = fit_logistic(
                design,
                train.positive,
                train.weight,
                C=Cs[k],
                total=train.total,
                start=w,
                least_gain=SEARCH_GAIN,
            ).w
            raise_if_interrupted()
            scores[s, k] = held_out.average_precision(w)
            of_scale[k] = w.astype(np.float32)  # only a starting point
        weights.append(of_scale)
    return LogisticFits(scores, weights)
