"""Columns: the same table from any frame, and errors that name the column."""

from __future__ import annotations

import datetime
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from apmax import AdditiveAPClassifier, AutoAPClassifier, errors
from apmax.tabular.columns import MAX_LEVELS, UNKNOWN, Columns

N = 60
ROWS = np.arange(N)
AGE = np.where(ROWS % 7 == 0, np.nan, ROWS * 1.5)
COUNT = ROWS % 5
COLOUR = np.where(ROWS % 11 == 0, None, np.array(["red", "green", "blue"])[ROWS % 3])  # type: ignore[call-overload]
FLAG = ROWS % 4 == 0


def fitted(X: Any, categorical: Any = "from_dtype", counts: Any = None) -> tuple[Columns, Any]:
    columns = Columns(X, categorical)
    return columns, columns.fit_transform(X, counts)


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"age": AGE, "count": COUNT, "flag": FLAG, "colour": COLOUR, **columns})


def codes_by_hand() -> Any:
    """Codes of COLOUR: six rows are missing, fewer than ten, so they are in "(other)"."""
    names = ["blue", "green", "red"]
    return np.array([3 if one is None else names.index(one) for one in COLOUR])


SAME: dict[str, Any] = {
    "object array": np.column_stack([AGE, COUNT, FLAG, COLOUR]).astype(object),
    "pandas": frame(),
    "pandas object": frame().astype(object),
    "pandas category": frame().astype({"colour": "category"}),
    "pandas string": frame().astype({"colour": "string"}),
    "pandas nullable": frame(
        age=pd.array(np.where(np.isnan(AGE), None, AGE), dtype="Float64"),  # type: ignore[call-overload]
        count=pd.array(COUNT, dtype="Int64"),
        flag=pd.array(FLAG, dtype="boolean"),
    ),
    "pandas Arrow": frame().convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame({"age": AGE, "count": COUNT, "flag": FLAG, "colour": COLOUR.tolist()}),
    "polars null": pl.from_pandas(frame()).with_columns(pl.col("age").fill_nan(None)),
    "polars categorical": pl.from_pandas(frame()).cast({"colour": pl.Categorical}),
    "polars enum": pl.from_pandas(frame()).cast({"colour": pl.Enum(["red", "green", "blue"])}),
}


@pytest.mark.parametrize("kind", SAME)
def test_every_kind_of_table_gives_the_same_numbers_and_codes(kind: str) -> None:
    columns, table = fitted(SAME[kind])
    np.testing.assert_array_equal(table.numbers, np.column_stack([AGE, COUNT, FLAG]))
    np.testing.assert_array_equal(table.codes[:, 0], codes_by_hand())
    assert columns.levels(0) == ["blue", "green", "red", "(other)"]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, bool])
def test_arrays_of_numbers_are_numbers(dtype: Any) -> None:
    X = (np.column_stack([ROWS, ROWS + 1]) % 3).astype(dtype)
    columns, table = fitted(X)
    np.testing.assert_array_equal(table.numbers, X)
    assert columns.names == ["x0", "x1"]


def test_missing_values_of_nullable_columns_are_missing() -> None:
    missing = ROWS % 6 == 0
    whole = pd.array(np.where(missing, None, ROWS), dtype="Int64")  # type: ignore[call-overload]
    flags = pd.array(np.where(missing, None, FLAG), dtype="boolean")
    X = pd.DataFrame({"whole": whole, "flags": flags})
    expected = np.column_stack([np.where(missing, np.nan, ROWS), np.where(missing, np.nan, FLAG)])
    for table in (X, X.astype(object), pl.from_pandas(X)):
        np.testing.assert_array_equal(fitted(table)[1].numbers, expected)


def test_text_of_digits_is_text_in_every_kind_of_table() -> None:
    words = np.array(["1", "2", "3"])[ROWS % 3]
    series = pd.Series(words)
    for X in (
        words[:, None],
        words.astype(object)[:, None],
        series.to_frame(),
        series.astype(object).to_frame(),
        pl.DataFrame({"x": words}),
    ):
        np.testing.assert_array_equal(fitted(X)[1].codes[:, 0], ROWS % 3)


