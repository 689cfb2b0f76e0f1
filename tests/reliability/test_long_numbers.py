"""Numbers that stay right: a million rounds, scores at the ends of σ, half the digits, threads."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.special import expit

from apmax import surrogate_ap
from apmax.linear.design import Design
from apmax.linear.stochastic import StochasticRun
from apmax.methods import RandomizedCoordinate, resolve_method
from apmax.objective.outer import Box
from apmax.objective.surrogates import SQUARED_HINGE
from apmax.torch import APLoss, CompositionalLoss

BETAS = [1e-6, 5e-4, 1.0]
"""A million rounds leave exp(-1) and exp(-500) of a row, and nothing."""


def eager_decay(u: float, beta0: float, rounds: int) -> float:
    """u · (1 − β₀)^rounds, by multiplying every round, in extended precision."""
    keep, left = np.longdouble(1) - np.longdouble(beta0), np.longdouble(u)
    for _ in range(rounds):
        left *= keep
    return float(left)


@pytest.mark.parametrize("beta0", BETAS, ids=str)
@pytest.mark.parametrize("rounds", [300, pytest.param(10**6, marks=pytest.mark.soak)], ids=str)
def test_a_row_left_alone_has_decayed_as_if_every_round_had_touched_it(
    beta0: float, rounds: int
) -> None:
    box = Box.of(SQUARED_HINGE, 0.1, m=5, n=50)
    tracker = RandomizedCoordinate(5, box=None)
    bounded = RandomizedCoordinate(5, box=box)
    loss = CompositionalLoss(
        lambda u: u[:, 0], 5, 2, tracker="randomized_coordinate", beta0=beta0
    ).double()
    start = np.array([[0.01, 0.02], [0.05, 0.5]])
    later = np.array([[0.02, 0.3]])
    estimates = torch.tensor(later)
    for one in (tracker, bounded):
        one.update(np.array([0, 1]), start, beta0)
    loss(torch.tensor(start), torch.tensor([0, 1]))
    other = np.array([2])
    for _ in range(rounds):
        tracker.update(other, later, beta0)
        bounded.update(other, later, beta0)
        loss(estimates, torch.tensor(other))
    factor = eager_decay(1.0, beta0, rounds)
    np.testing.assert_allclose(tracker.values()[:2], start * factor, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(loss.tracked()[:2].numpy(), start * factor, rtol=1e-9, atol=1e-300)
    clipped = bounded.values()[:3]
    np.testing.assert_array_equal(clipped, box.project(clipped))
    assert np.isfinite(tracker.values()[:3]).all()
    assert np.isfinite(tracker.log_decay).all()


def run_linear(beta0: float, rounds: int) -> tuple[StochasticRun, Box]:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 4 == 0
    X = rng.normal(size=(60, 3)) + y[:, None]
    run = StochasticRun(
        resolve_method("moap-v2"), Design(X), y, np.zeros(4),
        surrogate=SQUARED_HINGE, gamma=0.1, penalty=1e-4, anchor=None, fit_intercept=True,
        learning_rate=0.5, beta0=beta0, beta1=0.1, beta2=0.001, delta=1e-8,
        positives_per_batch=3, negatives_per_batch=5, sampling="shared", rng=rng,
    )  # fmt: skip
    for _ in range(max(1, rounds // 50_000)):
        run.advance(min(rounds, 50_000))
    return run, Box.of(SQUARED_HINGE, 0.1, m=15, n=60)


@pytest.mark.parametrize("beta0", BETAS, ids=str)
@pytest.mark.parametrize("rounds", [20_000, pytest.param(10**6, marks=pytest.mark.soak)], ids=str)
def test_u_stays_within_its_box_and_the_clock_finite(beta0: float, rounds: int) -> None:
    run, box = run_linear(beta0, rounds)
    assert run.rounds == rounds
    seen = run.memory.u[run.memory.written_at >= 0]
    np.testing.assert_array_equal(seen, box.project(seen))
    assert np.isfinite(run.log_decay).all()
    assert (np.diff(run.log_decay[:, 0]) <= 0).all()
    assert np.isfinite(run.w).all()


def test_the_linear_clock_is_the_exact_sum() -> None:
    run, _ = run_linear(1e-6, 50_000)
    expected = sum(
        np.log1p(-np.longdouble(1e-6) / np.sqrt(np.longdouble(t))) for t in range(1, 50_001)
    )
    assert float(run.log_decay[-1].sum()) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("size", [30.0, 700.0, 750.0, 1e4, 1e300], ids=str)
def test_logits_far_out_give_finite_gradients_through_sigma(size: float) -> None:
    y = np.arange(20) % 4 == 0
    logits = np.where(np.arange(20) % 3 == 0, size, -size)
    result = surrogate_ap(expit(logits), y, surrogate="logistic", gamma=20.0)
    assert np.isfinite(result.gradient).all()
    direct = surrogate_ap(np.clip(logits, -1e4, 1e4), y, surrogate="logistic", gamma=1.0)
    assert 0 < direct.value <= 1
    assert np.isfinite(direct.gradient).all()
    z = torch.tensor(logits, requires_grad=True)
    for surrogate in ("squared_hinge", "logistic"):
        z.grad = None
        value = APLoss(y, surrogate=surrogate)(z.sigmoid(), torch.arange(20))
        value.backward()
        assert z.grad is not None
        assert torch.isfinite(z.grad).all()
        assert value.item() < 0


@pytest.mark.parametrize("surrogate", ["squared_hinge", "logistic"])
def test_single_precision_scores_stay_within_1e_5_of_double(surrogate: str) -> None:
    """Of U in float32 after 500 batches, and of the exact objective of float32 scores."""
    rng = np.random.default_rng(0)
    y = rng.random(500) < 0.2
    narrow, wide = (APLoss(y, surrogate=surrogate) for _ in range(2))
    wide.double()
    for _ in range(500):
        index = torch.tensor(rng.choice(500, 60, replace=False))
        scores = torch.tensor(rng.random(60))
        narrow(scores.float(), index)
        wide(scores, index)
    assert narrow.average_precision() == pytest.approx(wide.average_precision(), abs=1e-5)
    s = rng.normal(size=10_000)
    positive = rng.random(10_000) < 0.1
    single = surrogate_ap(s.astype(np.float32), positive, surrogate=surrogate)
    double = surrogate_ap(s, positive, surrogate=surrogate)
    assert single.value == pytest.approx(double.value, abs=1e-5)


SAME_BITS = """
import hashlib, warnings, numpy as np
from apmax import APClassifier, average_precision, surrogate_ap
from apmax import kernels
kernels.THREADS_FROM = 1 << 12
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
y = rng.random(30_000) < 0.1
s = rng.normal(size=y.size) + y
X = rng.normal(size=(2000, 5)) + y[:2000, None]
parts = [average_precision(y, s)]
for surrogate, gamma in (("squared_hinge", 0.1), ("logistic", 20.0)):
    result = surrogate_ap(s, y, surrogate=surrogate, gamma=gamma)
    parts += [result.value, result.gradient]
for solver in ("lbfgs", "adap-adam"):
    parts.append(APClassifier(solver, max_iter=20, random_state=0).fit(X, y[:2000]).coef_)
print([hashlib.sha256(np.asarray(part).tobytes()).hexdigest()[:16] for part in parts])
"""


def test_one_thread_and_two_give_the_same_bits() -> None:
    found = []
    for threads in ("1", "2"):
        environment = {"NUMBA_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", SAME_BITS],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, **environment},
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        found.append(done.stdout)
    assert found[0] == found[1]
