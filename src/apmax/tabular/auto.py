"""AutoAPClassifier: compares a small library of models by cross-validated AP and stacks them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from apmax.binary_classifier import BinaryAPClassifier, unchanged_on_error
from apmax.binary_target import warn_if_few
from apmax.blas_threads import one_blas_thread
from apmax.errors import ParameterError, UnknownNameError
from apmax.interrupts import (
    CooperativeInterrupt,
    cooperative_interrupts,
    interrupts_before_errors,
)
from apmax.linear import FitResult
from apmax.splits import test_share, with_most_rows
from apmax.tabular.budget import Budget, OutOfTime, planned
from apmax.tabular.columns import frame_like
from apmax.tabular.effect_plots import EffectPlots
from apmax.tabular.effects import Effect, scaled
from apmax.tabular.explanation import (
    changes_from_typical,
    explained,
    has_trees,
    mean_contributions,
)
from apmax.tabular.files import FilesMixin
from apmax.tabular.leaderboard import Leaderboard, ranked, simplest_within_error
from apmax.tabular.library import ADDITIVE, LOGISTIC, NAMES, STACK, encoded, log_odds
from apmax.tabular.logistic import Shape
from apmax.tabular.search import Candidate, Progress, Search, TrainingTable
from apmax.tabular.stacking import Evaluation
from apmax.tabular.training_data import as_given, checked_rows, training_data
from apmax.validation import Floats, check_real

logger = logging.getLogger("apmax")
ONE_SE = "one-se"
BEST = "best"
"""Rules of `select`."""


class AutoAPClassifier(EffectPlots, FilesMixin, BinaryAPClassifier):
    """The best of a small library of models by cross-validated average precision.

    The library has logistic regression, :class:`AdditiveAPClassifier`, boosted trees of three
    shapes (LightGBM if it is installed, otherwise scikit-learn's), extremely randomised trees and
    a random forest, all on the same folds, and their logistic stack: a logistic regression with
    weights ≥ 0 on the out-of-fold log-odds. The model with the highest AP predicts, which is often
    the stack; `select` prefers a simpler one.

    Parameters
    ----------
    models : sequence of str, optional
        Names of the models to compare, from `apmax.tabular.NAMES`. The default is all.
    select : str, default="best"
        The model that predicts: "best" is the one with the highest AP (of several, the one with
        the lowest log-loss), "one-se" the simplest one within one standard error of it, and a name
        of `models`, such as "stack" or "additive", always that one.
    time_budget : float, optional
        Seconds for `fit`. If the data are too large for it, negatives are sampled (with weights),
        and the most expensive models are left out, with a warning.
    categorical_features : "from_dtype" or array-like, default="from_dtype"
        As in :class:`AdditiveAPClassifier`.
    cv : int, splitter or iterable, optional
        As in :class:`APClassifierCV`.
    n_jobs : int, optional
        Number of processes that share the fits.
    random_state : int, RandomState or None, default=0
        Seed of the trees and of sampled negatives.
    pos_label : optional
        The positive class. The default is the last class in sorted order, with a warning if that
        is the more frequent one.

    Attributes
    ----------
    leaderboard_ : Leaderboard
        For each model AP ± standard error over the held-out folds, the paired difference to the
        best ± standard error, log-loss and seconds; ``print(model.leaderboard_)``.
    best_ : str
        The model that predicts.
    stack_weights_ : dict of str to float
        Weights of the log-odds in the stack; empty if it was not fitted.
    models_ : dict of str to list
        The fitted estimators that predict: those of `best_`, or the members of the stack. Trees
        and logistic regression have one per fold, whose log-odds are averaged.
    blend_ : Blend
        How the log-odds of `models_` become those of the prediction.
    columns_ : Columns
        The encoding of the table, learned from the training rows.
    out_of_fold_ : dict of str to ndarray of shape (n_samples,)
        For each model, calibrated log-odds of `pos_label_` for each row, by models that were
        fitted without the row; the mean if several splits hold it out, NaN if none does or if the
        row was not sampled. With forward chaining, early splits are left out, too, because their
        models have seen few rows. Predictions do not need it: delete it before storing the model
        if the training data are large.
    shape_functions_ : dict of str to NumberEffect, CategoryEffect or PairEffect
        As in :class:`AdditiveAPClassifier`, if that model predicts.
    result_ : FitResult
        Whether all models were fitted, and whether Ctrl-C ended the search.
    classes_, pos_label_, n_features_in_, feature_names_in_
        As in :class:`APClassifierCV`.

    Notes
    -----
    Set the attribute `on_progress` to a function (stage, done, total, AP) to follow `fit`; it is
    called after each fit of a model to a fold.

    Ctrl-C keeps the models that are complete. KeyboardInterrupt is raised, and the estimator is
    unchanged, if there is none.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from apmax import AutoAPClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AutoAPClassifier(["logistic", "boosting-5x100"], cv=3).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.98
    True
    """

    __metadata_request__fit = {"groups": True}  # noqa: RUF012 -- requested as by GroupKFold

    leaderboard_: Leaderboard
    best_: str
    stack_weights_: dict[str, float]
    models_: dict[str, list[Any]]
    out_of_fold_: dict[str, Floats]
    result_: FitResult

    def __init__(
        self,
        models: Sequence[str] | None = None,
        *,
        select: str = BEST,
        time_budget: float | None = None,
        categorical_features: Any = "from_dtype",
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        pos_label: Any = None,
    ) -> None:
        self.models = models
        self.select = select
        self.time_budget = time_budget
        self.categorical_features = categorical_features
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.pos_label = pos_label

    @unchanged_on_error
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None
    ) -> AutoAPClassifier:
        """Compare the models by cross-validation and keep the best.

        Parameters
        ----------
        X, y, sample_weight, groups
            As in :meth:`AdditiveAPClassifier.fit`.

        Returns
        -------
        AutoAPClassifier
            The fitted estimator.
        """
        names = self._checked_names()
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(2**31 - 1)
        budget = Budget(self._checked_budget())
        given = training_data(self, X, y, sample_weight, groups)
        target, table, self.columns_ = given.target, given.table, given.columns
        data = TrainingTable(
            given.X,
            encoded(table),
            Shape(table.numbers.shape[1], table.codes.shape[1]),
            target.positive,
            target.counts,
            given.rows,
            self.categorical_features,
        )
        with cooperative_interrupts(), one_blas_thread():
            progress = Progress(self.on_progress)
            search = Search(
                data, given.splits, seed=int(seed), n_jobs=self.n_jobs, progress=progress
            )
            predicted: dict[str, float] = {}
            fitted = [name for name in names if name != STACK]
            if budget.seconds is not None:
                predicted, search = planned(fitted, search, budget, self.select)
                fitted = [*predicted, *(name for name in fitted if name not in predicted)]
            candidates = self._fitted(fitted, search, budget, predicted)
        with one_blas_thread():
            evaluations = _evaluated(candidates, search, target.total, stacked=STACK in names)
        self._choose(evaluations, candidates, search)
        self.classes_, self.pos_label_ = target.classes, target.pos_label
        self.out_of_fold_ = {
            name: as_given(one.held_out, search.data.rows, given.given)
            for name, one in evaluations.items()
        }
        warn_if_few(target.positive, stacklevel=4)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds of ``classes_[1]``.

        Parameters
        ----------
        X : array-like, pandas or polars DataFrame of shape (n_samples, n_features)
            New data with the columns of `fit`.
        """
        check_is_fitted(self, "best_")
        X = checked_rows(self, X, reset=False)
        matrix = encoded(self.columns_.transform(X))
        log_odds = self.blend_(
            {name: _mean_log_odds(self.models_[name], X, matrix) for name in self.blend_.members}
        )
        return log_odds if self.pos_label_ == self.classes_[1] else -log_odds

    def explain(self, X: Any) -> Any:
        """Return the contribution of each column to the log-odds of `pos_label_`, row by row.

        If logistic regression, the additive model or a stack of both predicts, contributions have
        mean 0 over the training data, and each row sums to the log-odds. For trees, and stacks with
        trees, a contribution is the change of the log-odds if the column had its typical value in
        training: the median, or the most frequent category. This takes one prediction per column.

        Parameters
        ----------
        X : array-like, pandas or polars DataFrame of shape (n_samples, n_features)
            The rows to explain.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_terms + 1) or (n_samples, n_terms)
            One column per column of X that the model uses and, without trees, per pair of columns,
            and the intercept last. A frame is returned for a frame.
        """
        check_is_fitted(self, "best_")
        rows = checked_rows(self, X, reset=False)
        if has_trees(self.blend_):
            parts = changes_from_typical(self.predict_log_odds, rows, self.columns_.typical)
        else:
            means = self.mean_contributions_ if LOGISTIC in self.models_ else None
            parts = explained(self.blend_, self.models_, self.columns_, means, rows)
        return frame_like(X, np.column_stack([*parts.values()]), [*parts])

    @property
    def shape_functions_(self) -> dict[str, Effect]:
        """The function of each column, if the additive model predicts."""
        check_is_fitted(self, "best_")
        if self.blend_.members != [ADDITIVE]:
            raise AttributeError(
                f'{self.best_} predicts, which has no shape functions: fit with select="additive"'
            )
        (model,) = self.models_[ADDITIVE]
        (slope,) = self.blend_.stack.weights
        return {
            name: scaled(effect, float(slope)) for name, effect in model.shape_functions_.items()
        }

    def _fitted(
        self, names: list[str], search: Search, budget: Budget, predicted: dict[str, float]
    ) -> dict[str, Candidate]:
        """Fit the models until all are complete, the budget is used up, or Ctrl-C is pressed."""
        found: dict[str, Candidate] = {}
        left_out, interrupted = [], False
        search.progress.expect(sum(map(search.fits, names)))
        for name in sorted(names, key=lambda name: name != self.select):
            if found and _ratio(found, predicted) * predicted.get(name, np.inf) > budget.left:
                left_out.append(name)
                continue
            search.progress.after_each = budget.check if found else None
            try:
                with interrupts_before_errors():
                    found[name] = search.fit(name)
            except OutOfTime:
                left_out.append(name)
            except CooperativeInterrupt:
                if not found:
                    raise
                interrupted = True
                break
        message = "all models were fitted"
        if interrupted:
            message = f"interrupted: only {', '.join(found)} compared"
            logger.info(message)
        elif left_out:
            message = f"the time limit leaves no time for {', '.join(left_out)}"
            warnings.warn(message, stacklevel=4)
        complete = len(found) == len(names)
        self.result_ = FitResult(complete, interrupted, message, search.progress.done)
        return {name: found[name] for name in NAMES if name in found}

    def _choose(
        self, evaluations: dict[str, Evaluation], candidates: dict[str, Candidate], search: Search
    ) -> None:
        """Set the leaderboard, the chosen model and what it needs to predict."""
        ap = {name: one.ap for name, one in evaluations.items()}
        losses = {name: one.log_loss for name, one in evaluations.items()}
        held_out_share = test_share(search.splits)
        self.best_ = ranked(ap, losses)[0]
        if self.select == ONE_SE:
            self.best_ = simplest_within_error([*ap], ap, held_out_share)
        elif self.select in ap:
            self.best_ = self.select
        elif self.select != BEST:
            warnings.warn(
                f"`select` = {self.select!r} was not fitted ({self.result_.message}): "
                f"{self.best_} predicts",
                stacklevel=4,
            )
        seconds = {name: one.seconds for name, one in candidates.items()}
        seconds[STACK] = sum(seconds.values())
        self.leaderboard_ = Leaderboard.of(ap, losses, seconds, held_out_share, self.best_)
        self.stack_weights_ = evaluations[STACK].blend.weights if STACK in evaluations else {}
        self.blend_ = evaluations[self.best_].blend.pruned()
        self.models_ = {name: candidates[name].models for name in self.blend_.members}
        if LOGISTIC in self.models_:
            self.mean_contributions_ = mean_contributions(self.models_[LOGISTIC], search.data)
        elif hasattr(self, "mean_contributions_"):  # of an earlier fit
            del self.mean_contributions_

    def _checked_names(self) -> list[str]:
        """Return the names of the models, the simplest first, and check `select`."""
        if isinstance(self.models, str):
            remedy = f"models=[{self.models!r}]" if self.models in NAMES else f"models={[*NAMES]}"
            raise ParameterError(
                f"`models` = {self.models!r} must be a list of names: write {remedy}"
            )
        chosen = NAMES if self.models is None else tuple(self.models)
        for name in chosen:
            if name not in NAMES:
                raise UnknownNameError(
                    f"`models` names {name!r}: choose from {', '.join(map(repr, NAMES))}"
                )
        names = [name for name in NAMES if name in chosen]
        if names in ([], [STACK]):
            raise ParameterError(f"`models` = {self.models!r} has nothing to fit: name two or more")
        selectable = [name for name in names if name != STACK or len(names) > 2]
        if self.select not in (ONE_SE, BEST, *selectable):
            raise ParameterError(
                f"`select` = {self.select!r} must be {ONE_SE!r}, {BEST!r} or one of the models "
                f"{', '.join(map(repr, selectable))}"
            )
        return names

    def _checked_budget(self) -> float | None:
        if self.time_budget is None:
            return None
        check_real(self.time_budget, "time_budget", above=0, why="it is a number of seconds")
        return float(self.time_budget)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _ratio(found: dict[str, Candidate], predicted: dict[str, float]) -> float:
    """Return the seconds that models have taken, relative to those predicted; at least a half."""
    expected = sum(predicted.get(name, 0.0) for name in found)
    return max(0.5, sum(one.seconds for one in found.values()) / expected) if expected else 1.0


def _evaluated(
    candidates: dict[str, Candidate], search: Search, total: float, *, stacked: bool
) -> dict[str, Evaluation]:
    """Calibrate each model and fit the stack, the simplest first."""
    log_odds = {name: one.log_odds for name, one in candidates.items()}
    sets = {name: {name: log_odds[name]} for name in log_odds}
    if stacked and len(log_odds) > 1:
        sets[STACK] = log_odds
    data, folds = search.data, [test for _, test in search.splits]
    # The models of the folds predict if they are a partition; otherwise one of all rows does.
    used = None if search.partition else with_most_rows(search.splits, data.positive)
    return {
        name: Evaluation.of(members, data.positive, data.weight, total, folds, used)
        for name, members in sets.items()
    }


def _mean_log_odds(models: list[Any], X: Any, matrix: Floats) -> Floats:
    """Return the mean log-odds of the fitted estimators of one model."""
    parts = [
        model.decision_function(X)
        if isinstance(model, BinaryAPClassifier)
        else log_odds(model, matrix)
        for model in models
    ]
    return np.asarray(np.mean(parts, axis=0))
