"""What models weigh in a mean, and how they are made alike before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from apmax import APClassifierCV, surrogate_ap
from apmax.linear.averaging import (
    TEMPERATURE,
    gains_over_first,
    standardised,
    weigh_by_score,
)
from apmax.linear.design import Design, make_design
from tests.linear.six_features import X, Y

FOLDS = np.array([0.5, 0.6, 0.7])
SHARE = 1 / 3
NADEAU_BENGIO = np.sqrt(1 / 3 + 1 / 2)
ALPHAS = (1.0, 0.01)


def test_weights_follow_the_formula() -> None:
    scores = FOLDS + np.array([[0.0, 0.0, 0.0], [0.01, 0.02, 0.03], [0.02, 0.0, 0.03]])
    behind = scores[1] - scores
    errors = [np.std(each, ddof=1) * NADEAU_BENGIO for each in behind]
    expected = np.exp(-behind.mean(axis=1) / (TEMPERATURE * np.median([errors[0], errors[2]])))
    expected[0] = 0.0  # 2.7 standard errors behind
    np.testing.assert_allclose(weigh_by_score(scores, SHARE), expected / expected.sum())


def test_a_clear_difference_decides_and_noise_does_not() -> None:
    noise = np.array([[0.1, -0.1, 0.0], [-0.1, 0.1, 0.001], [0.0, 0.1, -0.1]])
    np.testing.assert_allclose(weigh_by_score(FOLDS + noise, SHARE), 1 / 3, rtol=0.01)
    clear = weigh_by_score(FOLDS + np.array([[0.1, 0.101, 0.1], [0.0, 0.001, 0.0]]), SHARE)
    assert clear.tolist() == [1.0, 0.0]


def test_a_model_two_standard_errors_behind_the_best_has_no_weight() -> None:
    behind = np.array([[0.0, 0.0, 0.0], [-0.004, -0.002, -0.0015]])  # 3.3 standard errors
    assert weigh_by_score(FOLDS + behind, SHARE).tolist() == [1.0, 0.0]
    within = np.array([[0.0, 0.0, 0.0], [-0.004, 0.0, -0.0015]])  # 1.6 standard errors
    assert (weigh_by_score(FOLDS + within, SHARE) > 0.2).all()


def test_a_standard_error_that_is_small_by_chance_does_not_exclude_a_model() -> None:
    noisy = np.array([[0.0, 0.0, 0.0], [-0.1, 0.19, 0.0], [-0.1001, 0.1899, -0.00011]])
    assert (weigh_by_score(FOLDS + noisy, SHARE) > 0.1).all()


def test_a_gain_counts_if_it_exceeds_its_standard_error() -> None:
    assert gains_over_first(FOLDS + np.array([[0.0, 0.0, 0.0], [0.01, 0.02, 0.03]]), SHARE)
    assert not gains_over_first(FOLDS + np.array([[0.0, 0.0, 0.0], [-0.1, 0.1, 0.03]]), SHARE)
    assert not gains_over_first(FOLDS + np.array([[0.0, 0.0, 0.0], [-0.1, -0.1, -0.1]]), SHARE)


def test_one_fold_gives_all_weight_to_the_best_and_equals_share() -> None:
    assert weigh_by_score(np.array([[0.1], [0.3], [0.2]]), 0.2).tolist() == [0, 1, 0]
    assert weigh_by_score(np.ones((4, 3)), SHARE).tolist() == [0.25] * 4


@pytest.mark.parametrize("matrix", [X, sp.csr_matrix(X)], ids=["dense", "CSR"])
@pytest.mark.parametrize("scale", ["deviation", "maximum"])
def test_standardised_scores_have_deviation_1_and_the_same_order(matrix: Any, scale: str) -> None:
    design = make_design(matrix, scale, None)
    w = np.arange(1.0, design.parameters + 1)
    raw = standardised(design, w, None)
    scores = matrix @ raw[:-1] + raw[-1]
    assert scores.std() == pytest.approx(1)
    assert np.corrcoef(scores, design.margins(w))[0, 1] == pytest.approx(1)


def test_a_weight_of_two_is_a_row_twice() -> None:
    twice = np.where(np.arange(len(Y)) < 20, 2, 1)
    w = np.arange(1.0, X.shape[1] + 2)
    by_weight = standardised(Design(X), w, twice.astype(float))
    np.testing.assert_allclose(
        by_weight, standardised(Design(np.repeat(X, twice, axis=0)), w, None)
    )


def test_a_model_that_ranks_nothing_is_none() -> None:
    assert not standardised(Design(X), np.zeros(X.shape[1] + 1), None).any()
    intercept_only = np.append(np.zeros(X.shape[1]), np.log(1 / 9))  # its mean is not exact
    assert not standardised(Design(X), intercept_only, None).any()


def test_features_that_say_nothing_leave_the_share_of_positives() -> None:
    for n in (600, 100_000):
        positive = np.arange(n) % 10 == 0
        model = APClassifierCV(cv=2, alphas=(1.0,), Cs=(1.0,)).fit(np.ones((n, 2)), positive)
        assert not model.coef_.any()
        probability = model.predict_proba(np.ones((1, 2)))[0, 1]
        plus, minus = n / 10, n * 9 / 10
        smoothed = plus * (plus + 1) / (plus + 2) + minus / (minus + 2)  # Platt's targets
        assert probability == pytest.approx(smoothed / n, rel=1e-6)


def test_weights_are_rows_in_the_mean_too() -> None:
    """The same folds of rows and of rows twice; the deviation of scores counts weights."""
    weight = 1.0 + (np.arange(len(Y)) % 3 == 0)
    twice = np.repeat(np.arange(len(Y)), weight.astype(int))
    folds = list(StratifiedKFold(3).split(X, Y))
    of_rows = [tuple(np.flatnonzero(np.isin(twice, part)) for part in fold) for fold in folds]
    options = {"alphas": (1.0, 0.01), "Cs": (0.1, 10.0), "tol": 1e-7}
    weighted = APClassifierCV(cv=folds, **options).fit(X, Y, sample_weight=weight)
    repeated = APClassifierCV(cv=of_rows, **options).fit(X[twice], Y[twice])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-4)


def test_alpha_is_that_of_the_heaviest_member_and_all_must_converge() -> None:
    model = APClassifierCV(alphas=(1.0, 0.01), Cs=(0.1, 10.0), cv=3).fit(X, Y)
    share = max(shares.max() for shares in model.weights_.values())
    place = 0 if np.isinf(model.alpha_) else 1 + list(model.alphas).index(model.alpha_)
    assert model.weights_[model.scale_][place] == share
    assert model.result_.converged
    with pytest.warns(ConvergenceWarning, match=r"\d+ of \d+ fits stopped at max_iter"):
        stopped = APClassifierCV(alphas=(1.0, 0.01), Cs=(0.1, 10.0), cv=3, max_iter=2).fit(X, Y)
    assert not stopped.result_.converged


def path_by_hand(design: Design, positive: Any, C: float) -> list[Any]:
    """Logistic regression and −ÂP + α‖w − w_LR‖² / ‖w_LR‖² for each α, by SciPy's BFGS.

    The w_LR of the penalty is calibrated by a logistic regression on its margins.
    """
    Z = (design.X - design.centre) * design.scale
    logistic = LogisticRegression(C=C, tol=1e-9, max_iter=10_000).fit(Z, positive)
    w_lr = np.append(logistic.coef_[0], logistic.intercept_)
    weights = [w_lr]
    margins = Z @ w_lr[:-1] + w_lr[-1]
    platt = LogisticRegression(C=1e9, tol=1e-9).fit(margins[:, None], positive)
    w_lr = platt.coef_[0, 0] * w_lr + platt.intercept_ * np.eye(w_lr.size)[-1]
    for alpha in ALPHAS:

        def objective(w: Any, alpha: float = alpha) -> tuple[float, Any]:
            scores = expit(Z @ w[:-1] + w[-1])
            ap = surrogate_ap(scores, positive, surrogate="logistic", gamma=20)
            away = np.append(w[:-1] - w_lr[:-1], 0.0)
            relative = alpha / (w_lr[:-1] @ w_lr[:-1])
            slopes = -ap.gradient * scores * (1 - scores)
            gradient = np.append(Z.T @ slopes, slopes.sum()) + 2 * relative * away
            return -ap.value + relative * float(away @ away), gradient

        weights.append(minimize(objective, w_lr, jac=True, method="BFGS").x)
    return weights


def test_the_result_is_the_weighted_mean_of_its_members() -> None:
    """Of three models on a path, and a fit on all data and three folds' of each."""
    folds = list(StratifiedKFold(3).split(X, Y))
    model = APClassifierCV(alphas=ALPHAS, Cs=(0.1, 10.0), cv=folds, tol=1e-8).fit(X, Y)
    total = np.zeros(X.shape[1])
    shares = model.weights_[model.scale_]
    design = make_design(X, model.scale_, None)
    for rows in (np.arange(len(Y)), *(train for train, _ in folds)):
        weights = path_by_hand(design.of(X[rows]), Y[rows], model.C_)
        for share, w in zip(shares, weights, strict=True):
            raw = design.unscaled(w)[:-1]
            total += share * raw / (X @ raw).std() / (1 + len(folds))
    ours, by_hand = X @ model.coef_[0], X @ total
    ours, by_hand = (each / each.std() for each in (ours - ours.mean(), by_hand - by_hand.mean()))
    np.testing.assert_allclose(ours, by_hand, atol=0.015)  # the anchor's own fit has tol = 1e-4
    assert np.count_nonzero(shares) > 1


