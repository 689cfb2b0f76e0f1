"""Tables as features: numbers, categories and dates of a data frame, also for a linear model."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from apmax.app.column_values import (
    CATEGORY,
    DATE,
    DATE_FORMATS,
    NUMBER,
    kind_of,
    to_dates,
    to_numbers,
    to_words,
    without_dictionary,
)
from apmax.errors import ParameterError, ShapeError
from apmax.tabular.columns import MISSING, OTHER, lower_median, most_frequent, refuse_durations


class TablePreprocessor(  # type: ignore[call-arg]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
    auto_wrap_output_keys=None,
):
    """Turn a data frame as it comes from a file into numbers and categories.

    Numbers and dates that are stored as text are recognised. The result is a frame that
    :class:`apmax.AutoAPClassifier` and :class:`apmax.AdditiveAPClassifier` take.

    ========  ==========================================================================
    column    columns of the result
    ========  ==========================================================================
    number    the value; NaN if it is missing or not a number
    category  the value as text; None if it is missing
    date      years since the first date, as a number; month and weekday, as categories
    ========  ==========================================================================

    Columns of text whose values hardly ever repeat are left out.

    Parameters
    ----------
    min_frequency : int, default=5
        Categories with fewer rows are rare.
    max_categories : int, default=1000
        Largest number of categories per column; further ones are rare as well.

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
    typical_ : dict of str to float, str or None
        The median of numbers and dates, or the most frequent category, of each column.
    levels_ : dict of str to tuple of two lists of str
        Frequent and rare categories of each column of categories in the result; at most
        `max_categories` rare ones are kept.

    Examples
    --------
    >>> import pandas as pd
    >>> from apmax.app import TablePreprocessor
    >>> frame = pd.DataFrame({"paid": [f"{k}.50" for k in range(39)] + ["n.a."]})
    >>> frame["day"] = ["24.1.2023", "25.1.2023"] * 20
    >>> TablePreprocessor().fit_transform(frame).tail(2)
        paid  day (years) day (month) day (weekday)
    38  38.5     0.000000     January       Tuesday
    39   NaN     0.002738     January     Wednesday
    """

    def __init__(self, min_frequency: int = 5, max_categories: int = 1000) -> None:
        self.min_frequency = min_frequency
        self.max_categories = max_categories

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the kinds of the columns, formats of dates, and categories.

        Parameters
        ----------
        X : DataFrame
            The training table, without the target.
        y : object, optional
            Ignored.

        Returns
        -------
        TablePreprocessor
            The fitted preprocessor.
        """
        if not hasattr(X, "columns"):
            raise ShapeError("a table with named columns is needed: pass a pandas DataFrame")
        if X.shape[1] == 0:
            raise ShapeError("the table has no columns besides the target")
        X = X.rename(columns=str)
        for name in X.columns:
            refuse_durations(X[name], name)
        found = {name: kind_of(X[name]) for name in X.columns}
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
        self._learn(X, {name: found[name] for name in found if name not in self.unused_})
        return self

    def fit_kinds(self, X: Any, kinds: Mapping[str, str]) -> Self:
        """Learn from columns whose kinds, numbers and categories, are known."""
        self.unused_ = []
        self._learn(X.rename(columns=str), {name: (kind, "") for name, kind in kinds.items()})
        return self

    def _learn(self, X: Any, found: Mapping[str, tuple[str, str]]) -> None:
        """Learn all but the kinds of the columns and the formats of dates."""
        self.kinds_ = {name: kind for name, (kind, _) in found.items()}
        self.date_formats_ = {name: form for name, (_, form) in found.items() if form}
        read = {name: self.read(name, X[name]) for name in self.kinds_}
        self.complete_ = [name for name, values in read.items() if values.notna().all()]
        self.typical_ = {name: self._typical(name, values) for name, values in read.items()}
        self.first_dates_ = {name: read[name].min().isoformat() for name in self.date_formats_}
        self.levels_ = {
            name: self._levels(words)
            for name, words in self._parts(X).items()
            if not _holds_numbers(words)
        }

    def transform(self, X: Any) -> Any:
        """Return these rows as numbers and categories; columns are found by name.

        Parameters
        ----------
        X : DataFrame
            Rows with the columns of the training table, in any order.
        """
        import pandas as pd

        check_is_fitted(self, "kinds_")
        self.check_columns(X)
        return pd.DataFrame(self._parts(X.rename(columns=str)), index=X.index)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of the result.

        Parameters
        ----------
        input_features : object, optional
            Ignored.
        """
        parts = {DATE: (" (years)", " (month)", " (weekday)")}
        names = [name + end for name, kind in self.kinds_.items() for end in parts.get(kind, ("",))]
        return np.array(names, dtype=object)

    def categories(self, name: str) -> tuple[list[str], set[str]]:
        """Return the frequent categories of a column, and the rare ones.

        Parameters
        ----------
        name : str
            A column of categories in the result.
        """
        kept, rare = self.levels_[name]
        return list(kept), set(rare)

    def text_columns(self) -> list[str]:
        """Return the columns to read as text, whatever they look like in another file."""
        return [name for name, kind in self.kinds_.items() if kind == CATEGORY]

    def read(self, name: str, values: Any) -> Any:
        """Return values of a column as numbers, dates or text; missing if they cannot be read."""
        values = without_dictionary(values)
        if self.kinds_[name] == NUMBER:
            return to_numbers(values)
        if self.kinds_[name] == CATEGORY:
            return to_words(values)
        return to_dates(values, self.date_formats_[name])

    def _never_repeats(self, values: Any) -> bool:
        """Tell whether no category, nor missing values, would be frequent."""
        return int(to_words(values).value_counts(dropna=False).max()) < self.min_frequency

    def _typical(self, name: str, values: Any) -> float | str | None:
        """Return the value that a cell of the table has typically; None if it is missing."""
        if self.kinds_[name] == CATEGORY:
            return most_frequent(values.fillna(MISSING))
        if self.kinds_[name] == NUMBER:
            return lower_median(values.to_numpy())
        middle = values.quantile(0.5, interpolation="lower")
        form = self.date_formats_[name]
        return str(middle.isoformat() if form == DATE_FORMATS[0] else middle.strftime(form))

    def _levels(self, words: Any) -> tuple[list[str], list[str]]:
        count = words.fillna(MISSING).value_counts().sort_index().sort_values(
            ascending=False, kind="stable"
        )  # fmt: skip
        frequent = count.index[count >= self.min_frequency]
        if len(frequent) < len(count) or len(frequent) > self.max_categories:
            frequent = frequent[: self.max_categories - 1]  # the rare ones share one more
        kept = sorted(map(str, frequent))
        known = set(kept)
        rare = [word for word in map(str, count.index) if word not in known]
        return kept, sorted(rare[: self.max_categories])

    def _parts(self, X: Any) -> dict[str, Any]:
        """Return the columns of the result by name."""
        parts: dict[str, Any] = {}
        for name, kind in self.kinds_.items():
            values = self.read(name, X[name])
            if kind != DATE:
                parts[name] = values
                continue
            days = (values - np.datetime64(self.first_dates_[name])).dt.total_seconds() / 86400
            parts[f"{name} (years)"] = days / 365.25
            parts[f"{name} (month)"] = values.dt.month_name().astype(object)
            parts[f"{name} (weekday)"] = values.dt.day_name().astype(object)
        return parts

    def check_columns(self, X: Any) -> None:
        """Raise ParameterError if a column of training is absent, or ShapeError for a matrix."""
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
            f"the table has no column{'s' * (len(absent) > 1)} {', '.join(map(repr, absent[:5]))}"
            f"{' and others' if len(absent) > 5 else ''}{hint}: the model needs all "
            f"{len(self.kinds_)} columns that it was trained with"
        )


class TableEncoder(TablePreprocessor, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Encode the columns of a data frame as a sparse matrix for a linear model.

    Numbers are completed by the median, with an indicator "(missing)" if any was missing. Each
    frequent category and missing categories have an indicator; rare and new categories share
    "(other)". Dates become years, month and weekday, as in :class:`TablePreprocessor`, whose
    parameters and attributes it has.

    Attributes
    ----------
    medians_ : dict of str to float
        Replacements of missing numbers.
    with_missing_ : list of str
        Columns of numbers with an indicator of missing values.
    """

    def _learn(self, X: Any, found: Mapping[str, tuple[str, str]]) -> None:
        super()._learn(X, found)
        numbers = {name: part for name, part in self._parts(X).items() if name not in self.levels_}
        medians = {name: values.median() for name, values in numbers.items()}
        self.medians_ = {name: 0.0 if np.isnan(m) else float(m) for name, m in medians.items()}
        self.with_missing_ = [name for name, values in numbers.items() if values.isna().any()]

    def transform(self, X: Any) -> sp.csr_matrix:
        """Return the features of these rows; columns are found by name."""
        parts = super().transform(X)
        blocks = [
            sp.csr_matrix(parts[name].fillna(median).to_numpy()[:, None])
            for name, median in self.medians_.items()
        ]
        blocks += [
            sp.csr_matrix(parts[name].isna().to_numpy(dtype=np.float64)[:, None])
            for name in self.with_missing_
        ]
        blocks += [_indicators(parts[name].fillna(MISSING), *self.levels_[name])
                   for name in self.levels_]  # fmt: skip
        return sp.csr_matrix(sp.hstack(blocks, format="csr"), dtype=np.float64)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features, in the order of the matrix."""
        return np.array([name for name, _ in self._named_features()], dtype=object)

    def source_columns(self) -> list[str]:
        """Return the column of the preprocessed table that each feature comes from."""
        return [column for _, column in self._named_features()]

    def _named_features(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the source of each feature."""
        yield from ((name, name) for name in self.medians_)
        yield from ((f"{name} {MISSING}", name) for name in self.with_missing_)
        for name, (kept, rare) in self.levels_.items():
            other = OTHER
            while other in kept:  # a category of this name
                other += " (2)"
            words = [*kept, other] if rare else kept
            yield from ((f"{name} = {word}", name) for word in words)


def _indicators(words: Any, kept: Sequence[str], rare: Sequence[str]) -> sp.csr_matrix:
    """Return one column per kept category, and one for all others if some are rare."""
    places = {word: k for k, word in enumerate(kept)}
    at = words.map(places).fillna(len(kept)).to_numpy(dtype=np.int64)
    width = len(kept) + bool(rare)
    rows = np.flatnonzero(at < width)
    return sp.csr_matrix((np.ones(rows.size), (rows, at[rows])), shape=(at.size, width))


def _holds_numbers(values: Any) -> bool:
    return bool(values.dtype.kind == "f")
