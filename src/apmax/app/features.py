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
LARGEST = 1e300
"""Numbers are clipped to this size, so that the mean of two is finite."""


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode the columns of a data frame.

    ========  =========================================================================
    column    features
    ========  =========================================================================
    number    the value, the median where it is missing; "is missing" if any was
    category  one indicator per category and one for missing values; rare categories
              share the indicator "(other)", as do new categories
    date      years since the first date, as a number; month and weekday, as categories
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
    date_formats_, first_dates_ : dict of str to str
        The format and the first date of each date column.
    complete_ : list of str
        Columns without missing values in training.
    unused_ : list of str
        Columns of text whose values hardly ever repeat; predictions do not need them.
    names_ : tuple of two lists of str
        Names of the columns of numbers and of words, with the parts of dates.
    """

    def __init__(self, min_frequency: int = 5, max_categories: int = 1000) -> None:
        self.min_frequency = min_frequency
        self.max_categories = max_categories

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn the kinds of the columns, medians and categories."""
        if X.shape[1] == 0:
            raise ShapeError("the table has no columns besides the target")
        X = X.rename(columns=str)
        found = {name: _kind_of(X[name]) for name in X.columns}
        self.unused_ = [
            name
            for name, (kind, _) in found.items()
            if kind == CATEGORY and self._never_repeats(X[name])
        ]
        if len(self.unused_) == len(found):
            raise ShapeError(
                "the table has no column to learn from: all are text whose values hardly ever "
                "repeat; add numbers, dates or categories"
            )
        found = {name: found[name] for name in found if name not in self.unused_}
        self.kinds_ = {name: kind for name, (kind, _) in found.items()}
        self.date_formats_ = {name: form for name, (_, form) in found.items() if form}
        read = {name: self.read(name, X[name]) for name in self.kinds_}
        self.complete_ = [name for name, values in read.items() if values.notna().all()]
        self.first_dates_ = {name: read[name].min().isoformat() for name in self.date_formats_}
        numbers, words = self._columns(X)
        self.names_ = list(numbers), list(words)
        self.imputer_: Any = None
        self.onehot_: Any = None
        if numbers:
            self.imputer_ = SimpleImputer(
                strategy="median", add_indicator=True, keep_empty_features=True
            ).fit(np.column_stack([*numbers.values()]))
        if words:
            self.onehot_ = OneHotEncoder(
                min_frequency=self.min_frequency,
                max_categories=self.max_categories,
                handle_unknown="infrequent_if_exist",
            ).fit(np.column_stack([*words.values()]))
        return self

    def transform(self, X: Any) -> sp.csr_matrix:
        """Return the features of these rows; columns are found by name."""
        check_is_fitted(self, "kinds_")
        self._check_columns(X)
        numbers, words = self._columns(X.rename(columns=str))
        blocks = []
        if self.imputer_ is not None:
            blocks.append(
                sp.csr_matrix(self.imputer_.transform(np.column_stack([*numbers.values()])))
            )
        if self.onehot_ is not None:
            blocks.append(self.onehot_.transform(np.column_stack([*words.values()])))
        matrix = sp.csr_matrix(sp.hstack(blocks, format="csr"), dtype=np.float64)
        # Indices come from a model file in the end, and compiled code does not check them.
        matrix.check_format(full_check=True)
        return matrix

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features, in the order of the matrix."""
        numbers, words = self.names_
        names = list(numbers)
        if self.imputer_ is not None:
            names += [f"{numbers[k]} {MISSING}" for k in self.imputer_.indicator_.features_]
        for name in words:
            kept, rare = self.categories(name)
            names += [f"{name} = {word}" for word in kept]
            names += [f"{name} = {OTHER}"] if rare else []
        return np.array(names, dtype=object)

    def categories(self, name: str) -> tuple[list[str], set[str]]:
        """Return the categories of a column that have an indicator, and the rare ones."""
        k = self.names_[1].index(name)
        group = self.onehot_.infrequent_categories_[k]
        rare = set() if group is None else set(group)
        return [word for word in self.onehot_.categories_[k] if word not in rare], rare

    def text_columns(self) -> list[str]:
        """Return the columns to read as text, whatever they look like in another file."""
        return [name for name, kind in self.kinds_.items() if kind == CATEGORY]

    def read(self, name: str, values: Any) -> Any:
        """Return values of a column as numbers, dates or text; missing if they cannot be read."""
        if self.kinds_[name] == NUMBER:
            return to_numbers(values)
        if self.kinds_[name] == CATEGORY:
            return to_words(values)
        return to_dates(values, self.date_formats_[name])

    def _never_repeats(self, values: Any) -> bool:
        """Tell whether no category, nor missing values, would get an indicator."""
        return int(to_words(values).value_counts(dropna=False).max()) < self.min_frequency

    def _columns(self, X: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the columns of numbers and of words by name, with the parts of dates."""
        numbers: dict[str, Any] = {}
        words: dict[str, Any] = {}
        for name, kind in self.kinds_.items():
            values = self.read(name, X[name])
            if kind == NUMBER:
                numbers[name] = values
            elif kind == CATEGORY:
                words[name] = values.fillna(MISSING)
            else:
                days = (values - np.datetime64(self.first_dates_[name])).dt.total_seconds() / 86400
                numbers[f"{name} (years)"] = days / 365.25
                words[f"{name} (month)"] = values.dt.month_name().fillna(MISSING)
                words[f"{name} (weekday)"] = values.dt.day_name().fillna(MISSING)
        return numbers, words

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


