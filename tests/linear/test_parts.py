"""The parts of a fit: objectives, scales, and the log-odds of a margin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info, threadpool_limits

from apmax import errors
from apmax.blas_threads import one_blas_thread
from apmax.lbfgs import minimise
from apmax.linear.design import SCALES, Design, make_design
from apmax.linear.full_batch import ap_objective, logistic_objective
from apmax.linear.platt import platt
from apmax.objective.surrogates import resolve
from apmax.validation import Floats
from tests.linear.six_features import LOGIT, RNG, D, N, X, Y, ap, make


def objectives() -> list[Any]:
    design = make_design(X, "deviation", None)
    weight = RNG.uniform(0.5, 2, N)
    anchor = RNG.normal(size=D + 1)
    made = [logistic_objective(design, Y, weight, 0.1)]
    for name, gamma in (("logistic", 2.0), ("squared_hinge", 0.2)):
        made.append(
            ap_objective(
                design, Y, weight, surrogate=resolve(name), gamma=gamma, penalty=0.3,
                anchor=anchor,
            )
        )  # fmt: skip
    return made


@pytest.mark.parametrize("which", range(3))
def test_gradients_by_finite_differences(which: int) -> None:
    objective = objectives()[which]
    w = RNG.normal(size=D + 1) * 0.3
    _, gradient = objective(w)
    for k in range(D + 1):
        move = 1e-6 * (np.arange(D + 1) == k)
        slope = (objective(w + move)[0] - objective(w - move)[0]) / 2e-6
        assert gradient[k] == pytest.approx(slope, abs=1e-6)


def test_our_logistic_regression_is_scikit_learns() -> None:
    scaled = StandardScaler().fit_transform(X)
    theirs = LogisticRegression(C=0.7, tol=1e-10, max_iter=10_000).fit(scaled, Y)
    objective = logistic_objective(Design(scaled), Y, None, 1 / (2 * 0.7 * N))
    ours = minimise(objective, np.zeros(D + 1), max_iter=1000, tol=1e-8)
    np.testing.assert_allclose(ours.w[:-1], theirs.coef_[0], rtol=1e-3, atol=1e-4)


def test_platt_recovers_the_log_odds() -> None:
    slope, offset = platt(0.1 * (LOGIT + 4.2), Y, None, float(N))
    assert slope == pytest.approx(10, rel=0.3)
    assert offset == pytest.approx(-4.2, rel=0.3)


def test_platt_of_a_wrong_ranking_keeps_the_ranking() -> None:
    slope, _ = platt(-LOGIT, Y, None, float(N))
    assert slope > 0


def test_scales() -> None:
    thin = sp.csr_matrix(X * (X > 0))

    def scale_of(name: str, rows: Any, weight: Floats | None = None) -> Floats:
        return make_design(rows, name, weight).scale

    sparse, dense = (scale_of("deviation", rows) for rows in (thin, thin.toarray()))
    np.testing.assert_allclose(sparse, dense, rtol=1e-9)
    thrice = np.arange(N) % 3
    for rows in (X, thin):
        weighted = scale_of("deviation", rows, thrice * 1.0)
        repeated = scale_of("deviation", rows[np.repeat(np.arange(N), thrice)])
        np.testing.assert_allclose(weighted, repeated, rtol=1e-9)
    np.testing.assert_allclose((X * scale_of("deviation", X)).std(axis=0), 1)
    for rows in (X, thin):
        design = make_design(rows, "maximum", None)
        dense = rows if rows is X else thin.toarray()
        read = (dense - design.centre) * design.scale
        np.testing.assert_allclose(np.abs(read).max(axis=0), 1)
    centre = make_design(thin, "deviation", None).centre
    assert np.flatnonzero(centre).tolist() == [2]  # it has no zeros, and its mean is 5


@pytest.mark.parametrize("name", list(SCALES))
def test_scales_do_not_depend_on_an_offset(name: str) -> None:
    near, far = make_design(X, name, None), make_design(X + 1e5, name, None)
    np.testing.assert_allclose(near.scale, far.scale, rtol=1e-6)


def test_the_deviation_of_sparse_features_far_from_zero() -> None:
    far = sp.csr_matrix(1e8 + RNG.normal(size=(N, D)))
    np.testing.assert_allclose(
        make_design(far, "deviation", None).scale, 1 / far.toarray().std(axis=0), rtol=1e-6
    )


@pytest.mark.parametrize(("factor", "remedy"), [(1e200, "divide"), (1e-200, "multiply")])
def test_features_whose_squares_do_not_fit_are_refused(factor: float, remedy: str) -> None:
    with pytest.raises(errors.NonFiniteError, match=f"feature 1.*{remedy}"):
        make_design(X * np.where(np.arange(D) == 1, factor, 1.0), "deviation", None)


def test_scaling_and_back_is_the_identity() -> None:
    design = make_design(X, "deviation", None)
    w: Floats = RNG.normal(size=D + 1)
    np.testing.assert_allclose(design.scaled(design.unscaled(w)), w)
    z = np.column_stack([X, np.ones(N)]) @ design.unscaled(w)
    np.testing.assert_allclose(design.margins(w), z, atol=1e-6)


@pytest.mark.parametrize("solver", ["lbfgs", "adap-adagrad", "moap-v2", "soap-sgd"])
@pytest.mark.parametrize("shift", [5.0, 30.0, 1e4])
def test_features_far_from_zero_cost_nothing(solver: str, shift: float) -> None:
    near, far = make(solver).fit(X, Y), make(solver).fit(X + shift, Y)
    assert ap(far, X + shift) == pytest.approx(ap(near), abs=1e-3)


def test_small_fits_use_one_blas_thread_and_restore_the_setting() -> None:
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with one_blas_thread(10), one_blas_thread(20):
            assert set(threads()) == {1}
        assert threads() == before
        with one_blas_thread(10**9):
            assert threads() == before
