"""Errors of linear models for data with text or missing values, which name the column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from apmax.errors import NonFiniteError, NotNumericError

TEXT_TYPES = ("large_string", "str")
"""Beginnings of the names of types that hold nothing but text."""


def checked_numbers(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Return what scikit-learn's `validate_data` returns.

    NotNumericError is raised for text, and NonFiniteError for NaN, with the column and a remedy.
    """
    try:
        return validate_data(estimator, X, y, **options)
    except (TypeError, ValueError) as error:
        for where, values in _columns(X):
            try:
                missing = np.isnan(_numbers(values)).any()
            except (TypeError, ValueError):
                if any(isinstance(value, str) for value in np.asarray(values, object).flat):
                    raise text_error(where) from error
                continue
            if missing:
                raise NonFiniteError(
                    f"{where} contains NaN: linear models need complete numbers; "
                    "AdditiveAPClassifier and AutoAPClassifier accept missing values, or impute "
                    "them"
                ) from error
        raise


def text_error(where: str) -> NotNumericError:
    """Return the error for a column of text."""
    return NotNumericError(
        f"{where} holds text: linear models need numbers; use AdditiveAPClassifier or "
        "AutoAPClassifier, or encode it"
    )


def check_types(types: Any) -> None:
    """Raise NotNumericError if a column has a type that only text has; `types` are by name."""
    for name, kind in types:
        if str(kind).lower().startswith(TEXT_TYPES):
            raise text_error(f"column {name!r}")


def _columns(X: Any) -> Iterator[tuple[str, Any]]:
    """Yield columns and how messages call them; none if X is not two-dimensional."""
    if hasattr(X, "column_names"):  # of pyarrow
        for name, column in zip(X.column_names, X.columns, strict=True):
            yield f"column {name!r}", np.asarray(column)
    elif np.ndim(X) != 2 and not sp.issparse(X):
        return
    elif hasattr(X, "columns"):
        yield from ((f"column {name!r}", X[name]) for name in X.columns)
    else:
        yield "`X`", X.data if sp.issparse(X) else X


def _numbers(values: Any) -> Any:
    if hasattr(values, "isna"):  # pandas, whose nullable types know their missing values
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.iscomplexobj(values):
        raise TypeError("complex numbers are not real ones")
    return np.asarray(values, dtype=np.float64)
