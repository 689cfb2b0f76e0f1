"""Columns that a model cannot use, and shifts of distributions since training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import apmax
from apmax import AdditiveAPClassifier, APClassifierCV
from apmax.app.drift import (
    SCORE,
    Shift,
    checked_profile,
    differences,
    profile,
    psi,
    shift_note,
    training_warnings,
)
from apmax.app.features import TableEncoder, TablePreprocessor
from apmax.app.io import load
from apmax.app.model import load_model
from apmax.app.training import train_model
from apmax.errors import ModelFileError, NonFiniteError, ShapeError

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


def drift_warnings(encoder: Any, frame: Any) -> list[str]:
    return [one.text for one in differences(encoder, frame)]


def lost_columns(encoder: Any, frame: Any, known: Any = None) -> list[str]:
    return [one.text for one in differences(encoder, frame, known) if one.lost]


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
        ("city", "Bonn", "'city': none of the 100 values occurred in training (first 'Bonn'; "),
        ("city", ["Bonn"] * 60 + ["Rome"] * 40, "'city': 60 of 100 values are new categories "),
        ("day", "yesterday", "'day': 100 of 100 values are not dates like %m/%d/%Y"),
        ("city", "Bonn", "training had 'Oslo', 'Rome')"),
        ("city", ["Bonn"] * 60 + ["Rome"] * 40, "'Oslo', 'Rome'), and are ignored"),
    ],
)
def test_each_kind_of_drift_is_reported_once(column: str, values: Any, message: str) -> None:
    training = TRAINING.assign(day=[f"{1 + k % 12:02d}/{1 + k % 28:02d}/2024" for k in range(200)])
    encoder = TableEncoder().fit(training)
    (warning,) = drift_warnings(encoder, training.head(100).assign(**{column: values}))
    assert message in warning


def test_a_column_may_be_empty_by_chance() -> None:
    training = TRAINING.assign(amount=TRAINING["amount"].where(TRAINING.index % 2 == 0))
    encoder = TableEncoder().fit(training)
    known = profile(training, encoder.kinds_, np.full(200, 0.1))
    assert lost_columns(encoder, training, known) == []
    for rows, lost in ((1, 0), (4, 0), (40, 1)):
        empty = training.head(rows).assign(amount=None)
        assert len(lost_columns(encoder, empty, known)) == lost
        assert lost_columns(encoder, empty) == []  # half of the values were missing, or more
    assert "had values in 50 % of the rows" in lost_columns(encoder, empty, known)[0]
    assert len(lost_columns(encoder, training.head(2).assign(city=None))) == 1
    assert lost_columns(encoder, training.head(1).assign(city=None)) == []


def test_a_column_of_new_categories_only_is_lost() -> None:
    for rows, lost in ((1, 0), (6, 0), (7, 1), (100, 1)):
        assert len(lost_columns(ENCODER, TRAINING.head(rows).assign(city=1))) == lost
    assert lost_columns(ENCODER, TRAINING.assign(city=["Bonn"] * 199 + ["Rome"])) == []
    rare = TRAINING.assign(city=["Bari", *TRAINING["city"][1:]])
    assert lost_columns(TableEncoder().fit(rare), TRAINING.assign(city="Bonn")) == []
    gaps = TRAINING.assign(city=[None, *TRAINING["city"][1:]])
    assert len(lost_columns(TableEncoder().fit(gaps), TRAINING.assign(city="Bonn"))) == 1


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


KINDS = {"amount": "number", "city": "category", "day": "date"}


def made_profile(rows: int = 5000, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "amount": rng.exponential(100, rows),
            "city": rng.choice(["Rome", "Oslo", "Bonn"], rows, p=[0.6, 0.3, 0.1]),
            "day": pd.Timestamp("2024-01-01"),
        }
    )
    return frame, rng.beta(1, 9, rows)


def stored(profiled: dict[str, Any]) -> Any:
    """As a model file keeps it."""
    return checked_profile(json.loads(json.dumps(profiled)))


def test_samples_of_one_distribution_have_small_shifts() -> None:
    known = stored(profile(made_profile()[0], KINDS, made_profile()[1]))
    sizes = []
    for seed in range(1, 101):
        shifts = psi(known, *made_profile(60, seed))
        assert shifts[0].column == SCORE
        sizes += [shift.size for shift in shifts]
    assert len(sizes) == 300  # the date is left out
    assert sizes.count("small") >= 290  # 60 rows exceed 0.1 by chance, but rarely their noise


def test_many_columns_of_one_distribution_seldom_give_a_notable_shift() -> None:
    rng = np.random.default_rng(1)
    names = [f"x{k}" for k in range(40)]
    training = pd.DataFrame(rng.normal(size=(2000, 40)), columns=names)
    known = profile(training, dict.fromkeys(names, "number"), rng.random(2000))
    notes = [
        shift_note(
            psi(known, pd.DataFrame(rng.normal(size=(80, 40)), columns=names), rng.random(80))
        )
        for _ in range(30)
    ]
    assert sum(map(bool, notes)) <= 3


def test_a_note_names_the_largest_shifts() -> None:
    sizes = {"a": 0.5, "b": 0.2, "c": 0.01, "d": 0.3, "e": 0.4, "f": 0.6, "g": 0.15}
    shifts = [Shift(SCORE, 0.7, 0.0, "large")]
    shifts += [
        Shift(name, value, 0.0, "small" if value < 0.1 else "large")
        for name, value in sizes.items()
    ]
    note = shift_note(shifts)
    assert note.startswith(
        f"shift since training: {SCORE} (PSI 0.70, large), 'f' (PSI 0.60, large)"
    )
    assert note.endswith("'d' (PSI 0.30, large) and 2 more")
    assert shift_note([Shift("c", 0.01, 0.0, "small")]) == ""


def test_psi_is_the_sum_over_bins() -> None:
    frame, p = made_profile()
    known = profile(frame, {"city": "category"}, p)
    new = frame.assign(city=["Rome"] * 1000 + ["Oslo"] * 3000 + ["Bonn"] * 1000)
    shift = psi(known, new, p)[1]
    before = frame["city"].value_counts(normalize=True)[["Rome", "Oslo", "Bonn"]].to_numpy()
    after = np.array([0.2, 0.6, 0.2])
    assert shift.psi == pytest.approx(((after - before) * np.log(after / before)).sum(), rel=1e-2)
    assert shift.size == "large"


@pytest.mark.parametrize(
    ("values", "size"),
    [
        (lambda x: x, "small"),
        (lambda x: 1.5 * x, "moderate"),
        (lambda x: 3 * x, "large"),
        (lambda x: np.where(np.arange(x.size) % 3 == 0, np.nan, x), "large"),
    ],
    ids=["same", "higher", "tripled", "missing"],
)
def test_the_size_of_a_shift_follows_its_limits(values: Any, size: str) -> None:
    frame, p = made_profile()
    new = frame.assign(amount=values(made_profile(seed=1)[0]["amount"].to_numpy()))
    (shift,) = (one for one in psi(profile(frame, KINDS, p), new, p) if one.column == "amount")
    assert shift.size == size


@pytest.mark.parametrize("heavy", [0.0, 1.0], ids=["rare ones", "rare zeros"])
def test_a_rare_value_beside_a_frequent_one_has_a_bin(heavy: float) -> None:
    flags = np.where(np.arange(5000) % 20 == 0, 1 - heavy, heavy)
    known = profile(pd.DataFrame({"flag": flags}), {"flag": "number"}, np.full(5000, 0.5))
    assert len(known["columns"]["flag"]["edges"]) == 1
    new = pd.DataFrame({"flag": np.where(np.arange(5000) % 3 == 0, 1 - heavy, heavy)})
    assert psi(known, new, np.full(5000, 0.5))[1].size == "large"


def test_profiles_stay_small() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=3000), "shop": rng.integers(0, 500, 3000)})
    kinds = {"x": "number", "shop": "category"}
    known = profile(frame, kinds, rng.random(3000))
    assert len(known["columns"]["x"]["edges"]) == 9
    assert len(known["columns"]["shop"]["levels"]) == 20
    assert len(json.dumps(known)) < 2000


def test_a_matrix_has_only_the_shift_of_the_probabilities() -> None:
    p = np.linspace(0, 1, 1000)
    X = np.zeros((1000, 3))
    shifts = psi(stored(profile(X, {}, p)), X, p**3)
    assert [(shift.column, shift.size) for shift in shifts] == [(SCORE, "large")]


@pytest.mark.parametrize("columns", [["a", "b"], ["a", "b", "x"]], ids=str)
def test_training_rows_have_no_shift(columns: list[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.integers(18, 60, 900), "b": rng.choice(["yes", "no"], 900), "x": rng.random(900)}
    )
    y = rng.random(900) < np.where(frame["b"] == "yes", 0.3, 0.1)
    model = AdditiveAPClassifier().fit(frame[columns], y)
    apmax.save(model, tmp_path / "m.apmax", frame[columns])
    loaded = load_model(tmp_path / "m.apmax")
    shifts = loaded.shifts(frame[columns], loaded.probability(frame[columns]))
    assert {one.size for one in shifts} == {"small"}


@pytest.mark.parametrize("positive", ["yes", "no"])
def test_training_rows_of_linear_models_have_no_shift(positive: str, tmp_path: Path) -> None:
    """Their probabilities have a calibration curve."""
    x = np.random.default_rng(0).exponential(size=2000)
    frame = pd.DataFrame({"x": x, "noise": np.random.default_rng(1).normal(size=2000)})
    event = np.random.default_rng(2).random(2000) < np.where(x > 2, 0.6, 0.02)
    other = {"yes": "no", "no": "yes"}[positive]
    y = np.where(event, positive, other)
    model = APClassifierCV(pos_label=positive).fit(frame, y)
    assert model.log_odds_curve_ is not None
    apmax.save(model, tmp_path / "m.apmax", frame)
    frame.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    data = load(tmp_path / "t.csv", target="y", positive=positive)
    trained = train_model(data, model="linear").model
    for one in (load_model(tmp_path / "m.apmax"), trained):
        shifts = one.shifts(frame, one.probability(frame))
        assert {shift.size for shift in shifts} == {"small"}


def test_probabilities_must_be_finite_and_one_per_row() -> None:
    frame, p = made_profile()
    known = stored(profile(frame, KINDS, p))
    with pytest.raises(NonFiniteError, match="`probabilities`"):
        psi(known, frame, np.where(p > 0.5, np.nan, p))
    with pytest.raises(NonFiniteError, match="`probabilities`"):
        profile(frame, KINDS, np.where(p > 0.5, np.nan, p))
    with pytest.raises(ShapeError, match="`probabilities` has"):
        psi(known, frame, p[:-1])


def test_absent_columns_are_skipped_and_empty_ones_are_large_shifts() -> None:
    frame, p = made_profile()
    known = stored(profile(frame, KINDS, p))
    assert [one.column for one in psi(known, frame[["city"]], p)] == [SCORE, "city"]
    assert psi(known, frame.assign(amount=None), p)[1][::3] == ("amount", "large")


@pytest.mark.parametrize(
    "damage",
    [
        lambda known: None,
        lambda known: {**known, "rows": 0},
        lambda known: {**known, "more": 1},
        lambda known: {**known, "columns": {"amount": {"edges": [1.0]}}},
        lambda known: {**known, "columns": {"amount": {"edges": [2.0, 1.0], "shares": [0.25] * 4}}},
        lambda known: {**known, "columns": {"city": {"levels": ["a"], "shares": [0.5, 0.5]}}},
        lambda known: {**known, "columns": {"city": {"levels": [1], "shares": [1.0, 0.0, 0.0]}}},
        lambda known: {**known, "probability": {"levels": [], "shares": [0.5, 0.5]}},
    ],
)
def test_damaged_profiles_are_refused(damage: Any) -> None:
    with pytest.raises(ModelFileError, match="profile"):
        checked_profile(damage(profile(made_profile()[0], KINDS, made_profile()[1])))


def test_numbers_with_a_few_words_are_reported_if_they_become_categories() -> None:
    values = [str(k) for k in range(93)] + ["n/k"] * 7
    frame = pd.DataFrame({"minutes": values, "plan": ["a", "b"] * 50})
    (message,) = training_warnings(TablePreprocessor().fit(frame), frame)
    assert "'minutes' is read as categories, although 93% of its values are numbers" in message
    assert "'n/k'" in message
