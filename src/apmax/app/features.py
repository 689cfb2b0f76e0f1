"""Encode a table of numbers, text and dates as a sparse matrix for a linear model."""

from __future__ import annotations

import difflib
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from apmax.errors import ParameterError, ShapeError

NUMBER, CATEGORY, DATE = "number", "category", "date"
MISSING, OTHER = "(missing)", "(other)"
DATE_FORMATS = (
    *("ISO8601", "%Y/%m/%d", "%Y.%m.%d", "%m/%d/%Y", "%d/%m/%Y", "%m-%d-%Y", "%d-%m-%Y"),
    *("%m.%d.%Y", "%d.%m.%Y", "%m/%d/%y", "%d/%m/%y", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y"),
    *("%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"),
)
"""Tried in this order; where day and month cannot be told apart, the month comes first."""
MIN_SHARE = 0.95
"""Share of a text column's values that must be numbers, or dates, for it to be read as such."""
MAX_LEVELS = 20
"""A text column of numbers with no more distinct values than this is a category."""
NO_NUMBER = ("-", "--", ".", "na", "n.a.", "none", "missing", "unknown", "#div/0!")
"""Words that mean a missing value in a column of numbers."""
SAMPLE = 200
LARGEST = 1e300
"""Numbers are clipped to this size, so that the mean of two is finite."""


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode the columns of a data frame.

    ========  =========================================================================
    column    features
    ========  =========================================================================
    number    the value, the median where it is missing; "is missing" if any was
    category  one indicator per category and one for missing values; rare categories
              share the indicator "(other)", which new categories get, too
    date      years since the median date; indicators of month and weekday; "is missing"
    ========  =========================================================================

    Parameters
    ----------
    min_frequency : int
        Categories with fewer rows are grouped.
    max_categories : int
        Largest number of indicators per column.

    Attributes
    ----------
    kinds_ : dict of str to str
        "number", "category" or "date" for each column.
    date_formats_ : dict of str to str
        The format of each date column.
    ranges_ : dict of str to list
        Smallest and largest value of each number column.
    """

    def __init__(self, min_frequency: int = 5, max_categories: int = 1000) -> None:
        self.min_frequency = min_frequency
        self.max_categories = max_categories

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn the kinds of the columns, medians and categories."""
        if X.shape[1] == 0:
            raise ShapeError("the table has no columns besides the target")
        self.kinds_: dict[str, str] = {}
        self.date_formats_: dict[str, str] = {}
        for name in X.columns:
            kind, date_format = _kind_of(X[name])
            self.kinds_[str(name)] = kind
            if date_format:
                self.date_formats_[str(name)] = date_format
        numbers, categories, _ = self._blocks(X)
        self.imputer_: Any = None
        self.onehot_: Any = None
        self.ranges_: dict[str, list[float]] = {}
        if numbers.shape[1]:
            self.imputer_ = SimpleImputer(
                strategy="median", add_indicator=True, keep_empty_features=True
            ).fit(numbers)
        for k, name in enumerate(self._names(NUMBER)):
            known = numbers[np.isfinite(numbers[:, k]), k]
            if known.size:
                self.ranges_[name] = [float(known.min()), float(known.max())]
        if categories.shape[1]:
            self.onehot_ = OneHotEncoder(
                min_frequency=self.min_frequency,
                max_categories=self.max_categories,
                handle_unknown="infrequent_if_exist",
            ).fit(categories)
        return self

    def transform(self, X: Any) -> sp.csr_matrix:
        """Return the features of these rows; columns are found by name."""
        check_is_fitted(self, "kinds_")
        self._check_columns(X)
        numbers, categories, parts = self._blocks(X)
        blocks = []
        if self.imputer_ is not None:
            dense = self.imputer_.transform(numbers)
            first = len(self._names(NUMBER))
            years = slice(first, first + len(self._names(DATE)))
            dense[:, years] -= self.imputer_.statistics_[years]
            blocks.append(sp.csr_matrix(dense))
        if self.onehot_ is not None:
            blocks.append(self.onehot_.transform(categories))
        if parts.shape[1]:
            blocks.append(sp.csr_matrix(parts))
        matrix = sp.csr_matrix(sp.hstack(blocks, format="csr"), dtype=np.float64)
        # Indices come from a model file in the end, and compiled code does not check them.
        matrix.check_format(full_check=True)
        return matrix

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features, in the order of the matrix."""
        names = self._names(NUMBER) + [f"{name} (years)" for name in self._names(DATE)]
        if self.imputer_ is not None:
            columns = self._names(NUMBER) + self._names(DATE)
            missing = self.imputer_.indicator_.features_
            names += [f"{columns[k]} {MISSING}" for k in missing]
        if self.onehot_ is not None:
            rare = self.onehot_.infrequent_categories_
            for k, name in enumerate(self._names(CATEGORY)):
                group = set() if rare[k] is None else set(rare[k])
                kept = [word for word in self.onehot_.categories_[k] if word not in group]
                names += [f"{name} = {word}" for word in kept]
                names += [f"{name} = {OTHER}"] if group else []
        for name in self._names(DATE):
            names += [f"{name} month {month}" for month in range(1, 13)]
            names += [f"{name} weekday {day}" for day in range(1, 8)]
        return np.array(names, dtype=object)

    def text_columns(self) -> list[str]:
        """Return the columns to read as text, whatever they look like in another file."""
        return self._names(CATEGORY)

    def known_categories(self, name: str) -> set[str]:
        """Return the categories of a column that have an indicator of their own."""
        k = self._names(CATEGORY).index(name)
        rare = self.onehot_.infrequent_categories_[k]
        return {*self.onehot_.categories_[k]} - ({MISSING} if rare is None else {MISSING, *rare})

    def had_missing(self, name: str) -> bool:
        """Tell whether a column had missing values in training."""
        if self.kinds_[name] == CATEGORY:
            return MISSING in self.onehot_.categories_[self._names(CATEGORY).index(name)]
        k = (self._names(NUMBER) + self._names(DATE)).index(name)
        return k in self.imputer_.indicator_.features_

    def groups_rare(self, name: str) -> bool:
        """Tell whether a column has the indicator "(other)"."""
        return self.onehot_.infrequent_categories_[self._names(CATEGORY).index(name)] is not None

    def _names(self, kind: str) -> list[str]:
        return [name for name, found in self.kinds_.items() if found == kind]

    def _blocks(self, X: Any) -> tuple[Any, Any, Any]:
        """Return numbers (years of dates last), words, and the indicators of dates."""
        columns = {str(name): X[name] for name in X.columns}
        numbers = [to_numbers(columns[name]) for name in self._names(NUMBER)]
        words = [to_words(columns[name]).to_numpy() for name in self._names(CATEGORY)]
        indicators = []
        for name in self._names(DATE):
            dates = to_dates(columns[name], self.date_formats_[name])
            days = (dates - np.datetime64("2000-01-01")).dt.total_seconds().to_numpy() / 86400
            numbers.append(days / 365.25)
            month, weekday = dates.dt.month.to_numpy(), dates.dt.day_of_week.to_numpy()
            indicators += [month == k for k in range(1, 13)] + [weekday == k for k in range(7)]
        return (
            _stack(numbers, len(X), np.float64),
            _stack(words, len(X), object),
            _stack(indicators, len(X), np.float64),
        )

    def _check_columns(self, X: Any) -> None:
        if not hasattr(X, "columns"):
            raise ShapeError("the model was trained on a table with named columns: pass a table")
        present = {str(name) for name in X.columns}
        absent = [name for name in self.kinds_ if name not in present]
        if not absent:
            return
        folded = {name.casefold(): name for name in present if name not in self.kinds_}
        near = difflib.get_close_matches(absent[0].casefold(), folded, n=1)
        hint = f" (did you mean {folded[near[0]]!r}?)" if near else ""
        raise ParameterError(
            f"the table has no column {', '.join(map(repr, absent[:5]))}"
            f"{' and others' if len(absent) > 5 else ''}{hint}: the model needs all "
            f"{len(self.kinds_)} columns that it was trained with"
        )


def to_numbers(values: Any) -> NDArray[np.float64]:
    """Return a column as floats; NaN for what is missing, infinite or not a number."""
    import pandas as pd

    try:
        numbers = pd.to_numeric(values, errors="coerce")
    except (TypeError, OverflowError):  # lists; integers beyond any float
        numbers = pd.to_numeric(values.astype(str), errors="coerce")
    array = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(array), np.clip(array, -LARGEST, LARGEST), np.nan)


def to_words(values: Any) -> Any:
    """Return a column as text, with "(missing)" for missing values."""
    words = values.astype("object").where(values.notna(), MISSING)
    return words.map(str).astype(object)


def to_dates(values: Any, date_format: str) -> Any:
    """Return a column as dates; what does not have this format is missing."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(values):
        return pd.to_datetime(values, utc=True).dt.tz_localize(None)
    text = values.astype("object").where(values.notna(), None).map(str, na_action="ignore")
    if date_format != "ISO8601":
        text = text.str.replace(r"[ T]+\d{1,2}:.*", "", regex=True)  # the time of day
    dates = pd.to_datetime(text, format=date_format, errors="coerce", utc=True)
    return dates.dt.tz_localize(None)


def means_missing(known: Any) -> Any:
    """Tell for each value whether it is a word for a missing number."""
    return known.astype(str).str.strip().str.casefold().isin(NO_NUMBER)


def _kind_of(values: Any) -> tuple[str, str]:
    """Return the kind of a column, and the format of dates."""
    import pandas as pd

    known = values.dropna()
    if not len(known) or pd.api.types.is_numeric_dtype(known) or pd.api.types.is_bool_dtype(known):
        return NUMBER, ""
    first = known.iloc[0]
    if isinstance(first, (bool, int, float, Decimal)):
        return (NUMBER if np.isfinite(to_numbers(known)).mean() >= MIN_SHARE else CATEGORY), ""
    if pd.api.types.is_datetime64_any_dtype(known) or isinstance(first, date):
        return DATE, DATE_FORMATS[0]
    if not isinstance(first, str):
        return CATEGORY, ""
    numbers = known[~means_missing(known)]
    if len(numbers) and np.isfinite(to_numbers(numbers)).mean() >= MIN_SHARE:
        return (NUMBER if known.nunique() > MAX_LEVELS else CATEGORY), ""
    return _date_kind(known)


def _date_kind(known: Any) -> tuple[str, str]:
    """Choose the format that most values have, if enough do; the first of equals."""
    sample = known.iloc[:SAMPLE]
    if not sample.str.contains(r"\d[-/. ,]").all():  # every format has this, a year alone not
        return CATEGORY, ""
    likely = [form for form in DATE_FORMATS if _share(sample, form) >= MIN_SHARE]
    best = max(likely, key=lambda form: _share(known, form), default="")
    return (DATE, best) if best and _share(known, best) >= MIN_SHARE else (CATEGORY, "")


def _share(known: Any, date_format: str) -> float:
    return float(to_dates(known, date_format).notna().mean())


def _stack(columns: list[Any], rows: int, kind: Any) -> Any:
    return np.column_stack(columns).astype(kind) if columns else np.zeros((rows, 0), kind)
