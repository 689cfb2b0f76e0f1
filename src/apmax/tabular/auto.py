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
from apmax.errors import ParameterError, UnknownNameError
from apmax.interrupts import cooperative_interrupts
from apmax.tabular.additive import AdditiveAPClassifier
from apmax.tabular.budget import Budget, planned
from apmax.tabular.leaderboard import Leaderboard, simplest_within_error
from apmax.tabular.library import NAMES, STACK, Shape, encoded, log_odds
from apmax.tabular.search import Candidate, Search, TrainingTable
from apmax.tabular.stacking import Blend
from apmax.tabular.training_data import checked_rows, training_data
from apmax.validation import Floats, check_real

logger = logging.getLogger("apmax")


class AutoAPClassifier(BinaryAPClassifier):
    """The best of a small library of models by cross-validated average precision.

    The library has logistic regression, :class:`AdditiveAPClassifier`, boosted trees of three
    shapes (LightGBM if it is installed, otherwise scikit-learn's), extremely randomised trees and
    a random forest, all on the same folds, and their logistic stack: a logistic regression with
    weights ≥ 0 on the out-of-fold log-odds. The result is the model with the highest AP, or the
    simplest one within one standard error of it.

    Parameters
    ----------
    models : sequence of str, optional
        Names of the models to compare, from `apmax.tabular.NAMES`. The default is all.
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
        The fitted estimators by name. Trees and logistic regression have one per fold, whose
        log-odds are averaged.
    classes_, pos_label_, n_features_in_, feature_names_in_
        As in :class:`APClassifierCV`.

    Notes
    -----
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

    def __init__(
        self,
        models: Sequence[str] | None = None,
        *,
        time_budget: float | None = None,
        categorical_features: Any = "from_dtype",
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        pos_label: Any = None,
    ) -> None:
        self.models = models
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

        Parameters are those of :meth:`AdditiveAPClassifier.fit`.
        """
        names = self._checked_names()
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(2**31 - 1)
        budget = Budget(self._checked_budget())
        X, target, splits, self.columns_, table = training_data(self, X, y, sample_weight, groups)
        data = TrainingTable(
            X,
            encoded(table),
            Shape(table.numbers.shape[1], table.codes.shape[1]),
            target.positive,
            target.counts,
            self.categorical_features,
        )
        with cooperative_interrupts():
            search = Search(data, splits, seed=int(seed), n_jobs=self.n_jobs)
            if budget.seconds is not None:
                names, search = planned(names, search, budget)
            candidates = self._fitted([name for name in names if name != STACK], search, budget)
        self._rank(candidates, search, target.total, stacked=STACK in names)
        self.classes_, self.pos_label_ = target.classes, target.pos_label
        warn_if_few(target.positive, stacklevel=4)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds of ``classes_[1]``."""
        check_is_fitted(self, "best_")
        X = checked_rows(self, X, reset=False)
        matrix = encoded(self.columns_.transform(X))
        log_odds = self.blend_(
            {name: _mean_log_odds(self.models_[name], X, matrix) for name in self.blend_.members}
        )
        return log_odds if self.pos_label_ == self.classes_[1] else -log_odds

    def _fitted(self, names: list[str], search: Search, budget: Budget) -> dict[str, Candidate]:
        """Fit the models until all are complete, the budget is used up, or Ctrl-C is pressed."""
        found: dict[str, Candidate] = {}
        for name in names:
            if found and budget.left < 0:
                warnings.warn(f"`time_budget` was used up before {name}", stacklevel=4)
                break
            try:
                found[name] = search.fit(name)
            except KeyboardInterrupt:
                if not found:
                    raise
                logger.info("interrupted: kept %s", ", ".join(found))
                break
            if self.on_progress is not None:
                self.on_progress(
                    name, len(found), len(names), search.average_precision(found[name])
                )
        return found

    def _rank(
        self, candidates: dict[str, Candidate], search: Search, total: float, *, stacked: bool
    ) -> None:
        """Set the leaderboard, the chosen model and what it needs to predict."""
        data, folds = search.data, [test for _, test in search.splits]
        log_odds = {name: one.log_odds for name, one in candidates.items()}
        sets = {name: {name: log_odds[name]} for name in log_odds}
        if stacked and len(log_odds) > 1:
            sets[STACK] = log_odds
        blends = {
            name: Blend.fit(members, data.positive, data.weight, total, folds)
            for name, members in sets.items()
        }
        seconds = {name: one.seconds for name, one in candidates.items()}
        seconds[STACK] = sum(seconds.values())
        ap = {name: blend.ap for name, blend in blends.items()}
        test_share = float(
            np.mean([len(test) / (len(train) + len(test)) for train, test in search.splits])
        )
        self.best_ = simplest_within_error([*ap], ap, test_share)
        self.blend_ = blends[self.best_].pruned()
        losses = {name: blend.log_loss for name, blend in blends.items()}
        self.leaderboard_ = Leaderboard.of(ap, losses, seconds, test_share, self.best_)
        self.stack_weights_ = blends[STACK].weights if STACK in blends else {}
        self.models_ = {name: one.models for name, one in candidates.items()}

    def _checked_names(self) -> list[str]:
        """Return the names of the models, the simplest first."""
        if self.models is None:
            return list(NAMES)
        for name in self.models:
            if name not in NAMES:
                raise UnknownNameError(
                    f"`models` names {name!r}: choose from {', '.join(map(repr, NAMES))}"
                )
        chosen = [name for name in NAMES if name in self.models]
        if chosen in ([], [STACK]):
            raise ParameterError(f"`models` = {self.models!r} has nothing to fit: name two or more")
        return chosen

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


def _mean_log_odds(models: list[Any], X: Any, matrix: Floats) -> Floats:
    """Return the mean log-odds of the fitted estimators of one model."""
    parts = [
        model.decision_function(X)
        if isinstance(model, AdditiveAPClassifier)
        else log_odds(model, matrix)
        for model in models
    ]
    return np.asarray(np.mean(parts, axis=0))
