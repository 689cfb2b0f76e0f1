"""Count how many of m sorted thresholds are ≤ each of n scores, without sorting the scores.

A uniform grid over the thresholds narrows each search to one cell. The remaining binary search
has the same number of steps for every score and no branches. Cost: O(m) to build, O(n) for
evenly spread thresholds, O(n log m) in the worst case.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax._compile import kernel, over_threads
from apmax.validation import Floats

CELLS_PER_THRESHOLD = 2
"""Fewer cells mean more steps, more cells mean more cache misses; flat from 1 to 8."""

BLOCK = 512


class Thresholds(NamedTuple):
    """Sorted thresholds with their grid: cell c holds thresholds start[c] to start[c + 1]."""

    values: Floats  # followed by +inf, so that a search may step past the end
    start: NDArray[np.int32]
    low: float
    cells_per_unit: float
    first_step: int


def make_thresholds(values: Floats) -> Thresholds:
    """Build the grid over `values`, which must be sorted and not empty."""
    cells = CELLS_PER_THRESHOLD * values.size
    with np.errstate(over="ignore"):
        extent = min(float(values[-1] - values[0]), np.finfo(np.float64).max)
    cells_per_unit = cells / extent if extent > cells * np.finfo(np.float64).tiny else 0.0
    start = np.empty(cells + 1, np.int32)
    low = float(values[0])
    fullest = fill_grid(values, low, cells_per_unit, start)
    first_step = (1 << int(fullest).bit_length()) >> 1
    padded = np.concatenate([values, np.full(2 * first_step, np.inf)])
    return Thresholds(padded, start, low, cells_per_unit, first_step)


@kernel
def cell_of(x, low, cells_per_unit, last):
    """Return the cell of x; non-decreasing in x in spite of rounding."""
    if cells_per_unit == 0.0:  # thresholds are nearly equal: one cell holds them
        return np.int64(0)
    return np.int64(min(max((x - low) * cells_per_unit, 0.0), last))


@kernel
def fill_grid(values, low, cells_per_unit, start):
    """Set start[c] to the number of thresholds before cell c; return the size of the fullest."""
    cells = start.size - 1
    fullest = 0
    i = 0
    for c in range(cells):
        start[c] = i
        while i < values.size and cell_of(values[i], low, cells_per_unit, cells - 1.0) == c:
            i += 1
        fullest = max(fullest, i - start[c])
    start[cells] = values.size
    return fullest


def count_at_most(thresholds: Thresholds, scores: Floats, offset: float) -> NDArray[np.int32]:
    """Return for each score the number of thresholds ≤ score + offset."""
    counts = np.empty(scores.size, np.int32)
    over_threads(_count_range, scores.size, thresholds, scores, offset, counts)
    return counts


@kernel
def _count_range(begin, end, thresholds, scores, offset, counts):
    """Count for scores begin … end.

    A block of scores takes each step of the search together, so that the loads of one step do
    not wait for each other; this halves the time once the thresholds outgrow the cache.
    """
    values = thresholds.values
    start = thresholds.start
    last = start.size - 2.0
    x = np.empty(BLOCK)
    below = np.empty(BLOCK, np.int64)
    for first in range(begin, end, BLOCK):
        size = min(BLOCK, end - first)
        for j in range(size):
            x[j] = scores[first + j] + offset
            cell = cell_of(x[j], thresholds.low, thresholds.cells_per_unit, last)
            below[j] = start[cell]
        step = thresholds.first_step
        while step > 0:
            for j in range(size):
                below[j] += step * np.int64(values[below[j] + step - 1] <= x[j])
            step >>= 1
        for j in range(size):
            counts[first + j] = below[j]
