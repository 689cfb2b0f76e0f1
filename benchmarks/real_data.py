"""Real data for benchmarks, from ``$APMAX_DATA`` or a ``shared/data`` folder beside the clone."""

from __future__ import annotations

import lzma
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import train_test_split

ROOT = Path(__file__).parents[1]
GIVEN_SPLIT = ("w6a", "a9a", "w8a", "ijcnn1", "hiv")
RANDOM_SPLIT = ("mushrooms", "phishing", "mammography", "letter", "cover", "celeba")
NAMES = ("mushrooms", "phishing", "w6a", "a9a", "w8a", "ijcnn1",
         "mammography", "letter", "cover", "celeba", "hiv")  # fmt: skip
FEATURES = {"w6a": 300, "a9a": 123, "w8a": 300, "ijcnn1": 22}


class Split(NamedTuple):
    """A training and a test set with boolean labels."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def data_folder() -> Path | None:
    """The folder with the data, or None where there is none; `APMAX_DATA` excludes any other."""
    folder = Path(os.environ.get("APMAX_DATA") or ROOT / ".." / "shared" / "data")
    return folder.resolve() if folder.is_dir() else None


def splits(name: str, seeds: int = 3) -> Iterator[Split]:
    """The given split once, or a stratified 2:1 split for each seed."""
    if name in GIVEN_SPLIT:
        yield given_split(name)
        return
    for seed in range(seeds):
        X, y = whole(name, seed)
        X, X_test, y, y_test = train_test_split(
            X, y, test_size=1 / 3, stratify=y, random_state=seed
        )
        yield Split(X, y, X_test, y_test)


def given_split(name: str) -> Split:
    """The training and the test file of a set that has both."""
    folder = required_folder()
    if name == "hiv":
        data = np.load(folder / "molecules" / "hiv_ecfp4_1024.npz")
        shape = (data["indptr"].size - 1, 1024)
        ones = np.ones(data["indices"].size)
        X = sp.csr_matrix((ones, data["indices"], data["indptr"]), shape=shape)
        y = np.asarray(data["y"][:, 0] == 1)
        train, test = data["scaffold_split"] < 2, data["scaffold_split"] == 2
        return Split(X[train], y[train], X[test], y[test])
    parts: list[Any] = []
    for file in (name, f"{name}.t"):
        X, y = _libsvm(folder / "libsvm" / f"{file}.xz", FEATURES[name])
        parts += [X, y > 0]
    return Split(*parts)


def whole(name: str, seed: int) -> tuple[Any, np.ndarray]:
    """All rows of a set that has one file."""
    folder = required_folder()
    if name in ("mushrooms", "phishing"):
        X, label = _libsvm(folder / "libsvm" / f"{name}.xz", None)
        rate = {"mushrooms": 0.0527, "phishing": 0.3565}[name]
        return _thinned(X, label == 1, rate, seed)
    if name in ("cover", "celeba"):
        file_name = {"cover": "cover.npz", "celeba": "celeba_bald.npz"}[name]
        data = np.load(folder / "tabular" / file_name)
        return data["X"].astype(np.float64), data["y"] == 1
    with lzma.open(folder / "tabular" / f"{name}.csv.xz", "rt") as file:
        table = np.array([line.strip().split(",") for line in file if line.strip()])
    positive = {"mammography": "1", "letter": "Z"}[name]
    labels = np.char.strip(table[:, -1], "'\" ")
    return table[:, :-1].astype(np.float64), labels == positive


def _thinned(X: Any, y: np.ndarray, rate: float, seed: int) -> tuple[Any, np.ndarray]:
    """Drop positives at random until `rate` of what is left is positive, as the paper does."""
    positives, negatives = np.flatnonzero(y), np.flatnonzero(~y)
    count = round(rate / (1 - rate) * negatives.size)
    kept = np.random.default_rng(seed).choice(positives, count, replace=False)
    rows = np.sort(np.concatenate([kept, negatives]))
    return X[rows], y[rows]


def _libsvm(path: Path, features: int | None) -> tuple[Any, np.ndarray]:
    with lzma.open(path) as file:
        return load_svmlight_file(file, n_features=features)  # type: ignore[no-any-return]


def required_folder() -> Path:
    """The folder with the data; ends the program where there is none."""
    folder = data_folder()
    if folder is None:
        raise SystemExit("no data: set APMAX_DATA to the folder that holds libsvm/ and tabular/")
    return folder
