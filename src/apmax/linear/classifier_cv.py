"""APClassifierCV: chooses scaling, C and alpha by cross-validated average precision."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from apmax.binary_classifier import unchanged_on_error
from apmax.errors import ParameterError
from apmax.interrupts import cooperative_interrupts, interrupt_on_hold, raise_if_interrupted
from apmax.linear.averaging import standardised, weigh_by_gain
from apmax.linear.base import LinearAPModel, TrainingSet, logger
from apmax.linear.blas_threads import one_blas_thread
from apmax.linear.design import Design, make_design
from apmax.linear.folds import Fold, folds_of
from apmax.linear.full_batch import Minimum, fit_logistic
from apmax.linear.history import EvaluationSet, ProgressLog
from apmax.linear.path import Anchor, FoldPath, Path
from apmax.linear.result import FitResult
from apmax.objective.surrogates import Surrogate, resolve_with_gamma
from apmax.validation import Floats, check_count, check_real

DEFAULT_ALPHAS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
DEFAULT_CS = tuple(np.logspace(-4, 4, 10).tolist())


class APClassifierCV(LinearAPModel):
    r"""Linear classifier for average precision with cross-validated hyperparameters.

    For each scaling of the features (unit deviation, unit maximum), with AP over the same folds:

    1. C of the logistic regression that anchors the path is chosen as in LogisticRegressionCV;
    2. a path over alpha runs from large (logistic regression) to small (average precision alone),
       each fit starting from the previous one;
    3. every model of the path, logistic regression included, gets a weight that falls with the
       distance of its AP to the best, in standard errors.

    Then the paths are fitted on all data, and the result is the weighted mean of these fits and of
    the folds' fits, all standardised to scores of deviation 1. It is a single linear model.

    Parameters
    ----------
    alphas : sequence of float
        Strengths of the anchor to try, largest first; see :class:`APClassifier`.
    Cs : sequence of float or int, default=10 values from 1e-4 to 1e4
        Values of C to try, or their number.
    surrogate : str or Surrogate, default="logistic"
        As in :class:`APClassifier`.
    gamma, max_iter, tol
        As in :class:`APClassifier`.
    cv : int, splitter or iterable, optional
        Number of stratified, shuffled folds, a scikit-learn splitter, or an iterable of splits. The
        default is five folds, or fewer if a class has fewer examples or groups.
    n_jobs : int, optional
        Number of processes that share the folds.
    pos_label : optional
        The positive class. The default is the last class in sorted order, with a warning if that
        is the more frequent one.

    Attributes
    ----------
    coef_, intercept_, classes_, pos_label_, n_features_in_, feature_names_in_
        As in :class:`APClassifier`.
    alpha_ : float
        The alpha with the largest weight; infinity if that is logistic regression.
    C_, scale_
        C and scaling of its anchor.
    logistic_scores_ : dict of str to ndarray of shape (n_Cs, n_folds)
        AP of logistic regression by scaling.
    scores_ : dict of str to ndarray of shape (n_alphas, n_folds)
        AP along the path by scaling.
    weights_ : dict of str to ndarray of shape (1 + n_alphas,)
        Weights of logistic regression and of each alpha in the result.
    n_iter_ : int
        Largest number of iterations of a fit on all data.
    result_ : FitResult
        Whether all fits converged, and whether Ctrl-C ended the search.

    Notes
    -----
    Ctrl-C during the paths keeps logistic regression with the chosen C; before that,
    KeyboardInterrupt is raised and the estimator is unchanged.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from apmax import APClassifierCV, average_precision
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = APClassifierCV(cv=3).fit(X[::2], y[::2])
    >>> average_precision(y[1::2], model.decision_function(X[1::2])) > 0.98
    True
    """

    __metadata_request__fit = {"groups": True}  # noqa: RUF012 -- requested as by GroupKFold

    scales: tuple[str, ...] = ("deviation", "maximum")
    """Scalings of the features to try; see :mod:`apmax.linear.design`."""

    def __init__(
        self,
        alphas: Sequence[float] = DEFAULT_ALPHAS,
        *,
        Cs: Sequence[float] | int = DEFAULT_CS,
        surrogate: str | Surrogate = "logistic",
        gamma: float | None = None,
        cv: Any = None,
        max_iter: int = 200,
        tol: float = 1e-4,
        n_jobs: int | None = None,
        pos_label: Any = None,
    ) -> None:
        self.alphas = alphas
        self.Cs = Cs
        self.surrogate = surrogate
        self.gamma = gamma
        self.cv = cv
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.pos_label = pos_label

    @unchanged_on_error
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None
    ) -> APClassifierCV:
        """Choose by cross-validation, then fit to all data.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`APClassifier.fit`.
        groups : array-like of shape (n_samples,), optional
            Rows of one group are never in both parts of a split. If `cv` is a number or None, the
            folds are those of a shuffled StratifiedGroupKFold; a splitter gets the groups in its
            `split`.

        Returns
        -------
        APClassifierCV
            The fitted estimator.
        """
        path, Cs = self._checked_path(), self._checked_Cs()
        data = self._checked(X, y, sample_weight)
        folds = folds_of(self.cv, data, groups)
        data = data.without_zero_weights()
        with cooperative_interrupts(), one_blas_thread(np.prod(data.X.shape)):
            logistic_scores, anchors = self._anchors(data, folds, Cs)
            best_scale = max(anchors, key=lambda name: logistic_scores[name].mean(axis=1).max())
            try:
                chosen = self._average_paths(path, data, folds, anchors, best_scale)
            except KeyboardInterrupt:
                with interrupt_on_hold():
                    chosen = _keep_logistic(path, data, anchors, best_scale)
            weights = chosen.weights
            scale = max(weights, key=lambda name: weights[name].max())
            design = anchors[scale].design
            self._set_coefficients(design, design.scaled(chosen.mean), data)
        self.weights_, self.scores_ = weights, chosen.scores
        self.logistic_scores_ = logistic_scores
        self.scale_, self.C_ = scale, anchors[scale].C
        self.alpha_ = float([np.inf, *path.alphas][int(np.argmax(weights[scale]))])
        self.n_iter_, self.result_ = chosen.result.iterations, chosen.result
        if not self.result_.converged:
            warnings.warn(self.result_.message, ConvergenceWarning, stacklevel=3)
        return self

    def _average_paths(
        self,
        path: Path,
        data: TrainingSet,
        folds: list[Fold],
        anchors: dict[str, Anchor],
        best_scale: str,
    ) -> _Choice:
        """Run the paths on the folds, weigh their models, and fit those on all data."""
        paths = {
            name: self._over_folds(f"path over alpha, {name}", path.on_fold, folds, anchor)
            for name, anchor in anchors.items()
        }
        scores = {
            name: np.stack([of_fold.scores for of_fold in of_folds], axis=1)
            for name, of_folds in paths.items()
        }
        every, baseline = np.concatenate(list(scores.values())), scores[best_scale][0]
        shares = weigh_by_gain(every, baseline)
        weights = dict(zip(scores, np.split(shares, len(scores)), strict=True))
        mean, members = self._members(path, weights, data, anchors, paths)
        self.out_of_fold_ = np.full(data.positive.size, np.nan)
        from apmax.linear.platt import platt

        for f, fold in enumerate(folds):
            w = np.zeros(data.X.shape[1] + 1)
            for name, share in weights.items():
                for k in np.flatnonzero(share):
                    w += share[k] * standardised(
                        anchors[name].design, paths[name][f].weights[k], data.weight
                    )
            test = fold.test_rows
            self.out_of_fold_[test] = Design(data.X[test]).margins(w)
        seen = ~np.isnan(self.out_of_fold_)
        slope, offset = platt(
            self.out_of_fold_[seen],
            data.positive[seen],
            None if data.weight is None else data.weight[seen],
            data.total,
        )
        self.out_of_fold_ = slope * self.out_of_fold_ + offset
        along_path = {name: each[1:] for name, each in scores.items()}
        return _Choice(weights, along_path, mean, _result_of(members))

    def _anchors(
        self, data: TrainingSet, folds: list[Fold], Cs: Sequence[float]
    ) -> tuple[dict[str, Floats], dict[str, Anchor]]:
        """Return AP of logistic regression by scaling, C and fold, and the best C by scaling."""
        scores, anchors = {}, {}
        for name in self.scales:
            design = make_design(data.X, name, data.weight)
            what = f"logistic regression, {name}"
            of_folds = self._over_folds(what, _logistic_scores, folds, design, Cs)
            scores[name] = np.stack(of_folds, axis=1)
            anchors[name] = Anchor(design, float(Cs[int(np.argmax(scores[name].mean(axis=1)))]))
        return scores, anchors

    def _members(
        self,
        path: Path,
        weights: dict[str, Floats],
        data: TrainingSet,
        anchors: dict[str, Anchor],
        paths: dict[str, list[FoldPath]],
    ) -> tuple[Floats, list[Minimum]]:
        """Fit the models with a weight on all data; return their mean and the fits."""
        mean = np.zeros(data.X.shape[1] + 1)
        members: list[Minimum] = []
        for name, shares in weights.items():
            if not shares.any():
                continue
            last = int(np.flatnonzero(shares)[-1])
            weighing = path._replace(alphas=path.alphas[:last])
            for k, found in enumerate(weighing.fits(anchors[name], data)):
                if shares[k] == 0:
                    continue
                members.append(found)
                of_folds = [one.weights[k] for one in paths[name]]
                scaled = [
                    standardised(anchors[name].design, w, data.weight) for w in (found.w, *of_folds)
                ]
                mean += shares[k] * np.mean(scaled, axis=0)
        return mean, members

    def _over_folds(self, what: str, work: Any, folds: list[Fold], *arguments: Any) -> list[Any]:
        """Return what `work` returns for each fold."""
        log = ProgressLog()
        logger.info("%s: %d folds", what, len(folds))
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        tasks = parallel(delayed(work)(fold, *arguments) for fold in folds)
        results: list[Any] = []
        while len(results) < len(folds):
            try:
                results.append(next(tasks))
            finally:  # Ctrl-C also stops worker processes, whose errors it replaces
                raise_if_interrupted()
            scores = np.mean([getattr(one, "scores", one) for one in results], axis=0)
            best = float(scores.max())
            log.report(what, len(results), len(folds), best)
            if self.on_progress is not None:
                self.on_progress(what, len(results), len(folds), best)
        return results

    def _checked_path(self) -> Path:
        surrogate, gamma = resolve_with_gamma(self.surrogate, self.gamma)
        check_count(self.max_iter, "max_iter", why="it is the number of iterations")
        check_real(self.tol, "tol", above=0, why="it is the stopping tolerance; try 1e-4")
        alphas = _strengths(self.alphas, "alphas")
        if list(alphas) != sorted(alphas, reverse=True):
            raise ParameterError(
                f"`alphas` must be in descending order, got {alphas!r}: the path starts at "
                "logistic regression; sort them"
            )
        return Path(alphas, surrogate, gamma, self.max_iter, self.tol)

    def _checked_Cs(self) -> tuple[float, ...]:
        if not isinstance(self.Cs, (int, np.integer)):
            return _strengths(self.Cs, "Cs")
        check_count(int(self.Cs), "Cs", why="it is the number of values from 1e-4 to 1e4")
        return tuple(np.logspace(-4, 4, self.Cs).tolist())


def _strengths(values: Any, name: str) -> tuple[float, ...]:
    if not np.iterable(values):
        raise ParameterError(f"`{name}` = {values!r} must be a sequence of values to try")
    strengths = tuple(values)
    if not strengths:
        raise ParameterError(f"`{name}` is empty: give at least one value to try")
    for value in strengths:
        check_real(value, name, above=0, why="it is the strength of a penalty")
    return strengths


class _Choice(NamedTuple):
    """The outcome of the cross-validation."""

    weights: dict[str, Floats]
    scores: dict[str, Floats]
    mean: Floats
    result: FitResult


def _result_of(members: Sequence[Minimum]) -> FitResult:
    iterations = max(1, *(int(member.iterations) for member in members))
    others = [member for member in members if not member.converged]
    if not others:
        return FitResult(True, False, members[-1].message, iterations)
    message = (
        f"{len(others)} of {len(members)} fits {others[-1].message}: increase max_iter or tol, or "
        "leave out the smallest alphas"
    )
    return FitResult(False, False, message, iterations)


def _keep_logistic(
    path: Path, data: TrainingSet, anchors: dict[str, Anchor], best_scale: str
) -> _Choice:
    """Return logistic regression with the chosen C, after an interrupt."""
    design, C = anchors[best_scale]
    found = fit_logistic(design, data.positive, data.weight, C=C, total=data.total)
    weights = {best_scale: np.eye(1, 1 + len(path.alphas))[0]}
    message = "interrupted: kept logistic regression, alpha was not chosen"
    result = FitResult(False, True, message, max(1, found.iterations))
    return _Choice(weights, {}, design.unscaled(found.w), result)


def _logistic_scores(fold: Fold, like: Design, Cs: Sequence[float]) -> Floats:
    """Return AP of logistic regression for every C, each fit starting from the previous one."""
    train, held_out = fold.train, EvaluationSet.of(fold.test, like)
    design = like.of(train.X)
    w = np.zeros(design.parameters)
    scores = []
    for C in sorted(Cs):
        w = fit_logistic(design, train.positive, train.weight, C=C, total=train.total, start=w).w
        raise_if_interrupted()
        scores.append(held_out.average_precision(w))
    return np.array(scores)[np.argsort(np.argsort(Cs))]
