"""Logistic regression on the out-of-fold log-odds of several models, with weights ≥ 0.

With one model it is Platt scaling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from apmax.metrics import ap_of_scores
from apmax.splits import mean_held_out
from apmax.validation import Floats, Mask, shares

C, C_OF_ONE = 1.0, 1000.0
"""Inverse strength of the ridge penalty on the weights of standardised log-odds, as in
scikit-learn. It decides between models that agree, and only bounds the slope of a single model."""


class Stack(NamedTuple):
    """Weights of the models' log-odds, and an intercept."""

    weights: Floats
    intercept: float

    def __call__(self, log_odds: Floats) -> Floats:
        """Return the log-odds of the stack; `log_odds` has one column per model."""
        return np.asarray(log_odds @ self.weights + self.intercept)


def fit_stack(log_odds: Floats, positive: Mask, weight: Floats | None, total: float) -> Stack:
    """Fit the weights to out-of-fold log-odds, one column per model; `total` is Σ weights."""
    share = shares(weight, positive.size)
    centre = share @ log_odds
    spread = np.sqrt(share @ np.square(log_odds - centre))
    used = spread > 1e-12 * np.maximum(1.0, np.abs(centre))
    scaled = (log_odds[:, used] - centre[used]) / spread[used]
    penalty = 1.0 / (2.0 * (C if log_odds.shape[1] > 1 else C_OF_ONE) * total)
    prior = float(share @ positive)

    def objective(w: Floats) -> tuple[float, Floats]:
        z = scaled @ w[:-1] + w[-1]
        wrong = share * (expit(z) - positive)
        loss = share @ (np.logaddexp(0.0, z) - positive * z)
        gradient = np.append(scaled.T @ wrong + 2.0 * penalty * w[:-1], wrong.sum())
        return float(loss + penalty * (w[:-1] @ w[:-1])), gradient

    count = int(used.sum())
    start = np.append(np.full(count, 1.0 / max(count, 1)), np.log(prior / (1.0 - prior)))
    bounds = [(0.0, None)] * count + [(None, None)]
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    weights = np.zeros(used.size)
    weights[used] = found[:-1] / spread[used]
    return Stack(weights, float(found[-1] - weights @ centre))


class Blend(NamedTuple):
    """Some members of the library and the weights of their log-odds; one member is calibrated."""

    members: list[str]
    stack: Stack

    def __call__(self, log_odds: dict[str, Floats]) -> Floats:
        """Return the log-odds of the blend from those of the members."""
        return self.stack(np.column_stack([log_odds[name] for name in self.members]))

    @property
    def weights(self) -> dict[str, float]:
        """Return the weight of each member's log-odds."""
        return dict(zip(self.members, self.stack.weights.tolist(), strict=True))

    def pruned(self) -> Blend:
        """Return the same blend without members of weight 0, but with at least one member."""
        used = np.flatnonzero(self.stack.weights)
        used = used if used.size else np.zeros(1, np.intp)
        stack = self.stack._replace(weights=self.stack.weights[used])
        return self._replace(members=[self.members[k] for k in used], stack=stack)


class Evaluation(NamedTuple):
    """A blend of all rows, and what blends of the other folds predict for each fold."""

    blend: Blend
    held_out: Floats
    """Calibrated log-odds of each row; NaN for a row that no calibrating fold holds out."""
    ap: Floats
    """AP of each fold."""
    log_loss: float
    """Mean log-loss of the held-out log-odds."""

    @classmethod
    def of(
        cls,
        log_odds: dict[str, Floats],
        positive: Mask,
        weight: Floats | None,
        total: float,
        folds: list[NDArray[np.intp]],
        calibrating: Sequence[int] | None = None,
    ) -> Evaluation:
        """Fit to held-out log-odds of members; `folds` are the rows that splits hold out.

        Blends are fitted to the rows of the folds in `calibrating`, by default all. Only these
        rows have held-out log-odds; every fold has an AP.
        """
        columns = np.column_stack([*log_odds.values()])
        used = range(len(folds)) if calibrating is None else calibrating
        rows = np.unique(np.concatenate([folds[k] for k in used]))

        def fit(which: NDArray[np.intp]) -> Stack:
            of_which = None if weight is None else weight[which]
            return fit_stack(
                columns[which], positive[which], of_which, total * which.size / positive.size
            )

        def held_out_of(fold: NDArray[np.intp]) -> Floats:
            others = np.setdiff1d(rows, fold)
            half = _half(positive[fold])
            if others.size or half is None:
                return fit(others if others.size else rows)(columns[fold])
            # The only split: each half of its rows gets the blend of the other half.
            z = np.empty(fold.size)
            for part in (half, ~half):
                z[part] = fit(fold[~part])(columns[fold[part]])
            return z

        ap, of_folds = [], []
        for fold in folds:
            z = held_out_of(fold)
            ap.append(ap_of_scores(positive[fold], z, None if weight is None else weight[fold]))
            of_folds.append(z)
        held_out = mean_held_out(
            [(rows, folds[k]) for k in used], [of_folds[k] for k in used], positive.size
        )
        z, share = held_out[rows], shares(None if weight is None else weight[rows], rows.size)
        loss = float(share @ (np.logaddexp(0.0, z) - positive[rows] * z))
        return cls(Blend(list(log_odds), fit(rows)), held_out, np.array(ap), loss)


def _half(positive: Mask) -> Mask | None:
    """Return every other row of each class; None if a class has a single row."""
    half = np.zeros(positive.size, dtype=bool)
    for members in (np.flatnonzero(positive), np.flatnonzero(~positive)):
        if members.size < 2:
            return None
        half[members[::2]] = True
    return half
