r"""The surrogates ℓ of :mod:`apmax.objective.surrogates` as functions of tensors.

Each gives ℓ(x) and ℓ′(x) together, which share most of their work. Another surrogate is one
entry here and one there: the bounds of Ω come from its NumPy twin of the same name.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from apmax.registry import Registry

PairTerms = Callable[[Tensor, float], tuple[Tensor, Tensor]]
"""(x, γ) → ℓ(x), ℓ′(x), in fresh tensors of the shape of x."""


def squared_hinge(x: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """max(0, x + γ)² and 2 max(0, x + γ)."""
    reach = (x + gamma).relu_()
    return reach.square(), reach.mul_(2.0)


def logistic(x: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """σ(γx) and γ σ(γx) σ(−γx)."""
    scaled = x * gamma
    value = torch.sigmoid(scaled)
    return value, torch.sigmoid(-scaled).mul_(value).mul_(gamma)


PAIR_TERMS: Registry[PairTerms] = Registry(
    "surrogate", {"squared_hinge": squared_hinge, "logistic": logistic}
)
