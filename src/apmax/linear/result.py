"""The outcome of a fit as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FitResult:
    """How a fit ended."""

    converged: bool
    """Whether it met its stopping criterion, or completed its rounds without diverging."""
    interrupted: bool
    """Whether Ctrl-C ended it; the model is the best one reached until then."""
    message: str
    iterations: int
    """Iterations of L-BFGS, or stochastic rounds."""