@pytest.mark.parametrize(
    "chosen", [["count", "colour"], [1, 3], [False, True, False, True], np.array([1, 3])], ids=str
)
def test_categorical_columns_by_name_position_or_mask(chosen: Any) -> None:
    columns, table = fitted(frame(), chosen)
    assert columns.levels(0) == ["0", "1", "2", "3", "4"]
    np.testing.assert_array_equal(table.codes[:, 0], COUNT)
    np.testing.assert_array_equal(table.numbers, np.column_stack([AGE, FLAG]))


def test_a_category_of_whole_numbers_is_the_same_where_missing_values_make_it_float() -> None:
    columns, _ = fitted(frame(), ["count", "colour"])
    later = frame(count=np.where(ROWS == 0, np.nan, COUNT))
    np.testing.assert_array_equal(columns.transform(later).codes[1:, 0], COUNT[1:])


@pytest.mark.parametrize(
    "chosen",
    ["colour", ["size"], [4], [-1], [True, False], 3, [0.5], [{"a": 1}], [{1}], [[1]]],
    ids=str,
)
def test_unknown_categorical_columns_are_refused(chosen: Any) -> None:
    with pytest.raises(errors.ParameterError, match="`categorical_features`"):
        Columns(frame(), chosen)


def test_missing_is_a_level_of_its_own_if_it_has_ten_rows() -> None:
    words = np.where(ROWS % 5 == 0, None, np.array(["a", "b"])[ROWS % 2])  # type: ignore[call-overload]
    columns, table = fitted(words[:, None])
    assert columns.levels(0) == ["(missing)", "a", "b"]
    expected = np.where(ROWS % 5 == 0, 0, 1 + ROWS % 2)
    np.testing.assert_array_equal(table.codes[:, 0], expected)


def test_rare_and_new_categories_share_one_level() -> None:
    words = np.where(ROWS < 9, "rare", np.where(ROWS < 12, "rarer", "often")).astype(object)
    columns, table = fitted(words[:, None])
    assert columns.levels(0) == ["often", "(other)"]
    np.testing.assert_array_equal(table.codes[:, 0], ROWS < 12)
    new = columns.transform(np.array([["often"], ["never seen"], [None]], dtype=object))
    assert new.codes[:, 0].tolist() == [0, 1, 1]


def test_new_categories_are_unknown_if_none_was_rare() -> None:
    columns, _ = fitted(np.array(["a", "b"])[ROWS % 2][:, None])
    assert columns.transform(np.array([["c"], ["a"]])).codes[:, 0].tolist() == [UNKNOWN, 0]


def test_a_column_keeps_its_most_frequent_categories() -> None:
    many = np.repeat(np.arange(MAX_LEVELS + 50), 10 + np.arange(MAX_LEVELS + 50))
    columns, table = fitted(many[:, None], [0])
    assert len(columns.levels(0)) == MAX_LEVELS
    grouped = many[table.codes[:, 0] == MAX_LEVELS - 1]
    assert grouped.max() == 50  # of 250 categories, the 199 largest have their own level


def test_ten_examples_make_a_category_frequent_however_they_are_weighted() -> None:
    words = np.array(["a"] * 5 + ["b"] * 5 + ["c"] * 5, dtype=object)[:, None]
    counts = np.repeat([1.0, 2.0, 3.0], 5)
    repeated = np.repeat(words, counts.astype(int), axis=0)
    assert fitted(words, counts=counts)[0].levels(0) == ["b", "c", "(other)"]
    assert fitted(repeated)[0].levels(0) == ["b", "c", "(other)"]


