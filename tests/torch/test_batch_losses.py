"""Losses of a batch alone, against values computed by hand and against the oracle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from apmax import average_precision
from apmax.errors import (
    LabelError,
    NonFiniteError,
    NoPositiveError,
    NotNumericError,
    ParameterError,
    ShapeError,
)
from apmax.torch import ExactAPLoss, SmoothAPLoss

LOSSES = [SmoothAPLoss, ExactAPLoss]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_smooth_ap_by_hand() -> None:
    """Scores 2, 1, 0 with the first and the last positive, τ = 1."""
    a = sigmoid(1 - 2), sigmoid(0 - 2)
    b = sigmoid(2 - 0), sigmoid(1 - 0)
    first = (1 + a[1]) / (1 + a[0] + a[1])
    last = (1 + b[0]) / (1 + b[0] + b[1])
    smooth = SmoothAPLoss(1.0, spread=None)
    loss = smooth(torch.tensor([2.0, 1.0, 0.0]).double(), torch.tensor([1, 0, 1]))
    assert loss.item() == pytest.approx(1 - (first + last) / 2, rel=1e-12)


def test_smooth_ap_of_a_low_temperature_is_ap() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.random(50), rng.random(50) < 0.3
    loss = SmoothAPLoss(1e-6)(torch.from_numpy(scores), torch.from_numpy(labels))
    assert loss.item() == pytest.approx(1 - average_precision(labels, scores), abs=1e-9)


@pytest.mark.parametrize("loss", [SmoothAPLoss(0.3), ExactAPLoss(gamma=0.4)])
def test_gradients_pass_gradcheck(loss: Any) -> None:
    scores = torch.from_numpy(np.random.default_rng(1).random(9)).requires_grad_()
    labels = torch.arange(9) % 3 == 0
    assert torch.autograd.gradcheck(lambda s: loss(s, labels), (scores,))


@pytest.mark.parametrize("make", LOSSES)
def test_several_labels_are_the_mean_and_missing_ones_are_not_there(make: Any) -> None:
    rng = np.random.default_rng(3)
    scores = torch.from_numpy(rng.random((30, 3)))
    labels = torch.from_numpy((rng.random((30, 3)) < 0.4).astype(float))
    labels[4:9, 1] = math.nan
    labels[2:6, 2] = -1
    loss = make()
    singles = []
    for k in range(3):
        known = (labels[:, k] == 0) | (labels[:, k] == 1)
        singles.append(loss(scores[known, k], labels[known, k]).item())
    assert loss(scores, labels).item() == pytest.approx(np.mean(singles), rel=1e-9)


@pytest.mark.parametrize("make", LOSSES)
def test_labels_of_any_kind(make: Any) -> None:
    scores = torch.tensor([0.9, 0.3, 0.4, 0.1])
    mask = torch.tensor([True, False, True, False])
    values = {make()(scores, kind).item() for kind in (mask, mask.float(), mask.long() * 2 - 1)}
    assert len(values) == 1


@pytest.mark.parametrize("make", LOSSES)
@pytest.mark.parametrize("labels", [torch.zeros(4), torch.ones(4)], ids=["no +", "no -"])
def test_a_poor_batch_is_skipped_and_counted_or_an_error(make: Any, labels: Any) -> None:
    scores = torch.rand(4, requires_grad=True)
    loss = make()
    value = loss(scores, labels)
    value.backward()
    assert value.item() == 0
    assert not scores.grad.any()
    assert int(loss.skipped) == 1
    with pytest.raises(NoPositiveError):
        make(poor_batch="error")(scores, labels)


@pytest.mark.parametrize("make", LOSSES)
def test_bad_batches_are_refused(make: Any) -> None:
    labels = torch.tensor([1, 0, 1, 0])
    scores = torch.rand(4)
    bad: list[tuple[Any, Any, Any]] = [
        (scores.log() * math.nan, labels, NonFiniteError),
        (scores / 0, labels, NonFiniteError),
        (scores.long(), labels, NotNumericError),
        (scores, labels[1:], ShapeError),
        (scores[:, None, None], labels[:, None, None], ShapeError),
        (scores, torch.tensor([1, 0, 2, 0]), LabelError),
        (scores, torch.tensor([1, 0, -1, 0]), LabelError),
        (scores, torch.tensor([1, 0, math.nan, 0]), LabelError),
        (scores, ["a", "b", "a", "b"], NotNumericError),
        (scores.numpy(), labels, NotNumericError),
        (torch.rand(4, 2), torch.tensor([[1, -1]] * 4), LabelError),
    ]
    for s, y, error in bad:
        with pytest.raises(error):
            make()(s, y)


@pytest.mark.parametrize("make", LOSSES)
def test_logits_are_refused_unless_they_are_announced(make: Any) -> None:
    logits = torch.tensor([2.0, -1.0, 0.5, -3.0]).double()
    labels = torch.tensor([1, 0, 1, 0])
    with pytest.raises(ParameterError, match="from_logits=True"):
        make()(logits, labels)
    unit = {"temperature": 0.5} if make is SmoothAPLoss else {"gamma": 2.0}
    expected = make(**unit, spread=None)(logits, labels)
    assert make(from_logits=True)(logits, labels) == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("make", LOSSES)
def test_skipping_more_than_a_quarter_of_the_batches_warns_once(make: Any) -> None:
    loss, scores = make(), torch.rand(4)

    def train(steps: int) -> None:
        for step in range(steps):
            loss(scores, torch.tensor([int(step % 3 > 0), 0, 0, 0]))

    with pytest.warns(UserWarning, match="11 of 32 batches had no ranking") as caught:
        train(140)
    assert len(caught) == 1
