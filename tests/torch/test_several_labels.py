"""APLoss for several labels at once, some of them missing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from apmax import surrogate_ap
from apmax.errors import LabelError
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
    assert int(loss.skipped) == 0


def test_minus_one_without_zero_is_refused_for_several_labels() -> None:
    with pytest.raises(LabelError, match="write negatives as 0"):
        APLoss(np.where(many_labels()[0] > 0, 1, -1))
