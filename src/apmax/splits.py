"""Cross-validation splits, validated before any work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv

from apmax.errors import ParameterError, ShapeError
from apmax.validation import Floats, Mask

Split = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Numbers of the training rows and of the held-out rows."""
DEFAULT_FOLDS = 5


def test_share(splits: Sequence[Split]) -> float:
    """Return the mean share of the rows that a split holds out."""
    return float(np.mean([test.size / (train.size + test.size) for train, test in splits]))


def standard_error(values: Floats, test_share: float) -> Floats:
    """Return the standard error of means over folds, the last axis (Nadeau and Bengio, 2003).

    Folds share training data, so the variance of a mean over J folds is (1/J + test/train) s².
    NaN for a single fold.
    """
    folds = values.shape[-1]
    if folds < 2:
        return np.full(values.shape[:-1], np.nan)
    overlap = test_share / (1.0 - test_share)
    return np.asarray(values.std(axis=-1, ddof=1) * np.sqrt(1.0 / folds + overlap))


def with_most_rows(splits: Sequence[Split], positive: Mask) -> list[int]:
    """Return the splits whose models resemble one of all rows: those with the most training rows.

    With forward chaining, early models have seen a part of the rows only, and their scores are on
    another scale. Splits with at least 90 % of the rows of the largest are returned, and smaller
    ones until 50 positives are held out.
    """
    sizes = np.array([train.size for train, _ in splits])
    found: list[int] = []
    for k in np.argsort(-sizes, kind="stable"):
        held_out = sum(int(positive[splits[one][1]].sum()) for one in found)
        if sizes[k] < 0.9 * sizes.max() and held_out >= 50:
            break
        found.append(int(k))
    return sorted(found)


def restricted(splits: Sequence[Split], rows: NDArray[np.intp], n: int) -> list[Split]:
    """Return splits of `n` rows restricted to some rows, as positions among these."""
    place = np.full(n, -1)
    place[rows] = np.arange(rows.size)
    return [(_kept(place[train]), _kept(place[test])) for train, test in splits]


def _kept(places: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.asarray(places[places >= 0])


def mean_held_out(splits: Sequence[Split], of_splits: Sequence[Floats], rows: int) -> Floats:
    """Return a value per row from those of the rows that each split holds out.

    It is the mean if several splits hold out a row, and NaN if none does.
    """
    sums, times = np.zeros(rows), np.zeros(rows)
    for values, (_, test) in zip(of_splits, splits, strict=True):
        sums[test] += values
        times[test] += 1
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / times)


def make_splits(
    cv: Any, X: Any, positive: Mask, weight: Floats | None = None, groups: Any = None
) -> list[Split]:
    """Return the splits of a number of folds, a splitter or an iterable of splits.

    A number is of stratified, shuffled folds; with `groups`, no group is in two of them. None is
    five folds, or fewer if a class has fewer examples or groups. Numbered folds leave out rows of
    weight 0. Every part must hold both classes with positive weight.
    """
    groups = None if groups is None else _checked_groups(groups, positive.size)
    if cv is None or isinstance(cv, (int, np.integer)):
        rows = np.arange(positive.size) if weight is None else np.flatnonzero(weight)
        folds = (
            _stratified(cv, positive[rows])
            if groups is None
            else _grouped(cv, positive[rows], groups[rows])
        )
        splits = [(rows[train], rows[test]) for train, test in folds]
    else:
        splits = _splits_of(cv, X, positive, groups)
    if not splits:
        raise ParameterError("`cv` yields no split: give at least one, or a number of folds")
    for number, split in enumerate(splits):
        _check_classes(split, number, positive, weight)
    return splits


def _checked_groups(given: Any, rows: int) -> NDArray[Any]:
    groups: NDArray[Any] = np.asarray(given)
    if groups.shape != (rows,):
        raise ShapeError(
            f"`groups` has shape {groups.shape}, and X has {rows} rows: pass one group per row"
        )
    try:
        missing = bool((groups != groups).any())  # noqa: PLR0124
        np.unique(groups)
    except TypeError:  # None or numbers among text, pandas.NA
        missing = True
    if missing:
        raise ParameterError(
            "`groups` has missing values or mixes types: give every row a group, for example with "
            "groups.astype(str)"
        )
    return groups


def _stratified(cv: Any, positive: Mask) -> list[Split]:
    fewest = int(min(positive.sum(), (~positive).sum()))
    count = _number_of_folds(cv, fewest, "examples of each class, but one class has")
    return list(StratifiedKFold(count, shuffle=True, random_state=0).split(positive, positive))


def _grouped(cv: Any, positive: Mask, groups: NDArray[Any]) -> list[Split]:
    """Return folds without common groups; None tries fewer folds until each has both classes."""
    fewest = min(np.unique(groups[of_class]).size for of_class in (positive, ~positive))
    count = _number_of_folds(cv, fewest, "groups with examples of each class, but one class is in")
    splits: list[Split] = []
    for folds in range(count, 1 if cv is None else count - 1, -1):
        splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=0)
        splits = list(splitter.split(positive, positive, groups))
        if all(np.unique(positive[part]).size == 2 for split in splits for part in split):
            break
    return splits


def _number_of_folds(cv: Any, fewest: int, what: str) -> int:
    count = min(DEFAULT_FOLDS, max(2, fewest)) if cv is None else int(cv)
    if count < 2:
        raise ParameterError(f"`cv` = {count} must be at least 2: each fold is held out once")
    if count > fewest:
        raise ParameterError(
            f"`cv` = {count} needs that many {what} {fewest}: "
            f"{'lower cv, ' if fewest > 1 else ''}collect more of them, or use APClassifier, which "
            "has no folds and takes numbers only"
        )
    return count


def _splits_of(cv: Any, X: Any, positive: Mask, groups: NDArray[Any] | None) -> list[Split]:
    """Return the row numbers of splits that are given as numbers or masks."""
    if groups is not None and not hasattr(cv, "split"):
        raise ParameterError(
            "`groups` has no effect on splits that are given as rows: pass a number of folds or a "
            "splitter as cv, or leave out groups"
        )
    every = np.arange(positive.size)
    options = {} if groups is None else {"groups": groups}
    try:
        pairs = check_cv(cv, positive, classifier=True).split(X, positive, **options)
        return [(_rows(every, train), _rows(every, test)) for train, test in pairs]
    except (ValueError, TypeError, IndexError) as error:
        raise ParameterError(
            f"`cv` cannot split the {every.size} rows of X ({error}): give a number of folds, a "
            "splitter, or pairs of rows; for a splitter that needs groups, "
            "fit(X, y, groups=groups)"
        ) from error


def _rows(every: NDArray[np.intp], part: Any) -> NDArray[np.intp]:
    part = np.asarray(part)
    return np.asarray(every[part if part.size else []])


def _check_classes(split: Split, number: int, positive: Mask, weight: Floats | None) -> None:
    """Check that both parts hold both classes with positive weight."""
    for name, rows in zip(("fits", "holds out"), split, strict=True):
        counted = rows if weight is None else rows[weight[rows] > 0]
        found = positive[counted]
        if found.all() or not found.any():
            which = "negative" if found.any() else "positive"
            raise ParameterError(
                f"split {number} of `cv` {name} no {which} example: every part needs both classes; "
                "use StratifiedKFold, fewer folds, or other splits"
            )
