"""Find test rows that are also in the training data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apmax.app.features import to_numbers
from apmax.app.io import Dataset
from apmax.app.leaks import MIN_CLASS, Finding, as_frame

MAX_HASHED = 50_000_000
"""Larger files, in cells, are not compared with the test file."""
SHARED_ROWS = 0.05
"""Share of test rows found in the training file, beyond duplicates, that is reported."""


def check_test(train: Dataset, test: Dataset) -> list[Finding]:
    """Return a finding if test rows are also in the training data.

    Rows that occur more than once in the training data are expected in a test file as well, so
    only a share beyond theirs counts.
    """
    one, other = _row_hashes(train, test)
    if one.size == 0 or other.size == 0:
        return []
    if np.array_equal(np.sort(one), np.sort(other)):
        message = (
            f"{test.source} has the same rows as {train.source}, so the test AP is the AP on "
            "training rows: give rows that are not used for training, or leave --test out"
        )
        return [Finding(None, "test", message)]
    values, counts = np.unique(one, return_counts=True)
    repeated = float(counts[counts > 1].sum() / one.size)
    seen = np.isin(other, values)
    if seen.mean() < SHARED_ROWS + repeated or seen.sum() < MIN_CLASS:
        return []
    message = (
        f"{seen.sum():,} of the {seen.size:,} rows of {test.source} are also in {train.source}, "
        "so the test AP is too high: remove them from one of the files"
    )
    return [Finding(None, "test", message)]


def _row_hashes(train: Dataset, test: Dataset) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return one number per row; equal rows of the common columns have equal numbers."""
    import pandas as pd

    cells = max(dataset.X.shape[0] * dataset.X.shape[1] for dataset in (train, test))
    if cells > MAX_HASHED or train.is_table != test.is_table:
        return np.empty(0), np.empty(0)
    frames = [as_frame(dataset.X) for dataset in (train, test)]
    common = [name for name in frames[0].columns if name in frames[1].columns]
    numeric = {
        name
        for name in common
        if all(pd.api.types.is_numeric_dtype(frame[name]) for frame in frames)
    }
    one, other = (
        pd.util.hash_pandas_object(
            pd.DataFrame(
                {
                    name: to_numbers(frame[name]) if name in numeric else frame[name].astype(str)
                    for name in common
                },
                index=frame.index,
            ).assign(**{"\0": dataset.labels()}),
            index=False,
        ).to_numpy()
        for frame, dataset in zip(frames, (train, test), strict=True)
    )
    return one, other
