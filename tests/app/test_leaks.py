"""Checks of a training table for leaks, identifiers and test rows seen in training."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from apmax import average_precision, check_table
from apmax.app.io import Dataset
from apmax.app.leaks import Finding, check_columns, refuse
from apmax.app.shared_rows import check_test
from apmax.errors import InputError, ShapeError
from tests.app.loans import made_loans

ROWS = 3000


def dataset(frame: Any, y: Any, name: str = "t.csv") -> Dataset:
    return Dataset(frame, np.asarray(y, dtype=bool), Path(name), True, False, "y")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.fixture
def table(rng: np.random.Generator) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    """Columns that predict a tenth of positives moderately, in random order."""
    X = rng.normal(size=(ROWS, 3))
    y = X @ [1.0, -0.5, 0.0] + 2 * rng.logistic(size=ROWS) > 5
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["amount"] = np.round(rng.lognormal(7, 1, ROWS)).astype(int)
    frame["city"] = rng.choice(["Rome", "Oslo"], ROWS)
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, ROWS), "D")
    return frame, y


def only(findings: list[Finding], column: str | None, kind: str) -> str:
    """Return the message of the one finding, which has this column and kind."""
    assert [(one.column, one.kind) for one in findings] == [(column, kind)]
    return findings[0].message


def test_a_clean_table_has_no_findings(table: Any) -> None:
    assert check_columns(dataset(*table)) == []
    loans = made_loans(600, 0)
    assert check_columns(dataset(loans, loans.pop("defaulted") == "yes")) == []


@pytest.mark.parametrize("positives_missing", [False, True])
def test_a_column_missing_exactly_for_one_class(
    table: Any, rng: np.random.Generator, positives_missing: bool
) -> None:
    frame, y = table
    frame["closed on"] = np.where(y == positives_missing, np.nan, rng.normal(size=ROWS))
    message = only(check_columns(dataset(frame, y)), "closed on", "missing")
    shares = ("100%", "0%") if positives_missing else ("0%", "100%")
    assert f"missing in {shares[0]} of the positives and {shares[1]} of the negatives" in message
    assert "--drop 'closed on'" in message


def test_a_column_missing_only_for_negatives(table: Any, rng: np.random.Generator) -> None:
    frame, y = table
    frame["a"] = frame["a"].where(y | (rng.random(ROWS) < 0.5))
    only(check_columns(dataset(frame, y)), "a", "missing")
    frame["a"] = frame["a"].where(rng.random(ROWS) < 0.9)  # also missing for some positives
    assert check_columns(dataset(frame, y)) == []


COPIES = {
    "the labels": lambda y: np.where(y, "yes", "no"),
    "other numbers": lambda y: np.where(y, -3.5, 12.0),
    "truth values": lambda y: y,
    "several codes": lambda y: np.where(y, 2, np.arange(y.size) % 2 * 5),
    "text codes": lambda y: np.where(y, "B", np.where(np.arange(y.size) % 2, "A", "C")),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_the_target(table: Any, name: str) -> None:
    frame, y = table
    frame["status"] = COPIES[name](y)
    message = only(check_columns(dataset(frame, y)), "status", "copy")
    assert ("copy of the target" in message) == ("codes" not in name)


@pytest.mark.parametrize("noise", [0.003, 0.02])
def test_a_copy_with_exceptions(table: Any, rng: np.random.Generator, noise: float) -> None:
    frame, y = table
    wrong = rng.random(ROWS) < noise
    frame["status"] = np.where(y ^ wrong, "closed", "open")
    message = only(check_columns(dataset(frame, y)), "status", "copy")
    assert f"with {wrong.sum():,} exceptions in 3,000 rows" in message
    frame["status"] = np.where(y ^ (rng.random(ROWS) < 0.05), "closed", "open")
    assert "copy" not in [one.kind for one in check_columns(dataset(frame, y))]


def test_a_noisy_copy_is_to_be_checked(table: Any, rng: np.random.Generator) -> None:
    frame, y = table
    frame["fee"] = y + 0.2 * rng.normal(size=ROWS)
    message = only(check_columns(dataset(frame, y)), "fee", "strong")
    assert message.startswith("check 'fee': it alone ranks with AP 0.99")


def test_two_columns_that_reveal_the_target_do_not_hide_each_other(table: Any) -> None:
    frame, y = table
    leaks = {"one": y, "two": y + np.random.default_rng(0).normal(size=ROWS) / 10}
    found = check_columns(dataset(frame.assign(**leaks), y))
    assert [(one.column, one.kind) for one in found] == [("one", "copy"), ("two", "strong")]


def test_a_column_far_above_all_others_together(table: Any, rng: np.random.Generator) -> None:
    frame, y = table
    frame["calls after"] = y + 0.4 * rng.normal(size=ROWS)
    message = only(check_columns(dataset(frame, y)), "calls after", "strong")
    assert "and all other columns together with" in message


def test_strong_columns_of_an_easy_table_are_not_reported(rng: np.random.Generator) -> None:
    y = rng.random(ROWS) < 0.1
    columns = {name: y + 0.33 * rng.normal(size=ROWS) for name in "abcd"}
    columns["strong"] = y + 0.29 * rng.normal(size=ROWS)
    frame = pd.DataFrame(columns)
    assert average_precision(y, frame["strong"]) > 0.95
    assert check_columns(dataset(frame, y)) == []
    only(check_columns(dataset(frame[["a", "strong"]], y)), "strong", "strong")


@pytest.mark.parametrize("positives_first", [False, True])
def test_a_row_number_in_a_sorted_file(table: Any, positives_first: bool) -> None:
    frame, y = table
    order = np.argsort(~y if positives_first else y, kind="stable")
    frame, y = frame.iloc[order].reset_index(drop=True), y[order]
    assert check_columns(dataset(frame, y)) == []  # no column follows the order
    message = only(check_columns(dataset(frame.assign(row=range(ROWS)), y)), "row", "order")
    assert "the labels are sorted in the file" in message
    noisy = np.arange(ROWS) + 100 * np.random.default_rng(0).normal(size=ROWS)
    only(check_columns(dataset(frame.assign(received=noisy), y)), "received", "order")


def test_a_row_number_where_labels_come_in_blocks(table: Any) -> None:
    frame, _ = table
    block = np.arange(ROWS) // 300 % 2 == 0
    frame["row"] = np.arange(ROWS)
    frame["a"] = np.random.default_rng(0).normal(size=ROWS)
    message = only(check_columns(dataset(frame, block)), "row", "order")
    assert "in a few blocks" in message


IDENTIFIERS = {
    "numbered rows": lambda rng: np.arange(1, ROWS + 1),
    "shuffled numbers": lambda rng: rng.permutation(ROWS) + 500,
    "numbers of one length": lambda rng: 15_600_000 + rng.permutation(90 * ROWS)[:ROWS],
    "text of digits": lambda rng: (rng.permutation(ROWS) + 500).astype(str),
    "with gaps": lambda rng: np.where(np.arange(ROWS) % 50, rng.permutation(ROWS), np.nan),
}


@pytest.mark.parametrize("name", IDENTIFIERS)
def test_integer_identifiers(table: Any, rng: np.random.Generator, name: str) -> None:
    frame, y = table
    frame["customer"] = IDENTIFIERS[name](rng)
    message = only(check_columns(dataset(frame, y)), "customer", "identifier")
    assert "is used as a number" in message
    assert "use --id customer" in message


def test_measurements_are_not_identifiers(table: Any, rng: np.random.Generator) -> None:
    frame, y = table
    frame["balance"] = np.round(rng.normal(0, 1e6, ROWS)).astype(int)  # negative numbers occur
    frame["cents"] = np.round(rng.lognormal(15, 2, ROWS)).astype(int)
    frame["weight"] = rng.permutation(ROWS) + 0.5
    assert check_columns(dataset(frame, y)) == []


@pytest.mark.parametrize("positives", [1, 4])
def test_a_handful_of_positives_gives_no_findings(table: Any, positives: int) -> None:
    frame, _ = table
    y = np.arange(ROWS) < positives
    assert check_columns(dataset(frame.assign(flag=y), y)) == []


def test_matrices_are_checked_as_well(table: Any) -> None:
    frame, y = table
    X = np.column_stack([frame[["a", "b"]], y])
    message = only(check_columns(Dataset(X, y, Path("t.npz"))), "feature 3", "copy")
    assert "leave it out of the file" in message


def test_lists_mixed_values_and_empty_columns_are_no_obstacle(table: Any) -> None:
    frame, y = table
    frame["tags"] = [[k % 3] for k in range(ROWS)]
    frame["empty"] = np.nan
    frame["a"] = y + 0.4 * np.random.default_rng(0).normal(size=ROWS)
    frame["mixed"] = [k if k % 2 else f"no. {k % 7}" for k in range(ROWS)]
    only(check_columns(dataset(frame, y)), "a", "strong")
    assert check_test(dataset(frame, y), dataset(frame, y)) != []


def test_a_test_file_equal_to_the_training_file(table: Any) -> None:
    frame, y = table
    train = dataset(frame, y)
    order = np.random.default_rng(0).permutation(ROWS)
    test = dataset(frame.iloc[order], y[order], "test.csv")
    assert "the same rows as t.csv" in only(check_test(train, test), None, "test")


def test_a_test_file_that_shares_rows(table: Any) -> None:
    frame, y = table
    train = dataset(frame[:2000], y[:2000])
    assert check_test(train, dataset(frame[2000:], y[2000:])) == []
    message = only(check_test(train, dataset(frame[1900:], y[1900:], "test.csv")), None, "test")
    assert "100 of the 1,100 rows of test.csv" in message


def test_rows_that_repeat_anyway_are_not_shared(rng: np.random.Generator) -> None:
    frame = pd.DataFrame({"a": rng.integers(0, 9, 900), "b": rng.choice(["x", "y"], 900)})
    y = rng.random(900) < 0.2
    assert check_test(dataset(frame[:600], y[:600]), dataset(frame[600:], y[600:])) == []


def test_rows_are_compared_by_value_not_by_type(table: Any) -> None:
    frame, y = table
    as_read = frame.assign(amount=frame["amount"].astype(float), city=frame["city"].astype(object))
    assert check_test(dataset(frame, y), dataset(as_read, y)) != []


def test_zeros_of_either_sign_and_infinite_numbers_are_compared_as_the_models_read_them() -> None:
    y = np.arange(40) < 20
    one = pd.DataFrame({"a": np.tile([0.0, np.inf], 20), "b": np.arange(40)})
    other = pd.DataFrame({"a": np.tile([-0.0, np.nan], 20), "b": np.arange(40)})
    assert check_test(dataset(one, y), dataset(other, y)) != []
    assert check_test(dataset(one, y), dataset(other + 1, y)) == []


def test_rows_are_compared_in_blocks_in_less_memory_than_the_table(
    rng: np.random.Generator,
) -> None:
    y = np.arange(40_000) < 20_000
    frame = pd.DataFrame(rng.normal(size=(y.size, 50)), columns=[f"c{k}" for k in range(50)])
    order = rng.permutation(y.size)
    train, test = dataset(frame, y), dataset(frame.iloc[order], y[order], "test.csv")
    tracemalloc.start()
    try:
        found = check_test(train, test)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "the same rows as t.csv" in only(found, None, "test")
    assert peak < frame.to_numpy().nbytes


def test_the_sample_of_a_large_table_is_enough(rng: np.random.Generator) -> None:
    frame = pd.DataFrame(rng.normal(size=(200_000, 4)), columns=list("abcd"))
    y = rng.random(200_000) < 0.02
    frame["copy"] = y
    only(check_columns(dataset(frame, y)), "copy", "copy")


def test_findings_can_be_refused() -> None:
    refuse([])
    with pytest.raises(InputError, match="--strict: one; two"):
        refuse([Finding("a", "copy", "one"), Finding("b", "copy", "two")])


def test_python_finds_what_the_terminal_finds(table: Any) -> None:
    frame, y = table
    frame["status"], frame["customer id"] = np.where(y, "closed", "open"), range(ROWS)
    found = check_table(frame, np.where(y, "yes", "no"))
    shown = check_columns(dataset(frame, y))
    assert [(one.column, one.kind) for one in found] == [(one.column, one.kind) for one in shown]
    assert [(one.column, one.kind) for one in found] == [
        ("status", "copy"),
        ("customer id", "identifier"),
    ]
    assert all(one.message.endswith("leave it out") for one in found)
    assert "use --id 'customer id'" in shown[1].message


def test_python_checks_matrices_and_refuses_other_lengths(table: Any) -> None:
    frame, y = table
    X = np.column_stack([frame[["a", "b"]], y])
    for matrix in (X, sp.csr_matrix(X), sp.coo_matrix(X), X.tolist()):
        only(check_table(matrix, y), "x2", "copy")
    with pytest.raises(ShapeError, match="`y` has 3000 elements and `X` has 10"):
        check_table(X[:10], y)
    with pytest.raises(ShapeError, match="1 dimensions"):
        check_table(X[:, 0], y)
    with pytest.raises(ShapeError, match="two columns named 'a'"):
        check_table(frame[["a", "a"]], y)
    with pytest.warns(UserWarning, match="1,001 columns and is not checked"):
        assert check_table(np.zeros((ROWS, 1001)), y) == []


def test_python_takes_the_rarer_label_as_positive(table: Any) -> None:
    frame, y = table
    frame["closed"] = np.where(y, 1.0, np.nan)
    (found,) = check_table(frame, np.where(y, "bad", "good"))
    assert "missing in 0% of the positives" in found.message
