"""The methods of the table are the paper's algorithms, and the algorithms follow the objective."""

from __future__ import annotations

import numpy as np
import pytest

from apmax import surrogate_ap
from apmax.methods import METHODS
from apmax.validation import Floats
from tests.oracle.algorithms import State, adap, moap_v1, moap_v2, rounds_of, second_moment_of
from tests.oracle.equations import project
from tests.oracle.estimates import Batch, Draw, Problem, draw_batches

RNG = np.random.default_rng(0)
N, M, D = 60, 12, 5
X = RNG.normal(size=(N, D))
POSITIVE = np.isin(np.arange(N), RNG.choice(N, M, replace=False))
X[POSITIVE, 0] += 1.0
W = RNG.normal(size=D) * 0.1
OPTIONS = {"eta": 0.7, "beta0": 0.9, "beta1": 0.5, "beta2": 0.1, "delta": 1e-4}


def problem_of(name: str, penalty: float = 1e-3) -> Problem:
    gamma = 0.3 if METHODS[name].surrogate == "squared_hinge" else 10.0
    return Problem.of(METHODS[name], X, POSITIVE, gamma, penalty=penalty)


def draws(sampling: str = "shared", count: int = 60) -> list[Draw]:
    return draw_batches(7, M, N - M, 3, 4, sampling, count)


def run(name: str, sampling: str = "shared") -> list[Floats]:
    rounds = rounds_of(
        METHODS[name], problem_of(name), W, draws(sampling), first_visit="zero", **OPTIONS
    )
    return [one.w for one in rounds]


def over_root(first: float):
    return lambda t: first / np.sqrt(t)


ZERO = State(W, project(problem_of("moap-v2").omega(), np.zeros((M, 2))), np.zeros(D))
DECREASING = {name: over_root(OPTIONS[name]) for name in ("eta", "beta0", "beta1")}


@pytest.mark.parametrize("sampling", ["shared", "independent"])
@pytest.mark.parametrize(("name", "algorithm"), [("moap-v1", moap_v1), ("moap-v2", moap_v2)])
def test_moap_is_algorithms_1_and_2(name: str, algorithm, sampling: str) -> None:
    expected = [
        state.w for state in algorithm(problem_of(name), ZERO, draws(sampling), **DECREASING)
    ]
    np.testing.assert_allclose(run(name, sampling), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("style", ["adam", "adagrad", "amsgrad", "adabound"])
@pytest.mark.parametrize("sampling", ["shared", "independent"])
def test_adap_is_algorithm_3(style: str, sampling: str) -> None:
    name = f"adap-{style}"
    moments = second_moment_of(style, OPTIONS["beta2"])
    oracle = adap(
        problem_of(name),
        ZERO,
        draws(sampling),
        **DECREASING,
        second_moment=moments,
        delta=OPTIONS["delta"],
    )
    expected = [state.w for state in oracle]
    np.testing.assert_allclose(run(name, sampling), expected, rtol=1e-9, atol=1e-10)


def test_soap_is_its_equation() -> None:
    """The SOAP display of the paper: no projection, no momentum, constant steps."""
    problem = problem_of("soap-sgd")
    w, U = W.copy(), np.zeros((M, 2))
    expected = []
    for draw in draws():
        U[draw.rows] = 0.1 * U[draw.rows] + 0.9 * problem.inner(w, draw)
        gradient = np.zeros(D)
        for i, row in enumerate(draw.rows):
            u1, u2 = U[row]
            nabla_f = np.array([-1 / u2, u1 / u2**2])
            gradient += problem.inner_jacobian(w, draw)[i].T @ nabla_f / len(draw.rows)
        w = w - 0.7 * (gradient + 2e-3 * w)
        expected.append(w)
    np.testing.assert_allclose(run("soap-sgd"), expected, rtol=1e-10, atol=1e-12)


def test_smoothap_descends_one_minus_the_mean_smooth_precision() -> None:
    batch = Batch(np.arange(3), np.arange(4))
    rows = np.concatenate([np.flatnonzero(POSITIVE)[:3], np.flatnonzero(~POSITIVE)[:4]])
    problem = problem_of("smoothap", penalty=0.0)

    def loss(w: Floats) -> float:
        s = problem.scores(w, rows)
        precision = []
        for i in range(3):
            above = 1 / (1 + np.exp(-10.0 * (s - s[i])))
            above[i] = 1.0
            precision.append(above[:3].sum() / above.sum())
        return 1 - float(np.mean(precision))

    draw = Draw(batch.positives, batch, batch)
    (first,) = rounds_of(METHODS["smoothap"], problem, W, [draw], **(OPTIONS | {"eta": 1.0}))
    step = 1e-6
    numeric = [(loss(W + step * e) - loss(W - step * e)) / (2 * step) for e in np.eye(D)]
    np.testing.assert_allclose(W - first.w, numeric, atol=1e-8)


@pytest.mark.parametrize("name", ["bsgd", "soap-sgd", "sox", "moap-v1", "moap-v2"])
def test_all_data_and_betas_of_1_give_the_exact_gradient(name: str) -> None:
    everything = Batch(np.arange(M), np.arange(N - M))
    draw = Draw(everything.positives, everything, everything)
    options = OPTIONS | {"beta0": 1.0, "beta1": 1.0, "beta2": 1.0}
    problem, every = problem_of(name), np.arange(N)
    (first,) = rounds_of(METHODS[name], problem, W, [draw], **options)
    result = surrogate_ap(problem.scores(W, every), POSITIVE, gamma=0.3)
    exact = -result.gradient @ problem.score_jacobian(W, every) + 2e-3 * W
    np.testing.assert_allclose(first.w, W - 0.7 * exact, rtol=1e-10)
    assert (first.u[:, 0] / first.u[:, 1]).mean() == pytest.approx(result.value, rel=1e-12)


def test_a_row_starts_at_its_first_estimate() -> None:
    problem, (first, *_) = problem_of("moap-v1"), draws()
    (one,) = rounds_of(METHODS["moap-v1"], problem, W, [first], **(OPTIONS | {"beta0": 0.1}))
    np.testing.assert_allclose(one.u[first.rows], problem.inner(W, first), rtol=1e-14)
