"""Report columns that a model cannot use: in training, and in new rows that differ from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from apmax.app.features import (
    CATEGORY,
    NUMBER,
    TableEncoder,
    means_missing,
    to_dates,
    to_numbers,
    to_words,
)

MAX_UNKNOWN = 0.5
"""Share of unknown categories, or of numbers far outside, above which a column is reported."""
FEW_ROWS = 20
"""Rows that may all have rare categories by chance."""
PROBLEM = {NUMBER: "not a number", CATEGORY: "new categories"}


def training_warnings(encoder: TableEncoder, frame: Any) -> list[str]:
    """Describe the columns of the training table that are not fully used."""
    found = []
    for name, kind in encoder.kinds_.items():
        known = frame[name].dropna()
        if kind == CATEGORY and not encoder.known_categories(name):
            found.append(
                f"{name!r} is text whose values hardly ever repeat, and is not used; if it holds "
                "numbers, write them like 1234.5"
            )
        elif kind != CATEGORY:
            unknown = known[~_is_known(encoder, name, known)]
            found += [_describe(encoder, name, unknown, len(known))] if len(unknown) else []
    return found


def drift_warnings(encoder: TableEncoder, frame: Any) -> list[str]:
    """Describe the columns of new data that differ from the training table.

    Reported are columns that are empty but never were in training, values that are not numbers
    or dates as in training, mostly new categories, and numbers that suggest another unit.
    """
    found = [_drift(encoder, name, frame[name].dropna()) for name in encoder.kinds_]
    return [warning for warning in found if warning and len(frame)]


def _drift(encoder: TableEncoder, name: str, known: Any) -> str:
    kind = encoder.kinds_[name]
    if kind == NUMBER and not np.isfinite(to_numbers(known)).all():
        known = known[~means_missing(known)]
    if not len(known):
        if encoder.had_missing(name):
            return ""
        return f"{name!r} is empty, but had values in every row in training"
    unknown = known[~_is_known(encoder, name, known)]
    if kind != CATEGORY:
        if len(unknown):
            return _describe(encoder, name, unknown, len(known))
        return _unit_warning(encoder, name, to_numbers(known)) if kind == NUMBER else ""
    if not encoder.known_categories(name):
        return ""  # the column was of no use in training either
    limit = MAX_UNKNOWN * len(known)
    if encoder.groups_rare(name):  # rare words are usual in this column
        limit = max(FEW_ROWS, len(known)) - 1
    return _describe(encoder, name, unknown, len(known)) if len(unknown) > limit else ""


def _is_known(encoder: TableEncoder, name: str, known: Any) -> Any:
    kind = encoder.kinds_[name]
    if kind == NUMBER:
        return np.isfinite(to_numbers(known))
    if kind == CATEGORY:
        return to_words(known).isin(encoder.known_categories(name)).to_numpy()
    return to_dates(known, encoder.date_formats_[name]).notna().to_numpy()


def _unit_warning(encoder: TableEncoder, name: str, numbers: Any) -> str:
    low, high = encoder.ranges_.get(name, [0.0, 0.0])
    if low == high:
        return ""
    # Far outside: beyond the range by more than its length, and three times its size away.
    span, size = high / 3 - low / 3, max(abs(low), abs(high))
    outside = (numbers / 3 < low / 3 - span) | (numbers / 3 > high / 3 + span)
    smallest = 0.0 if low < 0 < high else min(abs(low), abs(high))
    far = outside & ((np.abs(numbers) / 3 > size) | (np.abs(numbers) < smallest / 3))
    if far.sum() <= MAX_UNKNOWN * numbers.size:
        return ""
    return (
        f"{name!r}: {int(far.sum()):,} of {numbers.size:,} values are far outside the training "
        f"range, {low:g} to {high:g}; is it the same unit?"
    )


def _describe(encoder: TableEncoder, name: str, unknown: Any, known: int) -> str:
    kind = encoder.kinds_[name]
    use = "count as missing"
    if kind == CATEGORY:
        use = "count as rare" if encoder.groups_rare(name) else "are ignored"
    problem = PROBLEM.get(kind) or f"not dates like {encoder.date_formats_.get(name)}"
    example = str(unknown.iloc[0])[:40]
    count = f"{len(unknown):,} of {known:,} values are {problem}"
    return f"{name!r}: {count} (first {example!r}), and {use}"
