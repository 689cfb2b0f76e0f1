"""Reasons for scores, in Python and on the command line."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest

from apmax.app.model import load_model
from apmax.app.reasons import strongest_reasons
from tests.app.loans import as_json, made_loans, run


def test_reasons_are_ordered_by_size_and_zeros_left_out() -> None:
    frame = pd.DataFrame({"a": [0.1, 0.0], "b": [-2.0, 0.0], "c": [0.834, 1.0]})
    assert strongest_reasons(frame, 2) == {
        "reason_1": ["b: -2.00", "c: +1.00"],
        "reason_2": ["c: +0.83", ""],
    }
    assert list(strongest_reasons(frame, 9)) == ["reason_1", "reason_2", "reason_3"]


@pytest.mark.parametrize("name", ["additive", "logistic", "linear"])
def test_predict_adds_the_strongest_reasons_of_each_row(folder: Path, name: str) -> None:
    run("--quiet", "train", "loans.csv", "--target", "defaulted", "--model", name, "-o", "m.apmax")
    text = run("--quiet", "predict", "m.apmax", "new-loans.csv", "--explain", "2").stdout
    shown = pd.read_csv(io.StringIO(text))
    assert list(shown.columns) == ["probability", "log_odds", "label", "reason_1", "reason_2"]
    parts = load_model("m.apmax").explain(pd.read_csv("new-loans.csv"))
    strongest = parts.abs().to_numpy().argmax(axis=1)
    for row in (0, 7, 399):
        column = parts.columns[strongest[row]]
        assert shown["reason_1"][row] == f"{column}: {parts[column][row]:+.2f}"


def test_the_reason_for_a_risky_city_is_the_city(folder: Path) -> None:
    made_loans(3000, 4).to_csv("many.csv", index=False)
    run("--quiet", "train", "many.csv", "--target", "defaulted", "--model", "additive", "-o", "m")
    rows = pd.DataFrame({"income": [22026.0] * 2, "city": ["Oslo", "Rome"], "since": "2023-03-01"})
    rows.to_csv("two.csv", index=False)
    oslo, rome = as_json("predict", "m", "two.csv", "--explain", "1")["reason_1"]
    assert oslo.startswith("city: +")
    assert rome.startswith("city: -")
