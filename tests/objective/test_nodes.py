"""ÂP and its gradient from certified moments, against pairs in extended precision."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from apmax.objective._nodes import NodeTables, certified_tables, certified_terms
from apmax.objective.surrogates import resolve
from apmax.scale._kernels import moment_sums, slopes_of_margins
from apmax.validation import Floats, Mask
from tests.oracle import equations

RNG = np.random.default_rng(0)
N = 300
POSITIVE = RNG.random(N) < 0.1
MARGINS: dict[str, Floats] = {
    "spread": RNG.normal(size=N) * 2 + POSITIVE,
    "ties": np.round(RNG.normal(size=N)),
    "constant": np.full(N, -1.0),
    "nearly equal": 1e-6 * RNG.normal(size=N) - 3,
    "saturated": 800.0 * RNG.normal(size=N),
    "apart": np.where(POSITIVE, 9.0, -9.0),
    "reversed": np.where(POSITIVE, -4.0, 4.0) + RNG.normal(size=N),
}
WEIGHTS: dict[str, Floats] = {
    "plain": np.ones(N),
    "weights to 1e6": 10.0 ** RNG.uniform(-6, 6, N),
}

ROUNDING = 1e-15
"""Of the pairs: terms near 1 cancel where all scores are apart."""


def from_moments(
    tables: NodeTables, margins: Floats, positive: Mask, weight: Floats, parts: int = 3
) -> tuple[float, Floats]:
    """Value and slopes, with moments merged over parts of the data."""
    minus, plus = (np.zeros((tables.cells, terms)) for terms in tables.terms)
    for part in np.array_split(np.arange(margins.size), parts):
        of_part = [np.zeros_like(minus), np.zeros_like(plus)]
        moment_sums(margins[part], positive[part], weight[part], *of_part)
        minus += of_part[0]
        plus += of_part[1]
    value, *polynomials = tables.evaluate(minus, plus)
    slopes = np.empty(margins.size)
    slopes_of_margins(margins, positive, weight, *polynomials, slopes)
    return value, slopes


def of_pairs(
    margins: Floats, positive: Mask, weight: Floats, gamma: float
) -> tuple[float, Floats, float]:
    scores = expit(margins.astype(np.longdouble))
    surrogate, v = resolve("logistic"), weight.astype(np.longdouble)
    value = -equations.objective(scores, positive, surrogate, gamma, v)
    gradient = -equations.objective_gradient(scores, positive, surrogate, gamma, v)
    chained = (gradient * scores * (1 - scores)).astype(float)
    return float(value), chained, float(np.abs(gradient).max())


@pytest.mark.parametrize("gamma", [0.3, 5.0, 20.0, 80.0])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", MARGINS)
def test_merged_moments_give_the_objective_of_all_pairs(
    name: str, weights: str, gamma: float
) -> None:
    tables = certified_tables(gamma)
    value, slopes = from_moments(tables, MARGINS[name], POSITIVE, WEIGHTS[weights])
    expected, chained, largest = of_pairs(MARGINS[name], POSITIVE, WEIGHTS[weights], gamma)
    assert value == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(slopes, chained, rtol=0, atol=1e-8 * largest + ROUNDING)


def test_one_positive() -> None:
    positive = np.arange(N) == 7
    for margins in MARGINS.values():
        value, slopes = from_moments(certified_tables(20.0), margins, positive, np.ones(N))
        expected, chained, largest = of_pairs(margins, positive, np.ones(N), 20.0)
        assert value == pytest.approx(expected, rel=1e-9)
        np.testing.assert_allclose(slopes, chained, rtol=0, atol=1e-8 * largest + ROUNDING)


@pytest.mark.parametrize("width", [0.1, 0.25, 0.5, 1.0])
def test_certified_orders_leave_a_margin_and_lower_ones_do_not(width: float) -> None:
    """The bound holds with room to spare; a third of its order is too small for it."""
    terms = certified_terms(width)
    assert 3 <= terms[0] <= terms[1]
    gamma = 20.0
    cells = int(np.ceil(gamma / width))
    margins, weight = MARGINS["reversed"], np.ones(N)
    expected, chained, largest = of_pairs(margins, POSITIVE, weight, gamma)

    def errors(orders: tuple[int, int]) -> tuple[float, float]:
        value, slopes = from_moments(NodeTables(gamma, cells, orders), margins, POSITIVE, weight)
        return abs(value / expected - 1), float(np.abs(slopes - chained).max()) / largest

    value, gradient = errors(terms)
    assert value < 1e-9
    assert gradient < 1e-8
    coarse = errors((max(1, terms[0] // 3), max(1, terms[1] // 3)))
    assert coarse[0] > 1e-9
    assert coarse[1] > 1e-8


def test_wider_cells_need_higher_orders() -> None:
    orders = [certified_terms(width) for width in (0.125, 0.25, 0.5, 1.0)]
    assert orders == sorted(orders)
    assert all(minus < plus for minus, plus in orders)
