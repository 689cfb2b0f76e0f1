"""A table of numbers, words and dates as a sparse matrix that a linear model can use.

What has been learnt is plain data (names, kinds, categories, medians), so that a model file
can hold it and load it without running code.
"""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse as sp

from apmax.app.pipeline.cells import (
    ORDERS,
    SAMPLE,
    SHARE,
    date_order,
    dates_of,
    numbers_of,
    years_of,
)
from apmax.errors import ParameterError, ShapeError

RARE = 5
"""Categories seen less often are one, "other": their weights would be noise."""
MOST_CATEGORIES = 1000
MISSING, OTHER = "(missing)", "(other)"
LEVELS = 20
"""Different values up to which numbers among words are names of categories."""
MARKERS = ("-", "--", ".", "na", "n.a.", "none", "missing", "unknown", "#div/0!")
"""Words that mean, among numbers, that there is none; as words of their own they are kept."""


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
    order: str = ""
    """Of a date's parts as text: "year-month-day", "day-month-year" or "month-day-year"."""
    extent: list[float] = field(default_factory=list)
    """The least and the largest number; empty if there was none, or if a model is older."""

    def features(self) -> list[str]:
        """Names of the features that this column becomes."""
        missing = [f"{self.name} {MISSING}"] if self.has_missing else []  # of categories it is one
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
            further = [name for name in present if name not in {c.name for c in self.columns}]
            like = {name.casefold(): name for name in further}
            near = difflib.get_close_matches(absent[0].casefold(), like, n=1)
            hint = f" (is it {like[near[0]]!r}?)" if near else ""
            raise ParameterError(
                f"the table lacks {', '.join(map(repr, absent[:5]))}"
                f"{' and others' if len(absent) > 5 else ''}{hint}: the model was trained with "
                f"{len(self.columns)} columns and needs them all, by the same names"
            )
        blocks = [_encode(column, frame[present[column.name]]) for column in self.columns]
        return sp.csr_matrix(sp.hstack(blocks, format="csr"))

    def words(self) -> list[str]:
        """Columns of words: a file with numbers only in one of them is to be read as text."""
        return [column.name for column in self.columns if column.kind == "category"]

    def feature_names(self) -> list[str]:
        """Names of the features, in the order of the matrix."""
        return [name for column in self.columns for name in column.features()]

    def to_json(self) -> list[dict[str, Any]]:
        """Plain data for a model file."""
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_json(cls, columns: Any) -> TableEncoder:
        """The encoder of that plain data; TypeError or KeyError if it is not that."""
        if not isinstance(columns, list) or not columns:
            raise TypeError("an encoder is a list of columns")
        return cls([_checked_column(one) for one in columns])


def _checked_column(one: dict[str, Any]) -> Column:
    column = Column(
        name=one["name"],
        kind=one["kind"],
        median=float(one["median"]),
        has_missing=one["has_missing"],
        categories=list(one["categories"]),
        order=one["order"],
        extent=one.get("extent", []),
    )
    sound = (
        isinstance(column.name, str)
        and column.kind in ("number", "category", "date")
        and isinstance(column.has_missing, bool)
        and isinstance(one["median"], (int, float))
        and np.isfinite(column.median)
        and isinstance(one["categories"], list)
        and column.order in (ORDERS if column.kind == "date" else ("",))
        and all(isinstance(category, str) for category in column.categories)
        and _is_extent(column.extent)
    )
    if not sound:
        raise TypeError(f"column {column.name!r} is not what an encoder writes")
    return column


def _is_extent(extent: Any) -> bool:
    """Whether it is an empty list, or one of two finite numbers in their order."""
    if extent == []:
        return True
    numbers = isinstance(extent, list) and all(type(end) in (int, float) for end in extent)
    return bool(
        numbers and len(extent) == 2 and np.isfinite(extent).all() and extent == sorted(extent)
    )