def test_the_path_moves_from_an_anchor_of_nearly_constant_scores() -> None:
    """With C = 1e-6 all scores σ(z) of logistic regression are the share of positives."""
    model = APClassifierCV(alphas=(1.0, 0.01), Cs=(1e-6,), cv=3).fit(X, Y)
    path = model.scores_[model.scale_]
    logistic = model.logistic_scores_[model.scale_]
    assert np.abs(path[-1] - logistic[0]).min() > 1e-4


def test_a_path_that_is_clearly_worse_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apmax.linear.classifier_cv.FIRST_ALPHAS", 1)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(1500, 60))
    labels = rng.random(1500) < expit(1.5 * noise[:, 0] - 2)  # the logistic model is true
    alphas = (1e-3, 1e-4, 1e-5)
    stopped = APClassifierCV(alphas=alphas, Cs=(0.01,), cv=3).fit(noise, labels)
    path = stopped.scores_[stopped.scale_]
    assert np.isfinite(path[0]).all()
    assert np.isnan(path[1:]).all()
    assert stopped.weights_[stopped.scale_][2:].tolist() == [0.0, 0.0]
    monkeypatch.setattr("apmax.linear.classifier_cv.FIRST_ALPHAS", 3)
    whole = APClassifierCV(alphas=alphas, Cs=(0.01,), cv=3).fit(noise, labels)
    np.testing.assert_allclose(whole.coef_, stopped.coef_)


def test_a_path_in_two_parts_is_the_path_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"alphas": (1.0, 0.3, 0.1), "Cs": (1.0,), "cv": 3}
    whole = APClassifierCV(**options).fit(X, Y)
    monkeypatch.setattr("apmax.linear.classifier_cv.FIRST_ALPHAS", 1)
    parts = APClassifierCV(**options).fit(X, Y)
    assert np.isfinite(parts.scores_[parts.scale_]).all()
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-6)
