"""What of new rows a model cannot use, because its training data had nothing like it."""

from __future__ import annotations

from typing import Any

from apmax.pipeline.encoder import MISSING, OTHER, Column, TableEncoder, is_understood

ENOUGH = 0.5
"""Of a column's values that are understood; fewer are worth a word."""
FEW = 20
"""Rows that may all have rare categories by chance."""

WANTED = {"number": "no number", "date": "no date as in training", "category": "a new category"}


def unusable_columns(encoder: TableEncoder, frame: Any) -> list[str]:
    """A sentence for each column most of which the model does not understand."""
    values = {str(name): frame[name] for name in frame.columns}
    notes = (_note(column, values[column.name]) for column in encoder.columns)
    return [note for note in notes if note]


def _note(column: Column, values: Any) -> str:
    known = values.dropna()
    if not len(known):
        expected = column.has_missing or MISSING in column.categories
        return "" if expected else f"{column.name!r} is empty, which it never was in training"
    unknown = len(known) - int(is_understood(column, known).sum())
    rare_is_usual = OTHER in column.categories
    enough = max(FEW, len(known)) - 1 if rare_is_usual else ENOUGH * len(known)
    if unknown <= enough:
        return ""
    as_what = "missing" if column.kind != "category" else "rare" if rare_is_usual else "none"
    return (
        f"{column.name!r}: {unknown:,} of {len(known):,} values are {WANTED[column.kind]}, and "
        f"count as {as_what}"
    )
