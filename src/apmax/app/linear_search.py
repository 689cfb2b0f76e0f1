"""Linear models of a sparse matrix, compared on the same folds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler
from threadpoolctl import threadpool_limits

from apmax.interrupts import (
    CooperativeInterrupt,
    cooperative_interrupts,
    interrupts_before_errors,
    raise_if_interrupted,
)
from apmax.linear import APClassifierCV
from apmax.linear.platt import limited
from apmax.metrics import ap_of_scores
from apmax.splits import Split, mean_held_out, test_share
from apmax.tabular.leaderboard import Leaderboard, ranked
from apmax.tabular.library import LOGISTIC
from apmax.tabular.logistic import CS
from apmax.tabular.stacking import Evaluation
from apmax.validation import Floats, Mask, shares

LINEAR = "linear"


class _Candidate(NamedTuple):
    classifier: Any
    log_odds: Floats
    """Held-out log-odds of each row; NaN for rows that are never held out."""
    seconds: float


class Comparison(NamedTuple):
    """The chosen classifier, and the models that were compared."""

    classifier: Any
    leaderboard: Leaderboard
    out_of_fold: dict[str, Floats]
    """For each model, calibrated log-odds of each row by cross-validation; NaN for a row that is
    never held out."""
    interrupted: bool
    message: str


def fit_linear(
    X: Any,
    y: Mask,
    weight: Floats | None,
    splits: Sequence[Split],
    names: Sequence[str],
    *,
    jobs: int,
    on_progress: Callable[..., None] | None,
) -> Comparison:
    """Fit logistic regression, APClassifierCV, or both, the simpler one first.

    The classes of the classifier are True and False.
    """
    found: dict[str, _Candidate] = {}
    interrupted = False
    with cooperative_interrupts():
        for name in names:
            start = time.perf_counter()
            try:
                fit = _fit_logistic if name == LOGISTIC else _fit_ap
                with interrupts_before_errors():
                    classifier, log_odds = fit(X, y, weight, splits, jobs, on_progress)
            except CooperativeInterrupt:
                if not found:
                    raise
                interrupted = True
                break
            found[name] = _Candidate(classifier, log_odds, time.perf_counter() - start)
    total = float(y.size if weight is None else weight.sum())
    folds = [test for _, test in splits]
    evaluations = {
        name: Evaluation.of({name: one.log_odds}, y, weight, total, folds)
        for name, one in found.items()
    }
    ap = {name: one.ap for name, one in evaluations.items()}
    losses = {name: one.log_loss for name, one in evaluations.items()}
    chosen = ranked(ap, losses)[0]
    classifier = found[chosen].classifier
    if chosen == LOGISTIC:  # APClassifierCV is calibrated
        (slope,), intercept = evaluations[chosen].blend.stack
        classifier.coef_ = slope * classifier.coef_
        classifier.intercept_ = slope * classifier.intercept_ + intercept
    out_of_fold = {name: one.held_out for name, one in evaluations.items()}
    if LINEAR in found:  # calibrated as its predictions are
        model, log_odds, _ = found[LINEAR]
        low, high = model.log_odds_limits_
        out_of_fold[LINEAR] = limited(log_odds, low, high, model.log_odds_curve_)
    classifier.feature_means_ = np.asarray(shares(weight, y.size) @ X).ravel()
    result = getattr(classifier, "result_", None)
    return Comparison(
        classifier,
        Leaderboard.of(
            ap,
            losses,
            {name: one.seconds for name, one in found.items()},
            test_share(splits),
            chosen,
        ),
        out_of_fold,
        interrupted or (result is not None and result.interrupted),
        "" if result is None else result.message,
    )


def set_labels(classifier: Any, positive: Any, negative: Any) -> None:
    """Replace the classes True and False of a linear classifier, which are sorted again."""
    classes = sorted([positive, negative])
    classifier.classes_, classifier.pos_label_ = np.array(classes), positive
    if hasattr(classifier, "pos_label"):
        classifier.pos_label = positive
    if classes[1] == positive:
        return
    classifier.coef_, classifier.intercept_ = -classifier.coef_, -classifier.intercept_
    if hasattr(classifier, "log_odds_limits_"):
        low, high = classifier.log_odds_limits_
        classifier.log_odds_limits_ = (-high, -low)
        if (curve := classifier.log_odds_curve_) is not None:
            classifier.log_odds_curve_ = -curve[:, ::-1]


def _fit_ap(
    X: Any, y: Mask, weight: Floats | None, splits: Sequence[Split], jobs: int, on_progress: Any
) -> tuple[Any, Floats]:
    model = APClassifierCV(cv=splits, n_jobs=jobs)
    model.on_progress = on_progress
    model.fit(X, y, sample_weight=weight)
    if model.result_.interrupted:  # without held-out log-odds
        raise_if_interrupted()
    model.cv = None  # the rows of the splits are of no use to a fitted model
    log_odds: Floats = model.out_of_fold_
    del model.out_of_fold_
    return model, log_odds


def _fit_logistic(
    X: Any, y: Mask, weight: Floats | None, splits: Sequence[Split], jobs: int, on_progress: Any
) -> tuple[Any, Floats]:
    """Choose C by AP over the splits; features are scaled by their largest size."""
    scaler = MaxAbsScaler().fit(X)
    Z = scaler.transform(X)
    tasks = (delayed(_log_odds_by_c)(Z, y, weight, train, test) for train, test in splits)
    paths = []
    for found in Parallel(n_jobs=jobs, return_as="generator")(tasks):
        paths.append(found)
        raise_if_interrupted()
        if on_progress is not None:
            on_progress(LOGISTIC, len(paths), len(splits) + 1, None)
    ap = np.array(
        [
            [ap_of_scores(y[test], z, None if weight is None else weight[test]) for z in path]
            for path, (_, test) in zip(paths, splits, strict=True)
        ]
    )
    best = int(np.argmax(ap.mean(axis=0)))
    log_odds = mean_held_out(splits, [path[best] for path in paths], y.size)
    model = LogisticRegression(C=CS[best], max_iter=1000).fit(Z, y, weight)
    model.coef_ = model.coef_ / scaler.scale_
    return model, log_odds


def _log_odds_by_c(Z: Any, y: Mask, weight: Floats | None, train: Any, test: Any) -> list[Floats]:
    """Return the log-odds of the test rows for each C."""
    of_train = None if weight is None else weight[train]
    model, found = LogisticRegression(max_iter=1000, warm_start=True), []
    with threadpool_limits(1):
        for C in CS:
            model.set_params(C=C).fit(Z[train], y[train], of_train)
            found.append(np.asarray(model.decision_function(Z[test])))
    return found
