"""The linear solvers beside PyTorch and LogisticRegression, and how a step scales."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from threadpoolctl import threadpool_limits

from apmax import APClassifier, APClassifierCV, StochasticAPClassifier, average_precision
from apmax.linear.design import Design
from apmax.linear.stochastic import StochasticRun
from apmax.methods import METHODS
from apmax.objective.surrogates import SQUARED_HINGE
from benchmarks.real_data import data_folder, splits
from benchmarks.timing import Line, medians, report

ROUNDS = 2000
BATCH = 10
STOCHASTIC, ROUNDS_TO_QUALITY = "soap-adam", 1250


def lines() -> Iterator[Line]:
    warnings.simplefilter("ignore", ConvergenceWarning)
    yield from _growth()
    yield Line(
        "seconds of a first fit of 1,000 rows in a new process, import included", _first_fit(), 3
    )
    yield Line("CPU seconds of a first fit, empty compile cache", _uncached(_FIRST_FIT), 6)
    yield Line("CPU seconds of a first APLoss call, empty compile cache", _uncached(_FIRST_LOSS), 6)
    if data_folder() is None:
        print("(no data: set APMAX_DATA for the comparisons on w8a, a9a and ijcnn1)")
        return
    yield from _beside_torch()
    yield from _beside_logistic_regression()
    yield from _beside_logistic_regression_cv()
    yield from _time_to_quality()


def _run(X: Any, positive: np.ndarray) -> StochasticRun:
    return StochasticRun(
        METHODS["adap-adam"],
        Design(X),
        positive,
        np.zeros(X.shape[1] + 1),
        surrogate=SQUARED_HINGE,
        gamma=0.2,
        penalty=1e-4,
        fit_intercept=True,
        learning_rate=0.01,
        beta0=0.9,
        beta1=0.1,
        beta2=0.001,
        delta=1e-8,
        positives_per_batch=BATCH,
        negatives_per_batch=BATCH,
        sampling="shared",
        rng=np.random.default_rng(0),
    )


def _steps(X: Any, positive: np.ndarray) -> Callable[[], None]:
    run = _run(X, positive)
    return partial(run.advance, ROUNDS)


def _growth() -> Iterator[Line]:
    """Seconds of a step with few and with many examples, and with few and many positives."""
    rng = np.random.default_rng(0)
    for what, sizes in (
        ("n = 10^4 → 10^7", ((10**4, 10**3), (10**7, 10**3))),
        ("m = 10^2 → 10^6", ((2 * 10**6, 10**2), (2 * 10**6, 10**6))),
    ):
        sides = []
        for n, m in sizes:
            X = sp.csr_matrix(
                (np.ones(4 * n, np.float32), rng.integers(0, 300, 4 * n), np.arange(n + 1) * 4),
                shape=(n, 300),
            )
            sides.append(_steps(X, np.arange(n) < m))
        few, many = medians(9, *sides)
        yield Line(f"time of a step, {what}", many / few, 2)


def _beside_torch() -> Iterator[Line]:
    """The same ADAP step, 10 + 10 examples of w8a, as a lean loop in PyTorch."""
    import torch

    torch.set_num_threads(1)
    split = next(splits("w8a"))
    m, n = int(split.y.sum()), split.y.size
    dense = torch.tensor(split.X.toarray(), dtype=torch.float32)
    plus, minus = torch.tensor(np.flatnonzero(split.y)), torch.tensor(np.flatnonzero(~split.y))
    w = torch.zeros(dense.shape[1] + 1, requires_grad=True)
    adam = torch.optim.Adam([w], lr=0.01, betas=(0.9, 0.999), weight_decay=2e-4)
    U, seen = torch.zeros(m, 2), torch.zeros(m, dtype=torch.bool)
    generator = torch.Generator().manual_seed(0)
    others = 1 - torch.eye(BATCH)
    t = 0

    def torch_steps() -> None:
        nonlocal t
        for _ in range(ROUNDS):
            t += 1
            rows = torch.randint(m, (BATCH,), generator=generator)
            negatives = torch.randint(n - m, (BATCH,), generator=generator)
            x = dense[torch.cat([plus[rows], minus[negatives]])]
            s = torch.sigmoid(x @ w[:-1] + w[-1])
            pairs = torch.relu(s[None, :] - s[:BATCH, None] + 0.2) ** 2
            own = 0.04 / n
            g1 = own + (m - 1) / (BATCH - 1) / n * (pairs[:, :BATCH] * others).sum(1)
            g2 = g1 + (n - m) / BATCH / n * pairs[:, BATCH:].sum(1)
            g = torch.stack([g1, g2], 1)
            with torch.no_grad():
                beta0 = 0.9 / t**0.5
                moved = (1 - beta0) * U[rows] + beta0 * m / BATCH * g
                u = torch.where(seen[rows, None], moved, g)
                u[:, 0].clamp_(0, 1.44 * m / n)
                u[:, 1].clamp_(own, 1.44)
                U[rows], seen[rows] = u, True
                pull = torch.stack([-1 / u[:, 1], u[:, 0] / u[:, 1] ** 2], 1) / BATCH
            adam.zero_grad(set_to_none=True)
            (pull * g).sum().backward()  # type: ignore[no-untyped-call]
            adam.param_groups[0]["lr"] = 0.01 / t**0.5
            adam.step()

    ours, theirs = medians(3, _steps(split.X, split.y), torch_steps)
    print(f"(a step of ours {ours / ROUNDS * 1e6:.1f} µs, of torch {theirs / ROUNDS * 1e6:.0f} µs)")
    yield Line(
        "a step of adap-adam, 10 + 10 examples of w8a: PyTorch / apmax",
        theirs / ours,
        20,
        at_least=True,
    )


def _beside_logistic_regression() -> Iterator[Line]:
    for name in ("w8a", "a9a", "ijcnn1"):
        split = next(splits(name))
        ours, theirs = medians(
            3,
            partial(APClassifier().fit, split.X, split.y),
            partial(LogisticRegression(C=10, max_iter=2000).fit, split.X, split.y),
        )
        yield Line(f"fit of APClassifier() / LogisticRegression(C=10), {name}", ours / theirs, 3)


def _beside_logistic_regression_cv() -> Iterator[Line]:
    """Both choose among ten Cs by AP over five folds and scale X."""
    for name in ("w8a", "a9a", "ijcnn1", "cover"):
        split = next(splits(name))
        model = LogisticRegressionCV(
            Cs=10,
            cv=5,
            scoring="average_precision",
            max_iter=2000,
            l1_ratios=(0.0,),
            use_legacy_attributes=False,
        )
        scalers = StandardScaler(with_mean=not sp.issparse(split.X)), MaxAbsScaler()
        ours, *theirs = medians(
            3,
            partial(APClassifierCV().fit, split.X, split.y),
            *(partial(make_pipeline(scaler, model).fit, split.X, split.y) for scaler in scalers),
        )
        for of, each in zip(("unit deviation", "unit maximum"), theirs, strict=True):
            what = f"fit of APClassifierCV() / LogisticRegressionCV, {name}, {of}"
            yield Line(what, ours / each, 2)


def _time_to_quality() -> Iterator[Line]:
    """How long the stochastic default takes to LogisticRegression(C=10)'s test AP on w8a."""
    split = next(splits("w8a"))
    logistic = LogisticRegression(C=10, max_iter=2000)
    models = [
        StochasticAPClassifier(STOCHASTIC, max_iter=ROUNDS_TO_QUALITY, random_state=seed)
        for seed in range(5)
    ]
    spent, *seconds = medians(
        9, *(partial(model.fit, split.X, split.y) for model in (logistic, *models))
    )
    target = average_precision(split.y_test, logistic.decision_function(split.X_test))
    reached = [average_precision(split.y_test, m.decision_function(split.X_test)) for m in models]
    for seed, (ap, each) in enumerate(zip(reached, seconds, strict=True)):
        print(
            f"(seed {seed}: test AP {ap:.4f} in {each:.3f} s; wanted {target:.4f}, {spent:.3f} s)"
        )
    in_time = [each if ap >= target else np.inf for ap, each in zip(reached, seconds, strict=True)]
    ratio = float(np.median(in_time)) / spent
    yield Line(f"{STOCHASTIC} to LogisticRegression's test AP / its fit, w8a", ratio, 0.5)


_FIRST_FIT = """
import numpy as np
from apmax import APClassifier
rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 10))
APClassifier().fit(X, X[:, 0] > 1.5)
"""


_FIRST_LOSS = """
import time
import numpy as np
import torch
from apmax.torch import APLoss
y = np.arange(1000) % 20 == 0
loss, scores = APLoss(y), torch.rand(1000, requires_grad=True)
start = time.process_time()
loss(scores, torch.arange(1000)).backward()
print(time.process_time() - start)
"""


def _uncached(program: str) -> float:
    """CPU seconds that `program` prints, or of the whole process if it prints nothing."""
    with tempfile.TemporaryDirectory() as cache:
        before = os.times()
        done = subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "NUMBA_CACHE_DIR": cache},
        )
        after = os.times()
    spent = after.children_user - before.children_user
    spent += after.children_system - before.children_system
    return float(done.stdout) if done.stdout.strip() else spent


def _first_fit() -> float:
    command = [sys.executable, "-c", _FIRST_FIT]
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(command, check=True)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


if __name__ == "__main__":
    with threadpool_limits(1):
        sys.exit(1 if report("linear_speed", lines()) else 0)
