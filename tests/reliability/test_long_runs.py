"""Fits at the same time give the bits of sequential fits, and long runs stay exact and small."""

from __future__ import annotations

import gc
import os
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed
from scipy.special import expit

from apmax import AdditiveAPClassifier, APClassifier, AutoAPClassifier, StochasticAPClassifier
from apmax.app.io import load
from apmax.app.model import load_model, save_model
from apmax.app.report import Report, ScoredModel, write_report
from apmax.app.training import train_model
from apmax.linear.design import Design
from apmax.linear.stochastic import StochasticRun
from apmax.methods import LOG_OF_ZERO, METHODS
from apmax.objective.omega import Omega
from apmax.objective.surrogates import SQUARED_HINGE
from apmax.validation import Floats
from tests.oracle.equations import project
from tests.reliability.soak import MINUTES, record, scaled

pytestmark = pytest.mark.filterwarnings("ignore")  # few iterations; filters are not thread-safe
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 6))
Y = X[:, 0] + RNG.normal(size=400) > 1
METHOD_NAMES = ("adap-adam", "soap-sgd", "moap-v2", "smoothap")


def fit(number: int) -> Floats:
    """Fit one of many models, each with its own method, seed and rows."""
    rows = np.random.default_rng(number).permutation(400)[:300]
    name = METHOD_NAMES[number % 4]
    model = StochasticAPClassifier(name, max_iter=300, batch_size=16, random_state=number)
    if number % 5 == 0:
        model = APClassifier(max_iter=20)
    model.fit(X[rows], Y[rows])
    return np.append(model.coef_, model.intercept_)


@cache
def sequential_fits(count: int) -> list[Floats]:
    """Return the reference of `in_threads` and `in_processes`."""
    return [fit(number) for number in range(count)]


FEW_FITS = 20


def in_threads(count: int) -> list[Floats]:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(fit, range(count)))


def in_processes(count: int) -> list[Floats]:
    return list(Parallel(n_jobs=2)(delayed(fit)(number) for number in range(count)))


@pytest.mark.parametrize(
    "count", [FEW_FITS, pytest.param(scaled(1000), marks=pytest.mark.soak)], ids=str
)
@pytest.mark.parametrize("run", [in_threads, in_processes], ids=["threads", "processes"])
def test_fits_at_the_same_time_have_the_bits_of_sequential_fits(
    run: Callable[[int], list[Floats]], count: int
) -> None:
    before = np.random.get_state(legacy=False)  # noqa: NPY002
    expected = sequential_fits(count)
    np.testing.assert_array_equal(run(count), expected)
    assert len({row.tobytes() for row in expected}) == count
    np.testing.assert_equal(np.random.get_state(legacy=False), before)  # noqa: NPY002
    if count > FEW_FITS:
        record(
            f"fits {run.__name__.replace('_', ' ')} have the bits of sequential fits",
            f"{count:,} fits",
        )


def test_twenty_fits_leave_no_arrays_behind() -> None:
    for number in range(20):
        fit(number)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(20):
            fit(number)
        gc.collect()
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert left < 10 * X.nbytes  # fits that kept their data would leave 15 copies


def resident_memory() -> int:
    """Return the resident memory of this process in pages."""
    return int(Path("/proc/self/statm").read_text().split()[1])


