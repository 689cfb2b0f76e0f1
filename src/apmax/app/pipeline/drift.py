"""What of a table a model cannot use: in training, and in new rows unlike those of training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from apmax.app.pipeline.cells import ORDERS, numbers_of
from apmax.app.pipeline.encoder import (
    MISSING,
    OTHER,
    Column,
    TableEncoder,
    is_far_outside,
    is_marker,
    is_understood,
)

ENOUGH = 0.5
"""Of a column's values that are understood; fewer are worth a word. Where rare words were usual
in training, all have to be new."""
FEW = 20
"""Rows that may all have rare categories by chance."""

FACTOR = 10.0
"""Between two medians, from which on the unit is doubted."""
LONGEST = 40
"""Characters of a value that are shown."""

FOUND = {"number": "no number", "date": "no date as in training", "category": "a new category"}


def unusable_columns(encoder: TableEncoder, frame: Any) -> list[str]:
    """A sentence for each column of which the model understands too little."""
    if not len(frame):
        return []
    values = {str(name): frame[name] for name in frame.columns}
    notes = (_note(column, values[column.name]) for column in encoder.columns)
    return [note for note in notes if note]


def unused_in_training(encoder: TableEncoder, frame: Any) -> list[str]:
    """A sentence for each column of the encoder's own table of which something is not used."""
    pairs = zip(encoder.columns, frame, strict=True)
    notes = (_training_note(column, frame[name]) for column, name in pairs)
    return [note for note in notes if note]


def _training_note(column: Column, values: Any) -> str:
    known = values.dropna()
    if column.kind != "category":
        unknown = known[~is_understood(column, known)]  # words for no number are told once, here
        return _count_note(column, unknown, len(known)) if len(unknown) else ""
    if _real(column):
        return ""
    return (
        f"{column.name!r} is text that hardly ever repeats, and is not used; if it should be "
        "numbers, write them plainly, as 1234.5"
    )


def _note(column: Column, values: Any) -> str:
    known = values.dropna()
    if column.kind == "number" and not is_understood(column, known).all():
        known = known[~is_marker(known)]
    if not len(known):
        return (
            ""
            if column.has_missing
            else f"{column.name!r} is empty, which it never was in training"
        )
    if column.kind == "category" and not _real(column):
        return ""  # it was of no use in training, either
    unknown = known[~is_understood(column, known)]
    if column.kind == "category":
        rare_is_usual = OTHER in column.categories
        enough = max(FEW, len(known)) - 1 if rare_is_usual else ENOUGH * len(known)
        return _count_note(column, unknown, len(known)) if len(unknown) > enough else ""
    if len(unknown) and column.order in ORDERS[1:]:
        other = ORDERS[3 - ORDERS.index(column.order)]
        if is_understood(replace(column, order=other), known).all():
            return (
                f"{column.name!r}: the dates seem to be {other}, and in training they were "
                f"{column.order}: {len(unknown):,} of {len(known):,} count as missing, and others "
                "are misread; write them as year-month-day"
            )
    if len(unknown):
        return _count_note(column, unknown, len(known))
    return _unit_note(column, known) if column.kind == "number" else ""


def _unit_note(column: Column, known: Any) -> str:
    """That the numbers are of another size than in training, as in another unit."""
    far = int(is_far_outside(column, known).sum())
    if far > ENOUGH * len(known):
        lowest, highest = column.extent
        return (
            f"{column.name!r}: {far:,} of {len(known):,} values are far outside those of training, "
            f"{lowest:g} to {highest:g}; is it the same unit?"
        )
    median = float(np.median(numbers_of(known)))
    ratio = median / column.median if column.median else 1.0
    if len(known) < FEW or 1 / FACTOR < ratio < FACTOR or ratio <= 0 or not column.extent:
        return ""
    return (
        f"{column.name!r}: the median is {median:g}, and in training it was {column.median:g}; is "
        "it the same unit?"
    )


def _count_note(column: Column, unknown: Any, known: int) -> str:
    rare_is_usual = OTHER in column.categories
    use = "tell nothing"
    if column.kind != "category" or rare_is_usual:
        use = "count as rare" if rare_is_usual else "count as missing"
    example = str(unknown.iloc[0])[:LONGEST]
    return (
        f"{column.name!r}: {len(unknown):,} of {known:,} values are {FOUND[column.kind]} (first "
        f"{example!r}), and {use}"
    )


def _real(column: Column) -> set[str]:
    return {*column.categories} - {OTHER, MISSING}
