"""Coefficients of an additive model from all rows of files, with the basis of a sample."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from apmax import AdditiveAPClassifier
from apmax.binary_target import binary_target
from apmax.errors import FileError, NonFiniteError
from apmax.lbfgs import minimise
from apmax.linear.averaging import standardised
from apmax.linear.base import TrainingSet
from apmax.linear.design import make_design
from apmax.linear.full_batch import logistic_objective
from apmax.scale.blocks import MemoryBlocks, Progress
from apmax.tabular import refit
from apmax.tabular.grids import GridBlocks, GridRows, Grids
from apmax.tabular.terms import matrix

pytest.importorskip("pyarrow")
ROWS, SAMPLE = 6000, 2000
RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "a": RNG.normal(size=ROWS),
        "b": RNG.exponential(size=ROWS),
        "kind": RNG.choice(["x", "y", "z", None], ROWS),
        "few": RNG.integers(0, 3, ROWS),
    }
)
X.loc[RNG.random(ROWS) < 0.1, "b"] = np.nan
Y = np.asarray(
    X["a"] ** 2 + 2 * (X["kind"] == "z") + (X["b"] * (X["a"] > 0)).fillna(1)
    + RNG.logistic(size=ROWS) > 4.5
)  # fmt: skip
WEIGHT = RNG.uniform(0.5, 2, ROWS)


def additive() -> AdditiveAPClassifier:
    return AdditiveAPClassifier(interactions=2, cv=3)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    table = X.assign(y=Y, v=WEIGHT)
    table[:2500].to_parquet(tmp_path / "0.parquet")
    table[2500:].to_parquet(tmp_path / "1.parquet")
    return tmp_path


@pytest.fixture(scope="module")
def sampled() -> AdditiveAPClassifier:
    return additive().fit(X[:SAMPLE], Y[:SAMPLE], WEIGHT[:SAMPLE])


def test_positions_stand_for_the_basis_functions(sampled: AdditiveAPClassifier) -> None:
    new = X[SAMPLE : SAMPLE + 50].assign(kind=[None, "new", *"xyz"] * 10)
    new.loc[SAMPLE + 10 :, "a"] = np.nan
    new.loc[SAMPLE + 20 :, "b"] = [1e6, -1e6, *np.linspace(0, 5, 28)]
    dense = matrix(sampled._terms, sampled.columns_.transform(new))
    grids = Grids(sampled.columns_, sampled._terms)
    rows = GridRows(grids.positions(new), grids)
    assert rows.shape == dense.shape
    np.testing.assert_allclose(rows @ np.eye(dense.shape[1]), dense, atol=1e-6)
    np.testing.assert_allclose((rows.T @ np.eye(50)).T, dense, atol=1e-6)


def test_the_refit_is_that_of_the_matrix_in_memory(
    sampled: AdditiveAPClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    linear = sampled.linear_
    monkeypatch.setattr(linear, "tol", 1e-10)
    monkeypatch.setattr(refit, "LOGISTIC_TOL", 1e-10)
    monkeypatch.setattr(refit, "LEAST_GAIN", 1e-17)
    grids = Grids(sampled.columns_, sampled._terms)
    blocks = MemoryBlocks(grids.positions(X), Y, WEIGHT, rows=1000)
    found, result = refit.refit(GridBlocks(blocks, grids), linear, Progress())
    assert result.converged

    target = binary_target(Y, WEIGHT)
    data = TrainingSet(matrix(sampled._terms, sampled.columns_.transform(X)), target)
    design = make_design(data.X, "given", target.weight)
    penalty = 1 / (2 * linear.C_ * target.total)
    logistic = minimise(
        logistic_objective(design, target.positive, target.weight, penalty),
        np.zeros(design.parameters),
        max_iter=10_000,
        tol=1e-12,
        least_gain=1e-17,
    )
    weights = linear.weights_["given"]
    used = np.flatnonzero(weights[1:])
    path = linear._checked_path()
    path = path._replace(alphas=tuple(path.alphas[k] for k in used), max_iter=5000)
    fits = [logistic.w, *(one.w for one in path.along(design, data, logistic.w))]
    members = [
        weights[k] * standardised(design, w, target.weight)
        for k, w in zip([0, *used + 1], fits, strict=True)
    ]
    of_sample = np.append(linear.coef_[0], linear.intercept_)
    mean = sum(
        standardised(design, design.scaled(w), target.weight)
        for w in (np.sum(members, axis=0), of_sample)
    )
    ours, theirs = (w[:-1] / np.linalg.norm(w[:-1]) for w in (found, mean))
    assert np.linalg.norm(ours - theirs) < 1e-6
    p = 1 / (1 + np.exp(-(data.X @ found[:-1] + found[-1])))
    assert np.average(p, weights=WEIGHT) == pytest.approx(np.average(Y, weights=WEIGHT), rel=0.05)


def test_files_are_fitted_with_and_without_a_copy(files: Path) -> None:
    cached, streamed, sample = additive(), additive(), additive()
    stages: list[str] = []
    cached.on_progress = lambda stage, done, of, ap: stages.append(stage)
    cached.fit_files(files, "y", sample_weight="v", rows=SAMPLE)
    streamed.fit_files(files, "y", sample_weight="v", rows=SAMPLE, cache=False)
    np.testing.assert_allclose(cached.decision_function(X), streamed.decision_function(X))
    sample._fit_sample(files, "y", None, "v", SAMPLE, 0)
    assert cached.out_of_fold_.size == SAMPLE
    np.testing.assert_array_equal(cached.out_of_fold_, sample.out_of_fold_)
    assert "all rows" in stages
    assert not np.allclose(cached.decision_function(X), sample.decision_function(X), rtol=1e-3)
    total = cached.explain(X).to_numpy().sum(axis=1)
    np.testing.assert_allclose(total, cached.decision_function(X))
    assert cached.score(X, Y, WEIGHT) > sample.score(X, Y, WEIGHT)


def test_interrupted_refits_keep_the_model_of_the_sample(files: Path) -> None:
    def interrupt(stage: str, done: int, of: int, ap: float) -> None:
        if stage == "all rows":
            signal.raise_signal(signal.SIGINT)

    model, sample = additive(), additive()
    model.on_progress = interrupt
    with pytest.warns(ConvergenceWarning, match="kept the coefficients of the sample"):
        model.fit_files(files, "y", sample_weight="v", rows=SAMPLE)
    assert model.result_.interrupted
    sample._fit_sample(files, "y", None, "v", SAMPLE, 0)
    np.testing.assert_array_equal(model.predict_proba(X), sample.predict_proba(X))


def test_bad_values_outside_the_sample_are_located(files: Path) -> None:
    table: Any = X.assign(y=Y)
    table.loc[np.flatnonzero(~Y)[-1], "a"] = np.inf
    table.to_parquet(files / "0.parquet")
    (files / "1.parquet").unlink()
    model = additive()
    with pytest.raises(
        NonFiniteError, match=r"0\.parquet, rows 0 to 5999: column 'a' contains inf"
    ):
        model.fit_files(files, "y", rows=SAMPLE)
    assert not hasattr(model, "linear_")
    with pytest.raises(FileError, match="is not a folder"):
        model.fit_files(files, "y", cache=files / "0.parquet")
