"""Values of a column of a table as numbers, text or dates, and which of these it has."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUMBER, CATEGORY, DATE = "number", "category", "date"
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


def to_numbers(values: Any) -> Any:
    """Return a column as floats; missing for what is infinite or not a number."""
    import pandas as pd

    try:
        numbers = pd.to_numeric(values, errors="coerce")
    except (TypeError, OverflowError):  # lists; integers beyond any float
        numbers = pd.to_numeric(values.astype(str), errors="coerce")
    array = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    return pd.Series(finite_numbers(array), index=values.index)


def finite_numbers(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers that sums can bear; missing for what is infinite."""
    return np.where(np.isfinite(array), np.clip(array, -LARGEST, LARGEST), np.nan)


def to_words(values: Any) -> Any:
    """Return a column as text or None."""
    words = values.astype("object").where(values.notna(), None)
    return words.map(_word, na_action="ignore").astype(object)


def _word(value: Any) -> str:
    """Return a category as text; whole numbers are floats beside missing ones."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def to_dates(values: Any, date_format: str) -> Any:
    """Return a column as dates; what does not have this format is missing."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(values):
        dates = pd.to_datetime(values, utc=True).dt.tz_localize(None)
        return dates.astype(f"datetime64[{dates.dt.unit}]")  # of NumPy, if they are of Arrow
    text = to_words(values)
    if date_format != "ISO8601":
        text = text.str.replace(r"[ T]+\d{1,2}:.*", "", regex=True)  # the time of day
    dates = pd.to_datetime(text, format=date_format, errors="coerce", utc=True)
    return dates.dt.tz_localize(None)


def means_missing(known: Any) -> Any:
    """Tell for each value whether it is a word for a missing number."""
    return known.astype(str).str.strip().str.casefold().isin(NO_NUMBER)


def kind_of(values: Any) -> tuple[str, str]:
    """Return the kind of a column, and the format of dates."""
    import pandas as pd

    known = without_dictionary(values).dropna()
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


def without_dictionary(values: Any) -> Any:
    """Return a column with the type of its values, if it is a dictionary of Arrow."""
    import pandas as pd

    if not isinstance(values.dtype, pd.ArrowDtype):
        return values
    import pyarrow as pa

    stored = values.dtype.pyarrow_dtype
    return (
        values.astype(pd.ArrowDtype(stored.value_type))
        if pa.types.is_dictionary(stored)
        else values
    )


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
