"""Estimators and table training: every layout gives the same model, unusable data an error."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from apmax import APClassifier, APClassifierCV, StochasticAPClassifier
from apmax.app.io import Dataset
from apmax.app.training import train_model
from tests.reliability.layouts import RNG, N, S, Y, array_bytes, assert_close, read_only

X = RNG.normal(size=(N, 4)) + Y[:, None] * [1.0, 0.5, 0.0, 0.0]
X[RNG.random(X.shape) < 0.3] = 0.0
X = X.astype(np.float32).astype(np.float64)


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "full batch": lambda: APClassifier(max_iter=20),
    "stochastic": lambda: StochasticAPClassifier("adap-adam", max_iter=30, random_state=0),
    "cross-validated": lambda: APClassifierCV(cv=2, alphas=[1.0, 0.1], Cs=[0.1, 1.0], max_iter=5),
}


def memory_mapped(values: Any, folder: Path) -> Any:
    np.save(folder / "x.npy", values)
    return np.load(folder / "x.npy", mmap_mode="r")


DENSE: dict[str, Callable[[Path], tuple[Any, Any]]] = {
    "Fortran order": lambda _: (np.asfortranarray(X), Y),
    "strided": lambda _: (np.repeat(X, 2, axis=1)[:, ::2], Y),
    "read-only": lambda _: (read_only(X), read_only(Y)),
    "memory-mapped": lambda folder: (memory_mapped(X, folder), Y),
    "big-endian": lambda _: (X.astype(">f8"), Y),
    "pandas": lambda _: (pd.DataFrame(X, columns=list("abcd")), pd.Series(Y)),
    "nullable pandas": lambda _: (pd.DataFrame(X).astype("Float64"), pd.Series(Y).astype("Int64")),
    "polars": lambda _: (pl.DataFrame(X), pl.Series(Y)),
    "lists": lambda _: (X.tolist(), Y.tolist()),
    "categories": lambda _: (X, pd.Series(np.where(Y, "yes", "no")).astype("category")),
}


def fitted(name: str, X: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "invalid value encountered in reduce")  # scikit-learn's
        warnings.filterwarnings("ignore", "`y` holds .* positive examples")
        return ESTIMATORS[name]().fit(X, y)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_dense_layout_gives_the_same_model(name: str, tmp_path: Path) -> None:
    scores = fitted(name, X, Y).decision_function(X)
    for layout, make in DENSE.items():
        given, y = make(tmp_path)
        before = array_bytes(given), array_bytes(y)
        model = fitted(name, given, y)
        found = model.decision_function(given)
        assert_close(found, scores, rtol=1e-6, err_msg=layout)
        assert set(model.predict(given)) <= set(np.unique(np.asarray(y)))
        assert (array_bytes(given), array_bytes(y)) == before, layout


HARD: dict[str, tuple[Any, Any]] = {
    "one positive": (X, np.arange(N) == 3),
    "one negative": (X, np.arange(N) != 3),
    "two rows": (X[:2], np.array([True, False])),
    "perfectly separated": (np.where(Y, 1.0, -1.0)[:, None] + 0.1 * X, Y),
    "all rows alike": (np.ones((N, 3)), Y),
    "duplicated rows": (np.repeat(X, 3, axis=0), np.repeat(Y, 3)),
    "a constant feature": (np.column_stack([X, np.full(N, 1e9)]), Y),
    "tiny features": (X * 1e-150, Y),
    "huge features": (X * 1e140, Y),
    "integers": ((X * 10).astype(int), Y),
    "float16": (X.astype(np.float16), Y),
    "bool": (X > 0, Y),
    "an empty sparse matrix": (sp.csr_matrix((N, 4)), Y),
}


@pytest.mark.parametrize("name", ["full batch", "stochastic"])
@pytest.mark.parametrize("given", HARD)
def test_hard_data_give_a_finite_model(name: str, given: str) -> None:
    matrix, y = HARD[given]
    model = fitted(name, matrix, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.decision_function(matrix)).all()


def test_frames_with_numbers_as_column_names_are_trained_on_and_left_unchanged() -> None:
    frame = pd.DataFrame({0: S, 1: -S})
    dataset = Dataset(frame, Y, Path("frame"), "yes", "no", "y")
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model = train_model(dataset, model="logistic").model
    assert np.isfinite(model.log_odds(frame)).all()
    pd.testing.assert_frame_equal(frame, pd.DataFrame({0: S, 1: -S}))