def _learn(name: str, values: Any) -> Column:
    known = values.dropna()
    is_number = _is_number(known) or _is_mostly_numbers(known)
    order = "" if is_number else date_order(known)
    if order or is_number:
        numbers = years_of(dates_of(values, order)) if order else numbers_of(values)
        finite = numbers[np.isfinite(numbers)]
        # Halves, since of an even number the two in the middle are added.
        median = 2 * float(np.median(finite / 2)) if finite.size else 0.0
        kind = "date" if order else "number"
        extent = [float(finite.min()), float(finite.max())] if finite.size and not order else []
        gaps = finite.size < numbers.size
        return Column(name, kind, median, has_missing=gaps, order=order, extent=extent)
    counts = _words(values).value_counts()
    often = counts[counts >= RARE].sort_index()
    kept = often.sort_values(ascending=False, kind="stable").index[:MOST_CATEGORIES].tolist()
    if len(kept) < len(counts):
        kept.append(OTHER)
    gaps = len(known) < len(values)
    categories = [str(category) for category in kept]
    return Column(name, "category", has_missing=gaps, categories=categories)


def _encode(column: Column, values: Any) -> sp.csr_matrix:
    if column.kind == "category":
        return _encode_words(column, values)
    if column.kind == "number":
        parts = [numbers_of(values)]
    else:
        dates = dates_of(values, column.order)
        months, days = dates.dt.month.to_numpy(), dates.dt.day_of_week.to_numpy()
        one_of = [*(months == k for k in range(1, 13)), *(days == k for k in range(7))]
        parts = [years_of(dates), *one_of]
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


def is_understood(column: Column, known: Any) -> Any:
    """Of each value that is there, whether it is a number, a date or a category as in training."""
    if column.kind == "number":
        return np.isfinite(numbers_of(known))
    if column.kind == "date":
        return dates_of(known, column.order).notna().to_numpy()
    return _words(known).isin({*column.categories} - {MISSING, OTHER}).to_numpy()


def is_marker(known: Any) -> Any:
    """Of each value, whether it is a word for a number that is not there."""
    return known.astype(str).str.strip().str.casefold().isin(MARKERS)


def is_far_outside(column: Column, known: Any) -> Any:
    """Of each number, whether it looks like another unit.

    It is outside training's by more than all of these span, and is more than three times as
    large as the largest of them, or less than a third of the smallest: years and numbers of
    rows only go on. A column that was constant is of no use, whatever it holds now.
    """
    lowest, highest = column.extent or (0.0, 0.0)
    if lowest == highest:
        return np.zeros(len(known), dtype=bool)
    numbers = numbers_of(known)
    sizes = np.abs([lowest, highest])
    smallest = 0.0 if lowest < 0 < highest else sizes.min()
    span = highest / 3 - lowest / 3  # thirds: differences of large numbers are finite
    outside = (numbers / 3 < lowest / 3 - span) | (numbers / 3 > highest / 3 + span)
    return outside & ((np.abs(numbers) / 3 > sizes.max()) | (np.abs(numbers) < smallest / 3))


def _words(values: Any) -> Any:
    words = values.astype("object").where(values.notna(), MISSING)
    try:
        return words.astype(str)
    except UnicodeDecodeError:  # bytes that are no text
        return words.map(str).astype(str)


def _is_number(known: Any) -> bool:
    """Whether what is known of a column is numbers; nothing at all is, too."""
    import pandas as pd

    if not len(known) or pd.api.types.is_numeric_dtype(known) or pd.api.types.is_bool_dtype(known):
        return True
    return isinstance(known.iloc[0], Decimal)


def _is_mostly_numbers(known: Any) -> bool:
    """Whether text is numbers, of many values, but for a few words."""
    if not isinstance(known.iloc[0], str):
        return False
    for part in (known.iloc[:SAMPLE], known):
        numbers = part[~is_marker(part)]
        if not len(numbers) or np.isfinite(numbers_of(numbers)).mean() < SHARE:
            return False
    return bool(known.nunique() > LEVELS)
