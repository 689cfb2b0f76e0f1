"""Estimators and table training: every layout gives the same model, unusable data an error."""

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

from apmax import APClassifier, APClassifierCV, StochasticAPClassifier
from apmax.app.io import Dataset
from apmax.app.training import train_model
from tests.reliability.layouts import RNG, N, S, Y, array_bytes, assert_close, read_only

X = RNG.normal(size=(N, 4)) + Y[:, None] * [1.0, 0.5, 0.0, 0.0]
X[RNG.random(X.shape) < 0.3] = 0.0
X = X.astype(np.float32).astype(np.float64)


class Estimator(NamedTuple):
    """How to make it, and how close the scores of two layouts must be."""

    make: Callable[[], Any]
    rtol: float


ESTIMATORS: dict[str, Estimator] = {
    "full batch": Estimator(lambda: APClassifier(max_iter=20), 1e-6),
    "stochastic": Estimator(
        lambda: StochasticAPClassifier("adap-adam", max_iter=30, random_state=0), 1e-9
    ),
    "cross-validated": Estimator(
        lambda: APClassifierCV(cv=2, alphas=[1.0, 0.1], Cs=[0.1, 1.0], max_iter=5), 1e-6
    ),
}


def int64_csr(X: Any) -> Any:
    matrix = sp.csr_matrix(X)
    matrix.indices, matrix.indptr = (
        part.astype(np.int64) for part in (matrix.indices, matrix.indptr)
    )
    return matrix


def unsorted_csr(X: Any) -> Any:
    matrix = sp.csr_matrix(X)
    for begin, end in zip(matrix.indptr, matrix.indptr[1:], strict=False):
        for part in (matrix.indices, matrix.data):
            part[begin:end] = part[begin:end][::-1].copy()
    matrix.has_sorted_indices = matrix.has_canonical_format = False
    return matrix


def doubled_csr(X: Any) -> Any:
    """Return a matrix with every entry stored twice, as halves."""
    plain = sp.csr_matrix(X)
    parts = (np.repeat(plain.data, 2) / 2, np.repeat(plain.indices, 2), plain.indptr * 2)
    return sp.csr_matrix(parts, plain.shape)


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
    "labels 1 and 2": lambda _: (X, Y + 1),
    "text labels": lambda _: (X, np.where(Y, "yes", "no").astype(object)),
    "categories": lambda _: (X, pd.Series(np.where(Y, "yes", "no")).astype("category")),
}
SPARSE: dict[str, Callable[[Any], Any]] = {
    "int64 indices": int64_csr,
    "unsorted indices": unsorted_csr,
    "doubled entries": doubled_csr,
    "CSC": sp.csc_matrix,
    "COO": sp.coo_matrix,
    "sparse array": sp.csr_array,
}


def fitted(name: str, X: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "invalid value encountered in reduce")  # scikit-learn's
        return ESTIMATORS[name].make().fit(X, y)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_dense_layout_gives_the_same_model(name: str, tmp_path: Path) -> None:
    scores = fitted(name, X, Y).decision_function(X)
    for layout, make in DENSE.items():
        given, y = make(tmp_path)
        before = array_bytes(given), array_bytes(y)
        model = fitted(name, given, y)
        found = model.decision_function(given)
        assert_close(found, scores, rtol=ESTIMATORS[name].rtol, err_msg=layout)
        assert set(model.predict(given)) <= set(np.unique(np.asarray(y)))
        assert (array_bytes(given), array_bytes(y)) == before, layout


def sparse_parts(matrix: Any) -> list[bytes]:
    names = ("data", "indices", "indptr", "row", "col")
    return [getattr(matrix, name).tobytes() for name in names if hasattr(matrix, name)]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_sparse_layout_gives_the_same_model(name: str) -> None:
    scores = fitted(name, sp.csr_matrix(X), Y).decision_function(sp.csr_matrix(X))
    for layout, make in SPARSE.items():
        matrix = make(X)
        before = sparse_parts(matrix)
        found = fitted(name, matrix, Y).decision_function(matrix)
        assert_close(found, scores, rtol=1e-5, atol=1e-7, err_msg=layout)
        assert sparse_parts(matrix) == before, layout


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
    "tiny features": (X * 1e-150, Y),
    "huge features": (X * 1e140, Y),
    "integers": ((X * 10).astype(int), Y),
    "float16": (X.astype(np.float16), Y),
    "bool": (X > 0, Y),
    "more features than rows": (RNG.normal(size=(20, 100)), Y[:20]),
    "an empty sparse matrix": (sp.csr_matrix((N, 4)), Y),
}


@pytest.mark.parametrize("name", ["full batch", "stochastic"])
@pytest.mark.parametrize("given", HARD)
def test_hard_data_give_a_finite_model(name: str, given: str) -> None:
    matrix, y = HARD[given]
    model = fitted(name, matrix, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.decision_function(matrix)).all()


UNUSABLE: dict[str, tuple[Any, Any]] = {
    "NaN": (np.where(X == 0, np.nan, X), Y),
    "infinity": (np.where(X == 0, np.inf, X), Y),
    "1e160, whose squares overflow": (X * 1e160, Y),
    "1e-310, whose squares underflow": (X * 1e-310, Y),
    "1e308, whose differences overflow": (np.where(X > 0, 1.7e308, -1.7e308), Y),
    "text": (X.astype(str).astype(object) + "x", Y),
    "objects": (np.full((N, 2), None), Y),
    "no rows": (X[:0], Y[:0]),
    "no columns": (X[:, :0], Y),
    "one class": (X, np.ones(N, bool)),
    "three classes": (X, np.arange(N) % 3),
    "missing labels": (X, np.where(Y, np.nan, 0.0)),
    "lengths that differ": (X, Y[1:]),
    "three dimensions": (X[:, :, None], Y),
    "complex": (X + 0j, Y),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_unusable_data_raise_a_value_error(name: str) -> None:
    for matrix, y in UNUSABLE.values():
        with pytest.raises(ValueError, match=r"\w+ \w+ \w+"):
            fitted(name, matrix, y)


FRAMES: dict[str, Any] = {
    "infinities": {"a": np.where(Y, np.inf, S), "b": S},
    "an empty column": {"a": [None] * N, "b": S},
    "nullable": {"a": pd.Series(S).mask(Y).astype("Float64"), "b": S},
    "categories": {"a": pd.Series(np.where(S > 0, "x", "y")).astype("category")},
    "numbers as names": {0: S, 1: -S},
    "times with a zone": {"a": pd.date_range("2020", periods=N, tz="UTC"), "b": S},
    "bytes": {"a": [b"\xff", b"a"] * (N // 2), "b": S},
    "lists": {"a": [[1], [2]] * (N // 2), "b": S},
    "huge integers": {"a": [2**63, -1] * (N // 2), "b": S},
    "mixed types": {"a": [1, "x", None] * (N // 3), "b": S},
}


@pytest.mark.parametrize("given", FRAMES)
def test_frames_with_any_columns_are_trained_on_and_left_unchanged(given: str) -> None:
    frame = pd.DataFrame(FRAMES[given])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        dataset = Dataset(frame, Y, Path("frame"), "yes", "no", "y")
        model = train_model(dataset, solver="lbfgs").model
    assert np.isfinite(model.log_odds(frame)).all()
    pd.testing.assert_frame_equal(frame, pd.DataFrame(FRAMES[given]))
