"""Functions of two columns: which pairs to add, and how many."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import rankdata

from apmax.binary_target import BinaryTarget
from apmax.interrupts import raise_if_interrupted
from apmax.linear.curve import quantile_places
from apmax.linear.design import Design, make_design
from apmax.linear.full_batch import fit_logistic
from apmax.metrics import ap_of_scores
from apmax.sampling import sample_rows
from apmax.splits import Split, restricted, standard_error, test_share
from apmax.tabular.columns import Columns, Table
from apmax.tabular.effects import Margin
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
ALIKE = 0.999
"""Rank correlation from which two numeric columns count as one in pairs."""


class Pairs(NamedTuple):
    """Pairs of columns to add."""

    terms: list[PairTerm]
    of_splits: list[list[PairTerm]]
    """As many pairs for each split, chosen by its training rows alone."""


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
    every_row, share = table, shares(target.weight, target.positive.size)[:, None]
    if target.positive.size > MOST_ROWS:
        rows, weight = sample_rows(target.positive, target.weight, MOST_ROWS, seed=0)
        splits = restricted(splits, rows, target.positive.size)
        table = table.rows(rows)
        target = target._replace(positive=target.positive[rows], weight=weight)
    numbers = (0, *NUMBERS_TRIED) if number == "auto" else (0,)
    most = max(NUMBERS_TRIED) if number == "auto" else int(number)
    of_splits, scores = list[list[PairTerm]](), list[list[float]]()
    for split in splits:
        train, of_train = table.rows(split[0]), target.rows(split[0])
        test, of_test = table.rows(split[1]), target.rows(split[1])
        fit = _Fit.of(terms, train, of_train)
        pairs = _strongest(columns, fit, train, of_train, most)
        fits = [_Fit.of([*terms, *pairs[:k]], train, of_train) if k else fit for k in numbers]
        scores.append(
            [ap_of_scores(of_test.positive, one.margins(test), of_test.weight) for one in fits]
        )
        of_splits.append(pairs)
        if on_progress is not None:
            best = float(np.max(np.mean(scores, axis=0)))
            on_progress("interactions", len(scores), len(splits), best)
            raise_if_interrupted()
    if number == "auto":
        most = numbers[_clear_gain(np.array(scores), test_share(splits))]
        logger.info("interactions: %d pairs", most)
    if most == 0:
        return Pairs([], [])
    fit = _Fit.of(terms, table, target)
    pairs = [  # centred over all rows
        replace(pair, density=pair.first(every_row).T @ (share * pair.second(every_row)))
        for pair in _strongest(columns, fit, table, target, most, warn=True)
    ]
    return Pairs(pairs, [of_split[:most] for of_split in of_splits])


def _clear_gain(ap: Floats, held_out_share: float) -> int:
    """Return the column with the highest mean AP, or 0 if its gain over 0 is within one error."""
    gains = ap - ap[:, :1]
    best = int(np.argmax(gains.mean(axis=0)))
    error = float(standard_error(gains[:, best], held_out_share))
    return best if gains[:, best].mean() > error else 0


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

    def margins(self, table: Table) -> Floats:
        """Return the margins of other rows."""
        return self.design.of(matrix(self.terms, table)).margins(self.w)

    def importance(self) -> dict[str, float]:
        unscaled = self.design.unscaled(self.w)
        found, _ = effects(self.terms, unscaled[:-1], float(unscaled[-1]))
        return {effect.name: effect.importance for effect in found}


def _margins(
    columns: Columns,
    table: Table,
    weight: Floats | None,
    importance: dict[str, float],
    *,
    warn: bool,
) -> list[Margin]:
    """Return the functions of the most important columns of which pairs are formed.

    Of numeric columns that rank the rows alike, such as minutes and their charge, only the most
    important one takes part.
    """
    place = {columns.names[k]: column for column, k in enumerate(columns.numeric)}
    found: list[Margin] = []
    ranks: dict[str, Floats] = {}
    alike: list[str] = []
    for name in sorted(place, key=lambda name: -importance[name])[:MOST_COLUMNS]:
        x = table.numbers[:, place[name]]
        own, knots = _normalised_ranks(x), _knots(x, weight)
        same = next((one for one, other in ranks.items() if abs(own @ other) >= ALIKE), None)
        if same is not None:
            alike.append(f"{name!r} ({same!r})")
        elif knots.size > 1:
            ranks[name] = own
            found.append(Margin(name, place[name], knots, []))
    if alike and warn:
        warnings.warn(
            f"columns that rank rows like another one take no part in pairs: {', '.join(alike)}",
            UserWarning,
            stacklevel=6,  # the caller of `fit`
        )
    for column, k in enumerate(columns.categorical):
        levels = columns.levels(column)
        if len(levels) <= MOST_CATEGORIES:
            found.append(Margin(columns.names[k], column, None, levels))
    found.sort(key=lambda margin: -importance[margin.name])
    return found[:MOST_COLUMNS]


def _normalised_ranks(x: Floats) -> Floats:
    """Return ranks of mean 0 and length 1, 0 where x is missing; products are correlations."""
    present = ~np.isnan(x)
    out = np.zeros(x.size)
    out[present] = rankdata(x[present]) - (np.count_nonzero(present) + 1) / 2
    return np.asarray(out / (np.linalg.norm(out) or 1.0))


def _knots(x: Floats, weight: Floats | None) -> Floats:
    """Return quantiles of the values that are present."""
    present = ~np.isnan(x)
    values, share = distinct_values(x[present], None if weight is None else weight[present])
    if values.size < 2:
        return values
    below = np.cumsum(share)
    knots = np.unique(values[quantile_places(below, LEVELS)])
    # If most values are equal, the function is free below, at and above them.
    return knots if knots.size > 1 else np.unique([values[0], *knots, values[-1]])


def _strongest(
    columns: Columns,
    fit: _Fit,
    table: Table,
    target: BinaryTarget,
    count: int,
    *,
    warn: bool = False,
) -> list[PairTerm]:
    """Return the pairs whose products explain most of what the fit leaves unexplained.

    The measure is the score test of adding all products of a pair to the logistic regression,
    standardised by its degrees of freedom.
    """
    margins = _margins(columns, table, target.weight, fit.importance(), warn=warn)
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
