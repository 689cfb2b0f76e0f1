r"""APClassifierCV: the strength of the anchor, and the anchor itself, by cross-validated AP."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, check_cv

from apmax.errors import ParameterError
from apmax.linear.base import LinearAPModel, TrainingSet
from apmax.linear.design import SCALES, Design, make_design
from apmax.linear.full_batch import (
    Minimum,
    ap_objective,
    fit_logistic,
    minimise,
    relative_penalty,
)
from apmax.linear.history import FitStatus, end_line, show_line, watch
from apmax.problem.surrogates import default_gamma, resolve
from apmax.validation import Floats, check_count, check_gamma, check_real

DEFAULT_ALPHAS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
DEFAULT_CS = tuple(np.logspace(-4, 4, 10).tolist())
STANDARD_ERRORS = 0.5
"""How many of them a gain must exceed: choices within the noise stay near logistic regression."""


class Fold(NamedTuple):
    """One split of the data."""

    train: TrainingSet
    test: TrainingSet


class FoldPath(NamedTuple):
    """Logistic regression and the path after it, fitted on one fold."""

    weights: list[Floats]
    scores: list[float]


class APClassifierCV(LinearAPModel):
    r"""APClassifier with its anchor and its alpha chosen by cross-validated AP.

    Three choices, one after the other, by AP over the same folds:

    1. the scale of the features (unit deviation or unit maximum) and C of the logistic
       regression that anchors, as LogisticRegressionCV would choose them;
    2. alpha, along a path from large (logistic regression) to small (average precision
       alone), each fit starting from the one before: the one whose gain over logistic
       regression, fold by fold and less half a standard error, is largest;
    3. whether to leave logistic regression at all: not if that gain is not above 0.

    Then the path is run once more on all data, to the chosen alpha, and the result is the mean
    direction of that fit and of the folds' fits, which ranks new data better than one fit.

    Parameters
    ----------
    alphas : strengths of the anchor to try, largest first; see :class:`APClassifier`.
    Cs : strengths C of the logistic regression to try, or how many from 1e-4 to 1e4.
    surrogate, gamma, max_iter, tol : as in :class:`APClassifier` with solver "lbfgs".
    average : whether to average with the folds' fits; without, it is the fit on all data.
    cv : number of stratified folds, shuffled (always alike: files are often in some order, and
        folds in that order mislead), or a scikit-learn splitter, or an iterable of splits.
    n_jobs : processes over which the folds are spread.
    verbose : show on a terminal how many folds are done.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, feature_names_in_ : as in APClassifier.
    alpha_ : the chosen alpha; infinity if logistic regression was best.
    C_, scale_ : the chosen C and scale of the anchor.
    logistic_scores_ : dict of scale → (n_Cs, n_folds) AP of logistic regression.
    scores_ : (n_alphas, n_folds) AP along the path.
    n_iter_, status_ : of the last fit.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from apmax import APClassifierCV, average_precision
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = APClassifierCV(cv=3).fit(X[::2], y[::2])
    >>> average_precision(y[1::2], model.decision_function(X[1::2])) > 0.98
    True
    """

    def __init__(
        self,
        alphas: Sequence[float] = DEFAULT_ALPHAS,
        *,
        Cs: Sequence[float] | int = DEFAULT_CS,
        surrogate: str = "logistic",
        gamma: float | None = None,
        average: bool = True,
        cv: Any = 5,
        max_iter: int = 200,
        tol: float = 1e-4,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.alphas = alphas
        self.Cs = Cs
        self.surrogate = surrogate
        self.gamma = gamma
        self.average = average
        self.cv = cv
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> APClassifierCV:
        """Choose by cross-validation, fit to all data, and return self."""
        self._check_parameters()
        data = self._checked(X, y, sample_weight)
        if isinstance(self.cv, (int, np.integer)):
            data = data.seen()
        folds = self._folds(data)
        data = data.seen()
        Cs = np.logspace(-4, 4, self.Cs) if isinstance(self.Cs, (int, np.integer)) else self.Cs
        designs = {name: make_design(data.X, name, data.weight) for name in SCALES}
        self.logistic_scores_ = {
            name: np.stack(
                self._over_folds(
                    f"logistic regression, {name}", _logistic_scores, folds, design, Cs
                ),
                axis=1,
            )
            for name, design in designs.items()
        }
        self.scale_ = max(designs, key=lambda name: self.logistic_scores_[name].mean(axis=1).max())
        logistic = self.logistic_scores_[self.scale_].mean(axis=1)
        self.C_ = float(Cs[int(np.argmax(logistic))])
        design = designs[self.scale_]
        paths = self._over_folds("path over alpha", self._path_of, folds, design, self.C_)
        self.scores_ = np.stack([path.scores for path in paths], axis=1)[1:]
        best = self._best(self.logistic_scores_[self.scale_][int(np.argmax(logistic))])
        self.alpha_ = np.inf if best is None else float(self.alphas[best])
        chosen = 0 if best is None else best + 1
        self._refit(data, design, chosen, [path.weights[chosen] for path in paths])
        return self

    def _best(self, logistic: Floats) -> int | None:
        """The alpha whose gain, less its doubt, is largest; None if none is gained."""
        gains = self.scores_ - logistic
        folds = gains.shape[1]
        error = gains.std(axis=1, ddof=1) / np.sqrt(folds) if folds > 1 else 0.0
        sure = gains.mean(axis=1) - STANDARD_ERRORS * error
        best = int(np.argmax(sure))
        return best if sure[best] > 0 else None

    def _refit(
        self, data: TrainingSet, design: Design, fits: int, of_folds: Sequence[Floats]
    ) -> None:
        *_, last = self._path(design, data, self.C_, self.alphas[:fits])
        members = [last.w, *of_folds] if self.average else [last.w]
        self._set_coefficients(design, np.mean([_direction(w) for w in members], axis=0), data)
        self.n_iter_ = max(1, int(last.iterations))
        self.status_ = FitStatus(last.converged, last.message)
        if not last.converged:
            warnings.warn(
                f"{last.message}: raise max_iter or tol, or leave out the smallest alphas",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _path(
        self, design: Design, data: TrainingSet, C: float, alphas: Sequence[float]
    ) -> Iterable[Minimum]:
        """The logistic regression, then a fit for each alpha from where the last one ended."""
        anchor = fit_logistic(design, data.positive, data.weight, C=C, total=data.total)
        yield anchor
        reached = anchor.w
        for alpha in alphas:
            objective = ap_objective(
                design,
                data.positive,
                data.weight,
                surrogate=resolve(self.surrogate),
                gamma=self._gamma,
                penalty=relative_penalty(alpha, anchor.w),
                anchor=anchor.w,
            )
            found = minimise(objective, reached, max_iter=self.max_iter, tol=self.tol)
            yield found
            reached = found.w

    @property
    def _gamma(self) -> float:
        return default_gamma(self.surrogate) if self.gamma is None else self.gamma

    def _path_of(self, fold: Fold, like: Design, C: float) -> FoldPath:
        watched = watch(fold.test, like)
        path = self._path(like.of(fold.train.X), fold.train, C, self.alphas)
        weights = [found.w for found in path]
        return FoldPath(weights, [watched.average_precision(w) for w in weights])

    def _over_folds(self, what: str, work: Any, folds: list[Fold], *arguments: Any) -> list[Any]:
        """What `work` returns for each fold."""
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        results = []
        for result in parallel(delayed(work)(fold, *arguments) for fold in folds):
            results.append(result)
            if self.verbose:
                show_line(f"{what}: fold {len(results)} of {len(folds)}")
            if self.on_progress is not None:
                scores = np.mean([getattr(one, "scores", one) for one in results], axis=0)
                self.on_progress(what, len(results), len(folds), float(scores.max()))
        if self.verbose:
            end_line()
        return results

    def _folds(self, data: TrainingSet) -> list[Fold]:
        fewest = int(min(data.positive.sum(), (~data.positive).sum()))
        if isinstance(self.cv, (int, np.integer)) and fewest < self.cv:
            raise ParameterError(
                f"`cv` = {self.cv} needs that many examples of each class, and there are only "
                f"{fewest} of one: lower cv, or use APClassifier"
            )
        splitter = check_cv(self.cv, data.positive, classifier=True)
        if isinstance(self.cv, (int, np.integer)):
            splitter = StratifiedKFold(self.cv, shuffle=True, random_state=0)
        return [
            Fold(data.rows(train).seen(), data.rows(test).seen())
            for train, test in splitter.split(data.X, data.positive)
        ]

    def _check_parameters(self) -> None:
        resolve(self.surrogate)
        check_gamma(self._gamma)
        check_count(self.max_iter, "max_iter", why="it is the number of iterations")
        check_real(self.tol, "tol", above=0, why="it is where L-BFGS stops; try 1e-4")
        for name in ("alphas", "Cs"):
            values: Any = getattr(self, name)
            if name == "Cs" and isinstance(values, (int, np.integer)):
                check_count(int(values), name, why="it is how many strengths from 1e-4 to 1e4")
                continue
            if not np.iterable(values):
                raise ParameterError(f"`{name}` = {values!r} must be a list of strengths to try")
            if len(list(values)) == 0:
                raise ParameterError(f"`{name}` is empty: give at least one strength to try")
            for value in values:
                check_real(value, name, above=0, why="each of them is the strength of a penalty")
        if list(self.alphas) != sorted(self.alphas, reverse=True):
            raise ParameterError(
                f"`alphas` must fall from the largest to the smallest, got {self.alphas!r}: the "
                "path starts at logistic regression; sort them"
            )


def _direction(w: Floats) -> Floats:
    """w in units of its weights' norm: averaged models count alike, whatever their scale."""
    return w / (float(np.linalg.norm(w[:-1])) or 1.0)


def _logistic_scores(fold: Fold, like: Design, Cs: Sequence[float]) -> Floats:
    """AP of logistic regression for every C, each fit starting from the last."""
    design, watched = like.of(fold.train.X), watch(fold.test, like)
    w = np.zeros(design.parameters)
    scores = []
    for C in sorted(Cs):
        train = fold.train
        w = fit_logistic(design, train.positive, train.weight, C=C, total=train.total, start=w).w
        scores.append(watched.average_precision(w))
    return np.array(scores)[np.argsort(np.argsort(Cs))]
