"""APClassifierCV: chooses scaling, C and alpha by cross-validated average precision."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from apmax.binary_classifier import unchanged_on_error
from apmax.binary_target import FEW_POSITIVES, warn_if_few
from apmax.blas_threads import one_blas_thread
from apmax.errors import ParameterError
from apmax.interrupts import (
    CooperativeInterrupt,
    cooperative_interrupts,
    interrupt_on_hold,
    interrupts_before_errors,
    raise_if_interrupted,
)
from apmax.lbfgs import Minimum
from apmax.linear.averaging import CANCELLED, gains_over_first, standardised, weigh_by_score
from apmax.linear.base import LinearAPModel, TrainingSet, logger
from apmax.linear.design import make_design
from apmax.linear.folds import Fold, folds_of
from apmax.linear.full_batch import fit_logistic
from apmax.linear.held_out import calibration_of, held_out_margins
from apmax.linear.history import ProgressLog
from apmax.linear.logistic_search import LogisticSearch, logistic_fits
from apmax.linear.path import FoldPath, Path
from apmax.linear.platt import Calibration
from apmax.linear.result import FitResult
from apmax.objective.surrogates import Surrogate, resolve_with_gamma
from apmax.splits import test_share
from apmax.validation import Floats, check_count, check_real

DEFAULT_ALPHAS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
DEFAULT_CS = tuple(np.logspace(-4, 4, 10).tolist())
FIRST_ALPHAS = 4
"""Alphas after which a path ends if it is clearly worse by then."""


class APClassifierCV(LinearAPModel):
    r"""Linear classifier for average precision with cross-validated hyperparameters.

    With AP over the same folds:

    1. the scaling of the features (unit standard deviation, or a largest absolute value of 1) and C
       of the logistic regression that anchors the path are chosen as in LogisticRegressionCV;
    2. a path over alpha runs from large (logistic regression) to small (average precision alone),
       each fit starting from the previous one;
    3. every model of the path, logistic regression included, gets a weight that falls with the
       distance of its AP to the best, in standard errors, and is 0 beyond two.

    Then the models with a weight are fitted on all data, and the result is the weighted mean of
    these fits and of the folds' fits, all standardised to scores of standard deviation 1. It is a
    single linear model. Its log-odds are calibrated on the margins of the folds' models on held-out
    rows.

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
        AP along the path, for the chosen scaling; NaN for alphas that were not tried because the
        path was clearly worse than its beginning by then.
    weights_ : dict of str to ndarray of shape (1 + n_alphas,)
        Weights of logistic regression and of each alpha in the result, for the chosen scaling.
    out_of_fold_ : ndarray of shape (n_samples,)
        Log-odds of ``classes_[1]`` for each row by the models of the split that holds it out; NaN
        for a row that no split holds out.
    log_odds_limits_, log_odds_curve_
        As in :class:`APClassifier`.
    n_iter_ : int
        Largest number of iterations of a fit on all data.
    result_ : FitResult
        Whether all fits converged, and whether Ctrl-C ended the search.

    Notes
    -----
    With more than 20,000 negatives, folds are fitted to all positives (at most 20,000) and a
    weighted random sample of the negatives: five per positive, at least 20,000, and at least an
    eighth of them. The final fits use all rows, and count as much as those of all folds together.

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
    """Scalings to try: unit standard deviation, largest absolute value 1."""
    curved = True
    """Whether probabilities may be a curve of the log-odds."""

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
            search = self._logistic_search(data, folds, Cs)
            try:
                chosen = self._average_path(path, data, folds, search)
            except CooperativeInterrupt:
                with interrupt_on_hold():
                    chosen = _keep_logistic(path, data, search)
            design = search.anchor.design
            self._set_coefficients(design, design.scaled(chosen.mean), data, chosen.calibration)
        self.out_of_fold_ = self._out_of_fold(chosen, folds[0].data.positive.size)
        self.weights_, self.scores_ = {search.scale: chosen.weights}, chosen.scores
        self.logistic_scores_ = search.scores
        self.scale_, self.C_ = search.scale, search.anchor.C
        self.alpha_ = float([np.inf, *path.alphas][int(np.argmax(chosen.weights))])
        self.n_iter_, self.result_ = chosen.result.iterations, chosen.result
        warn_if_few(data.positive, stacklevel=4)
        if not self.result_.converged:
            warnings.warn(self.result_.message, ConvergenceWarning, stacklevel=3)
        return self

    def _out_of_fold(self, chosen: _Choice, rows: int) -> Floats:
        if chosen.held_out is None or chosen.calibration is None:
            return np.full(rows, np.nan)
        fit = chosen.calibration
        log_odds = fit.slope * chosen.held_out + fit.offset
        return log_odds if self.pos_label_ == self.classes_[1] else -log_odds

    def _logistic_search(
        self, data: TrainingSet, folds: list[Fold], Cs: Sequence[float]
    ) -> LogisticSearch:
        """Choose scaling and C of logistic regression by mean AP over the folds."""
        designs = {name: make_design(data.X, name, data.weight) for name in self.scales}
        found = self._over_folds("logistic regression", logistic_fits, folds, designs, Cs)
        return LogisticSearch.of(found, designs, Cs)

    def _average_path(
        self, path: Path, data: TrainingSet, folds: list[Fold], search: LogisticSearch
    ) -> _Choice:
        """Run the path on the folds, weigh its models, and fit those on all data."""
        anchor = search.anchor
        held_out_share = test_share([(fold.train_rows, fold.test_rows) for fold in folds])
        paths = self._paths(path, folds, search, held_out_share)
        scores = np.stack([of_fold.scores for of_fold in paths], axis=1)
        weights = weigh_by_score(scores, held_out_share)
        few = np.count_nonzero(data.positive) < FEW_POSITIVES
        if few and not gains_over_first(scores, held_out_share):
            weights = np.eye(1, weights.size)[0]
        used = np.flatnonzero(weights)
        on_folds = [[of_fold.weights[k] for of_fold in paths] for k in (0, *used[used > 0])]
        # The folds' models are near the fit on all data, which takes few iterations from there.
        needed = path._replace(alphas=tuple(path.alphas[k - 1] for k in used if k > 0))
        starts = [np.mean(each, axis=0) for each in on_folds]
        fits = list(needed.fits(anchor, data, starts))
        sample = data.thinned(len(folds))
        like = anchor.design.of(sample.X)
        means = np.zeros((1 + len(folds), data.X.shape[1] + 1))  # of all data, and of each fold
        for k, found, of_folds in zip((0, *used[used > 0]), fits, on_folds, strict=True):
            members = [standardised(like, w, sample.weight) for w in (found.w, *of_folds)]
            means += weights[k] * np.array(members)
        # A thinned fold knows less than all data, so all folds together count as one fit then.
        on_all = means.mean(axis=0) if sample is data else (means[0] + means[1:].mean(axis=0)) / 2
        # Standardised again: a mean of models that differ has scores of smaller deviation.
        mean, *of_folds = (
            standardised(like, like.scaled(w), sample.weight, CANCELLED)
            for w in (on_all, *means[1:])
        )
        held_out = held_out_margins(folds, of_folds)
        calibration = calibration_of(held_out, folds[0].data, curved=self.curved)
        missing = 1 + len(path.alphas) - weights.size
        scores = np.append(scores[1:], np.full((missing, len(folds)), np.nan), axis=0)
        weights = np.append(weights, np.zeros(missing))
        return _Choice(
            weights, {search.scale: scores}, mean, result_of(fits), held_out, calibration
        )

    def _paths(
        self, path: Path, folds: list[Fold], search: LogisticSearch, held_out_share: float
    ) -> list[FoldPath]:
        """Run the path on the folds, to its end unless it is clearly worse long before."""
        begin = path._replace(alphas=path.alphas[:FIRST_ALPHAS])
        rest = path._replace(alphas=path.alphas[FIRST_ALPHAS:])
        paths: list[FoldPath] = self._over_folds(
            f"path over alpha, {search.scale}",
            begin.on_fold,
            folds,
            search.anchor,
            starts=search.starts,
        )
        scores = np.stack([of_fold.scores for of_fold in paths], axis=1)
        if not rest.alphas or (len(folds) > 1 and not weigh_by_score(scores, held_out_share)[-1]):
            return paths
        return self._over_folds(
            "path over small alphas", rest.continued_on_fold, folds, search.anchor, starts=paths
        )

    def _over_folds(
        self,
        what: str,
        work: Any,
        folds: list[Fold],
        *arguments: Any,
        starts: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Return what `work` returns for each fold; `starts` adds one argument per fold."""
        own = [()] * len(folds) if starts is None else [(start,) for start in starts]
        log = ProgressLog()
        logger.info("%s: %d folds", what, len(folds))
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        tasks = parallel(
            delayed(work)(fold, *arguments, *last) for fold, last in zip(folds, own, strict=True)
        )
        results: list[Any] = []
        while len(results) < len(folds):
            with interrupts_before_errors():
                results.append(next(tasks))
            raise_if_interrupted()
            scores = np.mean([getattr(one, "scores", one) for one in results], axis=0)
            best = float(np.max(scores))
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
    """The outcome of the cross-validation over alpha."""

    weights: Floats
    scores: dict[str, Floats]
    mean: Floats
    result: FitResult
    held_out: Floats | None = None
    """Margin of each row by models that have not seen it; None if there are no such models."""
    calibration: Calibration | None = None
    """Of these margins."""


def result_of(members: Sequence[Minimum]) -> FitResult:
    """Return how some fits ended together."""
    iterations = max(1, *(int(member.iterations) for member in members))
    others = [member for member in members if not member.converged]
    if not others:
        return FitResult(True, False, members[-1].message, iterations)
    message = (
        f"{len(others)} of {len(members)} fits {others[-1].message}: increase max_iter or tol, or "
        "leave out the smallest alphas"
    )
    return FitResult(False, False, message, iterations)


def _keep_logistic(path: Path, data: TrainingSet, search: LogisticSearch) -> _Choice:
    """Return logistic regression with the chosen C, after an interrupt."""
    design, C = search.anchor
    found = fit_logistic(design, data.positive, data.weight, C=C, total=data.total)
    weights = np.eye(1, 1 + len(path.alphas))[0]
    message = "interrupted: kept logistic regression, alpha was not chosen"
    result = FitResult(False, True, message, max(1, found.iterations))
    return _Choice(weights, {}, design.unscaled(found.w), result)
