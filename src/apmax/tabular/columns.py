"""Columns of a table: numbers with missing values, and categories as codes.

Tables are NumPy arrays or frames (pandas, polars) and are read column by column, so that no frame
library is needed.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax.errors import NonFiniteError, NotNumericError, ParameterError, ShapeError
from apmax.validation import Floats

UNKNOWN = -1
"""Code of a category that training did not see."""
OTHER, MISSING = "(other)", "(missing)"
INTERCEPT = "(intercept)"
"""Name of the last contribution of an explained row."""
PAIR = " × "
"""Between the names of two columns in that of their pair."""
MIN_FREQUENCY, MAX_LEVELS = 10, 200
"""A category with fewer rows is grouped with the other rare ones; so are those beyond the limit."""
LARGEST = 1e300
"""Limit of numbers, whose differences must be finite."""
TEXT_TYPES = ("category", "categorical", "dictionary", "enum", "large_string", "str", "utf8")
DATE_TYPES, DURATION_TYPES = ("date", "period", "time"), ("duration", "timedelta")
"""Beginnings of the names of types, in lower case."""


class Table(NamedTuple):
    """Rows of a table, column by column in the order of training, numbers and categories apart."""

    numbers: Floats
    """Shape (n, numeric columns); NaN where missing."""
    codes: NDArray[np.int64]
    """Shape (n, categorical columns); UNKNOWN for new categories."""

    def rows(self, which: Any) -> Table:
        """Return some of the rows."""
        return Table(self.numbers[which], self.codes[which])


class Levels(NamedTuple):
    """Categories of a column in sorted order; rare ones share the last, "(other)"."""

    names: list[str]
    rest: int
    """Code of any other category: that of "(other)" if there is one, else UNKNOWN."""

    @classmethod
    def of(cls, words: Sequence[str], counts: Floats | None) -> Levels:
        """Choose the categories; `counts` is how many examples each row stands for."""
        found = sorted(set(words))
        count = np.bincount(Levels(found, UNKNOWN).codes(words), weights=counts)
        most = np.argsort(-count, kind="stable")[: MAX_LEVELS - 1]
        # A sum of weights may fall short of the number that it stands for by rounding.
        kept = [k for k in sorted(most) if count[k] >= MIN_FREQUENCY * (1 - 1e-9)]
        names = [found[k] for k in kept]
        if count.sum() > count[kept].sum():
            return cls([*names, OTHER], len(names))
        return cls(names, UNKNOWN)

    def codes(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the code of each category."""
        code = {name: k for k, name in enumerate(self.names)}
        return np.array([code.get(word, self.rest) for word in words], np.int64)


