"""Which rows train and which test: folds of the leaderboard, and rows held out for a final test."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedGroupKFold

from apmax.app.io import Dataset
from apmax.errors import ParameterError
from apmax.splits import Split, make_splits
from apmax.validation import Floats, Mask, check_real

FOLDS = 5


def make_folds(
    dataset: Dataset, folds: int = FOLDS, repeats: int = 1, seed: int = 0
) -> list[Split]:
    """Return the splits of a data set: stratified, by groups, or forward in time.

    With fewer than `folds` rows of a class, groups or times, there are fewer folds.
    """
    check_real(folds, "--folds", at_least=2, why="each fold tests models of the others")
    check_real(repeats, "--repeats", at_least=1, why="it is a number of cross-validations")
    y = dataset.labels()
    if dataset.times is not None:
        return forward_splits(dataset.times, y, folds)
    if dataset.groups is not None:
        return [
            split for repeat in range(repeats) for split in _grouped(dataset, folds, seed + repeat)
        ]
    count = min(folds, int(y.sum()), int((~y).sum()))
    if count < 2:
        label = dataset.positive if y.sum() < 2 else dataset.negative
        where = "" if dataset.target is None else f" of column {dataset.target!r}"
        raise ParameterError(
            f"{dataset.source.name}: the label {label!r}{where} has only one row, and "
            "cross-validation needs two: use more data"
        )
    splitter = RepeatedStratifiedKFold(n_splits=count, n_repeats=repeats, random_state=seed)
    return make_splits(splitter, dataset.X, y, dataset.weight)


def forward_splits(times: Floats, y: Mask, folds: int) -> list[Split]:
    """Return folds that train on early rows and test on the next ones.

    The rows are divided into `folds` + 1 parts of about equal size, and rows of one time are in
    one part. If a part would have one class only, there are fewer folds.
    """
    for count in range(folds, 0, -1):
        part = _parts_in_time(times, count + 1)
        splits = [
            (np.flatnonzero(part < k), np.flatnonzero(part == k)) for k in range(1, count + 1)
        ]
        if all(np.unique(y[rows]).size == 2 for split in splits for rows in split):
            return splits
    raise ParameterError(
        "--time: early or late rows have only one class, so that no model can be tested on later "
        "rows: use more data, or leave --time out"
    )


def hold_out(dataset: Dataset, share: float, seed: int = 0) -> tuple[Dataset, Dataset]:
    """Split off a share of the rows for testing: of each class, of the groups, or the latest."""
    y = dataset.labels()
    if not 0 < share < 1:
        raise ParameterError(f"`--holdout` = {share:g} must be between 0 and 1, such as 0.2")
    if dataset.times is not None:
        test = dataset.times > np.quantile(dataset.times, 1 - share, method="higher")
        test = test if test.any() else dataset.times == dataset.times.max()
    elif dataset.groups is not None:
        folds = max(2, round(1 / share))
        test = np.zeros(y.size, dtype=bool)
        test[_grouped(dataset, folds, seed)[0][1]] = True
    else:
        rng = np.random.default_rng(seed)
        test = np.zeros(y.size, dtype=bool)
        for rows in (np.flatnonzero(y), np.flatnonzero(~y)):
            test[rng.permutation(rows)[: max(1, round(share * rows.size))]] = True
    for part in (test, ~test):
        if np.unique(y[part]).size < 2:
            raise ParameterError(
                "`--holdout` leaves a part with only one class: give --test data, or use more rows"
            )
    return dataset.rows(~test), dataset.rows(test)


def _grouped(dataset: Dataset, folds: int, seed: int) -> list[Split]:
    """Return folds without common groups; fewer, if there are not enough groups."""
    y, groups = dataset.labels(), np.asarray(dataset.groups)
    count = min(folds, *(np.unique(groups[of]).size for of in (y, ~y)))
    if count < 2:
        raise ParameterError("--group: a class is in one group only; name another column")
    splitter = StratifiedGroupKFold(count, shuffle=True, random_state=seed)
    return make_splits(splitter, dataset.X, y, dataset.weight, groups)


def _parts_in_time(times: Floats, count: int) -> NDArray[np.intp]:
    """Return the part of each row, from 0; equal times are in one part."""
    ranks = np.searchsorted(np.sort(times), times, side="left")
    return np.asarray(ranks * count // times.size, dtype=np.intp)