def work_of_a_service(folder: Path) -> list[Callable[[int], Any]]:
    """Return what a service does by turns; the argument numbers the turns."""
    pd, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")
    from apmax.torch import ADAP, APLoss, PositiveNegativeBatchSampler

    names = [f"c{k}" for k in range(X.shape[1])]
    table = pd.DataFrame(X, columns=names).assign(y=np.where(Y, "yes", "no"))
    table.to_parquet(folder / "table.parquet")
    table.to_csv(folder / "table.csv", index=False)
    data = load(folder / "table.csv", target="y")
    features, labels = torch.from_numpy(X), torch.from_numpy(Y)

    def report(turn: int) -> None:
        weights = fit(turn)
        model = ScoredModel("a", Y, expit(X @ weights[:-1] + weights[-1]))
        write_report(Report(str(turn), [model]), folder / "report.html")

    def fit_table(turn: int) -> None:
        AdditiveAPClassifier(cv=2, interactions=turn % 2).fit(X, Y).decision_function(X)

    def compare_models(turn: int) -> None:
        model = AutoAPClassifier(["logistic", "additive"], cv=2, random_state=turn)
        model.fit(table[names], Y).predict_proba(table[names])

    def fit_files(turn: int) -> None:
        model = APClassifier(max_iter=20, alpha=0.1)
        model.fit_files(folder / "table.parquet", "y", checkpoint=folder / "fit.json")

    def train_network(turn: int) -> None:
        torch.manual_seed(turn)
        network, loss = torch.nn.Linear(6, 1).double(), APLoss(labels, from_logits=True).double()
        optimizer = ADAP(network.parameters(), lr=0.01)
        for batch in PositiveNegativeBatchSampler(labels, 32, 8):
            index = torch.tensor(batch)
            optimizer.zero_grad()
            loss(network(features[index])[:, 0], index, labels[index]).backward()
            optimizer.step()
        torch.save(loss.state_dict(), folder / "loss.pt")
        loss.load_state_dict(torch.load(folder / "loss.pt", weights_only=True))

    def store_and_predict(turn: int) -> None:
        trained = train_model(data, model="logistic", folds=2)
        save_model(trained.model, folder / "m.apmax")
        load_model(folder / "m.apmax").log_odds(table[names])

    return [report, fit_table, compare_models, fit_files, train_network, store_and_predict]


@pytest.mark.soak
def test_memory_stays_within_two_percent_while_a_service_works(tmp_path: Path) -> None:
    """In an hour it does at least what a service does in 12 hours that does all of it every minute.

    These are 720 turns.
    """
    work = work_of_a_service(tmp_path)
    seen: list[int] = []
    descriptors: list[int] = []
    begin, turns = time.monotonic(), 0
    while time.monotonic() < begin + 60 * MINUTES or turns < scaled(720) or len(seen) < 20:
        for step in work:
            step(turns)
        turns += 1
        if turns % 4 == 0:
            gc.collect()
            seen.append(resident_memory())
            descriptors.append(len(os.listdir("/proc/self/fd")))
    warm, last = max(seen[: len(seen) // 4]), max(seen[-5:])
    assert last < 1.02 * warm
    assert max(descriptors[-5:]) <= descriptors[0]  # idle processes of other tests may end
    kept = ["loss.pt", "m.apmax", "report.html", "table.csv", "table.parquet"]
    assert sorted(path.name for path in tmp_path.iterdir()) == kept
    record(
        "memory grows by at most 2 % and the number of open files does not grow",
        f"{turns:,} turns of {len(work)} fits, reports and stored models in {MINUTES:g} minutes: "
        f"memory {last / warm - 1:+.2%} after the first quarter",
    )


@pytest.mark.parametrize("beta0", [1e-6, 5e-4, 1.0], ids=str)
@pytest.mark.parametrize("rounds", [5_000, pytest.param(10**6, marks=pytest.mark.soak)], ids=str)
def test_after_many_rounds_the_decay_is_exact_and_u_lies_in_omega(
    beta0: float, rounds: int
) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 4 == 0
    run = StochasticRun(
        METHODS["moap-v2"], Design(rng.normal(size=(60, 3)) + y[:, None]), y, np.zeros(4),
        surrogate=SQUARED_HINGE, gamma=0.1, penalty=1e-4, fit_intercept=True, learning_rate=0.5,
        beta0=beta0, beta1=0.1, beta2=0.001, delta=1e-8, positives_per_batch=3,
        negatives_per_batch=5, sampling="shared", rng=rng,
    )  # fmt: skip
    for _ in range(max(1, rounds // 50_000)):
        run.advance(min(rounds, 50_000))
    assert run.rounds == rounds
    rate = beta0 / np.sqrt(np.arange(1, rounds + 1, dtype=np.longdouble))
    logs = np.log1p(-np.where(rate < 1, rate, 0)) + np.where(rate < 1, 0, LOG_OF_ZERO)
    decay = run.log_decay.astype(np.longdouble).sum(axis=1)
    np.testing.assert_allclose(decay[1:].astype(float), np.cumsum(logs).astype(float), rtol=1e-12)
    omega = Omega.of(SQUARED_HINGE, 0.1, m=15, n=60)
    assert (run.memory.written_at >= 0).all()
    np.testing.assert_array_equal(run.memory.u, project(omega, run.memory.u))
    assert np.isfinite(run.w).all()