HELD_TOGETHER = np.empty(N, dtype=object)
HELD_TOGETHER[:] = [[1, 2]] * N
BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "pandas dates": (pd.date_range("2020", periods=N), errors.NotNumericError, "holds dates"),
    "pandas zones": (
        pd.date_range("2020", periods=N, tz="UTC"),
        errors.NotNumericError,
        "holds dates",
    ),
    "periods": (pd.period_range("2020", periods=N), errors.NotNumericError, "holds dates"),
    "durations": (pd.to_timedelta(ROWS, unit="D"), errors.NotNumericError, "holds durations"),
    "duration objects": ([datetime.timedelta(1)] * N, errors.NotNumericError, "holds durations"),
    "Arrow dates": (
        pd.Series(pd.date_range("2020", periods=N)).convert_dtypes(dtype_backend="pyarrow"),
        errors.NotNumericError,
        "holds dates",
    ),
    "date objects": ([datetime.date(2020, 1, 1)] * N, errors.NotNumericError, "holds dates"),
    "infinity": (np.where(ROWS == 4, np.inf, 0), errors.NonFiniteError, r"inf \(row 4\)"),
    "overflow": (np.where(ROWS == 4, -1e301, 0), errors.NonFiniteError, r"-1e\+301 \(row 4\)"),
    "complex": (ROWS + 1j, errors.NotNumericError, "complex"),
    "lists": (HELD_TOGETHER, errors.NotNumericError, "sequence"),
    "dicts": ([{"a": 1}] * N, errors.NotNumericError, "dict"),
    "lists and text": (["a", *HELD_TOGETHER[1:]], errors.NotNumericError, "of type list"),
}


@pytest.mark.parametrize("name", BAD)
def test_columns_that_cannot_be_used_are_named(name: str) -> None:
    values, error, message = BAD[name]
    with pytest.raises(error, match=f"column 'bad' .*{message}"):
        fitted(frame(bad=values))


@pytest.mark.parametrize(
    "values",
    [
        [datetime.date(2020, 1, 1)] * N,
        [datetime.datetime(2020, 1, 1)] * N,
        [datetime.time(1)] * N,
        [datetime.timedelta(1)] * N,
        [[1, 2]] * N,
        [{"a": 1}] * N,
        [float("inf")] * N,
    ],
    ids=["date", "datetime", "time", "duration", "list", "struct", "infinity"],
)
def test_polars_columns_that_cannot_be_used_are_named(values: Any) -> None:
    with pytest.raises(errors.InputError, match="column 'bad'"):
        fitted(pl.DataFrame({"age": AGE, "bad": values}))


def test_text_that_is_no_category_by_choice_is_refused_by_name() -> None:
    with pytest.raises(errors.NotNumericError, match=r"'colour' was read as numbers.*list it in"):
        fitted(frame(), ["count"])


def test_two_columns_of_one_name_are_refused() -> None:
    X = pd.DataFrame(np.ones((N, 2)), columns=["a", "a"])
    with pytest.raises(errors.ShapeError, match="two columns named 'a'"):
        Columns(X, "from_dtype")


@pytest.mark.parametrize("name", ["(intercept)", "a × b", "c × d × a"])
def test_names_of_explanations_are_refused(name: str) -> None:
    X = pd.DataFrame(np.ones((N, 4)), columns=["a", "b", "c × d", name])
    with pytest.raises(errors.ShapeError, match="rename it"):
        Columns(X, "from_dtype")
    Columns(X.iloc[:, :3], "from_dtype")


def test_estimators_name_a_column_that_occurs_twice() -> None:
    X = pd.DataFrame(np.ones((N, 2)), columns=["a", "a"])
    for estimator in (AdditiveAPClassifier(), AutoAPClassifier()):
        with pytest.raises(errors.ShapeError, match="two columns named 'a'"):
            estimator.fit(X, np.arange(N) % 2)


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (np.full(N, 3.0), "constant"),
        (np.full(N, np.nan), "all missing"),
        (["all"] * N, "constant"),
        (COUNT, "equal to 'count'"),
        (COLOUR, "equal to 'colour'"),
        ([f"id {row}" for row in ROWS], "no category has 10 rows"),
    ],
)
def test_columns_without_information_are_ignored_with_a_warning(column: Any, why: str) -> None:
    with pytest.warns(UserWarning, match=rf"ignored: 'more' \({why}\)"):
        columns, table = fitted(frame(more=column))
    assert "more" in columns.ignored
    expected = fitted(frame())[1]
    np.testing.assert_array_equal(table.numbers, expected.numbers)
    np.testing.assert_array_equal(table.codes, expected.codes)


def test_the_warning_points_to_the_call_of_fit() -> None:
    y = ROWS % 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        AdditiveAPClassifier(interactions=0, cv=2).fit(frame(more=1), y)
    assert [one.filename for one in caught if "ignored" in str(one.message)] == [__file__]


def test_a_table_without_information_is_refused() -> None:
    with pytest.raises(errors.ShapeError, match="nothing to learn from"):
        fitted(np.ones((N, 2)))
