"""Probabilities: calibrated out of fold, and not ruined by a few extreme rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from apmax import APClassifier, APClassifierCV, StochasticAPClassifier
from apmax.linear.platt import Calibration, calibrate, limited, platt
from apmax.validation import Floats, Mask

N = 6000
FAST: dict[str, Any] = {"alphas": (1.0, 0.03), "Cs": (0.01, 1.0), "cv": 3}


def margins_with_outliers(outliers: int) -> tuple[Floats, Mask]:
    """Log-odds of 7 % positives; extreme rows say nothing of the class."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=N) * 1.5 - 3.5
    positive = rng.random(N) < expit(z)
    rows = rng.choice(N, outliers, replace=False)
    z[rows] += rng.uniform(1e3, 1e4, outliers) * rng.choice([-1, 1], outliers)
    return z, positive


def loss_of(z: Floats, positive: Mask) -> float:
    return float(np.mean(np.logaddexp(0.0, np.where(positive, -z, z))))


def test_without_outliers_calibration_is_platts() -> None:
    z, positive = margins_with_outliers(0)
    fit = calibrate(z, positive, None, float(N))
    assert (fit.slope, fit.offset) == pytest.approx(platt(z, positive, None, float(N)))
    assert fit.low < z.min() < z.max() < fit.high


def test_outliers_do_not_set_the_slope() -> None:
    z, positive = margins_with_outliers(30)
    slope, _ = platt(z, positive, None, float(N))
    assert slope < 0.01
    fit = calibrate(z, positive, None, float(N))
    assert fit.slope == pytest.approx(1, abs=0.25)
    log_odds = limited(fit.slope * z + fit.offset, fit.low, fit.high)
    unlimited = slope * z + platt(z, positive, None, float(N))[1]
    assert loss_of(log_odds, positive) < 0.9 * loss_of(unlimited, positive)
    assert loss_of(log_odds, positive) < 1.1 * loss_of(*margins_with_outliers(0))


def test_limits_keep_the_order_and_the_class() -> None:
    log_odds = np.array([-1e9, -1e4, -20.0, -3.0, -0.5, 0.0, 0.5, 2.0, 30.0, 1e4, 1e6])
    out = limited(log_odds, -4.0, 3.0)
    assert (np.diff(out) > 0).all()
    np.testing.assert_array_equal(np.sign(out), np.sign(log_odds))
    np.testing.assert_array_equal(out[3:8], log_odds[3:8])
    assert -5 <= out.min() <= out.max() <= 4


def test_a_weight_of_two_is_a_row_twice() -> None:
    z, positive = margins_with_outliers(30)
    twice = 1 + np.arange(N) % 2
    weighted = calibrate(z, positive, twice.astype(float), float(twice.sum()))
    repeated = calibrate(np.repeat(z, twice), np.repeat(positive, twice), None, float(twice.sum()))
    np.testing.assert_allclose(weighted[:4], repeated[:4], rtol=1e-6)


def two_slopes(seed: int, n: int = N) -> tuple[Floats, Mask, Floats]:
    """Margins whose log-odds are steep at the top and flat elsewhere."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    log_odds = np.where(z > 1, 3 * (z - 1), 0.2 * (z - 1)) - 2
    return z, rng.random(n) < expit(log_odds), log_odds


def curved(fit: Calibration, z: Floats) -> Floats:
    return limited(fit.slope * z + fit.offset, fit.low, fit.high, fit.curve)


def test_log_odds_that_are_linear_need_no_curve() -> None:
    z, positive = margins_with_outliers(0)
    assert calibrate(z, positive, None, float(N), curved=True).curve is None


def test_a_curve_follows_log_odds_that_are_not_linear() -> None:
    z, positive, _ = two_slopes(0)
    fit = calibrate(z, positive, None, float(N), curved=True)
    line = calibrate(z, positive, None, float(N))
    assert fit.curve is not None
    z_new, new, log_odds = two_slopes(1, 50_000)
    best = loss_of(log_odds, new)
    assert loss_of(curved(fit, z_new), new) < best * 1.005
    assert loss_of(curved(line, z_new), new) > best * 1.03
    assert expit(curved(fit, z_new)).mean() == pytest.approx(new.mean(), rel=0.05)


@pytest.mark.parametrize("case", ["crosses 0", "below 0", "above 0"])
def test_a_curve_keeps_the_order_and_the_class(case: str) -> None:
    z, positive, log_odds = two_slopes(0, 30_000)
    if case != "crosses 0":
        positive = np.random.default_rng(2).random(z.size) < expit(0.3 * log_odds - 2.4)
    if case == "above 0":
        z, positive = -z, ~positive
    fit = calibrate(z, positive, None, float(z.size), curved=True)
    assert fit.curve is not None
    low, high = float(fit.curve[1].min()), float(fit.curve[1].max())
    assert (low < 0 < high) is (case == "crosses 0")
    grid = np.sort(np.append(np.linspace(-9, 9, 5001), [-1e6, -1e3, 1e3, 1e6]))
    out, line = curved(fit, grid), fit.slope * grid + fit.offset
    assert (np.diff(out) > 0).all()
    clear = np.abs(line) > 1e-9
    np.testing.assert_array_equal(out[clear] > 0, line[clear] > 0)


def test_a_curve_counts_weights_as_rows() -> None:
    z, positive, _ = two_slopes(0)
    twice = 1 + np.arange(N) % 2
    weighted = calibrate(z, positive, twice.astype(float), float(twice.sum()), curved=True)
    repeated = calibrate(
        np.repeat(z, twice), np.repeat(positive, twice), None, float(twice.sum()), curved=True
    )
    np.testing.assert_allclose(curved(weighted, z), curved(repeated, z), atol=1e-3)


def test_the_curve_of_separated_classes_is_finite() -> None:
    z = np.linspace(-1, 1, 200)
    fit = calibrate(z, z > 0.5, None, 200.0, curved=True)
    assert np.isfinite(curved(fit, z)).all()
    assert np.abs(curved(fit, z)).max() < 20


def heavy_tails(seed: int) -> tuple[Floats, Mask]:
    """A share that predicts the class, with a few codes of size 10⁴ in its place."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.random(N), rng.normal(size=(N, 3))])
    positive = rng.random(N) < expit(4 * X[:, 0] + 0.5 * X[:, 1] - 5)
    X[rng.random(N) < 0.005, 0] = 1e4
    return X, positive


