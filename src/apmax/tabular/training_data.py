"""What `fit` of the tabular estimators reads: rows, target, splits and columns, validated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from apmax.binary_target import BinaryTarget, binary_target
from apmax.errors import ShapeError
from apmax.splits import Split, make_splits, restricted
from apmax.tabular.columns import Columns, Table, column_names
from apmax.validation import Floats


class TrainingData(NamedTuple):
    """Rows of positive weight, as given and as a table."""

    X: Any
    rows: NDArray[np.intp]
    """Numbers of these rows among those given."""
    given: int
    """Number of rows given."""
    target: BinaryTarget
    splits: list[Split]
    columns: Columns
    table: Table


def training_data(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> TrainingData:
    """Validate the arguments of `fit` for an estimator with the parameters that both share."""
    X = checked_rows(estimator, X, reset=True)
    target = binary_target(
        y, sample_weight, pos_label=estimator.pos_label, estimator=type(estimator).__name__
    )
    check_consistent_length(X, target.positive)
    splits = make_splits(estimator.cv, X, target.positive, target.weight, groups)
    given = target.positive.size
    rows = np.arange(given) if target.weight is None else np.flatnonzero(target.weight)
    X, target, splits = without_weightless_rows(X, target, splits)
    columns = Columns(X, estimator.categorical_features)
    table = columns.fit_transform(X, target.counts)
    return TrainingData(X, rows, given, target, splits, columns, table)


def without_weightless_rows(
    X: Any, target: BinaryTarget, splits: list[Split]
) -> tuple[Any, BinaryTarget, list[Split]]:
    """Leave out rows of weight 0, so that they do not enter counts and quantiles."""
    if target.weight is None or target.weight.all():
        return X, target, splits
    rows = np.flatnonzero(target.weight)
    kept = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
    return kept, target.rows(rows), restricted(splits, rows, target.positive.size)


def as_given(values: Floats, rows: NDArray[np.intp], given: int) -> Floats:
    """Return values of some rows as an array of all given rows, NaN for the others."""
    out = np.full(given, np.nan)
    out[rows] = values
    return out


def checked_rows(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return X as a frame or a two-dimensional array, and check names and number of columns."""
    if sp.issparse(X):
        raise ShapeError(
            f"{type(estimator).__name__} needs a dense X with one column per feature: use "
            "APClassifierCV for a sparse matrix, or X.toarray()"
        )
    if hasattr(X, "column_names"):  # of pyarrow
        raise ShapeError(
            f"`X` is an Arrow {type(X).__name__}, not a DataFrame or an array: pass X.to_pandas()"
        )
    if not hasattr(X, "columns"):
        if not hasattr(X, "dtype") and np.asarray(X).dtype.kind in "US":
            X = np.asarray(X, dtype=object)  # lists of numbers and text: no number becomes text
        X = check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=1)
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ShapeError(
            f"`X` has shape {tuple(X.shape)}: it needs at least one row and one column"
        )
    column_names(X)  # scikit-learn has an error of its own for equal ones
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X
