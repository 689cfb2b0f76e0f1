"""APLoss for several labels at once, some of them missing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from apmax import surrogate_ap
from apmax.errors import LabelError, WeightError
from apmax.torch import APLoss


def many_labels() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    labels = (rng.random((60, 3)) < 0.3).astype(float)
    scores = torch.from_numpy(rng.random((60, 3)))
    return labels, scores


def test_several_labels_are_the_mean_of_single_ones() -> None:
    labels, scores = many_labels()
    together = APLoss(labels).double()
    alone = [APLoss(labels[:, k]).double() for k in range(3)]
    rng = np.random.default_rng(6)
    for _ in range(15):
        index = torch.from_numpy(rng.choice(60, 30, replace=False))
        s = scores[index].clone().requires_grad_()
        value = together(s, index)
        value.backward()
        singles, gradients = [], []
        for k, loss in enumerate(alone):
            column = scores[index, k].clone().requires_grad_()
            single = loss(column, index)
            single.backward()
            singles.append(single.item())
            gradients.append(column.grad / 3)
        assert value.item() == pytest.approx(np.mean(singles), rel=1e-12)
        torch.testing.assert_close(s.grad, torch.stack(gradients, dim=1))
    expected = np.mean([loss.average_precision() for loss in alone])
    assert together.average_precision() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("missing", [math.nan, -1.0])
def test_missing_labels_are_as_if_the_example_were_not_there(missing: float) -> None:
    labels, scores = many_labels()
    holes = np.random.default_rng(7).random(labels.shape) < 0.3
    with_holes = np.where(holes, missing, labels)
    loss = APLoss(with_holes).double()
    s = scores.clone().requires_grad_()
    value = loss(s, torch.arange(60))
    value.backward()
    singles = []
    for k in range(3):
        known = ~holes[:, k]
        exact = surrogate_ap(scores[known, k].numpy(), labels[known, k], surrogate="logistic")
        singles.append(-exact.value)
        np.testing.assert_allclose(s.grad[known, k], -exact.gradient / 3, rtol=1e-9, atol=1e-15)
        assert (s.grad[holes[:, k], k] == 0).all()
    assert value.item() == pytest.approx(np.mean(singles), rel=1e-12)


def test_a_label_that_the_batch_lacks_is_left_out() -> None:
    labels = np.zeros((20, 2))
    labels[:4, 0] = 1
    labels[10:14, 1] = 1
    loss = APLoss(labels).double()
    scores = torch.rand(10, 2, dtype=torch.float64, requires_grad=True)
    loss(scores, torch.arange(10)).backward()
    assert scores.grad[:, 0].any()
    assert not scores.grad[:, 1].any()
    assert loss.skipped.tolist() == [0, 1]
    per_label = loss.average_precision_per_label()
    assert per_label.isnan().tolist() == [False, True]
    assert loss.average_precision() == pytest.approx(per_label[0].item())


def test_a_label_that_is_never_ranked_is_reported() -> None:
    labels = np.zeros((40, 2))
    labels[:4, 0] = 1
    labels[30:34, 1] = 1
    loss = APLoss(labels)

    def train(steps: int) -> None:
        for _ in range(steps):
            loss(torch.rand(20, 2), torch.arange(20))

    with pytest.warns(UserWarning, match=r"labels \[1\] had no ranking in any of 32 batches"):
        train(70)
    assert loss.skipped.tolist() == [0, 70]


def test_weights_of_labels_are_those_of_a_weighted_mean() -> None:
    labels, scores = many_labels()
    index = torch.arange(60)
    singles = [APLoss(labels[:, k]).double()(scores[:, k], index).item() for k in range(3)]
    loss = APLoss(labels, label_weights=[1.0, 0.0, 3.0]).double()
    s = scores.clone().requires_grad_()
    value = loss(s, index)
    value.backward()
    assert value.item() == pytest.approx((singles[0] + 3 * singles[2]) / 4, rel=1e-12)
    assert s.grad.any(dim=0).tolist() == [True, False, True]


@pytest.mark.parametrize("weights", [[1.0, 2.0], [1.0, -1.0, 1.0], [0, 0, 0], [1, math.nan, 1]])
def test_weights_of_labels_that_cannot_be_used_are_refused(weights: Any) -> None:
    with pytest.raises(WeightError, match="3 finite numbers"):
        APLoss(many_labels()[0], label_weights=weights)


def test_classes_are_one_column_each() -> None:
    """Mean AP of a multi-class problem, one class against the rest."""
    rng = np.random.default_rng(8)
    classes = torch.from_numpy(rng.integers(0, 4, 50))
    labels = torch.nn.functional.one_hot(classes)
    logits = torch.from_numpy(rng.normal(size=(50, 4)))
    scores = logits.softmax(1)
    value = APLoss(labels).double()(scores, torch.arange(50), labels)
    singles = [
        surrogate_ap(scores[:, k].numpy(), labels[:, k].numpy(), surrogate="logistic").value
        for k in range(4)
    ]
    assert value.item() == pytest.approx(-np.mean(singles), rel=1e-9)
    as_logits = APLoss(labels, from_logits=True).double()(logits, torch.arange(50))
    expected = APLoss(labels, gamma=2.0, spread=None).double()(logits, torch.arange(50))
    assert as_logits.item() == pytest.approx(expected.item(), rel=1e-12)


def test_labels_of_a_batch_are_compared_column_by_column() -> None:
    labels, scores = many_labels()
    labels[3, 1] = math.nan
    loss, index = APLoss(labels), torch.arange(60)
    given = torch.from_numpy(labels)
    loss(scores, index, given)
    wrong = given.clone()
    wrong[7, 2] = 1 - wrong[7, 2]
    with pytest.raises(LabelError, match=r"1 of 60 examples: example 7, label 2 is"):
        loss(scores, index, wrong)


def test_minus_one_without_zero_is_refused_for_several_labels() -> None:
    with pytest.raises(LabelError, match="write negatives as 0"):
        APLoss(np.where(many_labels()[0] > 0, 1, -1))
