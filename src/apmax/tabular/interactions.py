"""Functions of two columns: which pairs to add, and how many."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy.special import expit

from apmax.binary_target import BinaryTarget
from apmax.interrupts import raise_if_interrupted
from apmax.linear.design import make_design
from apmax.linear.full_batch import fit_logistic
from apmax.metrics import ap_of_scores
from apmax.splits import Split
from apmax.tabular.columns import Columns, Table
from apmax.tabular.effects import Effect, Margin
from apmax.tabular.leaderboard import standard_error
from apmax.tabular.sampling import restricted, sample_rows
from apmax.tabular.spline import distinct_values
from apmax.tabular.terms import PairTerm, Term, matrix
from apmax.validation import Floats, Mask, shares

logger = logging.getLogger("apmax")
LEVELS = (0.05, 0.35, 0.65, 0.95)
"""Quantiles of a number at which a function of two columns is free."""
MOST_CATEGORIES = 6
"""Categories of a column that take part in pairs: the most frequent ones."""
MOST_COLUMNS, MOST_ROWS = 32, 20_000
"""Columns (by importance) and rows that screening looks at."""
NUMBERS_TRIED = (4, 12)
"""Numbers of pairs that "auto" compares with none."""
RIDGE = 1e-3


def find_margins(
    columns: Columns, table: Table, weight: Floats | None, effects: Sequence[Effect]
) -> list[Margin]:
    """Return the functions of the most important columns of which pairs are formed."""
    ranked = sorted(effects, key=lambda effect: -effect.importance)[:MOST_COLUMNS]
    wanted = {effect.name for effect in ranked}
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
    below = np.cumsum(share)
    knots = np.unique(values[np.searchsorted(below, np.multiply(LEVELS, below[-1]))])
    # If most values are equal, the function is free below, at and above them.
    return knots if knots.size > 1 else np.unique([values[0], *knots, values[-1]])


def strongest_pairs(
    margins: Sequence[Margin],
    table: Table,
    positive: Mask,
    log_odds: Floats,
    weight: Floats | None,
    count: int,
) -> list[PairTerm]:
    """Return the pairs whose products explain most of what the log-odds leave unexplained.

    The measure is the score test of adding all products of a pair to a logistic regression,
    standardised by its degrees of freedom.
    """
    rows, of_rows = sample_rows(positive, weight, MOST_ROWS, seed=0)
    count_of = shares(of_rows, rows.size) * rows.size
    p = expit(log_odds[rows])
    residual, variance = count_of * (positive[rows] - p), count_of * p * (1.0 - p)
    functions = [margin(table.rows(rows)) for margin in margins]
    strength = {}
    for i, j in combinations(range(len(margins)), 2):
        products = (functions[i][:, :, None] * functions[j][:, None, :]).reshape(p.size, -1)
        gradient = residual @ products
        hessian = (products * variance[:, None]).T @ products
        freedom = products.shape[1]
        hessian += (RIDGE * np.trace(hessian) / freedom + 1e-12) * np.eye(freedom)
        statistic = gradient @ np.linalg.solve(hessian, gradient)
        strength[i, j] = (statistic - freedom) / np.sqrt(2.0 * freedom)
        raise_if_interrupted()
    best = sorted(strength, key=lambda pair: -strength[pair])[:count]
    share = shares(weight, positive.size)[:, None]
    pairs = [(margins[i], margins[j]) for i, j in best]
    return [
        PairTerm(first, second, first(table).T @ (share * second(table))) for first, second in pairs
    ]


def choose_number(
    margins: Sequence[Margin],
    terms: Sequence[Term],
    table: Table,
    target: BinaryTarget,
    splits: Sequence[Split],
    C: float,
) -> int:
    """Choose the number of pairs by cross-validated AP of logistic regression.

    Pairs are screened on the training part of each split. The result is 0 unless the gain exceeds
    its standard error.
    """
    n = target.positive.size
    if n > MOST_ROWS:
        rows, weight = sample_rows(target.positive, target.weight, MOST_ROWS, seed=0)
        splits = restricted(splits, rows, n)
        table = table.rows(rows)
        target = target._replace(positive=target.positive[rows], weight=weight)
    ap = np.array([_along(margins, terms, table, target, split, C) for split in splits])
    gains = ap - ap[:, :1]
    best = int(np.argmax(gains.mean(axis=0)))
    test_share = float(np.mean([test.size / (train.size + test.size) for train, test in splits]))
    error = standard_error(gains[:, best], test_share)
    number = (0, *NUMBERS_TRIED)[best] if gains[:, best].mean() > error else 0
    logger.info("interactions: %d pairs (AP %+.4f)", number, gains[:, best].mean())
    return number


def _along(
    margins: Sequence[Margin],
    terms: Sequence[Term],
    table: Table,
    target: BinaryTarget,
    split: Split,
    C: float,
) -> list[float]:
    """Return the AP on one split without pairs and with each number of pairs."""
    train, test = split
    positive = target.positive[train]
    weight = None if target.weight is None else target.weight[train]
    of_test = None if target.weight is None else target.weight[test]
    total = target.total * train.size / target.positive.size
    pairs: list[PairTerm] = []
    ap = []
    for number in (0, *NUMBERS_TRIED):
        every = [*terms, *pairs[:number]]
        design = make_design(matrix(every, table.rows(train), np.float64), "given", weight)
        w = fit_logistic(design, positive, weight, C=C, total=total).w
        held_out = design.of(matrix(every, table.rows(test), np.float64))
        ap.append(ap_of_scores(target.positive[test], held_out.margins(w), of_test))
        raise_if_interrupted()
        if number == 0:
            log_odds = design.margins(w)
            pairs = strongest_pairs(
                margins, table.rows(train), positive, log_odds, weight, NUMBERS_TRIED[-1]
            )
    return ap