def to_numbers(values: Any) -> Any:
    """Return a column as floats; missing for what is infinite or not a number."""
    import pandas as pd

    try:
        numbers = pd.to_numeric(values, errors="coerce")
    except (TypeError, OverflowError):  # lists; integers beyond any float
        numbers = pd.to_numeric(values.astype(str), errors="coerce")
    array = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    finite = np.where(np.isfinite(array), np.clip(array, -LARGEST, LARGEST), np.nan)
    return pd.Series(finite, index=values.index)


def to_words(values: Any) -> Any:
    """Return a column as text or None."""
    words = values.astype("object").where(values.notna(), None)
    return words.map(str, na_action="ignore").astype(object)


def to_dates(values: Any, date_format: str) -> Any:
    """Return a column as dates; what does not have this format is missing."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(values):
        return pd.to_datetime(values, utc=True).dt.tz_localize(None)
    text = to_words(values)
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
    if not len(known) or pd.api.types.is_numeric_dtype(known):
        return NUMBER, ""
    first = known.iloc[0]
    if isinstance(first, (bool, int, float, Decimal)):
        return (NUMBER if to_numbers(known).notna().mean() >= MIN_SHARE else CATEGORY), ""
    if pd.api.types.is_datetime64_any_dtype(known) or isinstance(first, date):
        return DATE, DATE_FORMATS[0]
    if not isinstance(first, str):
        return CATEGORY, ""
    numbers = known[~means_missing(known)]
    if len(numbers) and to_numbers(numbers).notna().mean() >= MIN_SHARE:
        return (NUMBER if known.nunique() > MAX_LEVELS else CATEGORY), ""
    return _date_kind(known)


def _date_kind(known: Any) -> tuple[str, str]:
    """Choose the format that most values have, if enough do; the first of equals."""
    sample = known.iloc[:200]
    if not sample.str.contains(r"\d[-/. ,]").all():  # every format has this, a year alone not
        return CATEGORY, ""
    likely = [form for form in DATE_FORMATS if _share(sample, form) >= MIN_SHARE]
    best = max(likely, key=lambda form: _share(known, form), default="")
    return (DATE, best) if best and _share(known, best) >= MIN_SHARE else (CATEGORY, "")


def _share(known: Any, date_format: str) -> float:
    return float(to_dates(known, date_format).notna().mean())
