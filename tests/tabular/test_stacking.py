"""The stack: logistic regression on out-of-fold log-odds with weights ≥ 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from apmax.metrics import average_precision
from apmax.tabular.stacking import C_OF_ONE, Evaluation, Stack, fit_stack

RNG = np.random.default_rng(0)
N = 2000
TRUTH = RNG.normal(size=(N, 2)) @ [1.5, 1.0] - 2
Y = RNG.random(N) < expit(TRUTH)
MEMBERS = np.column_stack([TRUTH + RNG.normal(scale=s, size=N) for s in (1.0, 1.1, 1.2)])
HARMFUL = np.column_stack([MEMBERS, -TRUTH])
FOLDS = [np.arange(N)[k::3] for k in range(3)]


def loss(log_odds: Any, weight: Any = None) -> float:
    return float(np.average(np.logaddexp(0, log_odds) - Y * log_odds, weights=weight))


def test_weights_are_not_negative_and_a_harmful_member_has_none() -> None:
    stack = fit_stack(HARMFUL, Y, None, N)
    assert (stack.weights[:3] > 0).all()
    assert stack.weights[3] == 0


def test_the_stack_is_at_least_as_good_as_each_member_in_sample() -> None:
    stacked = loss(fit_stack(MEMBERS, Y, None, N)(MEMBERS))
    for member in MEMBERS.T:
        alone = fit_stack(member[:, None], Y, None, N)
        assert stacked < loss(alone(member[:, None])) - 0.001
        assert stacked < loss(member)


@pytest.mark.parametrize("weight", [None, RNG.random(N)], ids=["plain", "weighted"])
def test_one_member_is_platt_scaling(weight: Any) -> None:
    """The slope and intercept of least log-loss, with a ridge on the standardised slope."""
    member = MEMBERS[:, 0]
    spread = np.sqrt(np.cov(member, aweights=weight, ddof=0))

    def objective(parameters: Any) -> float:
        slope, intercept = parameters
        penalty = (slope * spread) ** 2 / (2 * C_OF_ONE * N)
        return loss(slope * member + intercept, weight) + float(penalty)

    expected = minimize(objective, [1.0, 0.0], method="BFGS", options={"gtol": 1e-9}).x
    stack = fit_stack(member[:, None], Y, weight, N)
    np.testing.assert_allclose([stack.weights[0], stack.intercept], expected, atol=1e-3)


def test_the_mean_probability_is_the_share_of_positives() -> None:
    stacked = expit(fit_stack(MEMBERS, Y, None, N)(MEMBERS))
    assert stacked.mean() == pytest.approx(Y.mean(), abs=1e-4)


def test_scale_and_offset_of_a_member_do_not_matter() -> None:
    moved = MEMBERS * [1e3, 1e-3, 1.0] + [5.0, 0.0, -1e4]
    expected = fit_stack(MEMBERS, Y, None, N)(MEMBERS)
    np.testing.assert_allclose(fit_stack(moved, Y, None, N)(moved), expected, atol=1e-6)


def test_a_weight_of_2_is_the_row_twice() -> None:
    weight = 1.0 + (np.arange(N) % 4 == 0)
    rows = np.repeat(np.arange(N), weight.astype(int))
    expected = fit_stack(MEMBERS[rows], Y[rows], None, rows.size)
    actual = fit_stack(MEMBERS, Y, weight, rows.size)
    np.testing.assert_allclose(actual.weights, expected.weights, atol=1e-5)


def test_a_constant_member_has_no_weight() -> None:
    stack = fit_stack(np.column_stack([MEMBERS[:, 0], np.full(N, 0.3)]), Y, None, N)
    assert stack.weights[1] == 0
    alone = fit_stack(np.full((N, 1), 7.0), Y, None, N)
    assert alone.weights.tolist() == [0.0]
    assert alone.intercept == pytest.approx(np.log(Y.mean() / (1 - Y.mean())), abs=1e-4)


def test_separable_members_have_finite_weights() -> None:
    stack = fit_stack(np.where(Y, 30.0, -30.0)[:, None], Y, None, N)
    assert np.isfinite(stack(np.array([[30.0], [-30.0]]))).all()
    assert stack.weights[0] > 0


def test_each_fold_is_scored_by_weights_of_the_other_folds() -> None:
    members = {"a": MEMBERS[:, 0], "b": MEMBERS[:, 1]}
    found = Evaluation.of(members, Y, None, N, FOLDS)
    columns, held_out = MEMBERS[:, :2], np.empty(N)
    for fold in FOLDS:
        others = np.setdiff1d(np.arange(N), fold)
        held_out[fold] = fit_stack(columns[others], Y[others], None, others.size)(columns[fold])
    expected = [average_precision(Y[fold], held_out[fold]) for fold in FOLDS]
    np.testing.assert_allclose(found.held_out, held_out)
    np.testing.assert_allclose(found.ap, expected)
    assert found.log_loss == pytest.approx(loss(held_out))
    expected_weights = fit_stack(columns, Y, None, N).weights
    np.testing.assert_allclose([*found.blend.weights.values()], expected_weights)


def test_rows_that_are_never_held_out_do_not_count() -> None:
    member = np.where(np.arange(N) < 500, np.nan, MEMBERS[:, 0])
    folds = [np.arange(500, 1250), np.arange(1250, N)]
    found = Evaluation.of({"a": member}, Y, None, N, folds)
    expected = fit_stack(MEMBERS[500:, :1], Y[500:], None, N - 500)
    np.testing.assert_allclose(found.blend.stack.weights, expected.weights)
    np.testing.assert_array_equal(np.isnan(found.held_out), np.arange(N) < 500)


def test_a_row_of_repeated_splits_has_the_mean_of_its_log_odds() -> None:
    twice = [*FOLDS, np.arange(N // 2), np.arange(N // 2, N)]
    found = Evaluation.of({"a": MEMBERS[:, 0]}, Y, None, N, twice)
    first, second = (
        Evaluation.of({"a": MEMBERS[:, 0]}, Y, None, N, folds) for folds in (FOLDS, twice[3:])
    )
    np.testing.assert_allclose(found.held_out, (first.held_out + second.held_out) / 2)
    np.testing.assert_allclose(found.ap, [*first.ap, *second.ap])


def test_pruning_leaves_out_members_of_weight_0_and_changes_nothing_else() -> None:
    members = {name: HARMFUL[:, k] for k, name in enumerate("abcd")}
    blend = Evaluation.of(members, Y, None, N, FOLDS).blend
    assert blend.pruned().members == ["a", "b", "c"]
    np.testing.assert_allclose(blend.pruned()(members), blend(members))


def test_a_blend_of_members_without_weight_predicts_the_share_of_positives() -> None:
    useless = {"a": -TRUTH, "b": -MEMBERS[:, 0]}
    pruned = Evaluation.of(useless, Y, None, N, FOLDS).blend.pruned()
    np.testing.assert_allclose(expit(pruned(useless)), Y.mean(), atol=1e-4)


def test_a_stack_by_hand() -> None:
    stack = Stack(np.array([0.5, 2.0]), -1.0)
    np.testing.assert_array_equal(stack(np.array([[2.0, 1.0], [0.0, 0.0]])), [2.0, -1.0])


def test_with_a_single_split_the_stack_is_not_scored_on_the_rows_that_it_was_fitted_to() -> None:
    found = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        noise = {str(k): rng.normal(size=60) for k in range(7)}
        positive = np.arange(60) % 3 == 0
        order = rng.permutation(60)
        found.append(Evaluation.of(noise, positive, None, 60.0, [order]).ap[0])
    assert np.mean(found) < 0.40  # noise has 1/3, and blends of the same rows 0.47
