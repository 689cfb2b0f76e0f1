"""Which label is positive, and spellings of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from apmax.app.target import same_label, two_classes
from apmax.errors import LabelError, NoPositiveError, ParameterError


def labels(*values: Any) -> Any:
    return np.array(values, dtype=object)


def test_the_rarer_label_is_positive_by_default() -> None:
    assert two_classes(labels("a", "b", "a"), None, "y").positive == "b"
    assert two_classes(np.array([0, 1]), None, "y").positive == 1  # of equals, the last
    assert two_classes(labels("a", "b", "a"), "A", "y").positive == "a"


@pytest.mark.parametrize(
    ("one", "other"), [("Yes", " yes. "), (1, True), ("1.0", 1), (">50K.", ">50k"), (0, "false")]
)
def test_spellings_of_one_label(one: Any, other: Any) -> None:
    assert same_label(one, other)
    assert not same_label(one, "something else")


def test_labels_that_differ_in_case_are_told_apart_if_spelled_exactly() -> None:
    values = labels("m", "M", "m")
    assert two_classes(values, "M", "y").y.tolist() == [False, True, False]
    with pytest.raises(LabelError, match="not clear which one"):
        two_classes(labels("Yes", "YES", "Yes"), "yes", "y")


def test_one_label_against_the_rest() -> None:
    found = two_classes(labels("a", "b", "c", "b"), "b", "y", against_rest=True)
    assert (found.positive, found.negative) == ("b", "not b")
    assert found.y.tolist() == [False, True, False, True]
    assert found.counts == {"a": 1, "b": 2, "c": 1}
    with pytest.raises(LabelError, match="one spelling"):
        two_classes(labels("a", "A", "c"), "a", "y", against_rest=True)


@pytest.mark.parametrize(
    ("values", "positive", "error", "message"),
    [
        (("a", "a"), None, LabelError, "has 1 value"),
        (("a", "b", "c"), None, LabelError, "--positive VALUE --rest"),
        (("a", None), None, LabelError, "missing in 1 of 2 rows, first in row 2"),
        (("fraud", "fine"), "fraut", NoPositiveError, "did you mean 'fraud'"),
        (([1], [2]), None, LabelError, "lists or records"),
    ],
)
def test_unusable_labels(values: Any, positive: Any, error: type, message: str) -> None:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    with pytest.raises(error, match=message):
        two_classes(column, positive, "column 'y'")


def test_rest_needs_a_positive_label(tmp_path: Any) -> None:
    from apmax.app.io import load

    (tmp_path / "t.csv").write_text("x,y\n1,a\n")
    with pytest.raises(ParameterError, match="name it with --positive"):
        load(tmp_path / "t.csv", target="y", against_rest=True)


def test_several_spellings_of_two_labels_are_named_at_once() -> None:
    values = labels("BAD", "Bad", "GOOD", "good", "good")
    expected = "column 'y': 'BAD' and 'Bad', 'GOOD' and 'good' differ only in case: use one spell"
    for options in ({}, {"trained_on": ("bad", "good")}):
        with pytest.raises(LabelError, match=f"^{expected}"):
            two_classes(values, None if not options else "bad", "column 'y'", **options)
    with pytest.raises(LabelError, match=r"'>50K' and '>50K\.' differ only in spelling"):
        two_classes(labels("<=50K", ">50K", ">50K."), None, "y")
    with pytest.raises(LabelError, match=r"is it the right column\? To find|\. Is it the right"):
        two_classes(labels("a", "A", "b", "c"), None, "y")