class Columns:
    """Which columns are numbers and which are categories, with their levels.

    Parameters
    ----------
    X : ndarray or DataFrame
        The training data.
    categorical : "from_dtype" or array-like
        Names, positions or mask of the categorical columns; "from_dtype" takes text and
        categorical types.
    """

    def __init__(self, X: Any, categorical: Any) -> None:
        self.names = column_names(X)
        chosen = chosen_columns(categorical, self.names)
        self.numeric: list[int] = []
        self.categorical: list[int] = []
        for k in range(len(self.names)):
            text = _is_text(_column(X, k)) if chosen is None else k in chosen
            (self.categorical if text else self.numeric).append(k)
        self.of_category: list[Levels] = []
        self.ignored: dict[str, str] = {}
        """Columns without information, and why: constant, missing, or equal to another."""
        self.typical: dict[str, float | str | None] = {}
        """The median or the most frequent category of each column in use; None if missing."""

    def fit_transform(self, X: Any, counts: Floats | None = None) -> Table:
        """Learn the levels of the categories and return the rows of X.

        `counts` is how many examples each row stands for, by default one. Columns without
        information are left out from here on.
        """
        for k in self.categorical:
            words = _words(_column(X, k), self.names[k])
            self.of_category.append(Levels.of(words, counts))
            self.typical[self.names[k]] = most_frequent(words)
        table = self.transform(X)
        for k, values in zip(self.numeric, table.numbers.T, strict=True):
            self.typical[self.names[k]] = lower_median(values)
        numbers = self._informative(table.numbers, self.numeric)
        codes = self._informative(table.codes, self.categorical)
        if not numbers and not codes:
            raise ShapeError(
                f"`X` has no column with two different values ({_listed(self.ignored)}): there is "
                "nothing to learn from"
            )
        self.numeric = [self.numeric[k] for k in numbers]
        self.categorical = [self.categorical[k] for k in codes]
        self.of_category = [self.of_category[k] for k in codes]
        used = [self.names[k] for k in sorted([*self.numeric, *self.categorical])]
        self.typical = {name: self.typical[name] for name in used}
        if self.ignored:
            message = f"columns without information are ignored: {_listed(self.ignored)}"
            warnings.warn(message, UserWarning, stacklevel=5)  # the caller of `fit`
        return Table(table.numbers[:, numbers], table.codes[:, codes])

    def _informative(self, values: NDArray[Any], places: Sequence[int]) -> list[int]:
        """Return the columns of `values` that differ from each other and are not constant."""
        kept, seen, categories = [], dict[int, int](), {*self.categorical}
        for k, place in enumerate(places):
            column = np.ascontiguousarray(values[:, k])
            missing = np.isnan(column)
            same = seen.setdefault(hash(column.tobytes()), k)
            if missing.all():
                self.ignored[self.names[place]] = "all missing"
            elif not missing.any() and column.min() == column.max():
                rare = place in categories and self.of_category[k].names == [OTHER]
                why = f"no category has {MIN_FREQUENCY} rows" if rare else "constant"
                self.ignored[self.names[place]] = why
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
        for out, (k, levels) in enumerate(zip(self.categorical, self.of_category, strict=True)):
            codes[:, out] = levels.codes(_words(_column(X, k), self.names[k]))
        return Table(numbers, codes)

    def levels(self, which: int) -> list[str]:
        """Return the names of the codes of a categorical column."""
        return self.of_category[which].names


def most_frequent(words: Sequence[str]) -> str | None:
    """Return the most frequent category, the first of equals; None if values are missing."""
    word = Counter(words).most_common(1)[0][0]
    return None if word == MISSING else word


def lower_median(values: Floats) -> float | None:
    """Return a value in the middle of the known ones, or None if there are none."""
    known = values[~np.isnan(values)]
    return float(np.quantile(known, 0.5, method="lower")) if known.size else None


def with_column(X: Any, name: str, value: float | str | None) -> Any:
    """Return X with one value in a column; a frame of pandas or polars, or an array."""
    if hasattr(X, "index"):
        X = X.copy(deep=False)
        X[next(column for column in X.columns if str(column) == name)] = value
        return X
    if hasattr(X, "columns"):
        return X.with_columns(type(X[name])(name, [value] * X.shape[0]))
    X = X.astype(object if X.dtype.kind in "OSUb" else np.float64)
    X[:, int(name.removeprefix("x"))] = value
    return X


def column_names(X: Any) -> list[str]:
    """Return the names of the columns, or x0, x1, … for an array."""
    if not hasattr(X, "columns"):
        return [f"x{k}" for k in range(X.shape[1])]
    names = [str(name) for name in X.columns]
    known = set(names)
    if len(known) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise ShapeError(f"`X` has two columns named {twice!r}: rename or drop one of them")
    for name in (name for name in names if name == INTERCEPT or PAIR in name):
        parts = name.split(PAIR)
        pairs = ((PAIR.join(parts[:k]), PAIR.join(parts[k:])) for k in range(1, len(parts)))
        if name == INTERCEPT or any(known.issuperset(pair) for pair in pairs):
            raise ShapeError(
                f"`X` has a column named {name!r}, which is a name in explanations of a model: "
                "rename it"
            )
    return names


def frame_like(X: Any, values: Floats, names: list[str]) -> Any:
    """Return values by row as a frame with these columns if X is a frame, otherwise as they are."""
    if hasattr(X, "index") and hasattr(X, "columns"):
        return type(X)(values, columns=names, index=X.index)
    if hasattr(X, "columns"):
        return type(X)(values, schema=names, orient="row")
    return values


