"""Fitted preprocessors of tables as plain data for a model file, and back."""

from __future__ import annotations

from typing import Any

from apmax.app.archive import Fields
from apmax.app.column_values import CATEGORY, DATE, DATE_FORMATS, NUMBER
from apmax.app.features import TableEncoder, TablePreprocessor
from apmax.errors import ModelFileError


def preprocessor_document(preprocessor: TablePreprocessor | None) -> dict[str, Any] | None:
    """Return what a fitted preprocessor needs, or None without one."""
    if preprocessor is None:
        return None
    document = {
        "kinds": preprocessor.kinds_,
        "date_formats": preprocessor.date_formats_,
        "first_dates": preprocessor.first_dates_,
        "complete": preprocessor.complete_,
        "unused": preprocessor.unused_,
        "typical": preprocessor.typical_,
        "levels": {name: list(of) for name, of in preprocessor.levels_.items()},
    }
    if isinstance(preprocessor, TableEncoder):
        document |= {
            "medians": preprocessor.medians_,
            "with_missing": preprocessor.with_missing_,
        }
    return document


def preprocessor_from(stored: Fields) -> TablePreprocessor:
    """Return the preprocessor of a document; ModelFileError if it is not sound."""
    preprocessor = TableEncoder() if "medians" in stored else TablePreprocessor()
    preprocessor.kinds_ = kinds = stored.mapping("kinds", str)
    preprocessor.date_formats_ = stored.mapping("date_formats", str)
    preprocessor.first_dates_ = stored.mapping("first_dates", str)
    preprocessor.complete_, preprocessor.unused_ = stored.texts("complete"), stored.texts("unused")
    preprocessor.typical_ = stored.typical(
        "typical", {name: kind == NUMBER for name, kind in kinds.items()}
    )
    preprocessor.levels_ = {
        name: _levels_from(Fields({"kept": pair[0], "rare": pair[1]}, {}))
        for name, pair in stored.plain("levels").items()
    }
    dates = [name for name, kind in kinds.items() if kind == DATE]
    words = {name for name, kind in kinds.items() if kind == CATEGORY}
    words |= {f"{name} ({part})" for name in dates for part in ("month", "weekday")}
    if not (
        kinds
        and set(kinds.values()) <= {NUMBER, CATEGORY, DATE}
        and preprocessor.date_formats_.keys() == preprocessor.first_dates_.keys() == {*dates}
        and set(preprocessor.date_formats_.values()) <= set(DATE_FORMATS)
        and preprocessor.levels_.keys() == words
    ):
        raise ModelFileError("the columns of the table are damaged")
    if isinstance(preprocessor, TableEncoder):
        preprocessor.medians_ = stored.mapping("medians", float)
        preprocessor.with_missing_ = stored.texts("with_missing")
        numbers = set(TablePreprocessor.get_feature_names_out(preprocessor)) - words
        if preprocessor.medians_.keys() != numbers or not {*preprocessor.with_missing_} <= numbers:
            raise ModelFileError("the columns of the table are damaged")
    return preprocessor


def _levels_from(stored: Fields) -> tuple[list[str], list[str]]:
    return stored.texts("kept"), stored.texts("rare")
