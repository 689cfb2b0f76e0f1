"""APLoss with its optimizer follows the paper's algorithms step by step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from apmax.methods import METHODS
from apmax.torch import from_table
from tests.oracle.algorithms import rounds_of
from tests.oracle.estimates import Problem, draw_batches

RNG = np.random.default_rng(0)
N, M, D, ROUNDS = 80, 13, 6, 40
X = RNG.normal(size=(N, D))
POSITIVE = np.isin(np.arange(N), RNG.choice(N, M, replace=False))
X[POSITIVE, 0] += 1.0
W = RNG.normal(size=D) * 0.1
POSITIVES, NEGATIVES = np.flatnonzero(POSITIVE), np.flatnonzero(~POSITIVE)
OPTIONS = {"beta0": 0.9, "beta1": 0.4, "beta2": 0.1, "delta": 1e-3}
LR, GAMMA, PENALTY = 0.5, 0.3, 0.01
POPULATION = [name for name, method in METHODS.items() if method.pairs == "population"]
# A start at 0 is defined only where U is projected on Ω.
STARTS = [(name, "estimate") for name in POPULATION]
STARTS += [(name, "zero") for name in POPULATION if METHODS[name].projected]


@pytest.mark.parametrize("fused", [True, False], ids=["compiled", "torch"])
@pytest.mark.parametrize(("name", "first_visit"), STARTS)
def test_every_method_follows_its_algorithm(name: str, fused: bool, first_visit: str) -> None:
    method = METHODS[name]
    problem = Problem.of(method, X, POSITIVE, GAMMA, penalty=PENALTY)
    draws = draw_batches(1, M, N - M, 3, 5, "shared", ROUNDS)
    model = torch.nn.Linear(D, 1, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(W)[None, :])
    loss, optimizer = from_table(
        name, POSITIVE, model.parameters(), lr=LR, gamma=GAMMA, penalty=PENALTY,
        first_visit=first_visit, **OPTIONS,
    )  # fmt: skip
    loss.double()
    assert loss.fused
    loss.fused = fused
    features = torch.from_numpy(X)
    oracle = rounds_of(method, problem, W, draws, eta=LR, first_visit=first_visit, **OPTIONS)
    for draw, expected in zip(draws, oracle, strict=True):
        rows = np.concatenate([POSITIVES[draw.rows], NEGATIVES[draw.values.negatives]])
        index = torch.from_numpy(np.random.default_rng(2).permutation(rows))
        optimizer.zero_grad()
        loss(torch.sigmoid(model(features[index]))[:, 0], index).backward()
        optimizer.step()
        weights = model.weight.detach().numpy()[0]
        np.testing.assert_allclose(weights, expected.w, rtol=1e-9, atol=1e-9)
        kept = expected.u[: loss.U.shape[0]]  # BSGD keeps no rows
        np.testing.assert_allclose(loss.tracked().numpy(), kept, rtol=1e-8)