@pytest.mark.parametrize(
    "model", [APClassifierCV(**FAST), APClassifier(), StochasticAPClassifier(random_state=0)]
)
def test_heavy_tails_leave_usable_probabilities(model: Any) -> None:
    X, y = heavy_tails(0)
    X_test, y_test = heavy_tails(1)
    logistic = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    baseline = log_loss(y_test, logistic.predict_proba(X_test)[:, 1])
    constant = log_loss(y_test, np.full(N, y.mean()))
    reached = log_loss(y_test, model.fit(X, y).predict_proba(X_test)[:, 1])
    assert reached < min(1.03 * baseline, constant)
    scores, probability = model.decision_function(X_test), model.predict_proba(X_test)[:, 1]
    assert (np.diff(probability[np.argsort(scores)]) >= 0).all()


def codes_for_missing(seed: int) -> tuple[Floats, Mask]:
    """A count that predicts the class, with codes up to 98 that say little of it."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.gamma(1.0, 1.0, N), rng.normal(size=(N, 3))])
    positive = rng.random(N) < expit(1.5 * X[:, 0] + 0.3 * X[:, 1] - 4.5)
    coded = rng.random(N) < 0.004
    X[coded, 0] = rng.uniform(49, 98, N)[coded]
    return X, np.where(coded, rng.random(N) < 0.3, positive)


@pytest.mark.parametrize(
    ("model", "share"),
    [(APClassifierCV(**(FAST | {"Cs": (0.01, 1.0, 1e4)})), 0.95), (APClassifier(alpha=0.01), 0.8)],
)
def test_a_ranking_that_ignores_codes_has_probabilities_that_do(model: Any, share: float) -> None:
    """AP training ranks the bulk well, and Platt's slope on all rows would be nearly 0."""
    X, y = codes_for_missing(0)
    X_test, y_test = codes_for_missing(1)
    logistic = make_pipeline(StandardScaler(), LogisticRegression(C=1e4)).fit(X, y)
    baseline = log_loss(y_test, logistic.predict_proba(X_test)[:, 1])
    reached = log_loss(y_test, model.fit(X, y).predict_proba(X_test)[:, 1])
    assert reached < share * baseline


def test_calibration_is_out_of_fold() -> None:
    """In-sample margins of noise look informative; held-out margins do not."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 60)), np.arange(300) % 4 == 0
    model = APClassifierCV(**FAST).fit(X, y)
    X_new, y_new = rng.normal(size=(5000, 60)), rng.random(5000) < 0.25
    assert log_loss(y_new, model.predict_proba(X_new)[:, 1]) < 1.05 * log_loss(
        y_new, np.full(5000, 0.25)
    )


def test_a_step_of_the_probability_is_calibrated() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * N, 2))
    y = rng.random(2 * N) < np.where(X[:, 0] > 1, 0.5, 0.01)
    model = APClassifierCV(**FAST).fit(X[:N], y[:N])
    assert model.log_odds_curve_ is not None
    best = log_loss(y[N:], np.where(X[N:, 0] > 1, 0.5, 0.01))
    reached = log_loss(y[N:], model.predict_proba(X[N:])[:, 1])
    line = log_loss(y[N:], expit(model.decision_function(X[N:])))
    assert reached < 1.05 * best < line


def test_a_rare_indicator_is_calibrated() -> None:
    """Most margins of both classes are equal, so that their interquartile range is 0."""
    rng = np.random.default_rng(0)
    y = rng.random(4000) < 0.3
    X = (rng.random(4000) < np.where(y, 0.22, 0.001)).astype(float)[:, None]
    probability = APClassifier().fit(X, y).predict_proba(X)[:, 1]
    assert probability.mean() == pytest.approx(y.mean(), abs=0.005)
    for value in (0, 1):
        rows = X[:, 0] == value
        assert probability[rows].mean() == pytest.approx(y[rows].mean(), abs=0.05)


@pytest.mark.parametrize("pos_label", [False, True])
@pytest.mark.parametrize(
    "model", [APClassifierCV(**FAST), APClassifier(), StochasticAPClassifier(random_state=0)]
)
def test_log_odds_are_those_of_the_probability_of_the_positive_class(
    model: Any, pos_label: bool
) -> None:
    X, y = heavy_tails(0)
    model.set_params(pos_label=pos_label).fit(X, y)
    probability = model.predict_proba(X)[:, int(pos_label)]
    np.testing.assert_allclose(expit(model.predict_log_odds(X)), probability, rtol=1e-9)
