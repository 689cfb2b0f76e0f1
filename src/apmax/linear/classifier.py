"""APClassifier: a linear classifier fitted to the exact average-precision objective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from apmax.binary_classifier import unchanged_on_error
from apmax.blas_threads import one_blas_thread
from apmax.interrupts import cooperative_interrupts
from apmax.lbfgs import minimise
from apmax.linear.base import LinearAPModel
from apmax.linear.design import make_design
from apmax.linear.full_batch import ap_objective, fit_logistic, relative_penalty
from apmax.linear.history import EvaluationSet, History
from apmax.linear.result import FitResult
from apmax.objective.surrogates import Surrogate, resolve_with_gamma
from apmax.validation import Floats, check_count, check_real

LOGISTIC_C = 1.0
"""C of the logistic regression that anchors a single fit."""


class APClassifier(LinearAPModel):
    r"""Linear classifier that maximises a surrogate of average precision.

    L-BFGS minimises the exact objective over all pairs,

    .. math:: -\widehat{AP}(w) + \alpha \, \|w - w_{LR}\|^2 / \|w_{LR}\|^2,

    starting from :math:`w_{LR}`, a logistic regression. A large alpha gives logistic regression;
    a small alpha follows average precision alone. :class:`APClassifierCV` chooses alpha by
    cross-validation and is the better default.

    Features are centred and scaled internally (sparse features to a largest absolute value of 1)
    without copying X. A one-dimensional logistic fit (Platt scaling) calibrates the result, so
    that `decision_function` returns log-odds; it does not change the ranking.

    Parameters
    ----------
    surrogate : str or Surrogate, default="logistic"
        "logistic", the paper's "squared_hinge", or your own.
    gamma : float, optional
        Slope or margin of the surrogate in units of the score σ(w·x + b). The default is 20 for
        "logistic", 0.1 for "squared_hinge" and 1 for your own.
    alpha : float, default=1.0
        Strength of the penalty on the distance to a logistic regression with C=1; ≥ 0.
    max_iter : int, default=200
        Largest number of iterations.
    tol : float, default=1e-4
        The fit stops when no entry of the gradient is larger, or when an iteration improves the
        objective by less than a relative 1e-9.
    pos_label : optional
        The positive class. The default is the last class in sorted order, with a warning if that
        is the more frequent one.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Weights of the log-odds of ``classes_[1]``.
    intercept_ : ndarray of shape (1,)
        Intercept of the log-odds.
    classes_ : ndarray of shape (2,)
        Both classes in sorted order, also if `pos_label` is the first: scikit-learn's metrics and
        meta-estimators rely on it.
    pos_label_ : object
        The positive class. Its probability is
        ``predict_proba(X)[:, list(classes_).index(pos_label_)]``.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    log_odds_limits_ : tuple of float
        Log-odds beyond which probabilities hardly change. They are three interquartile ranges
        beyond the quartiles of the training margins of the classes, or the ends of
        `log_odds_curve_`.
    log_odds_curve_ : ndarray of shape (2, n_points) or None
        Values of `decision_function` and the log-odds of `predict_proba` at them, linear between;
        None if they are equal.
    n_iter_ : int
        Number of iterations.
    history_ : dict of str to ndarray
        Columns step, seconds, surrogate_ap, train_ap, validation_ap (NaN here), gradient_norm.
    result_ : FitResult
        Whether the fit converged or was interrupted, with a message.

    See Also
    --------
    APClassifierCV : Chooses alpha, scaling and C by cross-validation.
    StochasticAPClassifier : The stochastic methods of the paper.

    Notes
    -----
    Ctrl-C ends the fit after the current iteration and keeps the result. Progress is logged to the
    logger "apmax" at level INFO.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from apmax import APClassifier, average_precision
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = APClassifier().fit(X[::2], y[::2])
    >>> round(average_precision(y[1::2], model.decision_function(X[1::2])), 3)
    0.992
    """

    def __init__(
        self,
        *,
        surrogate: str | Surrogate = "logistic",
        gamma: float | None = None,
        alpha: float = 1.0,
        max_iter: int = 200,
        tol: float = 1e-4,
        pos_label: Any = None,
    ) -> None:
        self.surrogate = surrogate
        self.gamma = gamma
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol
        self.pos_label = pos_label

    @unchanged_on_error
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> APClassifier:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Two classes. The positive one is `pos_label`, or else the last in sorted order.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights.

        Returns
        -------
        APClassifier
            The fitted estimator.
        """
        surrogate, gamma = self._checked_parameters()
        data = self._checked(X, y, sample_weight).without_zero_weights()
        with cooperative_interrupts(), one_blas_thread(np.prod(data.X.shape)):
            scaling = "maximum" if sp.issparse(data.X) else "deviation"
            design = make_design(data.X, scaling, data.weight)
            history = History(
                EvaluationSet.of(data, design), on_progress=self.on_progress, steps=self.max_iter
            )
            anchor = fit_logistic(
                design, data.positive, data.weight, C=LOGISTIC_C, total=data.total
            ).w
            penalty = relative_penalty(self.alpha, anchor)
            objective = ap_objective(
                design,
                data.positive,
                data.weight,
                surrogate=surrogate,
                gamma=gamma,
                penalty=penalty,
                anchor=anchor,
            )

            def record(w: Floats, value: float, gradient: Floats) -> None:
                away = w[:-1] - anchor[:-1]
                ap = -value + penalty * float(away @ away)
                history.record(len(history.rows), w, ap, float(np.linalg.norm(gradient)))

            record(anchor, *objective(anchor))
            found = minimise(
                objective, anchor, max_iter=self.max_iter, tol=self.tol, each_iteration=record
            )
            message = found.message
            if not (found.converged or found.interrupted):
                message += ": increase max_iter, tol or alpha"
            result = FitResult(found.converged, found.interrupted, message, found.iterations)
            self._finish(design, found.w, data, history.columns(), result)
        return self

    @unchanged_on_error
    def fit_files(
        self,
        files: Any,
        target: str,
        *,
        columns: Sequence[str] | None = None,
        sample_weight: str | None = None,
        cache: Any = None,
        checkpoint: Any = None,
    ) -> APClassifier:
        """Fit the model to files that need not fit into memory.

        The direction of `coef_` equals that of :meth:`fit` up to rounding. Probabilities are
        calibrated by a line only, and by :meth:`fit` by a curve if that fits better. Files are
        decoded once into a flat temporary copy, which every iteration reads in blocks. Needs the
        extra ``files`` and the logistic surrogate.

        Parameters
        ----------
        files : path, glob pattern, folder, or list of paths
            Parquet, Feather (Arrow) or CSV files with the same columns.
        target : str
            Column of labels.
        columns : list of str, optional
            Columns of features, all of them numbers without missing values. The default is all
            other columns.
        sample_weight : str, optional
            Column of non-negative weights.
        cache : path or False, optional
            Folder of the temporary copy, by default the system's. False decodes the files in every
            pass and needs no disk space.
        checkpoint : path, optional
            File to which each pass appends its value and gradient. The same call resumes from it
            with bit-identical results. It is deleted when the fit is complete, and kept after
            Ctrl-C or an error.

        Returns
        -------
        APClassifier
            The fitted estimator; `history_` has no AP of the training data.

        Raises
        ------
        FileError
            If files are missing, change during the fit, or do not fit on the disk.
        BackendError
            If the surrogate is not logistic.
        """
        from apmax.scale.estimator import fit_files

        fit_files(
            self,
            files,
            target,
            columns=columns,
            sample_weight=sample_weight,
            cache=cache,
            checkpoint=checkpoint,
        )
        return self

    def _checked_parameters(self) -> tuple[Surrogate, float]:
        """Validate the parameters before any state changes; return the surrogate and its γ."""
        why = "0 means no penalty; larger values stay nearer to logistic regression"
        check_real(self.alpha, "alpha", at_least=0, why=why)
        check_count(self.max_iter, "max_iter", why="it is the number of iterations")
        check_real(self.tol, "tol", above=0, why="it is the stopping tolerance; try 1e-4")
        return resolve_with_gamma(self.surrogate, self.gamma)
