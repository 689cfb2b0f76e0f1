"""Reasons for scores, in Python and on the command line."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from apmax.app.features import TableEncoder
from apmax.app.model import load_model
from apmax.app.reasons import contributions, strongest_reasons
from tests.app.loans import as_json, made_loans, run


def test_reasons_are_ordered_by_size_and_zeros_left_out() -> None:
    frame = pd.DataFrame({"a": [0.1, 0.0], "b": [-2.0, 0.0], "c": [0.834, 1.0]})
    values = lambda name, row: f"{name}{row}"  # noqa: E731
    assert strongest_reasons(frame, 2, values) == {
        "reason_1": ["b = b0 (-2.00)", "c = c1 (+1.00)"],
        "reason_2": ["c = c0 (+0.83)", ""],
    }
    assert list(strongest_reasons(frame, 9, values)) == ["reason_1", "reason_2", "reason_3"]


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
        assert shown["reason_1"][row].startswith(f"{column} = ")
        assert shown["reason_1"][row].endswith(f" ({parts[column][row]:+.2f})")


def test_the_reason_for_a_risky_city_is_the_city(folder: Path) -> None:
    made_loans(3000, 4).to_csv("many.csv", index=False)
    run("--quiet", "train", "many.csv", "--target", "defaulted", "--model", "additive", "-o", "m")
    rows = pd.DataFrame({"income": [22026.0] * 2, "city": ["Oslo", "Rome"], "since": "2023-03-01"})
    rows.to_csv("two.csv", index=False)
    oslo, rome = as_json("predict", "m", "two.csv", "--explain", "1")["reason_1"]
    assert oslo.startswith("city = Oslo (+")
    assert rome.startswith("city = Rome (-")


def test_reasons_show_the_values_of_the_row(folder: Path) -> None:
    run("--quiet", "train", "loans.csv", "--target", "defaulted", "--model", "trees", "-o", "m")
    rows = pd.DataFrame({"income": [22026.0, 1234.5678, None], "city": ["Oslo", None, "Rome"]})
    rows["since"] = "2023-03-01"
    rows.to_csv("three.csv", index=False)
    shown = as_json("predict", "m", "three.csv", "--explain", "3")
    texts = [{shown[f"reason_{k}"][row].rpartition(" ")[0] for k in (1, 2, 3)} for row in range(3)]
    assert texts[0] <= {"", "income = 22026", "city = Oslo", "since = 2023-03-01"}
    assert texts[1] <= {"", "income = 1234.6", "city = missing", "since = 2023-03-01"}
    assert texts[2] <= {"", "income = missing", "city = Rome", "since = 2023-03-01"}
    assert "income = 22026" in texts[0]
    assert "city = missing" in texts[1]


def test_reasons_of_pairs_and_of_numbered_features_show_their_values(folder: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 10, (2000, 2)).astype(float)
    y = rng.random(2000) < np.where((X[:, 0] > 5) == (X[:, 1] > 5), 0.5, 0.02)
    np.savez("a.npz", X=X, y=y)
    run("--quiet", "train", "a.npz", "--model", "additive", "-o", "m")
    reason = as_json("predict", "m", "a.npz", "--explain", "1")["reason_1"][0]
    assert reason.startswith(f"feature 1 × feature 2 = {X[0, 0]:.0f} × {X[0, 1]:.0f} (")


def test_many_categories_are_explained_without_a_dense_matrix_of_features() -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 20, (400, 200)).astype(str)
    frame = pd.DataFrame(words, columns=[f"c{k}" for k in range(200)])
    encoder = TableEncoder(min_frequency=1).fit(frame)
    matrix = encoder.transform(frame)
    means = matrix.mean(axis=0).A1
    weights = rng.normal(size=means.size)
    model: Any = SimpleNamespace(
        preprocessor=encoder,
        coef=weights,
        positive="yes",
        classifier=SimpleNamespace(classes_=["no", "yes"], feature_means_=means),
        features=lambda _: matrix,
        feature_names=encoder.get_feature_names_out,
    )
    tracemalloc.start()
    try:
        parts = contributions(model, frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < matrix.shape[0] * matrix.shape[1] * 8 / 2
    assert list(parts) == list(frame)
    names = encoder.get_feature_names_out().tolist()
    for name in ("c0", "c7", "c199"):
        at = [names.index(f"{name} = {k}") for k in range(20)]
        expected = weights[at][words[:, int(name[1:])].astype(int)] - means[at] @ weights[at]
        np.testing.assert_allclose(parts[name], expected, atol=1e-12)
