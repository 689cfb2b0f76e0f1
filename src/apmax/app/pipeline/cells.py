"""What the cells of a column say, if they are numbers or dates."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np

ORDERS = ("year-month-day", "month-day-year", "day-month-year")
YEAR_FIRST = r"(?a)^\s*(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)"
_YEAR = r"(\d{4}|\d{2})(?!\d)"
YEAR_LAST = rf"(?a)^\s*(\d{{1,2}})[-/.](\d{{1,2}})(?:/|[-.](?=\d{{4}})){_YEAR}"
"""Two digits of a year only after a stroke: 1.2.10 is a version."""
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_NAMES = "|".join([*MONTHS, "sept", *(month[:3] for month in MONTHS)])
_NAME, _DAY = rf"({_NAMES})\.?", r"(\d{1,2})(?:st|nd|rd|th)?"
DAY_NAMED = rf"(?ai)^\s*{_DAY}[\s./-]*{_NAME},?[\s/-]*{_YEAR}"
NAMED_DAY = rf"(?ai)^\s*{_NAME}[\s./-]*{_DAY},?[\s/-]+{_YEAR}"
NUMBERS = {month[:3]: k for k, month in enumerate(MONTHS, start=1)}
PIVOT = 69
"""Years of two digits below it are of this century, as in POSIX."""
SHARE = 0.95
"""Of a text column's values that must be dates, or numbers, for it to be a column of them."""
SAMPLE = 200


def numbers_of(values: Any) -> Any:
    """Floats; NaN for what is missing, infinite or, in new data, not a number."""
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def date_order(known: Any) -> str:
    """The order of a date's parts if the column is one of dates, else nothing.

    Text needs a year: of four digits, or after a stroke or a month's name. Which of two other
    parts is the month, the whole column tells: a part above 12 is a day. Where it does not tell,
    the month comes first.
    """
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(known) or isinstance(known.iloc[0], date):
        return ORDERS[0]
    if not isinstance(known.iloc[0], str):
        return ""
    for order in ORDERS:
        if order != ORDERS[0] and not _may_be(known, order):
            continue
        sample = known.iloc[:SAMPLE]
        if dates_of(sample, order).notna().mean() < SHARE:
            continue
        if dates_of(known, order).notna().mean() >= SHARE:
            return order
    return ""


def _may_be(known: Any, order: str) -> bool:
    """Whether no month of this order is above 12."""
    parts = known.str.extract(YEAR_LAST)
    month = parts[1 if order == "day-month-year" else 0].astype(float)
    return not bool((month > 12).any())


def dates_of(values: Any, order: str) -> Any:
    """Dates of a column; what is none of that order is missing."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(values):
        return pd.to_datetime(values, utc=True).dt.tz_localize(None)
    text = values.astype("object").where(values.notna(), "").astype(str)
    dates = _parsed(text, YEAR_FIRST, ORDERS[0])  # which is never in doubt, nor are named months
    for pattern, parts in ((DAY_NAMED, ORDERS[2]), (NAMED_DAY, ORDERS[1])):
        if dates.isna().any():
            dates = dates.fillna(_parsed(text, pattern, parts))
    return dates if order == ORDERS[0] else dates.fillna(_parsed(text, YEAR_LAST, order))


def _parsed(text: Any, pattern: str, order: str) -> Any:
    """Dates of the texts that match; the month may be the beginning of its English name."""
    import pandas as pd

    parts = text.str.extract(pattern).set_axis(order.split("-"), axis=1)
    numbers = parts["month"].str[:3].str.lower().map(NUMBERS)
    parts["month"] = parts["month"].where(numbers.isna(), numbers)
    parts = parts.astype(float)
    century = np.where(parts["year"] < PIVOT, 2000, 1900)
    parts["year"] += np.where(parts["year"] < 100, century, 0)
    return pd.to_datetime(parts, errors="coerce")


def years_of(dates: Any) -> Any:
    """Years since the beginning of 2000; NaN where there is no date."""
    days = (dates - np.datetime64("2000-01-01")).dt.total_seconds().to_numpy() / 86400
    return days / 365.25
