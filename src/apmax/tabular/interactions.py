"""Functions of two columns: which pairs to add, and how many."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from apmax.binary_target import BinaryTarget
from apmax.interrupts import raise_if_interrupted
from apmax.linear.design import Design, make_design
from apmax.linear.full_batch import fit_logistic
from apmax.linear.platt import centre_and_spread
from apmax.metrics import ap_of_scores
from apmax.splits import Split
from apmax.tabular.columns import Columns, Table
from apmax.tabular.effects import Margin
from apmax.tabular.leaderboard import standard_error
from apmax.tabular.sampling import restricted, sample_rows
from apmax.tabular.spline import distinct_values
from apmax.tabular.terms import PairTerm, Term, effects, matrix
from apmax.validation import Floats, shares

logger = logging.getLogger("apmax")
LEVELS = (0.05, 0.35, 0.65, 0.95)
"""Quantiles of a number at which a function of two columns is free."""
MOST_CATEGORIES = 6
"""Columns with more categories take part in no pair."""
MOST_COLUMNS, MOST_ROWS = 32, 20_000
"""Columns (by importance) and rows that screening looks at."""
NUMBERS_TRIED = (10, 30)
"""Numbers of pairs that "auto" compares with none."""
C = 1.0
"""Of the logistic regressions that screening is based on."""
RIDGE = 1e-3


def find_pairs(
    columns: Columns,
    terms: Sequence[Term],
    table: Table,
    target: BinaryTarget,
    splits: Sequence[Split],
    number: int | str,
    on_progress: Callable[..., None] | None = None,
) -> Pairs:
    """Find the strongest pairs of columns; "auto" chooses their number by cross-validation.

    On the training part of each split, a logistic regression of all columns is fitted, pairs are
    ranked by what it leaves unexplained, and the AP with the first of them is compared on the
    other part. The number is 0 unless the gain exceeds its standard error.
    """
    n = target.positive.size
    every_row, share = table, shares(target.weight, target.positive.size)[:, None]
    if target.positive.size > MOST_ROWS:
        rows, weight = sample_rows(target.positive, target.weight, MOST_ROWS, seed=0)
        splits = restricted(splits, rows, target.positive.size)
        table = table.rows(rows)
        target = target._replace(positive=target.positive[rows], weight=weight)
    numbers = (0, *NUMBERS_TRIED) if number == "auto" else (int(number),)
    folds, scores = list[list[Floats]](), list[list[float]]()
    for split in splits:
        folds.append(_held_out(columns, terms, table, target, split, numbers))
        of_test = target.rows(split[1])
        scores.append([ap_of_scores(of_test.positive, z, of_test.weight) for z in folds[-1]])
        if on_progress is not None:
            best_ap = float(np.max(np.mean(scores, axis=0)))
            on_progress("interactions", len(folds), len(splits), best_ap)
            raise_if_interrupted()
    best = 0
    if number == "auto":
        ap = np.array(scores)
        gains = ap - ap[:, :1]
        best = int(np.argmax(gains.mean(axis=0)))
        test_share = float(
            np.mean([test.size / (train.size + test.size) for train, test in splits])
        )
        error = standard_error(gains[:, best], test_share)
        best = best if gains[:, best].mean() > error else 0
        logger.info("interactions: %d pairs (AP %+.4f)", numbers[best], gains[:, best].mean())
    if numbers[best] == 0:
        return Pairs([], None)
    fit = _Fit.of(terms, table, target)
    pairs = [  # centred over all rows
        replace(pair, density=pair.first(every_row).T @ (share * pair.second(every_row)))
        for pair in _strongest(columns, fit, table, target, numbers[best])
    ]
    if table is not every_row:
        return Pairs(pairs, None)
    held_out = np.full(n, np.nan)
    for fold, (_, test) in zip(folds, splits, strict=True):
        held_out[test] = fold[best]
    return Pairs(pairs, held_out)


class Pairs(NamedTuple):
    """Pairs of columns to add, and what they are worth on held-out rows."""

    terms: list[PairTerm]
    held_out: Floats | None
    """Margins of each row by a logistic regression that, like its pairs, was chosen without the
    row, in units of its training margins; None if there are no pairs, or if rows were sampled."""


class _Fit(NamedTuple):
    """A logistic regression of some terms."""

    terms: Sequence[Term]
    design: Design
    w: Floats

    @classmethod
    def of(cls, terms: Sequence[Term], table: Table, target: BinaryTarget) -> _Fit:
        design = make_design(matrix(terms, table), "given", target.weight)
        fitted = fit_logistic(design, target.positive, target.weight, C=C, total=target.total)
        raise_if_interrupted()
        return cls(terms, design, fitted.w)

    def standardised_margins(self, table: Table, weight: Floats | None) -> Floats:
        """Return margins of other rows in units of the training margins of these weights."""
        of_training = self.design.margins(self.w)
        centre, spread = centre_and_spread(of_training, shares(weight, of_training.size))
        margins = self.design.of(matrix(self.terms, table)).margins(self.w)
        return np.asarray((margins - centre) / (spread or 1.0))

    def importance(self) -> dict[str, float]:
        unscaled = self.design.unscaled(self.w)
        found, _ = effects(self.terms, unscaled[:-1], float(unscaled[-1]))
        return {effect.name: effect.importance for effect in found}


def _held_out(
    columns: Columns,
    terms: Sequence[Term],
    table: Table,
    target: BinaryTarget,
    split: Split,
    numbers: Sequence[int],
) -> list[Floats]:
    """Return the margins of held-out rows with each number of pairs, all from training rows."""
    train, of_train, test = table.rows(split[0]), target.rows(split[0]), table.rows(split[1])
    fit = _Fit.of(terms, train, of_train)
    pairs = _strongest(columns, fit, train, of_train, max(numbers))
    fits = [_Fit.of([*terms, *pairs[:k]], train, of_train) if k else fit for k in numbers]
    return [one.standardised_margins(test, of_train.weight) for one in fits]


def _margins(
    columns: Columns, table: Table, weight: Floats | None, importance: dict[str, float]
) -> list[Margin]:
    """Return the functions of the most important columns of which pairs are formed."""
    ranked = sorted(importance, key=lambda name: -importance[name])
    wanted = set(ranked[:MOST_COLUMNS])
    found = []
    for column, place in enumerate(columns.numeric):
        if columns.names[place] in wanted:
            knots = _knots(table.numbers[:, column], weight)
            if knots.size > 1:
                found.append(Margin(columns.names[place], column, knots, []))
    for column, place in enumerate(columns.categorical):
        levels = columns.levels(column)
        if columns.names[place] in wanted and len(levels) <= MOST_CATEGORIES:
            found.append(Margin(columns.names[place], column, None, levels))
    return found


def _knots(x: Floats, weight: Floats | None) -> Floats:
    """Return quantiles of the values that are present."""
    present = ~np.isnan(x)
    values, share = distinct_values(x[present], None if weight is None else weight[present])
    if values.size < 2:
        return values
    below = np.cumsum(share)
    knots = np.unique(values[np.searchsorted(below, np.multiply(LEVELS, below[-1]))])
    # If most values are equal, the function is free below, at and above them.
    return knots if knots.size > 1 else np.unique([values[0], *knots, values[-1]])


def _strongest(
    columns: Columns, fit: _Fit, table: Table, target: BinaryTarget, count: int
) -> list[PairTerm]:
    """Return the pairs whose products explain most of what the fit leaves unexplained.

    The measure is the score test of adding all products of a pair to the logistic regression,
    standardised by its degrees of freedom.
    """
    margins = _margins(columns, table, target.weight, fit.importance())
    share = shares(target.weight, target.positive.size)
    p = expit(fit.design.margins(fit.w))
    residual, variance = share * (target.positive - p), share * p * (1.0 - p)
    functions = [margin(table) for margin in margins]
    strength = {}
    for i, j in combinations(range(len(margins)), 2):
        products = (functions[i][:, :, None] * functions[j][:, None, :]).reshape(p.size, -1)
        gradient = residual @ products
        hessian = (products * variance[:, None]).T @ products
        freedom = products.shape[1]
        hessian += (RIDGE * np.trace(hessian) / freedom + 1e-300) * np.eye(freedom)
        statistic = target.total * float(gradient @ np.linalg.solve(hessian, gradient))
        strength[i, j] = (statistic - freedom) / np.sqrt(2.0 * freedom)
        raise_if_interrupted()
    best = sorted(strength, key=lambda pair: -strength[pair])[:count]
    return [
        PairTerm(margins[i], margins[j], functions[i].T @ (share[:, None] * functions[j]))
        for i, j in best
    ]
