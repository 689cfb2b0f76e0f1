"""Three hundred examples, nine of them positive, and losses over them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch

from apmax.torch import APLoss

RNG = np.random.default_rng(0)
N = 300
POSITIVE = np.arange(N) < 9  # 3 % positives
SCORES = torch.from_numpy(RNG.random(N) * 0.5 + 0.3 * POSITIVE)


def batch(rng: np.random.Generator, plus: int = 4, minus: int = 8) -> Any:
    chosen = [rng.choice(9, plus, replace=False), 9 + rng.choice(N - 9, minus, replace=False)]
    return torch.from_numpy(np.concatenate(chosen))


def both_ways(labels: Any, **options: Any) -> list[APLoss]:
    """The compiled loop, and the same in torch operations."""
    losses = [APLoss(labels, **options).double() for _ in range(2)]
    losses[1].fused = False
    return losses


def saved(module: Any) -> Any:
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def assert_same_state(module: Any, expected: Any) -> None:
    """Bit by bit."""
    found = module.state_dict()
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if torch.is_tensor(value):
            torch.testing.assert_close(found[key], value, rtol=0, atol=0, equal_nan=True)
        else:
            assert found[key] == value


GOOD = batch(np.random.default_rng(12))
NO_POSITIVES, NO_NEGATIVES, ONE_POSITIVE = (
    torch.arange(20, 30),
    torch.arange(9),
    torch.arange(8, 30),
)
