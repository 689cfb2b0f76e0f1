"""What the paper does to its data sets before training: drop positives, split, scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from apmax.validation import Mask

TEST_SHARE = 1 / 3
"""2:1, where a data set has no test set of its own."""


def kept_positives(rate: float, negatives: int) -> int:
    """How many positives make up `rate` of all, beside so many negatives."""
    return round(rate / (1 - rate) * negatives)


def drop_positives(X: Any, y: Mask, rate: float, seed: int) -> tuple[Any, Mask]:
    """Drop positives at random until `rate` of what is left is positive."""
    positives, negatives = np.flatnonzero(y), np.flatnonzero(~y)
    count = kept_positives(rate, negatives.size)
    kept = np.random.default_rng(seed).choice(positives, count, replace=False)
    rows = np.sort(np.concatenate([kept, negatives]))
    return X[rows], y[rows]


def split(X: Any, y: Mask, seed: int) -> tuple[Any, Mask, Any, Mask]:
    """Two parts of three to train on, one to test on, with the same share of positives."""
    from sklearn.model_selection import train_test_split

    X, X_test, y, y_test = train_test_split(
        X, y, test_size=TEST_SHARE, stratify=y, random_state=seed
    )
    return X, y, X_test, y_test


def scale_to_unit(X: Any, X_test: Any) -> tuple[Any, Any]:
    """Both matrices, scaled so that the training set's columns reach from 0 to 1.

    They stay sparse if no column has to be shifted, and become dense otherwise. A constant
    column above 0 becomes 1, which needs no shift. Test values may lie outside of [0, 1].
    """
    low = X.min(axis=0).toarray().ravel()
    high = X.max(axis=0).toarray().ravel()
    low[(low == high) & (low > 0)] = 0.0
    span = np.where(high > low, high - low, 1.0)
    if low.any():
        return (X.toarray() - low) / span, (X_test.toarray() - low) / span
    return _divided(X, span), _divided(X_test, span)


def _divided(X: Any, span: Any) -> Any:
    scaled = X.copy()
    scaled.data /= span[scaled.indices]
    return scaled
