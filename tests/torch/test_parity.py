"""APLoss with each optimizer does what apmax.method.loop does, step by step."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from tests.oracle.estimates import LinearScorer
from apmax.method.loop import descend
from tests.oracle.sampling import Draw, draw_batches
from apmax.methods import METHODS, problem_for
from apmax.torch import from_table

RNG = np.random.default_rng(0)
N, M, D, ROUNDS = 80, 13, 6, 40
X = RNG.normal(size=(N, D))
POSITIVE = np.isin(np.arange(N), RNG.choice(N, M, replace=False))
X[POSITIVE, 0] += 1.0
W = RNG.normal(size=D) * 0.1
OPTIONS: dict[str, Any] = {"beta0": 0.9, "beta1": 0.4, "beta2": 0.1, "delta": 1e-3}
ROWS = [name for name, row in METHODS.items() if row.pairs == "population"]
# APLoss always projects on Ω, which changes a start at 0; estimates lie in Ω by themselves.
STARTS = [(name, "estimate") for name in ROWS]
STARTS += [(name, "zero") for name in ROWS if METHODS[name].projected]
POSITIVES, NEGATIVES = np.flatnonzero(POSITIVE), np.flatnonzero(~POSITIVE)


def draws() -> list[Draw]:
    endless = draw_batches(
        np.random.default_rng(1),
        positives=M,
        negatives=N - M,
        positives_per_batch=3,
        negatives_per_batch=5,
    )
    return list(islice(endless, ROUNDS))


@pytest.mark.parametrize("fused", [True, False], ids=["compiled", "torch"])
@pytest.mark.parametrize(("name", "first_visit"), STARTS)
def test_every_method_equals_the_reference_step_by_step(
    name: str, fused: bool, first_visit: str
) -> None:
    problem = problem_for(name, LinearScorer(X), POSITIVES, NEGATIVES, gamma=0.3, penalty=0.01)
    expected = descend(
        name, problem, W, draws(), learning_rate=0.5, first_visit=first_visit, **OPTIONS
    )
    model = torch.nn.Linear(D, 1, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(W)[None, :])
    loss, optimizer = from_table(
        name, POSITIVE, model.parameters(), lr=0.5, gamma=0.3, penalty=0.01,
        first_visit=first_visit, **OPTIONS,
    )  # fmt: skip
    loss.double()
    assert loss.fused
    loss.fused = fused
    features = torch.from_numpy(X)
    for draw, one in zip(draws(), expected, strict=True):
        rows = np.concatenate([POSITIVES[draw.rows], NEGATIVES[draw.values.negatives]])
        index = torch.from_numpy(np.random.default_rng(2).permutation(rows))
        optimizer.zero_grad()
        loss(torch.sigmoid(model(features[index]))[:, 0], index).backward()
        optimizer.step()
        np.testing.assert_allclose(model.weight.detach().numpy()[0], one.w, rtol=1e-9, atol=1e-9)
