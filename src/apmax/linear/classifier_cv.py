r"""APClassifierCV: the strength of the anchor, and the anchor itself, by cross-validated AP."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from apmax.errors import ParameterError
from apmax.linear.averaging import all_on_the_surest, standardised, weigh
from apmax.linear.base import LinearAPModel, TrainingSet
from apmax.linear.design import SCALES, Design, make_design
from apmax.linear.folds import Fold, folds_of, is_number_of_folds
from apmax.linear.full_batch import Minimum, fit_logistic
from apmax.linear.history import FitStatus, end_line, show_line, watch
from apmax.linear.path import Anchor, FoldPath, Path
from apmax.objective.surrogates import default_gamma, resolve
from apmax.validation import Floats, check_count, check_gamma, check_real, check_switch

DEFAULT_ALPHAS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
DEFAULT_CS = tuple(np.logspace(-4, 4, 10).tolist())


class APClassifierCV(LinearAPModel):
    r"""APClassifier over many alphas and two scales, averaged by cross-validated AP.

    For each scale of the features (unit deviation, unit maximum), with AP over the same folds:

    1. C of the logistic regression that anchors, as LogisticRegressionCV would choose it;
    2. a path over alpha from large (logistic regression) to small (average precision alone),
       each fit starting from the one before;
    3. a weight for every model of the path, logistic regression included: exp(gain / 2 standard
       errors), see :func:`apmax.linear.averaging.weigh`.

    Then the paths are run once more on all data, as far as they weigh anything, and the result
    is the weighted mean of these fits and of the folds' fits, all with scores of deviation 1.
    That is one linear model, and on the data of docs/linear.md it ranks better than the best
    of them, on average.
    ``average=False`` keeps one fit: of the better scale, and of the alpha whose gain over
    logistic regression, fold by fold and less half a standard error, is largest; or logistic
    regression if that is not above 0.

    Parameters
    ----------
    alphas : strengths of the anchor to try, largest first; see :class:`APClassifier`.
    Cs : strengths C of the logistic regression to try, or how many from 1e-4 to 1e4.
    surrogate, gamma, max_iter, tol : as in :class:`APClassifier` with solver "lbfgs".
    average : whether to average; without, it is one fit on all data, chosen as above.
    cv : number of stratified folds, shuffled (always alike: files are often in some order, and
        folds in that order mislead); None is five, or as many as the rarer class has examples.
        Or a scikit-learn splitter, or an iterable of splits; for groups,
        ``list(splitter.split(X, y, groups))``.
    n_jobs : processes over which the folds are spread.
    verbose : show on a terminal how many folds are done.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, feature_names_in_ : as in APClassifier.
    alpha_ : the alpha of the fit that weighs most; infinity if that is logistic regression.
    C_, scale_ : its anchor's C and scale.
    logistic_scores_ : dict of scale → (n_Cs, n_folds) AP of logistic regression.
    scores_ : dict of scale → (n_alphas, n_folds) AP along the path.
    weights_ : dict of scale → (1 + n_alphas,), the share of logistic regression and of each
        alpha in the result. Without `average`, this and `scores_` have the better scale only.
    n_iter_, status_ : the most iterations of a fit on all data that weighs anything, and
        whether all of them converged.

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
        surrogate: str | None = None,
        gamma: float | None = None,
        average: bool = True,
        cv: Any = None,
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
        path, Cs = self._checked_path(), self._checked_Cs()
        data = self._checked(X, y, sample_weight)
        if is_number_of_folds(self.cv):
            data = data.seen()
        folds = folds_of(self.cv, data)
        data = data.seen()
        logistic_scores, anchors = self._anchors(data, folds, Cs)
        best_scale = max(anchors, key=lambda name: logistic_scores[name].mean(axis=1).max())
        if not self.average:
            anchors = {best_scale: anchors[best_scale]}
        paths = {
            name: self._over_folds(f"path over alpha, {name}", path.on, folds, anchor)
            for name, anchor in anchors.items()
        }
        scores = {
            name: np.stack([of_fold.scores for of_fold in of_folds], axis=1)
            for name, of_folds in paths.items()
        }
        every, standard = np.concatenate(list(scores.values())), scores[best_scale][0]
        shares = weigh(every, standard) if self.average else all_on_the_surest(every, standard)
        weights = dict(zip(scores, np.split(shares, len(scores)), strict=True))
        mean, members = self._members(path, weights, data, anchors, paths)
        self.weights_ = weights
        self.scores_ = {name: each[1:] for name, each in scores.items()}
        self.logistic_scores_ = logistic_scores
        self.scale_ = max(weights, key=lambda name: weights[name].max())
        self.C_ = anchors[self.scale_].C
        self.alpha_ = float([np.inf, *path.alphas][int(np.argmax(weights[self.scale_]))])
        design = anchors[self.scale_].design
        self._set_coefficients(design, design.scaled(mean), data)
        self.n_iter_ = max(1, *(int(member.iterations) for member in members))
        self.status_ = _status_of(members)
        if not self.status_.converged:
            warnings.warn(
                f"{self.status_.message}: raise max_iter or tol, or leave out the smallest alphas",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _anchors(
        self, data: TrainingSet, folds: list[Fold], Cs: Sequence[float]
    ) -> tuple[dict[str, Floats], dict[str, Anchor]]:
        """AP of logistic regression for each scale, C and fold, and for each scale the best C."""
        scores, anchors = {}, {}
        for name in SCALES:
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
        """Fit on all data what weighs anything; the mean, for features as given, and the fits."""
        mean = np.zeros(data.X.shape[1] + 1)
        members: list[Minimum] = []
        for name, shares in weights.items():
            if not shares.any():
                continue
            last = int(np.flatnonzero(shares)[-1])
            weighing = path._replace(alphas=path.alphas[:last])
            for k, found in enumerate(weighing.through(anchors[name], data)):
                if shares[k] == 0:
                    continue
                members.append(found)
                of_folds = [one.weights[k] for one in paths[name]] if self.average else []
                alike = [
                    standardised(anchors[name].design, w, data.weight) for w in (found.w, *of_folds)
                ]
                mean += shares[k] * np.mean(alike, axis=0)
        return mean, members

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

    def _checked_path(self) -> Path:
        surrogate = resolve(self.surrogate or "logistic")
        gamma = check_gamma(default_gamma(surrogate) if self.gamma is None else self.gamma)
        check_count(self.max_iter, "max_iter", why="it is the number of iterations")
        check_real(self.tol, "tol", above=0, why="it is where L-BFGS stops; try 1e-4")
        check_switch(self.average, "average")
        alphas = _strengths(self.alphas, "alphas")
        if list(alphas) != sorted(alphas, reverse=True):
            raise ParameterError(
                f"`alphas` must fall from the largest to the smallest, got {alphas!r}: the "
                "path starts at logistic regression; sort them"
            )
        return Path(alphas, surrogate, gamma, self.max_iter, self.tol)

    def _checked_Cs(self) -> tuple[float, ...]:
        if not isinstance(self.Cs, (int, np.integer)):
            return _strengths(self.Cs, "Cs")
        check_count(int(self.Cs), "Cs", why="it is how many strengths from 1e-4 to 1e4")
        return tuple(np.logspace(-4, 4, self.Cs).tolist())


def _strengths(values: Any, name: str) -> tuple[float, ...]:
    if not np.iterable(values):
        raise ParameterError(f"`{name}` = {values!r} must be a list of strengths to try")
    strengths = tuple(values)
    if not strengths:
        raise ParameterError(f"`{name}` is empty: give at least one strength to try")
    for value in strengths:
        check_real(value, name, above=0, why="each of them is the strength of a penalty")
    return strengths


def _status_of(members: Sequence[Minimum]) -> FitStatus:
    others = [member for member in members if not member.converged]
    if not others:
        return FitStatus(True, members[-1].message)
    return FitStatus(False, f"{len(others)} of {len(members)} fits: {others[-1].message}")


def _logistic_scores(fold: Fold, like: Design, Cs: Sequence[float]) -> Floats:
    """AP of logistic regression for every C, each fit starting from the last."""
    train, watched = fold.train, watch(fold.test, like)
    design = like.of(train.X)
    w = np.zeros(design.parameters)
    scores = []
    for C in sorted(Cs):
        w = fit_logistic(design, train.positive, train.weight, C=C, total=train.total, start=w).w
        scores.append(watched.average_precision(w))
    return np.array(scores)[np.argsort(np.argsort(Cs))]
