"""APLoss: what it tracks, what it costs, and what trains with it."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from apmax import surrogate_ap
from apmax.objective.surrogates import SURROGATES
from apmax.torch import APLoss
from tests.oracle.equations import inner_values
from tests.torch.nine_positives import (
    GOOD,
    NO_POSITIVES,
    POSITIVE,
    SCORES,
    N,
    assert_same_state,
    batch,
    both_ways,
    saved,
)


@pytest.mark.parametrize("surrogate", ["squared_hinge", "logistic"])
def test_pair_sums_are_unbiased_for_all_data(surrogate: str) -> None:
    loss = APLoss(POSITIVE, surrogate=surrogate, tracker="moving_average").double()
    rng = np.random.default_rng(1)
    estimates = []
    for _ in range(3000):
        loss.written_at.fill_(math.nan)
        index = batch(rng)
        loss(SCORES[index], index)
        estimates.append(loss.tracked().numpy())
    mean = np.nanmean(estimates, axis=0)
    ell = SURROGATES[surrogate]
    own = ell.lower_bound(loss.gamma) / N
    expected = inner_values(SCORES.numpy(), POSITIVE, ell, loss.gamma)
    error = np.nanstd(estimates, axis=0) / np.sqrt(3000 * 4 / 9)
    assert (np.abs(mean - expected) < 5 * error + 1e-12).all()
    assert (mean[:, 0] > own * 0.999).all()


@pytest.mark.parametrize("surrogate", ["squared_hinge", "logistic"])
def test_what_is_tracked_is_the_average_precision_of_the_data(surrogate: str) -> None:
    loss = APLoss(POSITIVE, surrogate=surrogate, tracker="moving_average", beta0=0.02).double()
    rng = np.random.default_rng(2)
    for _ in range(1000):
        index = batch(rng, plus=6, minus=60)
        loss(SCORES[index], index)
    exact = surrogate_ap(SCORES.numpy(), POSITIVE, surrogate=surrogate, gamma=loss.gamma).value
    assert loss.average_precision() == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize(("surrogate", "bias"), [("squared_hinge", 0.05), ("logistic", 0.1)])
def test_what_is_tracked_does_not_fade_where_positives_are_seen_rarely(
    surrogate: str, bias: float
) -> None:
    """Seen once, a row is the ratio of two estimates of a batch, which is biased, not faded."""
    rng = np.random.default_rng(20)
    m, n = 20_000, 60_000
    scores = torch.from_numpy(rng.random(n) * 0.6 + 0.3 * (np.arange(n) < m))
    loss = APLoss(np.arange(n) < m, surrogate=surrogate).double()
    for _ in range(300):
        drawn = np.concatenate([rng.choice(m, 16), m + rng.choice(n - m, 48)])
        index = torch.from_numpy(np.unique(drawn))
        loss(scores[index], index)
    exact = surrogate_ap(scores.numpy(), np.arange(n) < m, surrogate=surrogate).value
    assert loss.average_precision() == pytest.approx(exact, rel=bias)


@pytest.mark.parametrize("first_visit", ["estimate", "zero"])
def test_the_average_precision_is_that_of_the_positives_seen(first_visit: str) -> None:
    loss = APLoss(POSITIVE, first_visit=first_visit)
    assert math.isnan(loss.average_precision())
    value = loss(SCORES[GOOD], GOOD)
    assert loss.average_precision() == pytest.approx(-value.item(), rel=1e-6)


@pytest.mark.parametrize(
    "tracker", ["none", "moving_average", "randomized_coordinate", "elapsed_average"]
)
@pytest.mark.parametrize("surrogate", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("first_visit", ["estimate", "zero"])
def test_the_compiled_loop_equals_the_torch_operations(
    tracker: str, surrogate: str, first_visit: str
) -> None:
    options = {"tracker": tracker, "surrogate": surrogate, "first_visit": first_visit}
    compiled, plain = both_ways(POSITIVE, **options)
    rng = np.random.default_rng(3)
    for _ in range(40):
        index = batch(rng)
        scores = [SCORES[index].clone().requires_grad_() for _ in range(2)]
        values = [loss(s, index) for loss, s in zip((compiled, plain), scores, strict=True)]
        for value in values:
            value.backward()
        torch.testing.assert_close(values[0], values[1], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(scores[0].grad, scores[1].grad, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(compiled.tracked(), plain.tracked(), equal_nan=True)


@pytest.mark.parametrize("surrogate", ["squared_hinge", "logistic"])
def test_the_value_and_the_gradient_of_a_full_batch_are_those_of_the_exact_objective(
    surrogate: str,
) -> None:
    for loss in both_ways(POSITIVE, surrogate=surrogate):
        scores = SCORES.clone().requires_grad_()
        value = loss(scores, torch.arange(N))
        value.backward()
        exact = surrogate_ap(SCORES.numpy(), POSITIVE, surrogate=surrogate)
        assert value.item() == pytest.approx(-exact.value, rel=1e-12)
        np.testing.assert_allclose(scores.grad.numpy(), -exact.gradient, rtol=1e-9, atol=1e-15)


def test_the_state_is_at_most_24_bytes_per_positive() -> None:
    loss = APLoss(np.arange(100_000) < 10_000)
    total = sum(buffer.numel() * buffer.element_size() for buffer in loss.buffers())
    assert total <= 24 * 10_000 + 200


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
def test_evaluating_changes_nothing(which: int) -> None:
    loss = both_ways(POSITIVE)[which]
    loss(SCORES[GOOD], GOOD)
    before = saved(loss)
    loss.eval()
    value = loss(SCORES[GOOD], GOOD)
    loss(SCORES[NO_POSITIVES], NO_POSITIVES)
    assert_same_state(loss, before)
    loss.train()
    assert loss(SCORES[GOOD], GOOD).item() == pytest.approx(value.item(), rel=1e-12)


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
def test_the_value_is_a_tensor_of_its_own(which: int) -> None:
    scores = SCORES[GOOD].clone().requires_grad_()
    value = both_ways(POSITIVE)[which](scores, GOOD)
    value /= 4
    value += scores.sum() * 0
    value.backward()
    whole = SCORES[GOOD].clone().requires_grad_()
    both_ways(POSITIVE)[which](whole, GOOD).backward()
    torch.testing.assert_close(scores.grad, whole.grad / 4)


def test_copies_can_be_printed_and_go_on() -> None:
    loss = APLoss(POSITIVE)
    loss(SCORES[GOOD], GOOD)
    twin = copy.deepcopy(loss)
    assert repr(twin) == repr(loss)
    assert twin(SCORES[GOOD], GOOD) == loss(SCORES[GOOD], GOOD)


def test_torch_optimizers_with_a_closure_train_with_it() -> None:
    rng = np.random.default_rng(13)
    X = torch.from_numpy(rng.normal(size=(N, 5))).float()
    X[:9, 0] += 2.0
    torch.manual_seed(0)
    model, loss = torch.nn.Linear(5, 1), APLoss(POSITIVE, beta0=1.0, schedule="constant")
    optimizer = torch.optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe")

    def closure() -> Any:
        optimizer.zero_grad()
        value = loss(torch.sigmoid(model(X))[:, 0], torch.arange(N))
        value.backward()
        return value

    first = closure().item()
    for _ in range(30):
        optimizer.step(closure)
    assert closure().item() < first - 0.05
