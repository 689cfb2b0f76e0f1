"""What a pass over the data computes: a function of a block, and how results of blocks merge.

All functions are pure and can be pickled. They take the same data with the same result wherever a
block lies. Parameters are w, the weights of the scaled features, and, last, the intercept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from apmax.blas_threads import one_blas_thread
from apmax.errors import NonFiniteError, WeightError
from apmax.linear.design import Design, extent, mean_of
from apmax.objective._nodes import certified_tables
from apmax.scale.blocks import Block
from apmax.validation import Floats, Mask

ONE_PASS_FEATURES = 1000
"""Most features for which one pass gives value and gradient; the summary has 10 KB per feature."""
Sums = tuple[Floats, ...]


class Scaling(NamedTuple):
    """Centre and scale of each feature."""

    centre: Floats
    scale: Floats


class Statistics(NamedTuple):
    """Counts, weights and feature statistics of some rows."""

    rows: Floats
    """Rows of positive weight: negatives, positives."""
    weight: Floats
    """Their total weights."""
    least_weight: float
    largest_weight: float
    lowest: Floats
    highest: Floats
    mean: Floats
    squares: Floats
    """Σ v (x − mean)²; zeros for sparse features."""
    of_positives: Floats
    """Σ v x over positives, which tells labels apart."""
    single: bool
    """Whether features are single precision."""

    @property
    def total(self) -> float:
        """Number of examples represented, as :class:`apmax.binary_target.BinaryTarget` has it."""
        return float(max(self.weight.sum(), self.rows.sum()))


def add(first: Sums, second: Sums) -> Sums:
    """Merge sums."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def statistics(block: Block) -> Statistics:
    """Return the statistics of a block, and check that its values are finite."""
    from apmax.scale._kernels import feature_sums

    X, positive, weight = block
    d = X.shape[1]
    check_block_weights(weight)
    counted = np.ones(positive.size, bool) if not weight.size else weight > 0
    if sp.issparse(X):
        _check_finite(X.data)
        some = bool(counted.any())
        v = weight[counted] if weight.size else None
        lowest, highest = extent(X[counted]) if some else (np.full(d, np.inf), np.full(d, -np.inf))
        mean = mean_of(X[counted], v) if some else np.zeros(d)
        squares = np.zeros(d)
    else:
        lowest, highest, mean, squares = np.empty((4, d))
        feature_sums(X, weight, lowest, highest, mean, squares)
        if not np.isfinite(mean).all():
            _check_finite(X)
    masks = counted & ~positive, counted & positive
    rows = np.array([float(np.count_nonzero(mask)) for mask in masks])
    total = np.array([float(weight[mask].sum()) for mask in masks]) if weight.size else rows
    extremes = (weight[counted].min(), weight.max()) if counted.any() and weight.size else (1, 1)
    return Statistics(
        rows, total, float(extremes[0]), float(extremes[1]), lowest, highest, mean, squares,
        _sum_of_rows(X, weight, masks[1]), X.dtype == np.float32,
    )  # fmt: skip


def merge_statistics(first: Statistics, second: Statistics) -> Statistics:
    """Merge means and squares as Chan, Golub and LeVeque (1979) do."""
    if not first.rows.any() or not second.rows.any():
        return second if second.rows.any() else first
    mass, other = first.weight.sum(), second.weight.sum()
    apart = second.mean - first.mean
    return Statistics(
        first.rows + second.rows,
        first.weight + second.weight,
        min(first.least_weight, second.least_weight),
        max(first.largest_weight, second.largest_weight),
        np.minimum(first.lowest, second.lowest),
        np.maximum(first.highest, second.highest),
        first.mean + apart * (other / (mass + other)),
        first.squares + second.squares + apart**2 * (mass * other / (mass + other)),
        first.of_positives + second.of_positives,
        first.single and second.single,
    )


def _sum_of_rows(X: Any, weight: Floats, mask: Mask) -> Floats:
    """Return Σ v x over some rows, added in their order: the same bits in every run."""
    rows, v = X[mask], weight[mask] if weight.size else np.ones(np.count_nonzero(mask))
    with np.errstate(over="ignore", invalid="ignore"):
        if sp.issparse(rows):
            terms = rows.data * np.repeat(v, np.diff(rows.indptr))
            return np.bincount(rows.indices, terms, X.shape[1]).astype(np.float64)
        return np.asarray((rows * v[:, None]).sum(axis=0))


def log_loss(block: Block, scaling: Scaling, w: Floats) -> Sums:
    """Return Σ v log(1 + exp(∓z)) and its gradient."""
    if _is_fused(block.X):
        from apmax.scale._kernels import log_loss_sums

        gradient = _padded(np.zeros(w.size))
        X, positive, weight = block
        value = log_loss_sums(X, positive, weight, *scaling, _padded(w), gradient)
        return np.array(value), gradient[: w.size]
    from apmax.linear import _logloss

    design, v = _design(block, scaling), _weights(block)
    slopes = np.empty(v.size)
    value = _logloss.log_loss(design.margins(w), block.positive, v, slopes)
    return np.array(value), design.vjp(slopes)


