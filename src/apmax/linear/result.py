"""The outcome of a fit as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FitResult:
    """How a fit ended: the attribute `result_` of every estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from apmax import APClassifier
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> result = APClassifier().fit(X, X[:, 0] > 1).result_
    >>> result.converged, result.interrupted
    (True, False)
    """

    converged: bool
    """Whether it met its stopping criterion, or completed its rounds without diverging."""
    interrupted: bool
    """Whether Ctrl-C ended it; the model is the best one reached until then."""
    message: str
    """The reason in words, for people."""
    iterations: int
    """Iterations of L-BFGS, or stochastic rounds."""
