"""The compiled loop equals the oracle, draw by draw and step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from apmax import surrogate_ap
from apmax.linear._rounds import Draws, draw_distinct
from apmax.linear.design import Design
from apmax.linear.stochastic import StochasticRun
from apmax.methods import METHODS, Method, resolve_method
from apmax.objective.surrogates import resolve
from apmax.validation import Floats
from tests.oracle.algorithms import rounds_of
from tests.oracle.estimates import Draw, Problem, draw_batches

RNG = np.random.default_rng(0)
N, M, D, ROUNDS = 80, 13, 6, 40
X = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.6)
POSITIVE = np.isin(np.arange(N), RNG.choice(N, M, replace=False))
X[POSITIVE, 0] += 1.0
W = RNG.normal(size=D + 1) * 0.1
OPTIONS = {"learning_rate": 0.5, "beta0": 0.9, "beta1": 0.4, "beta2": 0.1, "delta": 1e-3}


def draws(sampling: str, rounds: int = ROUNDS) -> list[Draw]:
    return draw_batches(1, M, N - M, 3, 5, sampling, rounds)


def as_arrays(chosen: list[Draw], sampling: str) -> Draws:
    columns = [(d.rows, *d.values, *d.slopes) for d in chosen]
    return Draws(sampling == "shared", *(np.array(part) for part in zip(*columns, strict=True)))


def gamma_of(method: Method) -> float:
    return 0.3 if method.surrogate == "squared_hinge" else 8.0


def start_run(
    name: str | Method, matrix: Any = X, scale: Floats | None = None, **changes: Any
) -> StochasticRun:
    method = resolve_method(name)
    options: dict[str, Any] = {
        "surrogate": resolve(method.surrogate),
        "gamma": gamma_of(method),
        "penalty": 0.01,
        "fit_intercept": True,
        "positives_per_batch": 3,
        "negatives_per_batch": 5,
        "sampling": "shared",
        "rng": np.random.default_rng(5),
    }
    design = Design(matrix, scale)
    return StochasticRun(method, design, POSITIVE, W, **(options | OPTIONS | changes))


def reference(
    method: Method,
    chosen: list[Draw],
    *,
    gamma: float | None = None,
    fade_over: int | None = None,
) -> list[Floats]:
    problem = Problem.of(
        method,
        np.column_stack([X, np.ones(N)]),
        POSITIVE,
        gamma_of(method) if gamma is None else gamma,
        penalty=0.01,
        intercept=True,
    )
    options = {"eta" if name == "learning_rate" else name: v for name, v in OPTIONS.items()}
    return [one.w for one in rounds_of(method, problem, W, chosen, fade_over=fade_over, **options)]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("sampling", ["shared", "independent"])
def test_every_solver_equals_the_reference_step_by_step(name: str, sampling: str) -> None:
    chosen = draws(sampling)
    expected = reference(METHODS[name], chosen)
    queue = list(chosen)

    def next_draws(rounds: int) -> Draws:
        taken = [queue.pop(0) for _ in range(rounds)]
        return as_arrays(taken, sampling)

    run = start_run(name, sampling=sampling, draws=next_draws)
    for step in range(ROUNDS):
        run.advance(1)
        np.testing.assert_allclose(run.w, expected[step], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["moap-v2", "adap-adam"])
def test_the_elapsed_average_equals_the_reference(name: str) -> None:
    chosen = draws("shared")
    method = replace(METHODS[name], name="variant", tracker="elapsed_average")
    expected = reference(method, chosen)
    run = start_run(method, draws=lambda rounds: as_arrays(chosen[:rounds], "shared"))
    run.advance(ROUNDS)
    np.testing.assert_allclose(run.w, expected[-1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("gamma", [40.0, 900.0], ids=["near", "too far apart to share an exp"])
@pytest.mark.parametrize("name", ["soap-adam", "adap-adam"])
def test_a_steep_surrogate_and_a_fading_rate_equal_the_reference(name: str, gamma: float) -> None:
    chosen = draws("shared")
    method = replace(METHODS[name], surrogate="logistic")
    expected = reference(method, chosen, gamma=gamma, fade_over=ROUNDS)
    run = start_run(
        name, surrogate=resolve("logistic"), gamma=gamma, fade_over=ROUNDS,
        draws=lambda rounds: as_arrays(chosen[:rounds], "shared"),
    )  # fmt: skip
    run.advance(ROUNDS)
    np.testing.assert_allclose(run.w, expected[-1], rtol=1e-9, atol=1e-9)
    assert np.abs(expected[-1] - expected[-2]).max() < np.abs(expected[1] - expected[0]).max()


@pytest.mark.parametrize("name", METHODS)
def test_chunks_of_any_size_give_the_same_run(name: str) -> None:
    chosen = draws("shared")

    def run_in(sizes: list[int]) -> Floats:
        queue = list(chosen)
        run = start_run(name, draws=lambda k: as_arrays([queue.pop(0) for _ in range(k)], "shared"))
        for size in sizes:
            run.advance(size)
        return run.w

    np.testing.assert_array_equal(run_in([ROUNDS]), run_in([1, 7, 20, 12]))


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("name", ["adap-adam", "moap-v2", "smoothap"])
def test_dense_equals_csr(name: str, form: Any) -> None:
    runs = [start_run(name, matrix) for matrix in (X, form(X))]
    for run in runs:
        run.advance(200)
    np.testing.assert_allclose(runs[0].w, runs[1].w, rtol=1e-9, atol=1e-10)


def test_rows_without_entries_are_read() -> None:
    """Also where there is none at all, or none from some row on."""
    empty, first = sp.csr_matrix(X.shape), sp.csr_matrix(np.where(np.arange(N)[:, None] == 0, X, 0))
    for matrix in (empty, first):
        run, dense = start_run("soap-sgd", matrix), start_run("soap-sgd", matrix.toarray())
        run.advance(50)
        dense.advance(50)
        np.testing.assert_allclose(run.w, dense.w, rtol=1e-12)


def test_int64_indices_work() -> None:
    wide = sp.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    run, plain = start_run("moap-v1", wide), start_run("moap-v1", sp.csr_matrix(X))
    run.advance(50)
    plain.advance(50)
    np.testing.assert_array_equal(run.w, plain.w)


@pytest.mark.parametrize("name", ["adap-adam", "moap-v2", "soap-sgd"])
def test_float32_stays_close(name: str) -> None:
    runs = [start_run(name, matrix) for matrix in (X, X.astype(np.float32))]
    for run in runs:
        run.advance(20)
    np.testing.assert_allclose(runs[0].w, runs[1].w, atol=1e-4)


def test_a_scale_is_the_same_as_scaled_features() -> None:
    scale = RNG.uniform(0.5, 2.0, D)
    scaled, by_hand = start_run("adap-adam", X, scale), start_run("adap-adam", X * scale)
    scaled.advance(60)
    by_hand.advance(60)
    np.testing.assert_allclose(scaled.w, by_hand.w, rtol=1e-8)


def test_one_seed_gives_the_same_bits_twice() -> None:
    runs = [start_run("adap-adam") for _ in range(2)]
    for run in runs:
        run.advance(300)
    np.testing.assert_array_equal(runs[0].w, runs[1].w)
    other = start_run("adap-adam", rng=np.random.default_rng(6))
    other.advance(300)
    assert not np.array_equal(runs[0].w, other.w)


def test_without_an_intercept_it_stays_where_it_was() -> None:
    run = start_run("adap-adam", fit_intercept=False)
    run.advance(30)
    assert run.w[-1] == W[-1]
    assert run.w[0] != W[0]


def test_state_takes_24_bytes_per_positive() -> None:
    memory = start_run("adap-adam").memory
    assert memory.u.nbytes + memory.written_at.nbytes == 24 * M


@pytest.mark.parametrize(("population", "size"), [(5, 5), (50, 7), (10**9, 3), (1, 1), (3, 0)])
def test_draws_are_distinct_and_below_the_population(population: int, size: int) -> None:
    out = np.empty((500, size), dtype=np.int64)
    draw_distinct(np.random.default_rng(0).random(out.shape), population, out)
    assert out.size == 0 or (out.min() >= 0 and out.max() < population)
    assert all(len(set(row)) == size for row in out.tolist())


def test_every_set_is_drawn_equally_often() -> None:
    out = np.empty((60_000, 2), dtype=np.int64)
    draw_distinct(np.random.default_rng(0).random(out.shape), 4, out)
    sets, counts = np.unique(np.sort(out, axis=1), axis=0, return_counts=True)
    assert len(sets) == 6
    np.testing.assert_allclose(counts, 10_000, rtol=0.03)


@pytest.mark.parametrize("name", ["bsgd", "soap-sgd", "moap-v2"])
def test_with_all_data_a_weighted_step_follows_the_exact_weighted_gradient(name: str) -> None:
    weight = RNG.uniform(0.5, 2.0, N)
    everything = (np.arange(M)[None], np.arange(N - M)[None])
    all_draws = Draws(True, everything[0], *everything, *everything)
    options = {"learning_rate": 0.1, "beta0": 1.0, "beta1": 1.0, "penalty": 0.0}
    run = start_run(name, weight=weight, draws=lambda rounds: all_draws, **options)
    run.advance(1)
    s = 1 / (1 + np.exp(-(X @ W[:-1] + W[-1])))
    exact = surrogate_ap(s, POSITIVE, gamma=0.3, sample_weight=weight)
    slopes = exact.gradient * s * (1 - s)
    uphill = np.append(X.T @ slopes, slopes.sum())
    np.testing.assert_allclose(run.w, W + 0.1 * uphill, rtol=1e-9)


def test_weighted_sums_lie_in_the_box_of_u() -> None:
    """The least: a light positive that sees only itself. The most: heavy examples above one."""
    weight = np.where(np.arange(N) % 2, 0.01, 3.0)
    run = start_run("moap-v2", weight=weight)
    _, top1, bottom2, top2 = run.rules.omega
    v = weight / weight[POSITIVE].mean()
    light = np.flatnonzero(POSITIVE & (weight < 1))[0]
    hinge = resolve("squared_hinge")
    for scores in (np.arange(N) == light, np.arange(N) != light):
        pairs = v * hinge.value(scores - 1.0 * scores[light], 0.3) / N
        assert bottom2 <= pairs.sum() <= top2
        assert pairs[POSITIVE].sum() <= top1


def test_decays_are_kept_only_where_they_are_read() -> None:
    runs = {name: start_run(name) for name in ("soap-adam", "adap-adam")}
    for run in runs.values():
        for rounds in (1, 7, 500, 3):
            run.advance(rounds)
    assert runs["soap-adam"].log_decay.shape == (1, 2)
    by_hand = np.cumsum(np.log1p(-0.9 / np.sqrt(np.arange(1, 512))))
    np.testing.assert_allclose(runs["adap-adam"].log_decay.sum(axis=1)[1:], by_hand, rtol=1e-12)
