"""Estimators and the pipeline × data: what the plain data give, or an error of ours."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from apmax import (
    APClassifier,
    APClassifierCV,
)
from apmax.app.data.files import Dataset
from apmax.app.pipeline.training import train
from apmax.errors import ApmaxError
from tests.reliability.kinds import RNG, N, S, Y, contents, equal, frozen

X = RNG.normal(size=(N, 4)) + Y[:, None] * [1.0, 0.5, 0.0, 0.0]
X[RNG.random(X.shape) < 0.3] = 0.0
X = X.astype(np.float32).astype(np.float64)


class Fit(NamedTuple):
    """What fits, and how near its results must be when the input is stored in another way."""

    make: Callable[[], Any]
    near: float


ESTIMATORS: dict[str, Fit] = {
    "lbfgs": Fit(lambda: APClassifier(max_iter=20), 1e-6),
    "adap-adam": Fit(lambda: APClassifier("adap-adam", max_iter=30, random_state=0), 1e-9),
    "cv": Fit(lambda: APClassifierCV(cv=2, alphas=[1.0, 0.1], max_iter=5), 1e-6),
}


def int64_csr(X: Any) -> Any:
    matrix = sp.csr_matrix(X)
    matrix.indices, matrix.indptr = (
        matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    )  # fmt: skip
    return matrix


def unsorted_csr(X: Any) -> Any:
    matrix = sp.csr_matrix(X)
    for row in range(matrix.shape[0]):
        span = slice(matrix.indptr[row], matrix.indptr[row + 1])
        matrix.indices[span], matrix.data[span] = (
            matrix.indices[span][::-1].copy(), matrix.data[span][::-1].copy()
        )  # fmt: skip
    matrix.has_sorted_indices = False
    matrix.has_canonical_format = False
    return matrix


def doubled_csr(X: Any) -> Any:
    """Every entry twice, each of half its size."""
    plain = sp.csr_matrix(X)
    return sp.csr_matrix(
        (np.repeat(plain.data, 2) / 2, np.repeat(plain.indices, 2), plain.indptr * 2), plain.shape
    )


DENSE: dict[str, Callable[[Path], tuple[Any, Any]]] = {
    "Fortran order": lambda _: (np.asfortranarray(X), Y),
    "not contiguous": lambda _: (np.repeat(X, 2, axis=1)[:, ::2], Y),
    "read-only": lambda _: (frozen(X), frozen(Y)),
    "memory-mapped": lambda folder: (mapped(X, folder), Y),
    "big-endian": lambda _: (X.astype(">f8"), Y),
    "pandas": lambda _: (pd.DataFrame(X, columns=list("abcd")), pd.Series(Y)),
    "nullable pandas": lambda _: (pd.DataFrame(X).astype("Float64"), Y),
    "polars": lambda _: (pl.DataFrame(X), pl.Series(Y)),
    "lists": lambda _: (X.tolist(), Y.tolist()),
    "labels 0 and 1": lambda _: (X, Y.astype(int)),
    "labels -1 and 1": lambda _: (X, np.where(Y, 1, -1)),
    "labels 1 and 2": lambda _: (X, Y + 1),
    "labels of text": lambda _: (X, np.where(Y, "yes", "no")),
    "labels of objects": lambda _: (X, np.where(Y, "yes", "no").astype(object)),
    "categories": lambda _: (X, pd.Series(np.where(Y, "yes", "no")).astype("category")),
    "nullable labels": lambda _: (X, pd.Series(Y).astype("Int64")),
}
SPARSE: dict[str, Callable[[], Any]] = {
    "int64 indices": lambda: int64_csr(X),
    "unsorted indices": lambda: unsorted_csr(X),
    "doubled entries": lambda: doubled_csr(X),
    "CSC": lambda: sp.csc_matrix(X),
    "COO": lambda: sp.coo_matrix(X),
    "sparse array": lambda: sp.csr_array(X),
}


def mapped(values: Any, folder: Path) -> Any:
    np.save(folder / "x.npy", values)
    return np.load(folder / "x.npy", mmap_mode="r")


def fitted(name: str, X: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "invalid value encountered in reduce")  # scikit-learn's
        return ESTIMATORS[name].make().fit(X, y)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_data_of_every_kind_give_the_same_model(name: str, tmp_path: Path) -> None:
    plain = fitted(name, X, Y)
    scores = plain.decision_function(X)
    for given, make in DENSE.items():
        X_given, y = make(tmp_path)
        before = contents(X_given), contents(y)
        model = fitted(name, X_given, y)
        equal(model.decision_function(X_given), scores, rtol=ESTIMATORS[name].near, err_msg=given)
        assert model.predict_proba(X_given).shape == (N, 2)
        assert set(model.predict(X_given)) <= set(np.unique(np.asarray(y)))
        assert (contents(X_given), contents(y)) == before, given


def parts(matrix: Any) -> list[bytes]:
    names = ("data", "indices", "indptr", "row", "col")
    return [getattr(matrix, name).tobytes() for name in names if hasattr(matrix, name)]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_sparse_data_of_every_kind_give_the_same_model(name: str) -> None:
    scores = fitted(name, sp.csr_matrix(X), Y).decision_function(sp.csr_matrix(X))
    for given, make in SPARSE.items():
        matrix = make()
        before = parts(matrix)
        model = fitted(name, matrix, Y)
        equal(model.decision_function(matrix), scores, rtol=1e-5, atol=1e-7, err_msg=given)
        assert parts(matrix) == before, given


HARD: dict[str, tuple[Any, Any]] = {
    "one feature": (X[:, :1], Y),
    "one positive": (X, np.arange(N) == 3),
    "one negative": (X, np.arange(N) != 3),
    "two rows": (X[:2], np.array([True, False])),
    "perfectly separated": (np.where(Y, 1.0, -1.0)[:, None] + 0.1 * X, Y),
    "all rows alike": (np.ones((N, 3)), Y),
    "duplicated rows": (np.repeat(X, 3, axis=0), np.repeat(Y, 3)),
    "duplicated features": (np.tile(X, 3), Y),
    "a constant feature": (np.column_stack([X, np.full(N, 1e9)]), Y),
    "subnormal features": (X * 1e-310, Y),
    "tiny features": (X * 1e-150, Y),
    "huge features": (X * 1e140, Y),
    "integers": ((X * 10).astype(int), Y),
    "float16": (X.astype(np.float16), Y),
    "bool": (X > 0, Y),
    "more features than rows": (RNG.normal(size=(20, 100)), Y[:20]),
    "an empty sparse matrix": (sp.csr_matrix((N, 4)), Y),
}


@pytest.mark.parametrize("name", ["lbfgs", "adap-adam"])
@pytest.mark.parametrize("given", HARD)
def test_hard_data_give_a_finite_model_or_a_named_error(name: str, given: str) -> None:
    X_given, y = HARD[given]
    try:
        model = fitted(name, X_given, y)
    except ValueError:  # of ours, or of scikit-learn's checks
        return
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.decision_function(X_given)).all()


NO_DATA: dict[str, tuple[Any, Any]] = {
    "NaN": (np.where(X == 0, np.nan, X), Y),
    "infinity": (np.where(X == 0, np.inf, X), Y),
    "1e160, whose squares overflow": (X * 1e160, Y),
    "1e308, whose differences overflow": (np.where(X > 0, 1.7e308, -1.7e308), Y),
    "text": (X.astype(str).astype(object) + "x", Y),
    "objects": (np.full((N, 2), None), Y),
    "no rows": (X[:0], Y[:0]),
    "no columns": (X[:, :0], Y),
    "one class": (X, np.ones(N, bool)),
    "three classes": (X, np.arange(N) % 3),
    "missing labels": (X, np.where(Y, np.nan, 0.0)),
    "lengths": (X, Y[1:]),
    "three dimensions": (X[:, :, None], Y),
    "complex": (X + 0j, Y),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("given", NO_DATA)
def test_data_that_mean_nothing_are_refused(name: str, given: str) -> None:
    with pytest.raises(ValueError, match=r"\w+ \w+ \w+"):
        fitted(name, *NO_DATA[given])


FRAMES: dict[str, Any] = {
    "infinities": pd.DataFrame({"a": np.where(Y, np.inf, S), "b": S}),
    "a column of nothing": pd.DataFrame({"a": [None] * N, "b": S}),
    "subnormals and 1e308": pd.DataFrame({"a": S * 1e-310, "b": np.sign(S) * 1e308, "c": S}),
    "nullable": pd.DataFrame({"a": pd.Series(S).mask(Y).astype("Float64"), "b": S}),
    "categories": pd.DataFrame({"a": pd.Series(np.where(S > 0, "x", "y")).astype("category")}),
    "names that are numbers": pd.DataFrame({0: S, 1: -S}),
    "times with a zone": pd.DataFrame(
        {"a": pd.date_range("2020", periods=N, tz="UTC"), "b": S}
    ),
    "bytes": pd.DataFrame({"a": [b"\xff", b"a"] * (N // 2), "b": S}),
    "lists": pd.DataFrame({"a": [[1], [2]] * (N // 2), "b": S}),
    "huge integers": pd.DataFrame({"a": [2**63, -1] * (N // 2), "b": S}),
}  # fmt: skip


@pytest.mark.parametrize("given", FRAMES)
def test_a_frame_of_any_columns_is_trained_on_or_refused(given: str) -> None:
    frame = FRAMES[given].copy()
    data = Dataset(frame, Y, "yes", "no", list(map(str, frame.columns)), "y", Path("frame"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "invalid value encountered in reduce")  # scikit-learn's
        try:
            model = train(data, solver="lbfgs").model
        except ApmaxError:
            return
    assert np.isfinite(model.log_odds(frame)).all()
    pd.testing.assert_frame_equal(frame, FRAMES[given])
