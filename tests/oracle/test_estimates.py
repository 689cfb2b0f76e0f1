"""Estimates of a batch are unbiased: their mean over all batches is g, exactly."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from apmax.objective.surrogates import resolve
from apmax.validation import Floats
from tests.oracle.equations import inner_values
from tests.oracle.estimates import Batch, Draw, Problem

RNG = np.random.default_rng(0)
M, N, D = 4, 9, 3
X = RNG.normal(size=(N, D))
SHUFFLED = RNG.permutation(N)
POSITIVES, NEGATIVES = SHUFFLED[:M], SHUFFLED[M:]
W = RNG.normal(size=D)
MASK = np.isin(np.arange(N), POSITIVES)
SURROGATES = ("squared_hinge", "logistic")


def make_problem(name: str = "squared_hinge", pairs: str = "population") -> Problem:
    return Problem(X, POSITIVES, NEGATIVES, resolve(name), 0.4, penalty=0.01, pairs=pairs)


def true_inner(name: str, w: Floats) -> Floats:
    """g, with rows in the order of POSITIVES."""
    scores = make_problem(name).scores(w, np.arange(N))
    g = inner_values(scores, MASK, resolve(name), 0.4)
    return g[np.argsort(np.argsort(POSITIVES))]


def numeric_jacobian(function, w: Floats) -> Floats:
    step = 1e-6
    columns = [(function(w + step * e) - function(w - step * e)) / (2 * step) for e in np.eye(D)]
    return np.stack(columns, axis=-1)


def draws_of_row(row: int, sampling: str, b_plus: int, b_minus: int) -> list[Draw]:
    """Every draw, equally likely, in which `row` gets a step."""
    rows = np.array([row])
    batches = [
        Batch(np.array(p), np.array(q))
        for p, q in product(combinations(range(M), b_plus), combinations(range(N - M), b_minus))
    ]
    return [Draw(rows, b, b) for b in batches if sampling == "independent" or row in b.positives]


@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("sampling", ["shared", "independent"])
@pytest.mark.parametrize("sizes", [(2, 1), (3, 2), (4, 5)])
def test_the_mean_over_all_batches_is_g_and_its_jacobian(
    name: str, sampling: str, sizes: tuple[int, int]
) -> None:
    problem = make_problem(name)
    g, jacobian = true_inner(name, W), numeric_jacobian(lambda w: true_inner(name, w), W)
    for row in range(M):
        draws = draws_of_row(row, sampling, *sizes)
        mean = np.mean([problem.inner(W, draw)[0] for draw in draws], axis=0)
        np.testing.assert_allclose(mean, g[row], rtol=1e-12)
        mean = np.mean([problem.inner_jacobian(W, draw)[0] for draw in draws], axis=0)
        np.testing.assert_allclose(mean, jacobian[row], atol=1e-8)


@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("pairs", ["population", "batch"])
def test_the_jacobian_of_an_estimate_is_its_derivative(name: str, pairs: str) -> None:
    problem = make_problem(name, pairs)
    batch = Batch(np.array([0, 2, 3]), np.array([1, 4]))
    draw = Draw(np.array([2, 0]), batch, batch)
    numeric = numeric_jacobian(lambda w: problem.inner(w, draw), W)
    np.testing.assert_allclose(problem.inner_jacobian(W, draw), numeric, atol=1e-8)


def test_values_and_slopes_come_from_their_own_batches() -> None:
    problem = make_problem()
    one, two = Batch(np.array([0, 1]), np.array([0])), Batch(np.array([2, 3]), np.array([3]))
    rows = np.array([1])
    mixed = Draw(rows, one, two)
    np.testing.assert_array_equal(problem.inner(W, mixed), problem.inner(W, Draw(rows, one, one)))
    np.testing.assert_array_equal(
        problem.inner_jacobian(W, mixed), problem.inner_jacobian(W, Draw(rows, two, two))
    )


def test_batch_pairs_are_the_ranks_of_smoothap() -> None:
    """rᵢ = 1 + Σ_{j≠i} σ(γ(sⱼ − sᵢ)) over the batch, and r⁺ᵢ over its positives."""
    problem = make_problem("logistic", pairs="batch")
    batch = Batch(np.array([0, 2, 3]), np.array([1, 4]))
    rank = problem.inner(W, Draw(batch.positives, batch, batch))
    s = problem.scores(W, np.concatenate([POSITIVES[[0, 2, 3]], NEGATIVES[[1, 4]]]))
    for i in range(3):
        above = 1 / (1 + np.exp(-0.4 * (s - s[i])))
        assert rank[i, 1] == pytest.approx(1 + above.sum() - above[i])
        assert rank[i, 0] == pytest.approx(1 + above[:3].sum() - above[i])
