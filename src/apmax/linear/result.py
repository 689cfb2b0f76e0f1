"""The outcome of a fit as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FitResult:
    """How a fit ended.

    Parameters
    ----------
    converged : bool
        Whether the fit reached its stopping criterion. A stochastic fit converges if it completes
        its rounds (or stops early) without diverging.
    interrupted : bool
        Whether Ctrl-C ended the fit; the model is the best one reached until then.
    message : str
        One sentence for a person.
    iterations : int
        Iterations of L-BFGS, or stochastic rounds.
    """

    converged: bool
    interrupted: bool
    message: str
    iterations: int
