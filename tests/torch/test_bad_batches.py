"""APLoss: batches, labels and options that are refused, and batches that are skipped."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from apmax import surrogate_ap
from apmax.errors import (
    ApmaxError,
    BackendError,
    LabelError,
    NonFiniteError,
    NoPositiveError,
    NotNumericError,
    ParameterError,
    ShapeError,
    UnknownNameError,
)
from apmax.torch import APLoss
from tests.torch.nine_positives import (
    GOOD,
    NO_NEGATIVES,
    NO_POSITIVES,
    ONE_POSITIVE,
    POSITIVE,
    SCORES,
    N,
    assert_same_state,
    both_ways,
    saved,
)


def bad_batches() -> dict[str, tuple[Any, Any, Any]]:
    scores = SCORES[GOOD]
    broken = scores.clone()
    broken[3] = math.nan
    endless = scores.clone()
    endless[0] = -math.inf
    outside, negative, twice = GOOD.clone(), GOOD.clone(), GOOD.clone()
    outside[2], negative[2], twice[2] = N, -1, GOOD[3]
    return {
        "NaN scores": (broken, GOOD, NonFiniteError),
        "infinite scores": (endless, GOOD, NonFiniteError),
        "logits": (scores * 50, GOOD, ParameterError),
        "a score below 0": (scores - scores.min() - 0.01, GOOD, ParameterError),
        "a score above 1": (scores - scores.max() + 1.01, GOOD, ParameterError),
        "a column": (scores[:, None].expand(-1, 2), GOOD, ShapeError),
        "too few indices": (scores, GOOD[1:], ShapeError),
        "an index outside": (scores, outside, ParameterError),
        "a negative index": (scores, negative, ParameterError),
        "an index twice": (scores, twice, ParameterError),
        "no index": (scores[:0], GOOD[:0], ShapeError),
        "float indices": (scores, GOOD.double(), NotNumericError),
        "a list of indices": (scores, GOOD.tolist(), NotNumericError),
        "an index on another device": (scores, GOOD.to("meta"), ParameterError),
        "integer scores": (scores.long(), GOOD, NotNumericError),
    }


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
@pytest.mark.parametrize("name", bad_batches())
def test_a_bad_batch_is_refused_and_changes_nothing(name: str, which: int) -> None:
    loss = both_ways(POSITIVE)[which]
    loss(SCORES[GOOD], GOOD)
    before = saved(loss)
    scores, index, error = bad_batches()[name]
    with pytest.raises(error):
        loss(scores, index)
    assert_same_state(loss, before)


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
@pytest.mark.parametrize(
    "index", [NO_POSITIVES, NO_NEGATIVES, ONE_POSITIVE], ids=["no +", "no -", "one +"]
)
def test_a_poor_batch_is_skipped_and_counted_or_an_error(index: Any, which: int) -> None:
    loss = both_ways(POSITIVE)[which]
    loss(SCORES[GOOD], GOOD)
    before = saved(loss)
    scores = SCORES[index].clone().requires_grad_()
    value = loss(scores, index)
    value.backward()
    assert value.item() == 0
    assert not scores.grad.any()
    assert int(before["skipped"]) == 0
    assert_same_state(loss, before | {"skipped": torch.tensor(1)})
    strict = both_ways(POSITIVE, poor_batch="error")[which]
    with pytest.raises(NoPositiveError, match="PositiveNegativeBatchSampler"):
        strict(SCORES[index], index)


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
def test_a_single_positive_in_the_data_works(which: int) -> None:
    one = np.arange(20) == 7
    loss = both_ways(one)[which]
    scores = torch.linspace(0, 1, 20, dtype=torch.float64).requires_grad_()
    loss(scores, torch.arange(20)).backward()
    assert scores.grad[7] < 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"gamma": 0}, ParameterError),
        ({"gamma": -1.0}, ParameterError),
        ({"gamma": math.nan}, ParameterError),
        ({"beta0": 0.0}, ParameterError),
        ({"beta0": 1.5}, ParameterError),
        ({"surrogate": "squared_hing"}, UnknownNameError),
        ({"tracker": "moving_averag"}, UnknownNameError),
        ({"schedule": "sqrt"}, UnknownNameError),
        ({"first_visit": "one"}, UnknownNameError),
        ({"poor_batch": "ignore"}, UnknownNameError),
        ({"spread": 0}, ParameterError),
    ],
)
def test_bad_options_are_named(options: Any, error: Any) -> None:
    with pytest.raises(error, match=next(iter(options))):
        APLoss(POSITIVE, **options)


@pytest.mark.parametrize(
    "labels",
    [
        np.ones(5),
        np.zeros(5),
        np.array([0, 1, 2]),
        np.array([]),
        np.zeros((2, 2, 2)),
        [0, math.nan],
    ],
)
def test_labels_of_one_class_or_three_are_refused(labels: Any) -> None:
    with pytest.raises(ApmaxError):
        APLoss(labels)


def test_labels_of_any_kind() -> None:
    tensor = torch.from_numpy(POSITIVE)
    kinds = [POSITIVE.astype(int), np.where(POSITIVE, 1, -1), tensor, tensor.float()[:, None]]
    for labels in (*kinds, POSITIVE.tolist()):
        assert APLoss(labels).labels.cells.tolist() == list(range(9))


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
@pytest.mark.parametrize(("double", "size"), [(True, 1e200), (False, 1e25)])
def test_numbers_that_do_not_fit_are_refused(which: int, double: bool, size: float) -> None:
    loss = APLoss(POSITIVE, surrogate="squared_hinge", spread=None)
    loss = loss.double() if double else loss
    loss.fused = which == 0
    before = saved(loss)
    with pytest.raises(NonFiniteError, match="the state is unchanged"):
        loss((SCORES[GOOD] * size).requires_grad_(), GOOD)
    assert_same_state(loss, before)


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
def test_any_finite_scores_fit_the_logistic_surrogate(which: int) -> None:
    loss = both_ways(POSITIVE, spread=None)[which]
    value = loss(SCORES[GOOD] * 1e200, GOOD)
    assert -1 <= value.item() < 0
    assert torch.isfinite(loss.tracked(GOOD[:4])).all()


def test_what_u_was_tracked_with_cannot_be_changed() -> None:
    loss = APLoss(POSITIVE)
    for name in ("gamma", "surrogate", "spread"):
        with pytest.raises(AttributeError):
            setattr(loss, name, 1.0)


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float32])
def test_labels_of_a_batch_reveal_a_wrong_index(which: int, kind: Any) -> None:
    """For example positions in a Subset, where the loss has the labels of the whole data."""
    loss = both_ways(POSITIVE)[which]
    labels = torch.from_numpy(POSITIVE)[GOOD].to(kind)
    loss(SCORES[GOOD], GOOD, labels)
    before = saved(loss)
    shifted = (GOOD + 5) % N
    with pytest.raises(LabelError, match=r"disagree for \d+ of 12 .* for a Subset use"):
        loss(SCORES[GOOD], shifted, labels)
    with pytest.raises(ShapeError, match="shape of `scores`"):
        loss(SCORES[GOOD], GOOD, labels[1:])
    assert_same_state(loss, before)


BAD_LABELS: dict[str, tuple[Any, Any]] = {
    "probabilities": (torch.from_numpy(POSITIVE)[GOOD] * 0.9, LabelError),
    "NaN for negatives": (torch.where(torch.from_numpy(POSITIVE)[GOOD], 1.0, math.nan), LabelError),
    "classes 1 and 2": (2 - torch.from_numpy(POSITIVE)[GOOD].long(), LabelError),
    "text": (["yes" if one else "no" for one in POSITIVE[GOOD]], NotNumericError),
    "a row": (torch.from_numpy(POSITIVE)[GOOD][None], ShapeError),
    "too few": (POSITIVE[GOOD][1:], ShapeError),
}


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", BAD_LABELS)
def test_bad_labels_of_a_batch_are_refused_and_change_nothing(name: str, which: int) -> None:
    loss = both_ways(POSITIVE)[which]
    before, (labels, error) = saved(loss), BAD_LABELS[name]
    with pytest.raises(error, match="`labels`"):
        loss(SCORES[GOOD], GOOD, labels)
    assert_same_state(loss, before)
    loss(SCORES[GOOD], GOOD, POSITIVE[GOOD][:, None])  # a column is one label per example


@pytest.mark.parametrize("which", [0, 1])
def test_second_derivatives_are_refused(which: int) -> None:
    scores = SCORES[GOOD].clone().requires_grad_()
    value = both_ways(POSITIVE)[which](scores, GOOD)
    with pytest.raises(BackendError, match="create_graph"):
        value.backward(create_graph=True)


def test_labels_in_the_place_of_the_index_are_noticed() -> None:
    with pytest.raises(NotNumericError, match=r"loss\(scores, index, labels\)"):
        APLoss(POSITIVE)(SCORES[GOOD], torch.from_numpy(POSITIVE)[GOOD].float(), GOOD)


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "torch"])
@pytest.mark.parametrize(("surrogate", "gamma"), [("logistic", 2.0), ("squared_hinge", 1.0)])
def test_logits_are_compared_on_their_own_scale(which: int, surrogate: str, gamma: float) -> None:
    loss = both_ways(POSITIVE, surrogate=surrogate, from_logits=True)[which]
    assert loss.gamma == gamma
    logits = (9.0 * (SCORES - 0.5)).requires_grad_()
    value = loss(logits, torch.arange(N))
    value.backward()
    exact = surrogate_ap(logits.detach(), POSITIVE, surrogate=surrogate, gamma=gamma)
    assert value.item() == pytest.approx(-exact.value, rel=1e-12)
    np.testing.assert_allclose(logits.grad, -exact.gradient, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("gamma", [0.1, 0.9, 1.9])
def test_a_flat_slope_is_reported_with_the_name_of_the_moving_average(gamma: float) -> None:
    with pytest.warns(UserWarning, match=r"which LibAUC calls gamma, is beta0"):
        APLoss(POSITIVE, gamma=gamma)
    APLoss(POSITIVE, gamma=gamma, spread=None)
    APLoss(POSITIVE, gamma=gamma, surrogate="squared_hinge")


def test_skipping_more_than_a_quarter_of_the_batches_warns_once() -> None:
    loss = APLoss(POSITIVE)

    def train(steps: int) -> None:
        for step in range(steps):
            index = GOOD if step % 2 else NO_POSITIVES
            loss(SCORES[index], index)

    with pytest.warns(UserWarning, match="16 of 32 batches had no ranking") as caught:
        train(130)
    assert len(caught) == 1
