"""The scale of the scores: probabilities, logits, or others; γ is in its units."""

from __future__ import annotations

import torch
from torch import Tensor

from apmax.errors import ParameterError
from apmax.objective.surrogates import Surrogate, resolve, resolve_with_gamma
from apmax.validation import check_real, check_switch

LOGIT_GAMMA = {"logistic": 2.0, "squared_hinge": 1.0}
"""Defaults of γ for logits. For probabilities see ``apmax.objective.surrogates``."""
TOLERANCE = 1e-3
"""Rounding of scores in half precision."""


def resolve_scale(
    surrogate: str | Surrogate, gamma: float | None, spread: float | None, from_logits: bool
) -> tuple[Surrogate, float, float | None]:
    """Return the surrogate, its γ, and the largest difference of two scores (None: no bound)."""
    if gamma is None and check_switch(from_logits, "from_logits"):
        gamma = LOGIT_GAMMA.get(resolve(surrogate).name)
    return *resolve_with_gamma(surrogate, gamma), resolve_spread(spread, from_logits)


def resolve_spread(spread: float | None, from_logits: bool) -> float | None:
    """Return a validated `spread`; logits have no bound."""
    if check_switch(from_logits, "from_logits"):
        return None
    if spread is not None:
        why = "it is the largest difference of two scores; None sets no bound"
        check_real(spread, "spread", above=0, why=why)
    return spread


def check_spread(scores: Tensor, spread: float | None) -> None:
    """Check that scores are probabilities (spread 1), or differ by at most `spread`."""
    if spread is None:
        return
    low, high = (float(edge) for edge in torch.aminmax(scores.detach()))
    if spread == 1.0 and not (low >= -TOLERANCE and high <= 1.0 + TOLERANCE):
        raise ParameterError(
            f"`scores` range from {low:.4g} to {high:.4g}, but must be probabilities: pass logits "
            "with from_logits=True, or set spread= for other scores (None: no bound)"
        )
    if high - low > spread * (1.0 + TOLERANCE):
        raise ParameterError(
            f"`scores` differ by {high - low:.4g}, more than spread = {spread:g}: increase spread= "
            "(None: no bound), or pass logits with from_logits=True"
        )