def vector_moments(block: Block, scaling: Scaling, w: Floats, gamma: float) -> Sums:
    """Return moments of the scores, and of the gradient's terms, for the classes: one pass."""
    from apmax.scale._kernels import vector_moment_sums

    tables, d = certified_tables(gamma), block.X.shape[1]
    inner = _padded(w)
    minus, plus = (np.zeros((tables.cells, terms)) for terms in tables.terms)
    of_minus, of_plus = (np.zeros((tables.cells, terms, inner.size)) for terms in tables.terms)
    X, positive, weight = block
    vector_moment_sums(X, positive, weight, *scaling, inner, minus, plus, of_minus, of_plus)
    return minus, plus, of_minus[:, :, : d + 1], of_plus[:, :, : d + 1]


def ap_of_vector_moments(
    sums: Sums, scaling: Scaling, w: Floats, gamma: float
) -> tuple[float, Floats]:
    """Return ÂP and its gradient from the moments of all rows."""
    minus, plus, of_minus, of_plus = sums
    with one_blas_thread():  # on a worker as in `fit`, so that the bits are the same
        value, *polynomials = ap_of_moments((minus, plus), scaling, w, gamma)
        slope = np.tensordot(polynomials[0], of_minus, 2)
        return value, slope + np.tensordot(polynomials[1], of_plus, 2)


def ap_of_moments(
    sums: Sums, scaling: Scaling, w: Floats, gamma: float
) -> tuple[float, Floats, Floats]:
    """Return ÂP and the polynomials of both classes from the moments of all rows."""
    with one_blas_thread():
        return certified_tables(gamma).evaluate(*sums)


def moments(block: Block, scaling: Scaling, w: Floats, gamma: float) -> Sums:
    """Return the moments of the scores of both classes: the first of two passes."""
    from apmax.scale._kernels import moment_sums

    tables = certified_tables(gamma)
    minus, plus = (np.zeros((tables.cells, terms)) for terms in tables.terms)
    moment_sums(margins(block, scaling, w), block.positive, block.weight, minus, plus)
    return minus, plus


def gradient(block: Block, scaling: Scaling, w: Floats, of_minus: Floats, of_plus: Floats) -> Sums:
    """Return the gradient of ÂP from the polynomials of both classes: the second of two passes."""
    from apmax.scale._kernels import slopes_of_margins

    slopes = np.empty(block.positive.size)
    at = margins(block, scaling, w)
    slopes_of_margins(at, block.positive, block.weight, of_minus, of_plus, slopes)
    return (_design(block, scaling).vjp(slopes),)


def margins(block: Block, scaling: Scaling, w: Floats) -> Floats:
    """Return the margin of each row."""
    if _is_fused(block.X):
        from apmax.scale import _kernels

        out = np.empty(block.positive.size)
        _kernels.margins(block.X, *scaling, _padded(w), out)
        return out
    return _design(block, scaling).margins(w)


def extremes(block: Block, scaling: Scaling, w: Floats) -> Floats:
    """Return −(smallest margin) and the largest margin over rows of positive weight."""
    at = margins(block, scaling, w)
    if block.weight.size:
        at = at[block.weight > 0]
    return np.array([-at.min(), at.max()]) if at.size else np.full(2, -np.inf)


def histogram(
    block: Block, scaling: Scaling, w: Floats, low: float, high: float, bins: int
) -> Sums:
    """Return Σ v and Σ v z per class and bin; two more bins hold what lies outside."""
    from apmax.scale._kernels import histogram_sums

    count, total = np.zeros((2, 2, bins + 2))
    per_unit = bins / (high - low) if high > low else 0.0
    at = margins(block, scaling, w)
    histogram_sums(at, block.positive, block.weight, low, per_unit, count, total)
    return count, total


def _is_fused(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.shape[1] <= ONE_PASS_FEATURES


def _padded(w: Floats) -> Floats:
    from apmax.scale._kernels import padded

    out = np.zeros(padded(w.size - 1))
    out[: w.size] = w
    return out


def _design(block: Block, scaling: Scaling) -> Design:
    return Design(block.X, scaling.scale, scaling.centre)


def _weights(block: Block) -> Floats:
    return block.weight if block.weight.size else np.ones(block.positive.size)


def check_block_weights(weight: Floats) -> None:
    """Refuse weights that are negative or not finite."""
    if not weight.size:
        return
    if not np.isfinite(weight).all():
        row = int(np.argmin(np.isfinite(weight)))
        raise NonFiniteError(
            f"`sample_weight` must be finite, got {weight[row]} in row {row} of this block: drop "
            "or repair those rows"
        )
    if weight.min() < 0:
        row = int(np.argmin(weight))
        raise WeightError(
            f"`sample_weight` must be ≥ 0, got {weight[row]} in row {row} of this block: use 0 to "
            "leave an example out"
        )


def _check_finite(X: Any) -> None:
    bad = ~np.isfinite(X)
    if bad.any():
        place = np.unravel_index(int(np.argmax(bad)), bad.shape)
        where = f"row {place[0]}, feature {place[1]}" if len(place) == 2 else "a stored entry"
        raise NonFiniteError(
            f"`X` holds NaN or infinity in {where} of this block ({int(bad.sum())} entries): drop "
            "or impute these rows"
        )
