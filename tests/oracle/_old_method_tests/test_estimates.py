"""Pair sums are unbiased: the mean over all possible batches is g itself, not nearly."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from apmax.errors import ParameterError
from tests.oracle.estimates import LinearScorer, StochasticProblem
from tests.oracle.sampling import Batch, Draw, draw_batches
from apmax.objective import reference
from apmax.objective.surrogates import resolve
from apmax.validation import Floats

RNG = np.random.default_rng(0)
M, N, D = 4, 9, 3
X = RNG.normal(size=(N, D))
SHUFFLED = RNG.permutation(N)
POSITIVES, NEGATIVES = SHUFFLED[:M], SHUFFLED[M:]
W = RNG.normal(size=D)
MASK = np.isin(np.arange(N), POSITIVES)
SURROGATES = ("squared_hinge", "logistic")


def make_problem(name: str = "squared_hinge", pairs: str = "population") -> StochasticProblem:
    return StochasticProblem(
        LinearScorer(X), POSITIVES, NEGATIVES, resolve(name), 0.4, penalty=0.01, pairs=pairs
    )


def true_inner(name: str, w: Floats) -> Floats:
    """g, with rows in the order of POSITIVES."""
    scores = LinearScorer(X).scores(w, np.arange(N))
    g = reference.inner_values(scores, MASK, resolve(name), 0.4)
    return g[np.argsort(np.argsort(POSITIVES))]


def true_jacobian(name: str, w: Floats) -> Floats:
    step = 1e-6
    columns = [
        (true_inner(name, w + step * e) - true_inner(name, w - step * e)) / (2 * step)
        for e in np.eye(D)
    ]
    return np.stack(columns, axis=-1)


def all_batches(b_plus: int, b_minus: int) -> list[Batch]:
    return [
        Batch(np.array(p), np.array(q))
        for p, q in product(combinations(range(M), b_plus), combinations(range(N - M), b_minus))
    ]


def draws_of_row(row: int, sampling: str, b_plus: int, b_minus: int) -> list[Draw]:
    """Every draw, equally likely, in which `row` gets a step."""
    rows = np.array([row])
    batches = all_batches(b_plus, b_minus)
    if sampling == "shared":
        return [Draw(rows, b, b) for b in batches if row in b.positives]
    return [Draw(rows, b, b) for b in batches]


@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("sampling", ["shared", "independent"])
@pytest.mark.parametrize("sizes", [(2, 1), (3, 2), (4, 5)])
def test_the_mean_over_all_batches_is_g_and_its_jacobian(
    name: str, sampling: str, sizes: tuple[int, int]
) -> None:
    problem = make_problem(name)
    g, jacobian = true_inner(name, W), true_jacobian(name, W)
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
    jacobian = problem.inner_jacobian(W, draw)
    step = 1e-6
    for k, e in enumerate(np.eye(D)):
        up, down = problem.inner(W + step * e, draw), problem.inner(W - step * e, draw)
        np.testing.assert_allclose(jacobian[:, :, k], (up - down) / (2 * step), atol=1e-8)


def test_with_all_data_in_the_batch_the_estimate_is_exact() -> None:
    everything = Batch(np.arange(M), np.arange(N - M))
    draw = Draw(np.arange(M), everything, everything)
    actual = make_problem().inner(W, draw)
    np.testing.assert_allclose(actual, true_inner("squared_hinge", W), rtol=1e-13)


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
    s = LinearScorer(X).scores(W, np.concatenate([POSITIVES[[0, 2, 3]], NEGATIVES[[1, 4]]]))
    for i in range(3):
        above = 1 / (1 + np.exp(-0.4 * (s - s[i])))
        assert rank[i, 1] == pytest.approx(1 + above.sum() - above[i])
        assert rank[i, 0] == pytest.approx(1 + above[:3].sum() - above[i])


def test_a_lone_positive_in_a_batch_is_refused_when_there_are_others() -> None:
    alone = Batch(np.array([1]), np.array([0]))
    with pytest.raises(ParameterError, match="at least 2"):
        make_problem().inner(W, Draw(np.array([1]), alone, alone))


# --- draws ---------------------------------------------------------------------------------


def take(count: int, sampling: str, seed: int = 0) -> list[Draw]:
    endless = draw_batches(
        np.random.default_rng(seed),
        positives=6,
        negatives=10,
        positives_per_batch=2,
        negatives_per_batch=3,
        sampling=sampling,
    )
    return [next(endless) for _ in range(count)]


@pytest.mark.parametrize("sampling", ["shared", "independent"])
def test_draws_are_distinct_in_range_and_even(sampling: str) -> None:
    seen = np.zeros(6)
    for draw in take(3000, sampling):
        seen[draw.rows] += 1
        for batch in (draw.values, draw.slopes):
            assert len(set(batch.positives)) == 2
            assert len(set(batch.negatives)) == 3
            assert batch.negatives.max() < 10
    np.testing.assert_allclose(seen, 1000, atol=100)


def test_shared_draws_are_one_batch_and_independent_draws_are_three() -> None:
    for draw in take(20, "shared"):
        assert draw.values is draw.slopes
        assert draw.rows is draw.values.positives
    different = [
        not np.array_equal(a, b)
        for draw in take(200, "independent")
        for a, b in (
            (draw.rows, draw.values.positives),
            (draw.values.positives, draw.slopes.positives),
            (draw.values.negatives, draw.slopes.negatives),
        )
    ]
    assert np.mean(different) > 0.9


def test_one_seed_gives_the_same_draws_twice() -> None:
    for a, b in zip(take(50, "independent"), take(50, "independent"), strict=True):
        np.testing.assert_array_equal(a.rows, b.rows)
        np.testing.assert_array_equal(a.slopes.negatives, b.slopes.negatives)


def test_data_without_negatives_can_be_drawn_from() -> None:
    endless = draw_batches(
        np.random.default_rng(0),
        positives=3,
        negatives=0,
        positives_per_batch=2,
        negatives_per_batch=0,
    )
    assert next(endless).values.negatives.size == 0
