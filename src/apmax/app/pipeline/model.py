"""A trained model with all it needs: the encoder of its table, its weights, its labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from apmax.app.data.target import listed, spelled
from apmax.app.pipeline.drift import unusable_columns
from apmax.app.pipeline.encoder import TableEncoder
from apmax.errors import ShapeError
from apmax.validation import Floats


@dataclass(frozen=True)
class Model:
    """Log-odds w·x + b of the positive label, from rows as they are in a file."""

    coef: Floats
    intercept: float
    positive: str
    negative: str
    target: str | None = None
    encoder: TableEncoder | None = None
    """None if the features were numbers already (LIBSVM, NPZ)."""
    facts: dict[str, Any] = field(default_factory=dict)
    """How it was trained: plain data, for people."""
    rest: list[str] | None = None
    """What the negatives were called, where `negative` stands for several; None if it is one
    label, and empty if they were too many to list."""

    def log_odds(self, X: Any) -> Floats:
        """Log-odds of the rows of a frame, or of a matrix if the model was trained on one."""
        return np.asarray(self.features(X) @ self.coef + self.intercept).ravel()

    def probabilities(self, X: Any) -> Floats:
        """Probability of the positive label."""
        return np.asarray(expit(self.log_odds(X)))

    def words(self) -> list[str]:
        """Columns to be read as text."""
        return [] if self.encoder is None else self.encoder.words()

    def feature_names(self) -> list[str]:
        """Names of the features, in the order of the weights."""
        if self.encoder is not None:
            return self.encoder.feature_names()
        return [f"feature {k + 1}" for k in range(self.coef.size)]

    def doubts(self, X: Any) -> list[str]:
        """What of these rows the model cannot use: a sentence each, for the person who asked."""
        if self.encoder is not None:
            return unusable_columns(self.encoder, X)
        further = X.shape[1] - self.coef.size
        return [f"{further:,} features beyond the model's are left out"] if further > 0 else []

    def new_labels(self, counts: Mapping[Any, int], positive: Any) -> list[str]:
        """A sentence on the labels that count as the rest and were none of it in training."""
        known = {spelled(label) for label in (positive, *(self.rest or []))}
        new = {label: count for label, count in counts.items() if spelled(label) not in known}
        if not (self.rest and new):
            return []
        return [f"labels that training did not have count as {self.negative!r}: {listed(new)}"]

    def features(self, X: Any) -> Any:
        """The rows as the weights see them."""
        is_frame = hasattr(X, "columns")
        if self.encoder is not None:
            if not is_frame:
                raise ShapeError(
                    "the model was trained on a table with named columns: give it a table"
                )
            return self.encoder.transform(X)
        if is_frame:
            raise ShapeError(
                f"the model was trained on {self.coef.size} numbered features (LIBSVM or NPZ): "
                "give it such a file, not a table"
            )
        matrix = sp.csr_matrix(X) if not sp.issparse(X) else X.tocsr()
        if matrix.shape[1] == self.coef.size:
            return matrix
        matrix = sp.csr_matrix(matrix)
        if matrix.shape[1] > self.coef.size:  # features that training has never seen
            return matrix[:, : self.coef.size]
        matrix.resize(matrix.shape[0], self.coef.size)  # trailing ones that are 0 in this file
        return matrix
