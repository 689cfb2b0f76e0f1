"""One call for any file: formats, targets, labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from apmax.app.data import Dataset, load
from apmax.errors import (
    FileError,
    FileFormatError,
    LabelError,
    NoPositiveError,
    ParameterError,
    UnknownNameError,
)

pd = pytest.importorskip("pandas")
Write = Callable[[str, str | bytes], Path]
LOANS = "age,job,default\n39,clerk,no\n50,cook,yes\n28,,no\n"


@pytest.fixture
def loans(write: Write) -> Path:
    return write("loans.csv", LOANS)


@pytest.mark.parametrize("target", ["default", "last", 3, "3", np.int64(3)])
def test_a_target_by_name_by_number_or_last(target: Any, loans: Path) -> None:
    data = load(loans, target=target)
    assert data.y is not None
    assert data.y.tolist() == [False, True, False]
    assert (data.positive_label, data.negative_label) == ("yes", "no")
    assert data.names == list(data.X.columns) == ["age", "job"]
    assert data.target == "default"
    assert data.source == loans


def test_without_a_target_all_columns_are_features(loans: Path) -> None:
    for target in (None, False):
        data = load(loans, target=target)
        assert data.y is None
        assert data.names == ["age", "job", "default"]


def test_a_column_named_last_or_3_is_meant_by_that_name(write: Write) -> None:
    path = write("t.csv", "last,3a,b\nyes,1,2\nno,3,4\n")
    assert load(path, target="last").target == "last"


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("defualt", UnknownNameError, r"did you mean 'default'\?.*'age', 'job', 'default'"),
        ("zzz", UnknownNameError, r"is no column: choose \"last\", a number from 1 to 3"),
        (0, ParameterError, r"counted from 1 to 3"),
        (4, ParameterError, r"`target` = 4 is no column"),
        ("-1", ParameterError, r"counted from 1 to 3"),
        (True, ParameterError, r"got True"),
        (1.5, UnknownNameError, r"1.5"),
        ("age", LabelError, r"column 'age' of .*3 values.*28 \(1\), 39 \(1\), 50 \(1\)"),
        ("job", LabelError, r"is missing in 1 of 3 rows, first in row 3: drop"),
    ],
)
def test_targets_that_cannot_be(
    target: Any, error: type[Exception], message: str, loans: Path
) -> None:
    with pytest.raises(error, match=message):
        load(loans, target=target)


def test_one_value_is_not_two(write: Write) -> None:
    with pytest.raises(LabelError, match=r"1 value, and .*two: 'x' \(2\)"):
        load(write("t.csv", "a,b\n1,x\n2,x\n"), target="b")


def test_many_values_are_not_all_listed(write: Write) -> None:
    rows = "".join(f"{k},w{k}\n" for k in range(40))
    with pytest.raises(LabelError, match=r"holds 40 values.* and 30 more"):
        load(write("t.csv", f"a,b\n{rows}"), target="b")


@pytest.mark.parametrize(
    ("labels", "positive", "expected"),
    [
        ("0 0 1", None, 1),
        ("1 1 0", None, 0),
        ("0 1", None, 1),
        ("no yes", None, "yes"),
        ("1 1 2", "1", 1),
        ("1.0 1.0 2.5", "1", 1.0),
        ("1 1 2", 1.0, 1),
        ("a a b", "a", "a"),
        ("True True False", "True", True),
        ("True True False", 1, True),
        ("True True False", "0", False),
        ("1 1 0", True, 1),
        ("1.0 1.0 2.5", True, 1.0),
    ],
)
def test_the_positive_label_is_the_rarer_or_the_given(
    labels: str, positive: Any, expected: Any, write: Write
) -> None:
    values = labels.split()
    data = load(write("t.tsv", "x\ty\n" + "".join(f"q\t{v}\n" for v in values)),
                target="y", positive=positive)  # fmt: skip
    assert data.positive_label == expected
    assert data.negative_label != expected
    assert data.y is not None
    assert data.y.tolist() == [value == str(expected) for value in values]


def test_a_positive_label_that_is_none(loans: Path) -> None:
    with pytest.raises(NoPositiveError, match=r"'yess'.*did you mean 'yes'.*'no' \(2\), 'yes'"):
        load(loans, target="default", positive="yess")


@pytest.mark.parametrize("name", ["rows", "rows.t", "rows.libsvm", "rows.txt", "w8a.svm"])
def test_libsvm_by_suffix_or_first_line(name: str, write: Write) -> None:
    data = load(write(name, "# made by hand\n-1 3:1 11:1\n+1 2:0.5 # x\n-1 1:2\n"))
    assert sp.issparse(data.X)
    assert data.X.shape == (3, 11)
    assert data.y is not None
    assert data.y.tolist() == [False, True, False]
    assert (data.positive_label, data.names, data.target) == (1.0, None, None)


def test_libsvm_labels_can_be_left_aside(write: Write) -> None:
    path = write("rows", "0 1:1\n0 2:1\n")
    with pytest.raises(LabelError, match=r"the label in .*1 value"):
        load(path)
    assert load(path, target=False).y is None


def test_a_target_of_what_is_no_table(write: Write) -> None:
    with pytest.raises(ParameterError, match=r"`target` = 'y' .*leave `target` out"):
        load(write("rows", "1 1:1\n-1 2:1\n"), target="y")


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "hello\n", "", "1 2 3\n"])
def test_unknown_kinds_are_refused(text: str, write: Write) -> None:
    with pytest.raises(FileError, match=r"is of no known kind.*rename"):
        load(write("file", text))


def test_rows_of_a_dataset(loans: Path, write: Write) -> None:
    data = load(loans, target="last").rows(np.array([2, 1]))
    assert data.X["age"].tolist() == [28, 50]
    assert data.y is not None
    assert data.y.tolist() == [False, True]
    sparse = load(write("rows", "1 1:1\n-1 2:1\n")).rows(np.array([False, True]))
    assert sparse.X.toarray().tolist() == [[0, 1]]


def test_a_dataset_cannot_be_changed(loans: Path) -> None:
    data: Dataset = load(loans)
    with pytest.raises(AttributeError):
        data.X = None


def test_a_table_that_only_looks_like_text_is_named(write: Write) -> None:
    with pytest.raises(FileFormatError, match="is no text"):
        load(write("t.csv", b"\0" * 100))
