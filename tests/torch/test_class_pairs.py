"""Partial AUC and p-norm push: the formulas over all pairs, and their tracking from batches."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from apmax.errors import LabelError, NoPositiveError, ParameterError, ShapeError
from apmax.torch import PartialAUCLoss, PNormPushLoss
from tests.torch.nine_positives import POSITIVE, SCORES, N, assert_same_state, batch, saved

Y = torch.from_numpy(POSITIVE)


def hinge(x: torch.Tensor) -> torch.Tensor:
    return (x + 0.5).relu().square()


def one_way(s: torch.Tensor) -> torch.Tensor:
    """λ/m Σ_i log 1/n₋ Σ_j exp(ℓ(s_j − s_i)/λ)."""
    pairs = hinge(s[None, ~Y] - s[Y, None])
    return 0.3 * (pairs / 0.3).exp().mean(1).log().mean()


def two_way(s: torch.Tensor) -> torch.Tensor:
    pairs = hinge(s[None, ~Y] - s[Y, None])
    g = (pairs / 0.3).exp().mean(1)
    return 0.7 * g.pow(0.3 / 0.7).mean().log()


def push(s: torch.Tensor) -> torch.Tensor:
    pairs = torch.sigmoid(20.0 * (s[~Y, None] - s[None, Y]))
    return pairs.mean(1).pow(3).mean()


CASES: dict[str, tuple[Any, Any]] = {
    "one-way": (one_way, lambda **k: PartialAUCLoss(POSITIVE, negatives=0.3, **k)),
    "two-way": (two_way, lambda **k: PartialAUCLoss(POSITIVE, negatives=0.3, positives=0.7, **k)),
    "push": (push, lambda **k: PNormPushLoss(POSITIVE, p=3.0, **k)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_full_batch_is_the_formula(name: str) -> None:
    formula, make = CASES[name]
    scores, at = (SCORES.clone().requires_grad_() for _ in range(2))
    value = make().double()(scores, torch.arange(N))
    value.backward()
    expected = formula(at)
    expected.backward()
    assert value.item() == pytest.approx(expected.item(), rel=1e-12)
    torch.testing.assert_close(scores.grad, at.grad, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("name", CASES)
def test_a_loss_can_be_sent_to_another_process(name: str) -> None:
    loss = CASES[name][1]()
    again = pickle.loads(pickle.dumps(loss))
    assert again(SCORES, torch.arange(N)) == loss(SCORES, torch.arange(N))


@pytest.mark.parametrize("name", CASES)
def test_labels_of_a_batch_reveal_a_wrong_index(name: str) -> None:
    loss, index = CASES[name][1](), torch.arange(5, 15)
    before = saved(loss)
    with pytest.raises(LabelError, match="1 of 10 examples: example 9 is negative for the loss"):
        loss(SCORES[index], index, Y[index - 1])
    assert_same_state(loss, before)
    assert loss(SCORES[index], index, Y[index]) == CASES[name][1]()(SCORES[index], index)


def test_partial_auc_of_another_temperature_does_not_load() -> None:
    state = saved(PartialAUCLoss(POSITIVE, negatives=0.3))
    with (
        pytest.raises(RuntimeError, match="the same labels, surrogate, gamma, negatives"),
        pytest.warns(UserWarning, match="its U is not loaded"),
    ):
        PartialAUCLoss(POSITIVE, negatives=0.1).load_state_dict(state)


def test_no_part_of_a_checkpoint_of_another_temperature_is_loaded() -> None:
    trained = PartialAUCLoss(POSITIVE, negatives=0.3, positives=0.7)
    trained(SCORES, torch.arange(N))
    other = PartialAUCLoss(POSITIVE, negatives=0.3, positives=0.6)
    with pytest.warns(UserWarning, match="its U is not loaded"):
        other.load_state_dict(saved(trained), strict=False)
    assert trained.total.rounds == 1
    assert other.rounds == other.total.rounds == 0


@pytest.mark.parametrize("name", ["one-way", "two-way"])
def test_partial_auc_of_logits_is_that_of_their_sigmoid(name: str) -> None:
    formula, make = CASES[name]
    logits, at = ((6 * (SCORES - 0.5)).requires_grad_() for _ in range(2))
    value = make(from_logits=True).double()(logits, torch.arange(N))
    value.backward()
    expected = formula(torch.sigmoid(at))
    expected.backward()
    assert value.item() == pytest.approx(expected.item(), rel=1e-12)
    torch.testing.assert_close(logits.grad, at.grad, rtol=1e-9, atol=1e-15)


def test_the_push_compares_logits_on_their_own_scale() -> None:
    logits = 9.0 * (SCORES - 0.5)
    found = PNormPushLoss(POSITIVE, p=3.0, from_logits=True).double()(logits, torch.arange(N))
    assert found.item() == pytest.approx(push(logits * 2.0 / 20.0).item(), rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_batches_of_a_fixed_model_track_the_formula(name: str) -> None:
    formula, make = CASES[name]
    loss = make(tracker="moving_average", beta0=0.02).double()
    rng = np.random.default_rng(1)
    values = []
    for step in range(3000):
        index = batch(rng, plus=6, minus=60)
        value = loss(SCORES[index], index).item()
        if step >= 1000:
            values.append(value)
    assert np.mean(values) == pytest.approx(formula(SCORES).item(), rel=0.05)


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_brings_back_the_same_run(name: str) -> None:
    _, make = CASES[name]
    first, second, rng = make(), make(), np.random.default_rng(2)
    for _ in range(10):
        index = batch(rng)
        first(SCORES[index], index)
    second.load_state_dict(saved(first))
    for _ in range(10):
        index = batch(rng)
        assert first(SCORES[index], index) == second(SCORES[index], index)
    assert_same_state(second, saved(first))


@pytest.mark.parametrize("name", CASES)
def test_poor_batches_are_skipped_and_evaluation_changes_nothing(name: str) -> None:
    _, make = CASES[name]
    loss = make()
    before = saved(loss)
    negatives = torch.arange(20, 30)
    assert loss(SCORES[negatives], negatives) == 0
    assert int(loss.skipped) == 1
    with pytest.raises(NoPositiveError):
        make(poor_batch="error")(SCORES[negatives], negatives)
    loss.eval()
    assert math.isfinite(loss(SCORES, torch.arange(N)))
    assert_same_state(loss, before | {"skipped": torch.tensor(1)})


@pytest.mark.parametrize("name", CASES)
def test_bad_batches_are_refused_and_change_nothing(name: str) -> None:
    _, make = CASES[name]
    loss, index = make(), torch.arange(N)
    before = saved(loss)
    for scores, at, error in (
        (SCORES * 50, index, ParameterError),
        (SCORES * math.nan, index, ValueError),
        (SCORES[:, None].expand(-1, 2), index, ShapeError),
        (SCORES, index + 1, ParameterError),
        (SCORES, index * 0, ParameterError),
    ):
        with pytest.raises(error):
            loss(scores, at)
    assert_same_state(loss, before)


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_of_other_labels_is_refused(name: str) -> None:
    _, make = CASES[name]
    labels = np.roll(POSITIVE, 1)
    other = PNormPushLoss(labels) if name == "push" else PartialAUCLoss(labels)
    warned = pytest.warns(UserWarning, match="U is not loaded")
    with warned, pytest.raises(RuntimeError, match="but this loss has"):
        other.load_state_dict(saved(make()), strict=True)


def test_bad_options_are_named() -> None:
    with pytest.raises(ParameterError, match="negatives"):
        PartialAUCLoss(POSITIVE, negatives=0.0)
    with pytest.raises(ParameterError, match="positives"):
        PartialAUCLoss(POSITIVE, positives=-1.0)
    with pytest.raises(ParameterError, match="`p`"):
        PNormPushLoss(POSITIVE, p=0.5)
    with pytest.raises(LabelError):
        PNormPushLoss([1, 1, 1])


def partial_auc(scores: np.ndarray, y: np.ndarray, top: float) -> float:
    """Share of correctly ranked pairs with the negatives of the highest scores."""
    negatives = np.sort(scores[~y])[::-1][: max(1, int(top * (~y).sum()))]
    return float((scores[y][:, None] > negatives[None, :]).mean())


def test_a_low_temperature_improves_the_top_of_the_ranking() -> None:
    """A linear model that cannot rank all pairs: the soft maximum decides which."""
    rng = np.random.default_rng(3)
    y = rng.random(3000) < 0.1
    X = rng.normal(size=(3000, 2))
    X[y, 0] += 1.0
    outliers = ~y & (rng.random(3000) < 0.05)
    X[outliers, 0] += 4.0  # a few negatives beyond all positives in one direction
    X[y, 1] += 0.7
    tensor = torch.from_numpy(X).float()
    found = {}
    for temperature in (10.0, 0.05):
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1)
        loss = PartialAUCLoss(y, negatives=temperature, from_logits=True)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(150):
            optimizer.zero_grad()
            loss(model(tensor)[:, 0], torch.arange(3000)).backward()
            optimizer.step()
        with torch.no_grad():
            found[temperature] = partial_auc(model(tensor)[:, 0].numpy(), y, 0.05)
    assert found[0.05] > found[10.0] + 0.03
