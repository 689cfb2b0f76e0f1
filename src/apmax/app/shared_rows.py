"""Find test rows that are also in the training data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apmax.app.column_values import finite_numbers
from apmax.app.io import Dataset
from apmax.app.leaks import MIN_CLASS, Finding, as_frame

MAX_HASHED = 50_000_000
"""Larger files, in cells, are not compared with the test file."""
BLOCK_CELLS, BLOCK_ROWS = 1 << 18, 1000
"""Cells that are hashed at a time, but no fewer rows; this bounds the memory."""
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
    common = frames[0].columns.intersection(frames[1].columns, sort=False)
    frames = [frame[common] for frame in frames]
    kinds = zip(common, *(frame.dtypes for frame in frames), strict=True)
    numeric = [name for name, *both in kinds if all(map(pd.api.types.is_numeric_dtype, both))]
    one, other = (
        _hashes(frame, numeric, dataset.labels())
        for frame, dataset in zip(frames, (train, test), strict=True)
    )
    return one, other


def _hashes(frame: Any, numeric: list[str], labels: Any) -> NDArray[Any]:
    """Return one number per row; numbers are hashed at once, since many columns are slow."""
    import pandas as pd

    words = frame.drop(columns=numeric).astype(str).assign(**{"\0": labels})
    rows: NDArray[Any] = pd.util.hash_pandas_object(words, index=False).to_numpy(copy=True)
    factors = np.random.default_rng(0).integers(2**63, size=len(numeric), dtype=np.uint64)
    block = max(BLOCK_ROWS, BLOCK_CELLS // max(1, len(numeric)))
    columns = frame[numeric]
    for start in range(0, len(frame) if numeric else 0, block):
        part = columns[start : start + block].to_numpy(dtype=np.float64, na_value=np.nan)
        hashes = pd.util.hash_array((finite_numbers(part) + 0.0).ravel()).reshape(part.shape)
        rows[start : start + block] += hashes @ (2 * factors + 1)
    return rows
