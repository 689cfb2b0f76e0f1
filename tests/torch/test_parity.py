"""APLoss with its optimizer follows Algorithms 1-3 of the paper step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from tests.oracle.algorithms import State, adap, moap_v1, moap_v2
from tests.oracle.estimates import LinearScorer, StochasticProblem
from tests.oracle.sampling import Batch, Draw, draw_batches

from apmax.methods import METHODS
from apmax.objective.surrogates import SQUARED_HINGE
from apmax.torch import from_table

RNG = np.random.default_rng(0)
N, M, D, ROUNDS = 80, 13, 6, 40
X = RNG.normal(size=(N, D))
POSITIVE = np.isin(np.arange(N), RNG.choice(N, M, replace=False))
X[POSITIVE, 0] += 1.0
W = RNG.normal(size=D) * 0.1
POSITIVES, NEGATIVES = np.flatnonzero(POSITIVE), np.flatnonzero(~POSITIVE)
LR, BETA0, BETA1, BETA2, DELTA, GAMMA, PENALTY = 0.5, 0.9, 0.4, 0.1, 1e-3, 0.3, 0.01
PROBLEM = StochasticProblem(
    LinearScorer(X), POSITIVES, NEGATIVES, SQUARED_HINGE, GAMMA, penalty=PENALTY
)


def second_moment(name: str) -> Callable[[int, Any], Any]:
    """h_t of eq. (ada), with the memory that it needs."""
    v, largest, total = np.zeros(D), np.zeros(D), np.zeros(D)

    def update(t: int, squares: Any) -> Any:
        nonlocal v, largest, total
        v = (1 - BETA2) * v + BETA2 * squares
        largest, total = np.maximum(largest, v), total + squares
        return {
            "adam": v,
            "adagrad": total / (t + 1),
            "amsgrad": largest,
            "adabound": np.clip(v, 1 / 1e3**2, 1 / 0.1**2),
        }[name]

    return update


def inverse_sqrt(first: float) -> Callable[[int], float]:
    return lambda t: first / math.sqrt(t)


def constant(first: float) -> Callable[[int], float]:
    return lambda t: first


PAPER: dict[str, Callable[..., Iterator[State]]] = {
    "moap-v1": moap_v1,
    "moap-v2": moap_v2,
    "soap-sgd": moap_v1,  # with β₁ = 1 and constant rates
    "sox": moap_v1,
    "bsgd": moap_v1,  # with β₀ = β₁ = 1: U is the estimate
    **{f"adap-{name}": adap for name in ("adam", "adagrad", "amsgrad", "adabound")},
    "soap-adam": adap,  # with all positives in each batch both trackers are the same
    "soap-amsgrad": adap,
}


def reference(name: str, draws: list[Draw], first_visit: str) -> Iterator[State]:
    at = inverse_sqrt if METHODS[name].schedule.name == "inverse_sqrt" else constant
    momentum, memory = METHODS[name].direction.momentum, METHODS[name].tracker.remembers
    usual = at(BETA0) if memory else constant(1.0)
    # Round 1 visits all positives: β₀ = 1 there writes the estimate, as a first visit does.
    beta0 = usual if first_visit == "zero" else lambda t: 1.0 if t == 1 else usual(t)
    start = State(W, PROBLEM.box().project(np.zeros((M, 2))), np.zeros(D))
    options: dict[str, Any] = {"eta": at(LR), "beta0": beta0}
    options["beta1"] = at(BETA1) if momentum else constant(1.0)
    if PAPER[name] is adap:
        options |= {"second_moment": second_moment(name.split("-")[1]), "delta": DELTA}
    return PAPER[name](PROBLEM, start, draws, **options)


def draws(name: str, first_visit: str) -> list[Draw]:
    sizes = {"positives": M, "negatives": N - M, "negatives_per_batch": 5}
    sizes["positives_per_batch"] = M if name in ("soap-adam", "soap-amsgrad") else 3
    usual = list(islice(draw_batches(np.random.default_rng(1), **sizes), ROUNDS))
    everyone = Batch(np.arange(M), np.arange(5))
    first = [] if first_visit == "zero" else [Draw(everyone.positives, everyone, everyone)]
    return first + usual


# Without projection a start at 0 leaves Ω, where Algorithm 1 projects.
STARTS = [(name, "estimate") for name in PAPER]
STARTS += [(name, "zero") for name in PAPER if METHODS[name].projected]


@pytest.mark.parametrize("fused", [True, False], ids=["compiled", "torch"])
@pytest.mark.parametrize(("name", "first_visit"), STARTS)
def test_every_method_of_the_paper_follows_its_algorithm(
    name: str, fused: bool, first_visit: str
) -> None:
    model = torch.nn.Linear(D, 1, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(W)[None, :])
    loss, optimizer = from_table(
        name, POSITIVE, model.parameters(), lr=LR, gamma=GAMMA, penalty=PENALTY,
        first_visit=first_visit, beta0=BETA0, beta1=BETA1, beta2=BETA2, delta=DELTA,
    )  # fmt: skip
    loss.double()
    assert loss.fused
    loss.fused = fused
    features, batches = torch.from_numpy(X), draws(name, first_visit)
    for draw, expected in zip(batches, reference(name, batches, first_visit), strict=True):
        rows = np.concatenate([POSITIVES[draw.rows], NEGATIVES[draw.values.negatives]])
        index = torch.from_numpy(np.random.default_rng(2).permutation(rows))
        optimizer.zero_grad()
        loss(torch.sigmoid(model(features[index]))[:, 0], index).backward()
        optimizer.step()
        weights = model.weight.detach().numpy()[0]
        np.testing.assert_allclose(weights, expected.w, rtol=1e-9, atol=1e-9)
        kept = expected.u[: loss.U.shape[0]]  # BSGD keeps no rows
        np.testing.assert_allclose(loss.tracked().numpy(), kept, rtol=1e-8)
