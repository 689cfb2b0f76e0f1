"""Warnings about columns that a model cannot use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from apmax.app.drift import drift_warnings, training_warnings
from apmax.app.features import TableEncoder

RNG = np.random.default_rng(0)
TRAINING = pd.DataFrame(
    {
        "amount": RNG.uniform(10, 1000, 200).round(2),
        "city": RNG.choice(["Rome", "Oslo"], 200),
        "shop": [f"shop {k}" if k % 2 else "main" for k in range(200)],
        "day": [f"{1 + k % 28:02d}/{1 + k % 12:02d}/2024" for k in range(200)],
        "id": [f"row {k}" for k in range(200)],
    }
)
ENCODER = TableEncoder().fit(TRAINING)


def warnings_for(**columns: Any) -> list[str]:
    return drift_warnings(ENCODER, TRAINING.head(100).assign(**columns))


def test_rows_like_those_of_training_give_no_warning() -> None:
    assert warnings_for() == []
    assert drift_warnings(ENCODER, TRAINING.iloc[:0]) == []
    assert warnings_for(amount=TRAINING["amount"].head(100) * 1.5) == []
    assert warnings_for(shop="a new shop", id="anything") == []


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("amount", "many", "'amount': 100 of 100 values are not a number (first 'many')"),
        ("amount", None, "'amount' is empty, but had values in every row"),
        ("amount", "unknown", "'amount' is empty"),
        ("city", "Bonn", "'city': 100 of 100 values are new categories (first 'Bonn')"),
        ("day", "yesterday", "'day': 100 of 100 values are not dates like %m/%d/%Y"),
        ("city", "Bonn", "and are ignored"),
    ],
)
def test_each_kind_of_drift_is_reported_once(column: str, values: Any, message: str) -> None:
    training = TRAINING.assign(day=[f"{1 + k % 12:02d}/{1 + k % 28:02d}/2024" for k in range(200)])
    encoder = TableEncoder().fit(training)
    (warning,) = drift_warnings(encoder, training.head(100).assign(**{column: values}))
    assert message in warning


def test_training_reports_unused_text_and_unreadable_values() -> None:
    amounts = TRAINING["amount"].astype(object).where(TRAINING.index != 7, "-")
    frame = TRAINING.assign(amount=amounts.astype(str))
    found = training_warnings(TableEncoder().fit(frame), frame)
    assert [text.split()[0] for text in found] == ["'amount':", "'id'"]
    assert "hardly ever repeat, and is not used" in found[1]


def test_columns_may_have_numbers_for_names() -> None:
    frame = pd.DataFrame({0: RNG.random(50), 1: ["a", "b"] * 25})
    encoder = TableEncoder().fit(frame)
    assert training_warnings(encoder, frame) == drift_warnings(encoder, frame) == []
