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
"""Share of new categories, or of numbers far outside, above which a column is reported."""


def training_warnings(encoder: TableEncoder, frame: Any) -> list[str]:
    """Describe the columns of the training table that are not fully used."""
    found, columns = [], {str(name): frame[name] for name in frame.columns}
    for name, kind in encoder.kinds_.items():
        known = columns[name].dropna()
        if kind == CATEGORY and not encoder.known_categories(name):
            found.append(
                f"{name!r} is text whose values hardly ever repeat, and is not used; if it holds "
                "numbers, write them like 1234.5"
            )
        elif kind != CATEGORY:
            found += _unknown_values(encoder, name, known)
    return found


def drift_warnings(encoder: TableEncoder, frame: Any) -> list[str]:
    """Describe the columns of new data that differ from the training table.

    Reported are columns that are empty but never were in training, values that are not numbers
    or dates as in training, mostly new categories, and numbers that suggest another unit.
    """
    found, columns = [], {str(name): frame[name] for name in frame.columns}
    for name, kind in encoder.kinds_.items() if len(frame) else ():
        known = columns[name].dropna()
        if kind == NUMBER:
            known = known[np.isfinite(to_numbers(known)) | ~means_missing(known)]
        if not len(known) and not encoder.had_missing(name):
            found.append(f"{name!r} is empty, but had values in every row in training")
        found += _unknown_values(encoder, name, known) or _far_values(encoder, name, known)
    return found


def _unknown_values(encoder: TableEncoder, name: str, known: Any) -> list[str]:
    kind, use = encoder.kinds_[name], "count as missing"
    if kind == NUMBER:
        problem, good = "not a number", np.isfinite(to_numbers(known))
    elif kind == CATEGORY:
        problem, use = "new categories", "are ignored"
        if encoder.groups_rare(name):  # new words are usual in this column
            return []
        good = to_words(known).isin(encoder.known_categories(name)).to_numpy()
    else:
        form = encoder.date_formats_[name]
        problem, good = f"not dates like {form}", to_dates(known, form).notna().to_numpy()
    unknown = known[~good]
    if len(unknown) <= (MAX_UNKNOWN * len(known) if kind == CATEGORY else 0):
        return []
    count = f"{len(unknown):,} of {len(known):,} values are {problem}"
    return [f"{name!r}: {count} (first {str(unknown.iloc[0])[:40]!r}), and {use}"]


def _far_values(encoder: TableEncoder, name: str, known: Any) -> list[str]:
    """Warn of numbers outside the training range by its length and three times its size."""
    low, high = encoder.ranges_.get(name, [0.0, 0.0])
    if low == high or not len(known):
        return []
    numbers, span, size = to_numbers(known) / 3, high / 3 - low / 3, max(abs(low), abs(high))
    outside = (numbers < low / 3 - span) | (numbers > high / 3 + span)
    smallest = 0.0 if low < 0 < high else min(abs(low), abs(high))
    far = int((outside & ((np.abs(numbers) > size) | (np.abs(numbers) < smallest / 9))).sum())
    if far <= MAX_UNKNOWN * len(known):
        return []
    count = f"{far:,} of {len(known):,} values are far outside the training range"
    return [f"{name!r}: {count}, {low:g} to {high:g}; is it the same unit?"]
