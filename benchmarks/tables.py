"""Tables with numbers, categories and missing values, and their random splits.

A split is stratified, 2:1, by seed. At most 8,000 rows are used for training and 30,000 for the
test, drawn at random with the same share of positives. Columns of text are pandas categories.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from benchmarks.real_data import Split, given_split, required_folder, whole

MOST_TRAINING_ROWS, MOST_TEST_ROWS = 8_000, 30_000
FEW_ROWS = 1_500
ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
    "relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "country",
    "income",
)  # fmt: skip

Table = tuple[Any, np.ndarray]


def _csv(name: str, target: str, positive: str) -> Table:
    return _categories(
        pd.read_csv(required_folder() / "tables" / f"{name}.csv.xz"), target, positive
    )


def _categories(frame: pd.DataFrame, target: str, positive: str) -> Table:
    y = np.asarray(frame.pop(target) == positive)
    text = frame.select_dtypes(exclude="number").columns
    return frame.astype(dict.fromkeys(text, "category")), y


def _npz(name: str) -> Table:
    data = np.load(required_folder() / "tables" / f"{name}.npz")
    return data["X"].astype(np.float64), data["y"] == 1


def _adult() -> Table:
    parts = [
        pd.read_csv(
            required_folder() / "tabular" / f"adult-{part}.csv.xz",
            names=list(ADULT_COLUMNS),
            skipinitialspace=True,
            na_values="?",
        )
        for part in ("train", "test")
    ]
    frame = pd.concat(parts, ignore_index=True)
    frame["income"] = frame["income"].str.rstrip(".")
    return _categories(frame, "income", ">50K")


def _ijcnn1() -> Table:
    parts = given_split("ijcnn1")
    X = np.concatenate([parts.X.toarray(), parts.X_test.toarray()])
    return X, np.concatenate([parts.y, parts.y_test])


def _breast_cancer() -> Table:
    X, y = load_breast_cancer(return_X_y=True)
    return X, y == 0  # 0 is malignant


def _digits() -> Table:
    X, y = load_digits(return_X_y=True)
    return X, y == 8


LOADERS: dict[str, Callable[[], Table]] = {
    "ionosphere": partial(_npz, "ionosphere"),
    "saheart": partial(_npz, "saheart"),
    "breast_cancer": _breast_cancer,
    "crx": partial(_npz, "crx"),
    "wisconsin": partial(_npz, "wisconsin"),
    "pima": partial(_npz, "pima"),
    "vehicle1": partial(_npz, "vehicle1"),
    "attrition": partial(_csv, "attrition", "Attrition", "Yes"),
    "digits": _digits,
    "segment0": partial(_npz, "segment0"),
    "mortgage": partial(_csv, "mortgage", "deny", "yes"),
    "waveform": partial(_npz, "waveform"),
    "credit": partial(_csv, "credit", "Status", "bad"),
    "wilt": partial(_npz, "wilt"),
    "churn": partial(_csv, "churn", "churn", "yes"),
    "optdigits": partial(_npz, "optdigits"),
    "page_blocks0": partial(_npz, "page_blocks0"),
    "caravan": partial(_csv, "caravan", "Purchase", "Yes"),
    "pendigits": partial(_npz, "pendigits"),
    "lending": partial(_csv, "lending", "Class", "bad"),
    "default": partial(_csv, "default", "default", "Yes"),
    "mammography": partial(whole, "mammography", 0),
    "letter": partial(whole, "letter", 0),
    "adult": _adult,
    "shuttle": partial(_npz, "shuttle"),
    "ijcnn1": _ijcnn1,
    "celeba": partial(whole, "celeba", 0),
    "cover": partial(whole, "cover", 0),
}
"""From few rows to many."""
TABLES = tuple(LOADERS)


@lru_cache(maxsize=1)
def load(name: str) -> Table:
    """All rows of a table: an array or a frame, and boolean labels."""
    return LOADERS[name]()


def number_of_splits(name: str) -> int:
    """Five for a small table, three for the others."""
    return 5 if load(name)[1].size < FEW_ROWS else 3


def table_split(name: str, seed: int) -> Split:
    X, y = load(name)
    rows, test = train_test_split(np.arange(y.size), test_size=1 / 3, stratify=y, random_state=seed)
    rows, test = (
        _at_most(MOST_TRAINING_ROWS, rows, y, seed),
        _at_most(MOST_TEST_ROWS, test, y, seed),
    )
    if isinstance(X, pd.DataFrame):
        parts = [X.iloc[some].reset_index(drop=True) for some in (rows, test)]
    else:
        parts = [X[some] for some in (rows, test)]
    return Split(parts[0], y[rows], parts[1], y[test])


def _at_most(most: int, rows: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    if rows.size <= most:
        return rows
    kept, _ = train_test_split(rows, train_size=most, stratify=y[rows], random_state=seed)
    return np.asarray(kept)
