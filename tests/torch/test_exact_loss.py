"""ExactAPLoss equals equations (2)-(4) over all pairs of a batch, for any scores and any device."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from apmax import surrogate_ap
from apmax.errors import NonFiniteError, NotNumericError, ShapeError, WeightError
from apmax.objective.surrogates import LOGISTIC, Surrogate, resolve
from apmax.torch import ExactAPLoss, exact_loss
from apmax.torch.logistic_summary import CHUNK, MAX_CELLS, summary_ap
from tests.examples import CASES, Case
from tests.oracle.equations import objective, objective_gradient

RNG = np.random.default_rng(0)
HALF = RNG.random(400) < 0.5
CLUSTERS = RNG.random(400) + np.where(RNG.random(400) < 0.5, 2e6, 0.0)
SATURATED = 1 / (1 + np.exp(-RNG.normal(size=400) * 30))
BOTH_CLASSES = [case for case in CASES if case.weight is None and not case.positive.all()]
BOTH_CLASSES += [Case("two clusters", CLUSTERS, HALF), Case("saturated", SATURATED, HALF)]
NAMES = [case.name for case in BOTH_CLASSES]


def assert_is_minus_ap(value: Any, gradient: Any, case: Case, surrogate: str, gamma: float) -> None:
    """Within 1e-9 and 1e-8 of the pairwise sums in extended precision.

    Terms of the gradient that cancel to nothing leave their rounding, about 1e-15.
    """
    wide, ell = case.scores.astype(np.longdouble), resolve(surrogate)
    expected = objective_gradient(wide, case.positive, ell, gamma)
    assert float(value) == pytest.approx(objective(wide, case.positive, ell, gamma), rel=1e-9)
    close = 1e-8 * float(np.abs(expected).max()) + 1e-15
    np.testing.assert_allclose(np.asarray(gradient), expected.astype(float), rtol=0, atol=close)


@pytest.mark.parametrize(
    ("surrogate", "gamma"), [("logistic", 0.7), ("logistic", 20.0), ("squared_hinge", 0.3)]
)
@pytest.mark.parametrize("case", BOTH_CLASSES, ids=NAMES)
def test_value_and_gradient_are_those_of_all_pairs(case: Any, surrogate: str, gamma: float) -> None:
    scores = torch.from_numpy(case.scores).clone().requires_grad_()
    loss = ExactAPLoss(surrogate=surrogate, gamma=gamma, spread=None)
    value = loss(scores, torch.from_numpy(case.positive))
    value.backward()
    assert_is_minus_ap(value.detach(), scores.grad, case, surrogate, gamma)


NARROW = [case for case in BOTH_CLASSES if np.ptp(case.scores) * 20.0 <= MAX_CELLS]


@pytest.mark.parametrize("gamma", [0.7, 20.0])
@pytest.mark.parametrize("case", NARROW, ids=[case.name for case in NARROW])
def test_the_summary_for_gpus_is_that_of_all_pairs(case: Any, gamma: float) -> None:
    scores, positive = torch.from_numpy(case.scores), torch.from_numpy(case.positive)
    value, gradient = summary_ap(scores, positive, gamma)
    assert_is_minus_ap(-value, -gradient, case, "logistic", gamma)


def test_the_summary_takes_its_widest_range_and_more_than_one_chunk() -> None:
    n = CHUNK + 1000
    positive = RNG.random(n) < 0.1
    scores = np.sort(RNG.random(n) * MAX_CELLS / 20.0)
    value, gradient = summary_ap(torch.from_numpy(scores), torch.from_numpy(positive), 20.0)
    exact = surrogate_ap(scores, positive, surrogate="logistic", gamma=20.0)
    assert float(value) == pytest.approx(exact.value, rel=1e-9)
    close = 1e-8 * np.abs(exact.gradient).max()
    np.testing.assert_allclose(gradient.numpy(), exact.gradient, rtol=0, atol=close)


@pytest.mark.parametrize(("spread", "summarised"), [(1.0, True), (1e6, False)])
def test_other_devices_use_the_summary_within_its_range(
    monkeypatch: pytest.MonkeyPatch, spread: float, summarised: bool
) -> None:
    summary = Mock(wraps=summary_ap)
    monkeypatch.setattr(exact_loss, "HOST_DEVICES", ())  # as if the CPU were a GPU
    monkeypatch.setattr(exact_loss, "summary_ap", summary)
    scores = torch.from_numpy(RNG.random(60) * spread).requires_grad_()
    positive = torch.arange(60) % 3 == 0
    value = ExactAPLoss(spread=None)(scores, positive)
    value.backward()
    case = Case("", scores.detach().numpy(), positive.numpy())
    assert_is_minus_ap(value.detach(), scores.grad, case, "logistic", 20.0)
    assert summary.called == summarised


def test_the_default_is_the_logistic_surrogate_with_slope_20() -> None:
    loss = ExactAPLoss()
    assert (loss.surrogate, loss.gamma) == ("logistic", 20.0)
    assert ExactAPLoss(surrogate="squared_hinge").gamma == 0.1


def test_a_custom_surrogate_is_summed_pair_by_pair() -> None:
    steep = Surrogate(
        "steeper",
        lambda x, gamma: LOGISTIC.value(x, 2 * gamma),
        lambda x, gamma: LOGISTIC.slope(x, 2 * gamma),
    )
    scores, positive = torch.from_numpy(RNG.random(50)), torch.arange(50) % 4 == 0
    value = ExactAPLoss(surrogate=steep, gamma=5.0)(scores, positive)
    assert value.item() == pytest.approx(ExactAPLoss(gamma=10.0)(scores, positive).item())


def test_scores_whose_squares_overflow_are_refused_by_the_hinge_only() -> None:
    scores, labels = (
        torch.tensor([1e200, 0.0, -1e200], dtype=torch.float64),
        torch.tensor([1, 0, 1]),
    )
    assert math.isfinite(ExactAPLoss(spread=None)(scores, labels))
    with pytest.raises(NonFiniteError, match="divide both"):
        ExactAPLoss(surrogate="squared_hinge", spread=None)(scores, labels)


WEIGHTED = [case for case in CASES if case.weight is not None and not case.positive.all()]


@pytest.mark.parametrize("on_device", [False, True], ids=["host", "summary"])
@pytest.mark.parametrize("case", WEIGHTED, ids=[case.name for case in WEIGHTED])
def test_weights_count_how_often_an_example_occurs(
    case: Case, on_device: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if on_device:
        monkeypatch.setattr(exact_loss, "HOST_DEVICES", ())
    scores = torch.from_numpy(case.scores).clone().requires_grad_()
    weight = torch.from_numpy(case.weight)
    value = ExactAPLoss(gamma=0.7, spread=None)(scores, torch.from_numpy(case.positive), weight)
    value.backward()
    exact = case.scores.astype(np.longdouble), case.positive, LOGISTIC, 0.7, case.weight
    assert value.item() == pytest.approx(float(objective(*exact)), rel=1e-9)
    expected = objective_gradient(*exact).astype(float)
    close = 1e-8 * np.abs(expected).max() + 1e-15
    np.testing.assert_allclose(scores.grad, expected, rtol=0, atol=close)


@pytest.mark.parametrize(
    ("weight", "error", "words"),
    [
        (torch.ones(3), ShapeError, "one weight per example"),
        (torch.tensor([1.0, -1.0, 1.0, 1.0]), WeightError, "≥ 0"),
        (torch.tensor([1.0, math.nan, 1.0, 1.0]), WeightError, "finite"),
        (torch.ones(4).long(), NotNumericError, "sample_weight"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(weight: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        ExactAPLoss()(torch.rand(4), torch.tensor([1, 0, 1, 0]), weight)


def test_a_batch_whose_positives_have_no_weight_is_skipped() -> None:
    loss = ExactAPLoss()
    assert loss(torch.rand(3), torch.tensor([1, 0, 0]), torch.tensor([0.0, 1, 1])) == 0
    assert int(loss.skipped) == 1
