"""Coefficients of an additive model from all rows of files, with the basis of a sample."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from apmax import AdditiveAPClassifier
from apmax.binary_target import binary_target
from apmax.errors import FileError, LabelError, NonFiniteError
from apmax.lbfgs import minimise
from apmax.linear.averaging import standardised
from apmax.linear.base import TrainingSet
from apmax.linear.design import make_design
from apmax.linear.full_batch import logistic_objective
from apmax.scale import files as data_files
from apmax.scale.blocks import MemoryBlocks, Progress
from apmax.scale.files import RawFiles
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
    sample._fit_sample(RawFiles(files, "y", None, "v"), SAMPLE, 0)
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
    sample._fit_sample(RawFiles(files, "y", None, "v"), SAMPLE, 0)
    np.testing.assert_array_equal(model.predict_proba(X), sample.predict_proba(X))


def test_a_second_ctrl_c_ends_a_refit(files: Path) -> None:
    def interrupt(stage: str, done: int, of: int, ap: float) -> None:
        if stage == "all rows":
            for _press in range(2):
                signal.raise_signal(signal.SIGINT)

    model = additive()
    model.on_progress = interrupt
    with pytest.raises(KeyboardInterrupt):
        model.fit_files(files, "y", sample_weight="v", rows=SAMPLE)
    assert not hasattr(model, "linear_")


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


def write_inverted_twice(path: Path) -> None:
    pd.concat([X.assign(y=~Y)] * 2).to_parquet(path)


def write_third_class(path: Path) -> None:
    X.assign(y=np.where(np.arange(ROWS) < ROWS - 1, Y.astype(int), 2)).to_parquet(path)


def write_negatives(path: Path) -> None:
    X.assign(y=Y)[~Y].to_parquet(path)


def sample_then(change: Callable[[Path], None], path: Path) -> AdditiveAPClassifier:
    """Return a model that changes a file once, while it is fitted to the sample."""
    X.assign(y=Y).to_parquet(path)
    model, stages = additive(), list[str]()

    def on_progress(stage: str, done: int, of: int, ap: float) -> None:
        if not stages:
            change(path)
        stages.append(stage)

    model.on_progress = on_progress
    return model


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (write_inverted_twice, "changed"),
        (write_third_class, "changed"),
        (write_negatives, "changed"),
        (Path.unlink, "was deleted"),
    ],
)
def test_files_that_change_after_the_sample_are_refused(
    change: Callable[[Path], None], message: str, cache: bool, tmp_path: Path
) -> None:
    model = sample_then(change, tmp_path / "0.parquet")
    with pytest.raises(FileError, match=rf"0\.parquet {message} while it was being read"):
        model.fit_files(tmp_path, "y", rows=SAMPLE, cache=cache)
    assert not hasattr(model, "linear_")


@pytest.mark.parametrize("cache", [True, False])
def test_labels_outside_the_classes_of_the_sample_are_refused(
    cache: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "_check_unchanged", lambda path, stamp: None)
    model = sample_then(write_third_class, tmp_path / "0.parquet")
    with pytest.raises(LabelError, match="column 'y' holds False, True, 2"):
        model.fit_files(tmp_path, "y", rows=SAMPLE, cache=cache)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_copy_larger_than_the_disk_is_refused_before_the_sample_is_fitted(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"0.{suffix}"
    write = {"parquet": pd.DataFrame.to_parquet, "csv": pd.DataFrame.to_csv}[suffix]
    write(X.assign(y=Y), path, index=False)
    usage = shutil.disk_usage(tmp_path)._replace(free=4 * X.size)  # of which a copy may take 95%
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    fitted: list[int] = []
    monkeypatch.setattr(AdditiveAPClassifier, "fit", lambda self, X, y, v: fitted.append(len(X)))
    with pytest.raises(FileError, match=r"needs .* GB.*cache=False"):
        additive().fit_files(path, "y", rows=SAMPLE)
    assert not fitted
    additive().fit_files(path, "y", rows=ROWS)  # needs no copy
    assert fitted == [ROWS]
