"""Tables as features: numbers, categories, dates, missing values and new values."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn

from apmax.app.features import TableEncoder, TablePreprocessor
from apmax.errors import NotNumericError, ParameterError, ShapeError

FRAME = pd.DataFrame(
    {
        "age": [30.0, 40.0, None, 60.0, 50.0] * 4,
        "city": ["Rome", "Rome", "Oslo", None, "Oslo"] * 4,
        "seen": ["2024-01-31", "2024-02-29", "2024-03-01", None, "2023-12-25"] * 4,
        "flag": [True, False, True, True, False] * 4,
    }
)


def encoded(encoder: TableEncoder, frame: Any) -> dict[str, Any]:
    matrix = encoder.transform(frame).toarray()
    return dict(zip(encoder.get_feature_names_out(), matrix.T, strict=True))


def kind_of(values: list[Any]) -> str:
    return TableEncoder().fit(pd.DataFrame({"c": values})).kinds_["c"]


def dictionary(values: list[Any]) -> pd.Series:
    """Return a column of Arrow that stores each value once."""
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values).dictionary_encode()))


def test_missing_numbers_become_the_median_with_an_indicator() -> None:
    features = encoded(TableEncoder().fit(FRAME), FRAME)
    assert features["age"][:5].tolist() == [30, 40, 45, 60, 50]
    assert features["age (missing)"][:5].tolist() == [0, 0, 1, 0, 0]
    assert features["flag"][:2].tolist() == [1, 0]
    assert "flag (missing)" not in features


def test_categories_become_indicators_and_rare_ones_share_one() -> None:
    features = encoded(TableEncoder().fit(FRAME), FRAME)
    assert features["city = Rome"][:5].tolist() == [1, 1, 0, 0, 0]
    assert features["city = (other)"][:5].tolist() == [0, 0, 0, 1, 0]  # missing four times: rare
    often = pd.DataFrame({"city": [None, "Rome"] * 8})
    assert encoded(TableEncoder().fit(often), often)["city = (missing)"].sum() == 8
    unique = pd.DataFrame({"id": [f"user {k}" for k in range(5000)], "n": 1})
    assert TableEncoder().fit(unique).get_feature_names_out().tolist() == ["n"]
    with pytest.raises(ShapeError, match="no column to learn from"):
        TableEncoder().fit(unique[["id"]])
    many = pd.DataFrame({"c": [f"c{k}" for k in range(30)] * 6})
    assert len(TableEncoder(max_categories=10).fit(many).get_feature_names_out()) == 10


def test_a_category_with_the_name_of_the_rare_ones_has_its_own_feature() -> None:
    frame = pd.DataFrame({"c": ["(other)", "x"] * 9 + ["rare"]})
    features = encoded(TableEncoder().fit(frame), frame)
    assert features["c = (other)"].tolist() == [1, 0] * 9 + [0]
    assert features["c = (other) (2)"].tolist() == [0] * 18 + [1]


def test_the_frequent_categories_are_looked_up_once_not_for_each_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []

    class CountedSet(set[Any]):
        def __init__(self, *values: Any) -> None:
            made.append(len(values))
            super().__init__(*values)

    monkeypatch.setattr("apmax.app.features.set", CountedSet, raising=False)
    words = [f"often {k % 50}" for k in range(250)] + [f"once {k}" for k in range(500)]
    kept, rare = TablePreprocessor().fit(pd.DataFrame({"c": words})).levels_["c"]
    assert (len(kept), len(rare)) == (50, 500)
    assert len(made) == 1


def test_dates_become_years_months_and_weekdays() -> None:
    features = encoded(TableEncoder().fit(FRAME), FRAME)
    years = features["seen (years)"]
    assert years[1] - years[0] == pytest.approx(29 / 365.25)
    assert years[4] == 0  # the first date
    assert features["seen (month) = (other)"].all()  # every month has only four rows
    assert features["seen (years) (missing)"][3] == 1
    often = pd.concat([FRAME] * 2)
    features = encoded(TableEncoder().fit(often), often)
    assert features["seen (month) = February"][:5].tolist() == [0, 1, 0, 0, 0]
    assert features["seen (weekday) = Monday"][4] == 1  # 25 December 2023
    native = FRAME.assign(seen=pd.to_datetime(FRAME["seen"]))
    again = encoded(TableEncoder().fit(native), native)
    np.testing.assert_allclose(again["seen (years)"], years)


@pytest.mark.parametrize(
    "column",
    [["1.5", "x"], ["10-20", "30-40"], ["a/b", "c/d"], ["v1.2", "v3.4"], ["10:30", "11:45"],
     ["1.2.10", "4.5.11"], ["20240101", "x"], ["31 Feb 2020", "31 Feb 2021"]],
)  # fmt: skip
def test_times_ranges_and_versions_are_categories(column: list[str]) -> None:
    assert kind_of(column * 10) == "category"


@pytest.mark.parametrize(
    "text",
    ["24/01/2023", "01/24/2023", "2023/01/24", "24.01.2023", "24 Jan 2023", "24-Jan-2023",
     "24-Jan-23", "Jan 24, 2023", "24 January 2023", "24/01/2023 10:30", "2023-01-24T10:30:00Z"],
)  # fmt: skip
def test_common_date_formats_are_recognised(text: str) -> None:
    frame = pd.DataFrame({"d": [text] * 20})
    features = encoded(TableEncoder().fit(frame), frame)
    assert features["d (month) = January"].all()
    assert features["d (weekday) = Tuesday"].all()


def test_day_and_month_are_told_apart_by_the_whole_column() -> None:
    european = pd.DataFrame({"d": ["03/04/2024", "13/04/2024"] * 10})
    assert encoded(TableEncoder().fit(european), european)["d (month) = April"].all()
    american = pd.DataFrame({"d": ["03/04/2024", "03/14/2024"] * 10})
    assert encoded(TableEncoder().fit(american), american)["d (month) = March"].all()


def test_values_of_other_libraries() -> None:
    frame = pd.DataFrame(
        {
            "day": [datetime.date(2024, 1, 31), datetime.date(2023, 6, 1)] * 10,
            "money": [Decimal("1.5"), Decimal("2.5")] * 10,
            "nothing": [None] * 20,
            "huge": [10**400, -(10**400)] * 10,
            "lists": [[1], [2]] * 10,
        }
    )
    encoder = TableEncoder().fit(frame)
    assert list(encoder.kinds_.values()) == ["date", "number", "number", "category", "category"]
    features = encoded(encoder, frame)
    assert features["money"][:2].tolist() == [1.5, 2.5]
    assert features["day (month) = January"][:2].tolist() == [1, 0]
    assert not features["nothing"].any()


DAYS = pd.Series(pd.date_range("2024-01-30", periods=40, unit="ns"))


@pytest.mark.parametrize(
    ("arrow", "plain"),
    [
        (DAYS.astype("timestamp[ns][pyarrow]"), DAYS),
        (DAYS.astype("timestamp[us][pyarrow]"), DAYS),
        (DAYS.dt.tz_localize("UTC").astype("timestamp[ns, UTC][pyarrow]"), DAYS),
        (DAYS.dt.date.astype("date32[pyarrow]"), DAYS),
        (dictionary(list("xyz?") * 10), list("xyz?") * 10),
        (dictionary([1, 2, None, 4] * 10), [1, 2, None, 4] * 10),
        (dictionary(DAYS.dt.to_pydatetime().tolist()), DAYS),
        (dictionary(["2024-01-31", None] * 20), ["2024-01-31", None] * 20),
    ],
)
def test_columns_of_arrow_are_read_like_those_of_numpy(arrow: Any, plain: Any) -> None:
    one, other = pd.DataFrame({"c": arrow}), pd.DataFrame({"c": plain})
    preprocessor = TablePreprocessor().fit(other)
    again = TablePreprocessor().fit(one)
    assert again.kinds_ == preprocessor.kinds_
    assert again.typical_ == preprocessor.typical_
    pd.testing.assert_frame_equal(again.transform(one), preprocessor.transform(other))
    pd.testing.assert_frame_equal(preprocessor.transform(one), preprocessor.transform(other))


def test_extreme_numbers_stay_finite() -> None:
    frame = pd.DataFrame({"x": [1.7e308, 1.7e308, np.inf, -np.inf, np.nan] * 4})
    assert np.isfinite(TableEncoder().fit(frame).transform(frame).data).all()


@pytest.mark.parametrize("word", ["-", "--", ".", "na", "none", "N.A.", "unknown", "#DIV/0!"])
def test_words_for_missing_do_not_turn_numbers_into_categories(word: str) -> None:
    frame = pd.DataFrame({"x": [*(str(k / 2) for k in range(60)), *[word] * 20]})
    encoder = TableEncoder().fit(frame)
    assert encoder.kinds_["x"] == "number"
    assert encoder.complete_ == []


def test_text_of_numbers_is_a_number_unless_it_has_few_values() -> None:
    numbers = [str(k) for k in range(99)]
    assert kind_of([*numbers, "typo"]) == "number"
    assert kind_of([*numbers, *["word"] * 10]) == "category"
    assert kind_of(["1", "2", "3"] * 33) == "category"


def test_new_values_are_encoded_like_missing_or_rare_ones() -> None:
    new = pd.DataFrame(
        {"extra": [1], "flag": [None], "seen": ["not a date"], "city": ["Paris"], "age": ["old"]}
    )
    features = encoded(TableEncoder().fit(FRAME), new)
    assert features["age"][0] == 45
    assert features["age (missing)"][0] == 1
    assert features["city = (other)"][0] == 1
    assert features["seen (years) (missing)"][0] == 1
    encoder = TableEncoder().fit(pd.DataFrame({"c": ["a", "b"] * 8}))
    assert encoder.transform(pd.DataFrame({"c": ["new"]})).nnz == 0


def test_columns_are_found_by_name() -> None:
    encoder = TableEncoder().fit(FRAME)
    shuffled = encoder.transform(FRAME[["seen", "flag", "age", "city"]])
    assert (shuffled != encoder.transform(FRAME)).nnz == 0
    with pytest.raises(ParameterError, match="no column 'city'"):
        encoder.transform(FRAME.drop(columns="city"))
    with pytest.raises(ParameterError, match=r"did you mean 'City'\?"):
        encoder.transform(FRAME.rename(columns={"city": "City"}))
    with pytest.raises(ShapeError, match="no columns"):
        TableEncoder().fit(FRAME[[]])
    with pytest.raises(ShapeError, match="named columns"):
        encoder.transform(np.ones((2, 4)))


def test_the_frame_is_not_changed() -> None:
    before = FRAME.copy(deep=True)
    TableEncoder().fit(FRAME).transform(FRAME)
    pd.testing.assert_frame_equal(FRAME, before)


@pytest.mark.parametrize("kind", ["timedelta64[ns]", object])
def test_durations_are_refused_by_name(kind: Any) -> None:
    waits = pd.Series([None] + [datetime.timedelta(days=k) for k in range(39)], dtype=kind)
    with pytest.raises(NotNumericError, match=r"'wait' holds durations: .*total_seconds\(\)"):
        TableEncoder().fit(pd.DataFrame({"wait": waits}))


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_the_configured_output_of_transformers_changes_nothing(output: str) -> None:
    with sklearn.config_context(transform_output=output):
        assert sp.issparse(TableEncoder().fit(FRAME).transform(FRAME))
        found = TablePreprocessor().fit(FRAME).transform(FRAME)
    pd.testing.assert_frame_equal(found, TablePreprocessor().fit(FRAME).transform(FRAME))
