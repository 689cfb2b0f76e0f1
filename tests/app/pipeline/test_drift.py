"""What is said of new rows that a model cannot use."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from apmax.app.pipeline.drift import unusable_columns, unused_in_training
from apmax.app.pipeline.encoder import TableEncoder
from apmax.app.pipeline.model import Model

pd = pytest.importorskip("pandas")
ROWS = 40


def table(**changed: Any) -> Any:
    columns = {
        "age": np.arange(ROWS, dtype=float),
        "height": np.linspace(150, 210, ROWS),
        "year": [2021.0, 2022.0] * (ROWS // 2),
        "city": ["Rome", "Oslo"] * (ROWS // 2),
        "since": [f"2020-01-{1 + k % 28:02d}" for k in range(ROWS)],
        "name": ["Ann"] * 10 + [f"rare {k}" for k in range(ROWS - 10)],
        "gaps": [None, 1.0] * (ROWS // 2),
        "day": [f"{1 + k % 28}/{1 + k % 12}/2020" for k in range(ROWS)],
    }
    return pd.DataFrame({**columns, **changed})


CASES = {
    "text for a number": ({"age": ["old"] * ROWS}, "'age': 40 of 40 values are no number"),
    "one is text": (
        {"age": ["1,234.50"] + ["3"] * 39},
        r"'age': 1 of 40 values are no number \(first '1,234.50'\), and count as missing",
    ),
    "one date is none": ({"since": ["2020-13-01"] + ["2020-01-02"] * 39}, "'since': 1 of 40"),
    "a tenth, as of another unit": (
        {"age": np.arange(ROWS) / 10},
        "'age': the median is 1.95, and in training it was 19.5; is it the same unit?",
    ),
    "new words": (
        {"city": ["Bonn"] * ROWS},
        r"'city': 40 of 40 values are a new category \(first 'Bonn'\), and tell nothing",
    ),
    "another order": ({"since": ["13.1.2020"] * ROWS}, "'since': 40 of 40 values are no date"),
    "only rare words": ({"name": ["Bo"] * ROWS}, "'name': .* count as rare"),
    "the other order": (
        {"day": [f"{1 + k % 12}/{1 + k % 28}/2020" for k in range(ROWS)]},
        "'day': the dates seem to be month-day-year, and in training they were day-month-year",
    ),
    "another unit": (
        {"age": np.arange(ROWS) * 365.0},
        "'age': 39 of 40 values are far outside those of training, 0 to 39; is it the same unit",
    ),
    "far below": ({"age": np.full(ROWS, -118.0)}, "'age': 40 of 40 values are far outside"),
    "metres for centimetres": ({"height": np.linspace(1.5, 2.1, ROWS)}, "'height': 40 of 40"),
    "only words for no number": ({"age": ["-"] * ROWS}, "'age' is empty"),
    "nothing": ({"city": [None] * ROWS}, "'city' is empty"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_column_that_cannot_be_used_is_named(case: str) -> None:
    changed, said = CASES[case]
    (note,) = unusable_columns(TableEncoder.fit(table()), table(**changed))
    assert re.match(said, note)


FINE = {
    "the same": {},
    "gaps where there were some": {"gaps": [None] * ROWS},
    "words for no number where there were gaps": {"gaps": ["-"] * ROWS},
    "a year first": {"day": ["2020-01-31"] * ROWS},
    "what was constant, and of no use, is not": {"gaps": [None, 2.0] * (ROWS // 2)},
    "somewhat outside": {"age": np.full(ROWS, 116.0)},
    "years go on": {"year": np.full(ROWS, 2030.0)},
    "some are far outside": {"age": [1000.0] * 15 + [3.0] * 25},
    "words for no number": {"age": ["-", "unknown", "N.A."] + ["3"] * 37},
    "another median of a few rows": {"age": [None] * 21 + [0.01] * 19},
    "a known word among rare ones": {"name": ["Ann"] + ["Bo"] * (ROWS - 1)},
    "half of the words are new": {"city": ["Rome", "Bonn"] * (ROWS // 2)},
}


@pytest.mark.parametrize("case", FINE)
def test_nothing_is_said_of_what_is_usual(case: str) -> None:
    assert unusable_columns(TableEncoder.fit(table()), table(**FINE[case])) == []


def test_training_tells_of_words_among_numbers_and_of_text_that_never_repeats() -> None:
    income = [f"{k}.5" for k in range(100)]
    frame = pd.DataFrame({"income": income, "free": [f"word {k}" for k in range(100)]})
    income_only = frame[["income"]]
    assert unused_in_training(TableEncoder.fit(income_only), income_only) == []
    frame.loc[[3, 50], "income"] = ["-", "oops"]
    income_note, free_note = unused_in_training(TableEncoder.fit(frame), frame)
    assert income_note == (
        "'income': 2 of 100 values are no number (first '-'), and count as missing"
    )
    assert free_note.startswith("'free' is text that hardly ever repeats")


@pytest.mark.parametrize("rows", [0, 1, 19, 20])
def test_a_few_rows_may_all_be_rare(rows: int) -> None:
    few = table(name=["Bo"] * ROWS).iloc[:rows]
    assert len(unusable_columns(TableEncoder.fit(table()), few)) == (rows >= 20)


def test_nothing_is_said_of_what_was_of_no_use_in_training_or_rarely_missing() -> None:
    frame = table(
        code=[f"id {k}" for k in range(ROWS)], city=[None, *["Rome", "Oslo"] * 19, "Oslo"]
    )
    encoder = TableEncoder.fit(frame)
    assert unusable_columns(encoder, frame) == []
    assert unusable_columns(encoder, frame.assign(city=None)) == []


def test_features_beyond_the_models_are_told() -> None:
    model = Model(coef=np.ones(3), intercept=0.0, positive="1", negative="0")
    assert model.doubts(sp.csr_matrix((2, 5))) == ["2 features beyond the model's are left out"]
    assert model.doubts(sp.csr_matrix((2, 2))) == []


def test_a_model_from_before_extents_were_kept_says_nothing_of_them() -> None:
    columns = TableEncoder.fit(table()).to_json()
    for column in columns:
        del column["extent"]
    older = TableEncoder.from_json(columns)
    assert unusable_columns(older, table(age=np.full(ROWS, 1e6))) == []


@pytest.mark.parametrize(
    "extent", [[1.0], [float("nan"), 1.0], ["a", "b"], [True, 3], [5, 1], "12", {}, 3]
)
def test_an_extent_that_is_none_is_refused(extent: Any) -> None:
    columns = TableEncoder.fit(table()).to_json()
    columns[0]["extent"] = extent
    with pytest.raises(TypeError, match="not what an encoder writes"):
        TableEncoder.from_json(columns)
