"""Functions of two columns: which pairs to add, and how many."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from apmax.binary_target import BinaryTarget
from apmax.interrupts import raise_if_interrupted
from apmax.linear.design import Design, make_design
from apmax.linear.full_batch import fit_logistic
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
) -> list[PairTerm]:
    """Return the strongest pairs of columns; "auto" chooses their number by cross-validation.

    On the training part of each split, a logistic regression of all columns is fitted, pairs are
    ranked by what it leaves unexplained, and the AP with the first of them is compared on the
    other part. The number is 0 unless the gain exceeds its standard error.
    """
    every_row, share = table, shares(target.weight, target.positive.size)[:, None]
    if target.positive.size > MOST_ROWS:
        rows, weight = sample_rows(target.positive, target.weight, MOST_ROWS, seed=0)
        splits = restricted(splits, rows, target.positive.size)
        table = table.rows(rows)
        target = target._replace(positive=target.positive[rows], weight=weight)
    if number == "auto":
        ap = np.array([_ap_by_number(columns, terms, table, target, split) for split in splits])
        gains = ap - ap[:, :1]
        best = int(np.argmax(gains.mean(axis=0)))
        test_share = float(
            np.mean([test.size / (train.size + test.size) for train, test in splits])
        )
        error = standard_error(gains[:, best], test_share)
        number = (0, *NUMBERS_TRIED)[best] if gains[:, best].mean() > error else 0
        logger.info("interactions: %d pairs (AP %+.4f)", number, gains[:, best].mean())
    if number == 0:
        return []
    fit = _Fit.of(terms, table, target)
    pairs = _strongest(columns, fit, table, target, int(number))
    return [  # centred over all rows
        replace(pair, density=pair.first(every_row).T @ (share * pair.second(every_row)))
        for pair in pairs
    ]


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

    def average_precision(self, table: Table, target: BinaryTarget) -> float:
        margins = self.design.of(matrix(self.terms, table)).margins(self.w)
        return ap_of_scores(target.positive, margins, target.weight)

    def importance(self) -> dict[str, float]:
        unscaled = self.design.unscaled(self.w)
        found, _ = effects(self.terms, unscaled[:-1], float(unscaled[-1]))
        return {effect.name: effect.importance for effect in found}


def _ap_by_number(
    columns: Columns, terms: Sequence[Term], table: Table, target: BinaryTarget, split: Split
) -> list[float]:
    """Return the AP on one split without pairs and with each number of pairs."""
    (train, of_train), (test, of_test) = ((table.rows(rows), target.rows(rows)) for rows in split)
    fit = _Fit.of(terms, train, of_train)
    ap = [fit.average_precision(test, of_test)]
    pairs = _strongest(columns, fit, train, of_train, NUMBERS_TRIED[-1])
    for number in NUMBERS_TRIED:
        with_pairs = _Fit.of([*terms, *pairs[:number]], train, of_train)
        ap.append(with_pairs.average_precision(test, of_test))
    return ap


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
