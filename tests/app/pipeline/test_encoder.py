"""Tables as features: numbers, words, dates, what is missing and what is new."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from apmax.errors import ParameterError, ShapeError
from apmax.app.pipeline.encoder import TableEncoder

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
    return dict(zip(encoder.feature_names(), matrix.T, strict=True))


def test_numbers_take_the_median_where_they_are_missing() -> None:
    features = encoded(TableEncoder.fit(FRAME), FRAME)
    assert features["age"][:5].tolist() == [30, 40, 45, 60, 50]
    assert features["age (missing)"][:5].tolist() == [0, 0, 1, 0, 0]
    assert features["flag"][:2].tolist() == [1, 0]
    assert "flag (missing)" not in features


def test_words_become_one_feature_each_and_missing_is_a_word() -> None:
    features = encoded(TableEncoder.fit(FRAME), FRAME)
    assert features["city = Rome"][:5].tolist() == [1, 1, 0, 0, 0]
    assert "city = (other)" in features  # "(missing)" was seen four times: rare
    assert features["city = (other)"][:5].tolist() == [0, 0, 0, 1, 0]
    often = pd.DataFrame({"city": [None, "Rome"] * 8})
    assert encoded(TableEncoder.fit(often), often)["city = (missing)"].sum() == 8


def test_dates_become_years_months_and_days() -> None:
    features = encoded(TableEncoder.fit(FRAME), FRAME)
    years = features["seen (years)"]
    assert years[1] - years[0] == pytest.approx(29 / 365.25)
    assert features["seen month 2"][:5].tolist() == [0, 1, 0, 0, 0]
    assert features["seen weekday 1"][4] == 1  # 25 December 2023 was a Monday
    assert features["seen (missing)"][3] == 1
    assert years[3] == 0
    native = FRAME.assign(seen=pd.to_datetime(FRAME["seen"]))
    again = encoded(TableEncoder.fit(native), native)
    np.testing.assert_allclose(again["seen (years)"], years)


@pytest.mark.parametrize(
    "column", [["1.5", "x"], ["10-20", "30-40"], ["a/b", "c/d"], ["v1.2", "v3.4"]]
)
def test_words_that_are_no_dates_stay_words(column: list[str]) -> None:
    frame = pd.DataFrame({"c": column * 10})
    assert [one.kind for one in TableEncoder.fit(frame).columns] == ["category"]


@pytest.mark.parametrize(
    "column",
    [
        ["10:30", "11:45"],
        ["1-5", "6-10"],
        ["11-15", "16-20"],
        ["1.2.3", "4.5.6"],
        ["1.2.10", "4.5.11"],
        ["20240101", "x"],
    ],
)
def test_times_bins_and_versions_are_no_dates(column: list[str]) -> None:
    frame = pd.DataFrame({"c": column * 10})
    assert TableEncoder.fit(frame).columns[0].kind == "category"


def test_one_order_of_day_and_month_holds_for_a_whole_column() -> None:
    frame = pd.DataFrame({"d": ["03/04/2024", "13/04/2024"] * 10})
    features = encoded(TableEncoder.fit(frame), frame)
    assert features["d month 4"].all()
    american = pd.DataFrame({"d": ["03/04/2024", "03/14/2024"] * 10})
    assert encoded(TableEncoder.fit(american), american)["d month 3"].all()
    encoder = TableEncoder.fit(frame)
    assert encoded(encoder, pd.DataFrame({"d": [20240101, 5]}))["d (years)"].tolist() == [0, 0]


@pytest.mark.parametrize(
    "text",
    [
        "24 Jan 2023", "24-jan-2023", "24JAN2023", "24th January 2023",
        "24-Jan-23", "Jan 24, 2023", "January 24th 2023", "24. Jan. 2023 10:30", "Jan-24-2023",
    ],
)  # fmt: skip
def test_months_may_have_english_names(text: str) -> None:
    iso = pd.DataFrame({"d": ["2023-01-24", "2021-09-05"] * 10})
    named = pd.DataFrame({"d": [text, "5 Sept 2021"] * 10})
    encoder = TableEncoder.fit(named)
    assert encoder.columns[0].order == "year-month-day"
    twice = named.set_axis([0, 0] * 10)  # an index may have doubles
    for frame in (named, twice, named.astype("string"), named.astype("category")):
        np.testing.assert_array_equal(
            encoder.transform(frame).toarray(), encoder.transform(iso).toarray()
        )


@pytest.mark.parametrize("text", ["3 Marketing 2020", "31 Feb 2020", "May 2020", "5 ſep 2021"])
def test_other_names_are_no_months(text: str) -> None:
    frame = pd.DataFrame({"d": [text] * 20})
    assert TableEncoder.fit(frame).columns[0].kind == "category"


@pytest.mark.parametrize(
    ("text", "iso"),
    [("1/24/23", "2023-01-24"), ("12/31/68", "2068-12-31"), ("12/31/69", "1969-12-31")],
)
def test_years_may_have_two_digits_after_a_stroke(text: str, iso: str) -> None:
    encoder = TableEncoder.fit(pd.DataFrame({"d": ["1/24/23", "9/5/21"] * 10}))
    assert encoder.columns[0].order == "month-day-year"
    short, long = (encoder.transform(pd.DataFrame({"d": [one]})) for one in (text, iso))
    np.testing.assert_array_equal(short.toarray(), long.toarray())


def test_dates_and_decimals_of_other_libraries_are_read() -> None:
    frame = pd.DataFrame(
        {
            "day": [datetime.date(2024, 1, 31), datetime.date(2023, 6, 1)] * 10,
            "money": [Decimal("1.5"), Decimal("2.5")] * 10,
            "nothing": [None] * 20,
        }
    )
    encoder = TableEncoder.fit(frame)
    assert [column.kind for column in encoder.columns] == ["date", "number", "number"]
    features = encoded(encoder, frame)
    assert features["money"][:2].tolist() == [1.5, 2.5]
    assert features["day month 1"][:2].tolist() == [1, 0]
    assert not features["nothing"].any()


def test_new_data_may_hold_what_training_did_not() -> None:
    encoder = TableEncoder.fit(FRAME)
    new = pd.DataFrame(
        {
            "extra": [1], "flag": [None], "seen": ["not a date"], "city": ["Paris"],
            "age": ["old"],
        }
    )  # fmt: skip
    features = encoded(encoder, new)
    assert features["age"][0] == 45
    assert features["age (missing)"][0] == 1
    assert features["city = (other)"][0] == 1
    assert features["seen (missing)"][0] == 1
    no_other = pd.DataFrame({"c": ["a", "b"] * 8})
    encoder = TableEncoder.fit(no_other)
    assert encoder.transform(pd.DataFrame({"c": ["new"]})).nnz == 0


def test_columns_are_found_by_name_and_a_missing_one_is_named() -> None:
    encoder = TableEncoder.fit(FRAME)
    shuffled = encoder.transform(FRAME[["seen", "flag", "age", "city"]])
    assert (shuffled != encoder.transform(FRAME)).nnz == 0
    with pytest.raises(ParameterError, match="lacks 'city'"):
        encoder.transform(FRAME.drop(columns="city"))
    with pytest.raises(ShapeError, match="no columns"):
        TableEncoder.fit(FRAME[[]])
    with pytest.raises(ParameterError, match=r"lacks 'city' \(is it 'City'\?\): the model"):
        TableEncoder.fit(FRAME).transform(FRAME.rename(columns={"city": "City"}))


def test_what_was_learnt_goes_through_json() -> None:
    encoder = TableEncoder.fit(FRAME)
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    for broken in ([{"name": "a"}], [{**encoder.to_json()[0], "kind": "code"}], [3], "abc"):
        with pytest.raises((KeyError, TypeError)):
            TableEncoder.from_json(broken)


def test_many_rare_words_are_one_feature() -> None:
    frame = pd.DataFrame({"id": [f"user {k}" for k in range(5000)]})
    assert TableEncoder.fit(frame).feature_names() == ["id = (other)"]


def test_the_frame_is_not_changed() -> None:
    before = FRAME.copy(deep=True)
    TableEncoder.fit(FRAME).transform(FRAME)
    pd.testing.assert_frame_equal(FRAME, before)


@pytest.mark.parametrize("marker", ["-", "--", ".", "na", "none", "N.A.", "unknown", "#DIV/0!"])
def test_marks_for_what_is_missing_do_not_make_words_of_numbers(marker: str) -> None:
    numbers = [str(k / 2) for k in range(60)]
    frame = pd.DataFrame({"x": [*numbers, *[marker] * 20]})
    (column,) = TableEncoder.fit(frame).columns
    assert (column.kind, column.has_missing) == ("number", True)
    assert column.median == np.median(np.arange(60) / 2)


def test_a_few_words_do_not_make_words_of_numbers_but_codes_stay_words() -> None:
    numbers = [str(k) for k in range(99)]
    (column,) = TableEncoder.fit(pd.DataFrame({"x": [*numbers, "oops"]})).columns
    assert column.kind == "number"
    codes = pd.DataFrame({"x": ["1", "2", "3"] * 33 + ["U"]})  # names of few categories
    (column,) = TableEncoder.fit(codes).columns
    assert column.kind == "category"
    (column,) = TableEncoder.fit(pd.DataFrame({"x": [*numbers, *["word"] * 10]})).columns
    assert column.kind == "category"


def test_a_year_first_is_read_whatever_the_order_of_training() -> None:
    trained = pd.DataFrame({"day": [f"{d}/1/2024" for d in range(1, 32)]})
    encoder = TableEncoder.fit(trained)
    assert encoder.columns[0].order == "day-month-year"
    again = pd.DataFrame({"day": [f"2024-01-{d:02d}" for d in range(1, 32)]})
    np.testing.assert_array_equal(
        encoder.transform(again).toarray(), encoder.transform(trained).toarray()
    )
