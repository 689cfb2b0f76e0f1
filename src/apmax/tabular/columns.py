"""Columns of a table: numbers with missing values, and categories as codes.

Tables are NumPy arrays or frames (pandas, polars) and are read column by column, so that no frame
library is needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import OrdinalEncoder

from apmax.errors import NonFiniteError, NotNumericError, ParameterError, ShapeError
from apmax.validation import Floats

UNKNOWN = -1
"""Code of a category that training did not see."""
OTHER, MISSING = "(other)", "(missing)"
MIN_FREQUENCY, MAX_LEVELS = 10, 200
"""A category with fewer rows is grouped with the other rare ones; so are those beyond the limit."""
TEXT_TYPES = ("category", "categorical", "enum", "object", "str", "utf8")
"""Beginnings of the names of text types, in lower case."""


class Table(NamedTuple):
    """Rows of a table, column by column in the order of training, numbers and categories apart."""

    numbers: Floats
    """Shape (n, numeric columns); NaN where missing."""
    codes: NDArray[np.int64]
    """Shape (n, categorical columns); UNKNOWN for new categories."""

    def rows(self, which: Any) -> Table:
        """Return some of the rows."""
        return Table(self.numbers[which], self.codes[which])


class Columns:
    """Which columns are numbers and which are categories, with their levels.

    Parameters
    ----------
    names : list of str
        Names of all columns.
    categorical : "from_dtype" or array-like
        Names, positions or mask of the categorical columns; "from_dtype" takes text and
        categorical types.
    """

    def __init__(self, X: Any, categorical: Any) -> None:
        self.names = column_names(X)
        chosen = _chosen(categorical, self.names)
        self.numeric: list[int] = []
        self.categorical: list[int] = []
        for k, values in enumerate(_values(X)):
            text = _is_text(values) if chosen is None else k in chosen
            (self.categorical if text else self.numeric).append(k)
        self.encoders: list[OrdinalEncoder] = []
        self.ignored: dict[str, str] = {}
        """Columns without information, and why: constant, missing, or equal to another."""

    def fit_transform(self, X: Any) -> Table:
        """Learn the levels of the categories and return the rows of X.

        Columns without information are left out from here on.
        """
        for k in self.categorical:
            words = _words(_column(X, k))
            encoder = OrdinalEncoder(
                min_frequency=MIN_FREQUENCY,
                max_categories=MAX_LEVELS,
                handle_unknown="use_encoded_value",
                unknown_value=UNKNOWN,
                dtype=np.int64,
            )
            self.encoders.append(encoder.fit(words))
        table = self.transform(X)
        numbers = self._informative(table.numbers, self.numeric)
        codes = self._informative(table.codes, self.categorical)
        if not numbers and not codes:
            raise ShapeError(
                f"`X` has no column with two different values ({_listed(self.ignored)}): there is "
                "nothing to learn from"
            )
        self.numeric = [self.numeric[k] for k in numbers]
        self.categorical = [self.categorical[k] for k in codes]
        self.encoders = [self.encoders[k] for k in codes]
        if self.ignored:
            message = f"columns without information are ignored: {_listed(self.ignored)}"
            warnings.warn(message, UserWarning, stacklevel=5)
        return Table(table.numbers[:, numbers], table.codes[:, codes])

    def _informative(self, values: NDArray[Any], places: Sequence[int]) -> list[int]:
        """Return the columns of `values` that differ from each other and are not constant."""
        kept, seen = [], dict[int, int]()
        for k, place in enumerate(places):
            column = np.ascontiguousarray(values[:, k])
            missing = np.isnan(column)
            same = seen.setdefault(hash(column.tobytes()), k)
            if missing.all():
                self.ignored[self.names[place]] = "all missing"
            elif not missing.any() and column.min() == column.max():
                self.ignored[self.names[place]] = "constant"
            elif same != k and np.array_equal(column, values[:, same], equal_nan=True):
                self.ignored[self.names[place]] = f"equal to {self.names[places[same]]!r}"
            else:
                kept.append(k)
        return kept

    def transform(self, X: Any) -> Table:
        """Return the rows of X; new categories have the code of "(other)" if there is one."""
        n = int(X.shape[0])
        numbers = np.empty((n, len(self.numeric)))
        for out, k in enumerate(self.numeric):
            numbers[:, out] = _numbers(_column(X, k), self.names[k])
        codes = np.empty((n, len(self.categorical)), np.int64)
        for out, (k, encoder) in enumerate(zip(self.categorical, self.encoders, strict=True)):
            found = encoder.transform(_words(_column(X, k)))[:, 0]
            if encoder.infrequent_categories_[0] is not None:
                found[found == UNKNOWN] = len(self.levels(out)) - 1
            codes[:, out] = found
        return Table(numbers, codes)

    def levels(self, which: int) -> list[str]:
        """Return the names of the codes of a categorical column."""
        (names,) = self.encoders[which].categories_
        (rare,) = self.encoders[which].infrequent_categories_
        grouped = set() if rare is None else set(rare)
        return [str(name) for name in names if name not in grouped] + ([OTHER] if grouped else [])


def column_names(X: Any) -> list[str]:
    """Return the names of the columns, or x0, x1, … for an array."""
    if not hasattr(X, "columns"):
        return [f"x{k}" for k in range(X.shape[1])]
    names = [str(name) for name in X.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ShapeError(f"`X` has two columns named {twice!r}: rename or drop one of them")
    return names


def _listed(ignored: dict[str, str]) -> str:
    shown = [f"{name!r} ({why})" for name, why in list(ignored.items())[:10]]
    return ", ".join(shown) + (f" and {len(ignored) - 10} more" if len(ignored) > 10 else "")


def _chosen(categorical: Any, names: Sequence[str]) -> set[int] | None:
    """Return the positions of the categorical columns, or None to decide by type."""
    if isinstance(categorical, str) and categorical == "from_dtype":
        return None
    given = [] if categorical is None else np.asarray(categorical).tolist()
    if not isinstance(given, list):
        raise ParameterError(
            f"`categorical_features` = {categorical!r} must be 'from_dtype' or a list of columns"
        )
    if len(given) == len(names) and all(isinstance(one, bool) for one in given):
        return set(np.flatnonzero(given).tolist())
    for one in given:
        known = one in names if isinstance(one, str) else one in range(len(names))
        if not known or isinstance(one, bool):
            raise ParameterError(
                f"`categorical_features` names {one!r}, but X has the columns "
                f"{', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
            )
    return {names.index(one) if isinstance(one, str) else int(one) for one in given}


def _values(X: Any) -> Iterator[Any]:
    for k in range(X.shape[1]):
        yield _column(X, k)


def _column(X: Any, k: int) -> Any:
    return X[X.columns[k]] if hasattr(X, "columns") else X[:, k]


def _is_text(values: Any) -> bool:
    """Return whether a column is text or categorical, or holds objects that are not numbers."""
    name = str(values.dtype).lower()
    if (
        not name.startswith(TEXT_TYPES)
        and np.dtype(getattr(values.dtype, "type", object)).kind not in "US"
    ):
        return False
    if name != "object":
        return True
    try:
        np.asarray(values, dtype=np.float64)
    except ValueError:
        return True
    except TypeError:  # None among numbers is a missing value; anything else is no number
        return any(isinstance(value, str) for value in values)
    return False


def _numbers(values: Any, name: str) -> Floats:
    """Return a column as floats with NaN for missing values."""
    if str(values.dtype).lower().startswith(("datetime", "date", "duration", "timedelta", "time")):
        raise NotNumericError(
            f"column {name!r} holds dates: replace it by numbers such as an age in days or the "
            "month, for example with skrub.TableVectorizer"
        )
    try:
        if hasattr(values, "isna"):  # pandas, whose nullable types know their missing values
            array = values.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise NotNumericError(
            f"column {name!r} was read as numbers, but {error}: convert it, or list it in "
            "`categorical_features`"
        ) from error
    infinite = np.isinf(array)
    if infinite.any():
        raise NonFiniteError(
            f"column {name!r} contains infinity (row {int(np.argmax(infinite))}): replace it by a "
            "large number, or by NaN if it means missing"
        )
    return np.asarray(array)


def _words(values: Any) -> NDArray[Any]:
    """Return a column as a column of str, with "(missing)" for missing values."""
    array = np.asarray(values, dtype=object)
    # Missing values (None, NaN, pandas' NA) are not equal to themselves or are None.
    words = [
        MISSING if value is None or not _equals_itself(value) else str(value) for value in array
    ]
    return np.array(words, dtype=object)[:, None]


def _equals_itself(value: Any) -> bool:
    try:
        return bool(value == value)  # noqa: PLR0124
    except TypeError:  # pandas' NA has no truth value
        return False
