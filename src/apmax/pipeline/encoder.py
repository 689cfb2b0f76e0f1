"""A table of numbers, words and dates as a sparse matrix that a linear model can use.

What has been learnt is plain data (names, kinds, categories, medians), so that a model file
can hold it and load it without running code.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from apmax.errors import ParameterError, ShapeError

RARE = 5
"""Categories seen less often are one, "other": their weights would be noise."""
MOST_CATEGORIES = 1000
MISSING, OTHER = "(missing)", "(other)"
DATE_SHARE = 0.95
"""Of a text column's values that must be dates for it to be a column of dates."""


@dataclass(frozen=True)
class Column:
    """One column of a table, and what was learnt of it.

    ==========  =============================================================================
    kind        features
    ==========  =============================================================================
    number      the value, the median where it is missing; and "is missing" if any was
    category    one of 0 or 1 for each category, and for "(missing)" and "(other)" if any was
    date        years since the median date; 0 or 1 for each month and day of the week; "is
                missing" if any was
    ==========  =============================================================================
    """

    name: str
    kind: str
    median: float = 0.0
    has_missing: bool = False
    categories: list[str] = field(default_factory=list)

    def features(self) -> list[str]:
        """Names of the features that this column becomes."""
        missing = [f"{self.name} {MISSING}"] if self.has_missing else []
        if self.kind == "number":
            return [self.name, *missing]
        if self.kind == "date":
            months = [f"{self.name} month {month}" for month in range(1, 13)]
            days = [f"{self.name} weekday {day}" for day in range(1, 8)]
            return [f"{self.name} (years)", *months, *days, *missing]
        return [f"{self.name} = {category}" for category in self.categories]


@dataclass(frozen=True)
class TableEncoder:
    """What turns a pandas frame into a CSR matrix; made by :meth:`fit`."""

    columns: list[Column]

    @classmethod
    def fit(cls, frame: Any) -> TableEncoder:
        """Learn kinds, medians and categories of every column."""
        if frame.shape[1] == 0:
            raise ShapeError("the table has no columns besides the target: there is nothing to use")
        return cls([_learn(str(name), frame[name]) for name in frame.columns])

    def transform(self, frame: Any) -> sp.csr_matrix:
        """The features of these rows; columns are found by name, further ones are ignored."""
        present = {str(name): name for name in frame.columns}
        absent = [column.name for column in self.columns if column.name not in present]
        if absent:
            raise ParameterError(
                f"the table lacks {', '.join(map(repr, absent[:5]))}"
                f"{' and others' if len(absent) > 5 else ''}: the model was trained with "
                f"{len(self.columns)} columns and needs them all, by the same names"
            )
        blocks = [_encode(column, frame[present[column.name]]) for column in self.columns]
        return sp.csr_matrix(sp.hstack(blocks, format="csr"))

    def feature_names(self) -> list[str]:
        """Names of the features, in the order of the matrix."""
        return [name for column in self.columns for name in column.features()]

    def to_json(self) -> list[dict[str, Any]]:
        """Plain data for a model file."""
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_json(cls, columns: Any) -> TableEncoder:
        """The encoder of that plain data; TypeError or KeyError if it is not that."""
        return cls([_checked_column(one) for one in columns])


def _checked_column(one: dict[str, Any]) -> Column:
    column = Column(
        name=one["name"],
        kind=one["kind"],
        median=float(one["median"]),
        has_missing=one["has_missing"],
        categories=list(one["categories"]),
    )
    sound = (
        isinstance(column.name, str)
        and column.kind in ("number", "category", "date")
        and isinstance(column.has_missing, bool)
        and np.isfinite(column.median)
        and all(isinstance(category, str) for category in column.categories)
    )
    if not sound:
        raise TypeError(f"column {column.name!r} is not what an encoder writes")
    return column


def _learn(name: str, values: Any) -> Column:
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        numbers = _numbers(values)
        known = numbers[np.isfinite(numbers)]
        median = float(np.median(known)) if known.size else 0.0
        return Column(name, "number", median, has_missing=known.size < numbers.size)
    dates = _dates(values)
    if dates is not None:
        years = _years(dates)
        known = years[np.isfinite(years)]
        return Column(name, "date", float(np.median(known)), has_missing=known.size < years.size)
    counts = _words(values).value_counts()
    often = counts[counts >= RARE].sort_index()
    kept = often.sort_values(ascending=False, kind="stable").index[:MOST_CATEGORIES].tolist()
    if len(kept) < len(counts):
        kept.append(OTHER)
    return Column(name, "category", categories=[str(category) for category in kept])


def _encode(column: Column, values: Any) -> sp.csr_matrix:
    if column.kind == "category":
        return _encode_words(column, values)
    if column.kind == "number":
        parts = [_numbers(values)]
    else:
        dates = _as_dates(values)
        years = _years(dates)
        months, days = dates.dt.month.to_numpy(), dates.dt.day_of_week.to_numpy()
        parts = [years, *(months == k for k in range(1, 13)), *(days == k for k in range(7))]
    first = parts[0]
    missing = ~np.isfinite(first)
    first = np.where(missing, column.median, first)
    if column.kind == "date":
        first = first - column.median
    parts = [first, *parts[1:], *([missing] if column.has_missing else [])]
    return sp.csr_matrix(np.column_stack(parts).astype(np.float64))


def _encode_words(column: Column, values: Any) -> sp.csr_matrix:
    place = {category: k for k, category in enumerate(column.categories)}
    codes, words = _words(values).factorize()
    other = place.get(OTHER, -1)
    column_of_word = np.array([place.get(str(word), other) for word in words], dtype=np.int64)
    columns = column_of_word[codes] if len(words) else np.full(len(codes), -1)
    rows = np.flatnonzero(columns >= 0)
    shape = (len(codes), len(column.categories))
    return sp.csr_matrix((np.ones(rows.size), (rows, columns[rows])), shape=shape)


def _numbers(values: Any) -> Any:
    """Floats; NaN for what is missing, infinite or, in new data, not a number."""
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _words(values: Any) -> Any:
    words = values.astype("object")
    return words.where(values.notna(), MISSING).astype(str)


def _dates(values: Any) -> Any:
    """The column as dates if it is one, else None."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(values):
        return _as_dates(values)
    known = values.dropna()
    if not len(known) or not isinstance(known.iloc[0], str):
        return None
    sample = known.iloc[: min(len(known), 200)]
    if not sample.str.contains(r"\d[-/.:]\d", regex=True).mean() >= DATE_SHARE:
        return None
    if not _as_dates(sample).notna().mean() >= DATE_SHARE:
        return None
    dates = _as_dates(values)
    return dates if dates.notna().sum() >= DATE_SHARE * len(known) else None


def _as_dates(values: Any) -> Any:
    import pandas as pd

    dates = pd.to_datetime(values, errors="coerce", utc=True, format="mixed")
    return dates.dt.tz_localize(None)


def _years(dates: Any) -> Any:
    days = (dates - np.datetime64("2000-01-01")).dt.total_seconds().to_numpy() / 86400
    return days / 365.25
