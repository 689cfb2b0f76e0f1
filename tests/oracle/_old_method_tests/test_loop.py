"""Rows of the table against the paper's algorithms, and against the exact objective."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from apmax import surrogate_ap
from apmax.methods import Adaptive
from tests.oracle.estimates import LinearScorer, StochasticProblem
from apmax.method.loop import descend
from tests.oracle.algorithms import State, adap, moap_v1, moap_v2
from tests.oracle.sampling import Batch, Draw, draw_batches
from apmax.methods import METHODS, problem_for, resolve_method
from apmax.validation import Floats

RNG = np.random.default_rng(0)
N, M, D = 60, 12, 5
X = RNG.normal(size=(N, D))
POSITIVES = np.sort(RNG.choice(N, M, replace=False))
NEGATIVES = np.setdiff1d(np.arange(N), POSITIVES)
X[POSITIVES, 0] += 1.0
MASK = np.isin(np.arange(N), POSITIVES)
W = RNG.normal(size=D) * 0.1
ROUNDS, GAMMA, PENALTY = 60, 0.3, 1e-3
ETA, BETA0, BETA1, BETA2, DELTA = 0.7, 0.9, 0.5, 0.1, 1e-4
BOUNDS = (0.1, 1e3)


def problem_of(name: str, penalty: float = PENALTY) -> StochasticProblem:
    gamma = GAMMA if resolve_method(name).surrogate == "squared_hinge" else 10.0
    scorer = LinearScorer(X)
    return problem_for(name, scorer, POSITIVES, NEGATIVES, gamma=gamma, penalty=penalty)


def draws(sampling: str = "shared", count: int = ROUNDS) -> list[Draw]:
    endless = draw_batches(
        np.random.default_rng(7),
        positives=M,
        negatives=N - M,
        positives_per_batch=3,
        negatives_per_batch=4,
        sampling=sampling,
    )
    return list(islice(endless, count))


def run(name: str, sampling: str = "shared", count: int = ROUNDS) -> list[Floats]:
    rounds = descend(
        name,
        problem_of(name),
        W,
        draws(sampling, count),
        learning_rate=ETA,
        beta0=BETA0,
        beta1=BETA1,
        beta2=BETA2,
        delta=DELTA,
        bounds=BOUNDS,
        first_visit="zero",
    )
    return [one.w for one in rounds]


def over_root(first: float):
    return lambda t: first / np.sqrt(t)


ZERO = State(W, problem_of("moap-v2").box().project(np.zeros((M, 2))), np.zeros(D))
DECREASING = {"eta": over_root(ETA), "beta0": over_root(BETA0), "beta1": over_root(BETA1)}


@pytest.mark.parametrize("sampling", ["shared", "independent"])
def test_moap_v1_is_algorithm_1(sampling: str) -> None:
    oracle = moap_v1(problem_of("moap-v1"), ZERO, draws(sampling), **DECREASING)
    expected = [state.w for state in oracle]
    np.testing.assert_allclose(run("moap-v1", sampling), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sampling", ["shared", "independent"])
def test_moap_v2_is_algorithm_2(sampling: str) -> None:
    oracle = moap_v2(problem_of("moap-v2"), ZERO, draws(sampling), **DECREASING)
    expected = [state.w for state in oracle]
    np.testing.assert_allclose(run("moap-v2", sampling), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("style", ["adam", "adagrad", "amsgrad", "adabound"])
@pytest.mark.parametrize("sampling", ["shared", "independent"])
def test_adap_is_algorithm_3(style: str, sampling: str) -> None:
    squares: list[Floats] = []
    largest = np.zeros(D)

    def second_moment(t: int, square: Floats) -> Floats:
        """Eq. (ada) as sums over all past rounds."""
        nonlocal largest
        squares.append(square)
        past = np.array(squares)
        moving = (BETA2 * (1 - BETA2) ** np.arange(t)[::-1]) @ past
        largest = np.maximum(largest, moving)
        return {
            "adam": moving,
            "adagrad": past.sum(axis=0) / (t + 1),
            "amsgrad": largest,
            "adabound": np.clip(moving, 1 / BOUNDS[1] ** 2, 1 / BOUNDS[0] ** 2),
        }[style]

    name = f"adap-{style}"
    oracle = adap(
        problem_of(name),
        ZERO,
        draws(sampling),
        **DECREASING,
        second_moment=second_moment,
        delta=DELTA,
    )
    expected = [state.w for state in oracle]
    np.testing.assert_allclose(run(name, sampling), expected, rtol=1e-9, atol=1e-10)


def test_soap_is_its_equation() -> None:
    """The SOAP display of the paper: no projection, no momentum, constant steps."""
    problem = problem_of("soap-sgd")
    w, U = W.copy(), np.zeros((M, 2))
    expected = []
    for draw in draws():
        U[draw.rows] = (1 - BETA0) * U[draw.rows] + BETA0 * problem.inner(w, draw)
        gradient = np.zeros(D)
        for i, row in enumerate(draw.rows):
            u1, u2 = U[row]
            nabla_f = np.array([-1 / u2, u1 / u2**2])
            gradient += problem.inner_jacobian(w, draw)[i].T @ nabla_f / len(draw.rows)
        w = w - ETA * (gradient + 2 * PENALTY * w)
        expected.append(w)
    np.testing.assert_allclose(run("soap-sgd"), expected, rtol=1e-10, atol=1e-12)


def test_soap_adam_is_soap_with_adam_steps() -> None:
    problem = problem_of("soap-adam")
    w, U, adam = W.copy(), np.zeros((M, 2)), Adaptive(D, "adam", delta=DELTA)
    for t, draw in enumerate(draws(count=10), start=1):
        U[draw.rows] = (1 - BETA0) * U[draw.rows] + BETA0 * problem.inner(w, draw)
        pull = np.stack([-1 / U[draw.rows, 1], U[draw.rows, 0] / U[draw.rows, 1] ** 2], axis=1)
        gradient = np.einsum("ik,ikd->d", pull, problem.inner_jacobian(w, draw)) / len(draw.rows)
        w = w - ETA * adam.step(gradient + 2 * PENALTY * w, t, BETA1, BETA2)
    np.testing.assert_allclose(run("soap-adam", count=10)[-1], w, rtol=1e-10)


def test_smoothap_descends_one_minus_the_mean_smooth_precision() -> None:
    batch = Batch(np.arange(3), np.arange(4))
    draw = Draw(batch.positives, batch, batch)
    rows = np.concatenate([POSITIVES[:3], NEGATIVES[:4]])

    def loss(w: Floats) -> float:
        s = LinearScorer(X).scores(w, rows)
        precision = []
        for i in range(3):
            above = 1 / (1 + np.exp(-10.0 * (s - s[i])))
            above[i] = 1.0
            precision.append(above[:3].sum() / above.sum())
        return 1 - float(np.mean(precision))

    problem = problem_of("smoothap", penalty=0.0)
    (first,) = descend("smoothap", problem, W, [draw], learning_rate=1.0)
    step = 1e-6
    numeric = [(loss(W + step * e) - loss(W - step * e)) / (2 * step) for e in np.eye(D)]
    np.testing.assert_allclose(first.gradient, numeric, atol=1e-8)


EVERYTHING = Batch(np.arange(M), np.arange(N - M))


@pytest.mark.parametrize(
    "name", [name for name, row in METHODS.items() if row.pairs == "population"]
)
def test_all_data_and_beta_1_give_the_exact_gradient(name: str) -> None:
    draw = Draw(EVERYTHING.positives, EVERYTHING, EVERYTHING)
    problem = problem_of(name)
    options = {"beta0": 1.0, "beta1": 1.0, "beta2": 1.0}
    (first,) = descend(name, problem, W, [draw], learning_rate=ETA, **options)
    scorer = LinearScorer(X)
    every = np.arange(N)
    result = surrogate_ap(scorer.scores(W, every), MASK, gamma=GAMMA)
    exact = -result.gradient @ scorer.jacobian(W, every) + 2 * PENALTY * W
    np.testing.assert_allclose(first.gradient, exact, rtol=1e-10)
    if resolve_method(name).direction in ("plain", "momentum"):
        np.testing.assert_allclose(first.w, W - ETA * exact, rtol=1e-10)
    assert -(first.u[:, 0] / first.u[:, 1]).mean() == pytest.approx(-result.value, rel=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_raises_average_precision(name: str) -> None:
    eta = 0.05 if METHODS[name].direction not in ("plain", "momentum") else 1.0
    rounds = descend(
        name, problem_of(name), np.zeros(D), draws(count=400), learning_rate=eta, beta2=0.1
    )
    w = list(rounds)[-1].w
    every = np.arange(N)

    def value(w: Floats) -> float:
        return surrogate_ap(LinearScorer(X).scores(w, every), MASK, gamma=GAMMA).value

    assert value(w) > value(np.zeros(D)) + 0.1


def test_a_run_starts_each_row_at_its_first_estimate() -> None:
    problem, (first, *_) = problem_of("moap-v1"), draws()
    (one,) = descend("moap-v1", problem, W, [first], learning_rate=ETA, beta0=0.1)
    np.testing.assert_allclose(one.u, problem.inner(W, first), rtol=1e-14)


def test_a_wider_spread_of_scores_widens_the_box() -> None:
    """Raw linear scores are not in [0, 1]: with their spread given, the step is exact."""

    class RawScorer(LinearScorer):
        def scores(self, w: Floats, rows: Floats) -> Floats:
            return self.X[rows] @ w

        def jacobian(self, w: Floats, rows: Floats) -> Floats:
            return self.X[rows]

    scores = X @ W
    spread = float(np.ptp(scores))
    problem = problem_for("moap-v1", RawScorer(X), POSITIVES, NEGATIVES, gamma=0.1, spread=spread)
    draw = Draw(EVERYTHING.positives, EVERYTHING, EVERYTHING)
    (one,) = descend("moap-v1", problem, W, [draw], learning_rate=1.0, beta0=1.0, beta1=1.0)
    exact = surrogate_ap(scores, MASK, gamma=0.1)
    np.testing.assert_allclose(one.w, W + exact.gradient @ X, rtol=1e-10)


def test_a_run_does_not_change_the_start() -> None:
    before = W.copy()
    run("adap-adam", count=3)
    np.testing.assert_array_equal(W, before)


def test_a_new_row_needs_no_new_loop() -> None:
    variant = replace(METHODS["moap-v2"], name="moap-v2-constant", schedule="constant")
    rounds = descend(
        variant,
        problem_of("moap-v2"),
        W,
        draws(),
        learning_rate=ETA,
        beta0=BETA0,
        beta1=BETA1,
        first_visit="zero",
    )
    constant = {"eta": lambda t: ETA, "beta0": lambda t: BETA0, "beta1": lambda t: BETA1}
    expected = [s.w for s in moap_v2(problem_of("moap-v2"), ZERO, draws(), **constant)]
    np.testing.assert_allclose([r.w for r in rounds], expected, rtol=1e-10, atol=1e-12)


def test_the_table_is_the_papers() -> None:
    columns = {
        name: (row.tracker, row.direction, row.schedule, row.projected)
        for name, row in METHODS.items()
    }
    assert columns == {
        "soap-sgd": ("moving_average", "plain", "constant", False),
        "soap-adam": ("moving_average", "adam", "constant", False),
        "soap-amsgrad": ("moving_average", "amsgrad", "constant", False),
        "moap-v1": ("moving_average", "momentum", "inverse_sqrt", True),
        "moap-v2": ("randomized_coordinate", "momentum", "inverse_sqrt", True),
        "adap-adam": ("randomized_coordinate", "adam", "inverse_sqrt", True),
        "adap-adagrad": ("randomized_coordinate", "adagrad", "inverse_sqrt", True),
        "adap-amsgrad": ("randomized_coordinate", "amsgrad", "inverse_sqrt", True),
        "adap-adabound": ("randomized_coordinate", "adabound", "inverse_sqrt", True),
        "bsgd": ("none", "plain", "constant", False),
        "sox": ("moving_average", "momentum", "constant", False),
        "smoothap": ("none", "plain", "constant", False),
    }
    logistic = [name for name, row in METHODS.items() if row.surrogate == "logistic"]
    assert logistic == ["smoothap"]