def _listed(ignored: dict[str, str]) -> str:
    shown = [f"{name!r} ({why})" for name, why in list(ignored.items())[:10]]
    return ", ".join(shown) + (f" and {len(ignored) - 10} more" if len(ignored) > 10 else "")


def chosen_columns(categorical: Any, names: Sequence[str]) -> set[int] | None:
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
    position = {name: k for k, name in enumerate(names)} | {k: k for k in range(len(names))}
    for one in given:
        if isinstance(one, bool) or not isinstance(one, str | int) or one not in position:
            raise ParameterError(
                f"`categorical_features` names {one!r}, but X has the columns "
                f"{', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
            )
    return {position[one] for one in given}


def _column(X: Any, k: int) -> Any:
    return X[X.columns[k]] if hasattr(X, "columns") else X[:, k]


def _is_text(values: Any) -> bool:
    """Return whether a column is text or categorical, or holds objects of which some are text."""
    name = str(values.dtype).lower()
    if name == "object":
        return any(isinstance(value, str | bytes) for value in values)
    return name.startswith(TEXT_TYPES) or getattr(values.dtype, "kind", "") in ("U", "S")


def _numbers(values: Any, name: str) -> Floats:
    """Return a column as floats with NaN for missing values."""
    kind = str(values.dtype).lower()
    refuse_durations(values, name)
    if _is_of(values, DATE_TYPES, date):
        raise NotNumericError(
            f"column {name!r} holds dates: put apmax.app.TablePreprocessor() before the model in a "
            "pipeline, or replace the column by numbers such as an age in days"
        )
    try:
        if kind.startswith("complex"):
            raise TypeError("it holds complex numbers")
        if hasattr(values, "isna"):  # pandas, whose nullable types know their missing values
            array = values.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            array = np.asarray(values, dtype=np.float64)
        if array.ndim != 1:
            raise TypeError("it holds arrays")
    except (TypeError, ValueError) as error:
        raise NotNumericError(
            f"column {name!r} was read as numbers, but {error}: convert it; if it is text in the "
            "training data, too, list it in `categorical_features`"
        ) from error
    infinite = np.abs(array) > LARGEST
    if infinite.any():
        row = int(np.argmax(infinite))
        raise NonFiniteError(
            f"column {name!r} contains {array[row]:g} (row {row}): replace it by a number up to "
            f"{LARGEST:g}, or by NaN if it means missing"
        )
    return np.asarray(array)


def refuse_durations(values: Any, name: str) -> None:
    """Raise NotNumericError for a column of durations, whose unit is not known."""
    if _is_of(values, DURATION_TYPES, timedelta):
        raise NotNumericError(
            f"column {name!r} holds durations: convert it to a number, such as "
            "column.dt.total_seconds() in pandas, or leave it out"
        )


def _is_of(values: Any, types: tuple[str, ...], classes: Any) -> bool:
    """Tell whether a column has one of these types, or its first object is of these classes."""
    name = str(values.dtype).lower()
    if name == "object":
        return isinstance(next(filter(_is_known, values), None), classes)
    return name.startswith(types)


def _is_known(value: Any) -> bool:
    return value is not None and _equals_itself(value)


def _words(values: Any, name: str) -> list[str]:
    """Return a column as text, with "(missing)" for missing values."""
    try:
        return [_word(value) for value in np.asarray(values, dtype=object)]
    except TypeError as error:
        raise NotNumericError(
            f"column {name!r} {error}: split it into columns, or drop it"
        ) from error


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not _is_known(value):
        return MISSING
    if hasattr(value, "__len__") and not isinstance(value, bytes):
        raise TypeError(f"holds values of type {type(value).__name__}")
    # A column of whole numbers is of type float in a frame where one is missing.
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value) if whole else value)


def _equals_itself(value: Any) -> bool:
    """Return False for NaN, NaT and pandas' NA."""
    try:
        return bool(value == value)  # noqa: PLR0124
    except TypeError:  # pandas' NA has no truth value
        return False
    except ValueError:  # an array
        return True
