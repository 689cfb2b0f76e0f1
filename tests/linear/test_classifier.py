"""The linear estimators as their users meet them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedShuffleSplit,
    TunedThresholdClassifierCV,
    cross_val_score,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from apmax import APClassifier, APClassifierCV, StochasticAPClassifier, errors
from apmax.binary_target import BinaryTarget
from apmax.linear.base import TrainingSet
from apmax.objective.surrogates import resolve
from tests.linear.six_features import RNG, SMALL, SOLVERS, D, N, X, Y, ap, make


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_ranks_features_of_any_scale(solver: str) -> None:
    options = {} if solver == "lbfgs" else {"learning_rate": 0.5}
    model = make(solver, **options).fit(X, Y)
    logistic = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    assert ap(model) > ap(logistic) - 0.05
    assert np.isfinite(model.coef_).all()


def test_the_full_batch_beats_logistic_regression_on_its_own_ground() -> None:
    logistic = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    assert ap(APClassifier(alpha=1e-3).fit(X, Y)) > ap(logistic)


def test_a_large_alpha_is_logistic_regression() -> None:
    logistic = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8)).fit(X, Y)
    model = APClassifier(alpha=1e9).fit(X, Y)
    ours, theirs = model.decision_function(X), logistic.decision_function(X)
    assert np.corrcoef(ours, theirs)[0, 1] > 0.99999


def test_probabilities_are_calibrated_and_the_ranking_is_the_objectives() -> None:
    model = APClassifier().fit(X, Y)
    probability = model.predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert probability[:, 1].mean() == pytest.approx(Y.mean(), abs=0.01)
    assert (model.predict(X) == (probability[:, 1] > 0.5)).all()
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), probability)


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array])
@pytest.mark.parametrize(
    "model", [APClassifier(), StochasticAPClassifier("moap-v1", random_state=0), SMALL]
)
def test_sparse_matrices_of_every_format(model: Any, form: Any) -> None:
    thin = X * (RNG.random(X.shape) < 0.5)
    expected = clone(model).fit(sp.csr_matrix(thin), Y).decision_function(thin)
    np.testing.assert_allclose(
        clone(model).fit(form(thin), Y).decision_function(form(thin)), expected
    )


def test_a_sparse_matrix_is_never_made_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("made dense")

    big = sp.random(1000, 50_000, density=1e-3, format="csr", random_state=0)
    y = np.asarray(big[:, :500].sum(axis=1)).ravel() > 0.6
    for name in ("toarray", "todense"):
        monkeypatch.setattr(sp.csr_matrix, name, refuse)
    model = APClassifier(max_iter=5).fit(big, y)
    assert model.coef_.shape == (1, 50_000)


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), ("ham", "spam"), (False, True), (3.0, 7.0)])
def test_any_two_labels(labels: tuple[Any, Any]) -> None:
    y = np.where(Y, labels[1], labels[0])
    model = APClassifier().fit(X, y)
    assert list(model.classes_) == sorted(labels)
    assert set(model.predict(X)) <= set(labels)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_keep_their_names(library: str) -> None:
    frames = pytest.importorskip(library)
    frame = frames.DataFrame(dict(zip("abcdef", X.T, strict=True)))
    model = APClassifier().fit(frame, frames.Series(Y))
    assert list(model.feature_names_in_) == list("abcdef")
    np.testing.assert_allclose(
        model.decision_function(frame), APClassifier().fit(X, Y).decision_function(X)
    )


def test_repeated_entries_of_a_sparse_matrix_add_up() -> None:
    whole = sp.csr_matrix(X)
    halves = sp.csr_matrix(
        (np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), 2 * whole.indptr), X.shape
    )
    assert not halves.has_canonical_format
    same = APClassifier().fit(halves, Y)
    np.testing.assert_allclose(same.coef_, APClassifier().fit(whole, Y).coef_, rtol=1e-6)
    assert halves.nnz == 2 * whole.nnz


def test_it_works_in_the_company_of_scikit_learn() -> None:
    search = GridSearchCV(APClassifier(), {"alpha": [0.1, 1.0]}, scoring="average_precision", cv=2)
    assert search.fit(X, Y).best_score_ > 0.1
    assert CalibratedClassifierCV(APClassifier(), cv=2).fit(X, Y).predict_proba(X).shape == (N, 2)
    tuned = TunedThresholdClassifierCV(APClassifier(), scoring="f1", cv=2).fit(X, Y)
    assert 0 < tuned.best_threshold_ < 1
    three = np.where(X[:, 0] > 0.5, 2, Y.astype(int))
    assert OneVsRestClassifier(APClassifier()).fit(X, three).predict(X).max() == 2
    pipeline = make_pipeline(StandardScaler(), APClassifier())
    assert cross_val_score(pipeline, X, Y, cv=2, scoring="average_precision", n_jobs=2).mean() > 0.1
    again = pickle.loads(pickle.dumps(APClassifier().fit(X, Y)))
    assert ap(again) > 0.1


@pytest.mark.parametrize("solver", ["lbfgs", "adap-adam"])
def test_one_seed_gives_the_same_bits_twice(solver: str) -> None:
    fits = [make(solver, max_iter=300).fit(X, Y) for _ in range(2)]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


def test_no_global_random_state_is_touched() -> None:
    before = pickle.dumps(np.random.get_state())  # noqa: NPY002
    for seed in (None, 0):
        StochasticAPClassifier(random_state=seed, max_iter=100, early_stopping=True).fit(X, Y)
    assert pickle.dumps(np.random.get_state()) == before  # noqa: NPY002


def test_one_positive_works_and_warns() -> None:
    with pytest.warns(ConvergenceWarning, match="one positive"):
        model = APClassifier().fit(X, np.arange(N) == 5)
    assert np.isfinite(model.coef_).all()


def test_constant_and_empty_features_get_no_weight() -> None:
    padded = np.column_stack([X, np.zeros(N), np.full(N, 7.0)])
    model = APClassifier().fit(padded, Y)
    assert model.coef_[0, -2:].tolist() == [0, 0]
    np.testing.assert_allclose(model.coef_[0, :D], APClassifier().fit(X, Y).coef_[0], rtol=1e-6)


BAD = [
    (StochasticAPClassifier("adap-adm"), errors.UnknownNameError, "did you mean 'adap-adam'"),
    (APClassifier(alpha=-1), errors.ParameterError, "`alpha`"),
    (APClassifier(gamma=0), errors.ParameterError, "`gamma`"),
    (APClassifier(surrogate="hinge"), errors.UnknownNameError, "surrogate"),
    (APClassifier(max_iter=0), errors.ParameterError, "`max_iter`"),
    (APClassifier(tol=0), errors.ParameterError, "`tol`"),
    (StochasticAPClassifier(learning_rate=-1), errors.ParameterError, "`learning_rate`"),
    (StochasticAPClassifier(beta0=0), errors.ParameterError, "`beta0`"),
    (StochasticAPClassifier(delta=0), errors.ParameterError, "`delta`"),
    (StochasticAPClassifier(batch_size=1), errors.ParameterError, "`batch_size`"),
    (StochasticAPClassifier(positive_rate=0), errors.ParameterError, "`positive_rate`"),
    (StochasticAPClassifier(schedule="sqrt"), errors.UnknownNameError, "inverse_sqrt"),
    (StochasticAPClassifier("sox", sampling="shard"), errors.UnknownNameError, "shared"),
    (
        StochasticAPClassifier(validation_fraction=1.5),
        errors.ParameterError,
        "`validation_fraction`",
    ),
    (StochasticAPClassifier(n_iter_no_change=0), errors.ParameterError, "`n_iter_no_change`"),
    (
        StochasticAPClassifier(early_stopping="no"),
        errors.ParameterError,
        "`early_stopping` must be True",
    ),
    (APClassifierCV(alphas=()), errors.ParameterError, "`alphas` is empty"),
    (APClassifierCV(alphas=(0.1, 1.0)), errors.ParameterError, "sort them"),
    (APClassifierCV(Cs=(-1.0,)), errors.ParameterError, "`Cs`"),
]


@pytest.mark.parametrize(("model", "error", "message"), BAD, ids=lambda part: str(part)[:40])
def test_bad_parameters(model: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("model", [APClassifier(), SMALL])
def test_bad_data(model: Any) -> None:
    line = rf"OneVsRestClassifier\({type(model).__name__}\(\)\)\.fit\(X, y\)"
    with pytest.raises(errors.LabelError, match="3 classes.*" + line):
        model.fit(X, np.arange(N) % 3)
    with pytest.raises(errors.LabelError, match="one class"):
        model.fit(X, np.ones(N))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(np.arange(D) == 2, np.nan, X), Y)
    with pytest.raises(errors.WeightError, match="≥ 0"):
        model.fit(X, Y, sample_weight=np.where(np.arange(N) == 3, -1.0, 1.0))
    with pytest.raises(errors.WeightError, match="every negative"):
        model.fit(X, Y, sample_weight=Y.astype(float))


def test_a_batch_larger_than_the_data_is_all_of_it() -> None:
    few = np.concatenate([np.flatnonzero(Y)[:3], np.flatnonzero(~Y)[:4]])
    data = TrainingSet(X[few], BinaryTarget(Y[few], None, 7.0, np.array([False, True]), 1))
    assert StochasticAPClassifier(batch_size=1000)._batch(data) == (3, 4)
    assert StochasticAPClassifier(batch_size=3, positive_rate=1)._batch(data) == (2, 1)


def test_cross_validation_finds_what_helps_and_can_stay_with_logistic_regression() -> None:
    alphas = (1.0, 0.1, 0.01)
    model = APClassifierCV(alphas, Cs=3, cv=3).fit(X, Y)
    assert {s.shape for s in model.scores_.values()} == {(3, 3)}
    assert set(model.logistic_scores_) == {"deviation", "maximum"}
    staying = APClassifierCV(alphas=(1e9,), Cs=(1.0,), cv=3).fit(X, Y)
    assert staying.scores_[staying.scale_].shape == (1, 3)
    assert APClassifierCV(alphas, cv=3, Cs=2).fit(X, Y).logistic_scores_["deviation"].shape == (
        2,
        3,
    )
    one_split = APClassifierCV(alphas, Cs=3, cv=StratifiedShuffleSplit(1, random_state=0)).fit(X, Y)
    assert one_split.scores_[one_split.scale_].shape[1] == 1
    assert sum(w.sum() for w in one_split.weights_.values()) == pytest.approx(1)
    parallel = APClassifierCV(alphas, Cs=3, cv=3, n_jobs=2).fit(X, Y)
    np.testing.assert_allclose(parallel.coef_, model.coef_)


def test_a_copied_surrogate_is_the_same_surrogate() -> None:
    options = {"surrogate": resolve("squared_hinge"), "random_state": 0, "max_iter": 100}
    given = StochasticAPClassifier("adap-adam", **options)
    by_name = StochasticAPClassifier("adap-adam", **(options | {"surrogate": "squared_hinge"}))
    fits = [model.fit(X, Y).coef_ for model in (clone(given), given, by_name)]
    np.testing.assert_array_equal(fits[0], fits[1])
    np.testing.assert_array_equal(fits[0], fits[2])


def test_weights_of_zero_are_rows_that_are_not_there() -> None:
    weight = np.ones(N)
    weight[np.flatnonzero(Y)[::4]] = 0
    here = weight > 0
    for model in (APClassifier(), SMALL):
        zero = clone(model).fit(X, Y, sample_weight=weight)
        gone = clone(model).fit(X[here], Y[here])
        np.testing.assert_allclose(zero.coef_, gone.coef_, rtol=1e-6)


@pytest.mark.parametrize("model", [APClassifier(), StochasticAPClassifier(random_state=0), SMALL])
def test_weights_that_sum_to_1_are_as_good_as_none(model: Any) -> None:
    plain = clone(model).fit(X, Y)
    shares = clone(model).fit(X, Y, sample_weight=np.full(N, 1 / N))
    np.testing.assert_allclose(shares.coef_, plain.coef_, rtol=1e-4)
    assert shares.predict_proba(X)[:, 1].mean() == pytest.approx(Y.mean(), abs=0.01)


def test_coefficients_carry_the_slope_of_platts_fit() -> None:
    """Of scores that a stochastic fit leaves on a scale of its own."""
    model = make("soap-sgd", max_iter=500).fit(X, Y)
    log_odds = model.decision_function(X)
    again = LogisticRegression(C=1e9, tol=1e-10).fit(log_odds[:, None], Y)
    assert again.coef_[0, 0] == pytest.approx(1, abs=0.05)  # but for Platt's smoothed labels
    assert again.intercept_[0] == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize("offset", [2e3, 1.7e9])
@pytest.mark.parametrize("name", ["lbfgs", "soap-adam", "adap-adagrad"])
def test_a_sparse_feature_far_from_zero_is_learnt_from(name: str, offset: float) -> None:
    """A year or a time beside one-hot columns, which make all of a table sparse."""
    near = np.column_stack([X[:, 0], np.eye(5)[np.arange(N) % 5], X[:, [1]]])
    far = near + offset * np.eye(7)[0]
    models = [
        make(name).fit(matrix, Y) for matrix in (sp.csr_matrix(near), sp.csr_matrix(far), far)
    ]
    reached = [ap(model, matrix) for model, matrix in zip(models, (near, far, far), strict=True)]
    assert reached[1] > reached[0] - 0.02
    assert reached[1] == pytest.approx(reached[2], abs=0.03)


def test_a_refit_that_fails_leaves_the_model_as_it_was() -> None:
    for model in (APClassifier(), clone(SMALL)):
        model.fit(X, np.where(Y, "spam", "ham"))
        before = model.predict(X[:50]).tolist()
        with pytest.raises(errors.NonFiniteError):
            model.fit(X * 1e200, np.where(Y, "b", "a"))
        assert model.predict(X[:50]).tolist() == before


@pytest.mark.parametrize("name", ["logistic", "squared_hinge"])
def test_a_surrogate_is_the_same_by_name_and_as_an_object(name: str) -> None:
    by_name = make("soap-adam", surrogate=name, max_iter=500).fit(X, Y)
    by_object = make("soap-adam", surrogate=resolve(name), max_iter=500).fit(X, Y)
    np.testing.assert_array_equal(by_name.coef_, by_object.coef_)


def test_float32_products_go_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = X.astype(np.float32)
    whole = APClassifier().fit(narrow.astype(np.float64), Y)
    monkeypatch.setattr("apmax.linear.design.BLOCK", 100)
    blocks = APClassifier().fit(narrow, Y)
    np.testing.assert_allclose(blocks.coef_, whole.coef_, rtol=1e-4)
    np.testing.assert_allclose(
        blocks.decision_function(narrow), whole.decision_function(narrow), atol=1e-3
    )


def test_float32_features_give_nearly_the_same_model() -> None:
    wide, narrow = APClassifier().fit(X, Y), APClassifier().fit(X.astype(np.float32), Y)
    assert ap(narrow) == pytest.approx(ap(wide), abs=2e-3)
