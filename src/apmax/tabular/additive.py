"""AdditiveAPClassifier: one smooth function per feature, trained for average precision."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from apmax.binary_classifier import BinaryAPClassifier, unchanged_on_error
from apmax.binary_target import BinaryTarget, warn_if_few
from apmax.blas_threads import one_blas_thread
from apmax.errors import ShapeError
from apmax.interrupts import (
    CooperativeInterrupt,
    cooperative_interrupts,
    interrupts_before_errors,
    raise_if_interrupted,
)
from apmax.linear import APClassifierCV, FitResult
from apmax.linear.averaging import standardised
from apmax.linear.base import TrainingSet
from apmax.linear.design import make_design, product
from apmax.linear.path import Anchor
from apmax.linear.platt import calibrate, centre_and_spread
from apmax.splits import Split, mean_held_out
from apmax.tabular.columns import INTERCEPT, Table, frame_like
from apmax.tabular.effect_plots import EffectPlots
from apmax.tabular.effects import Effect
from apmax.tabular.files import AllRowsMixin
from apmax.tabular.interactions import Pairs, find_pairs
from apmax.tabular.terms import Term, effects, main_terms, matrix
from apmax.tabular.training_data import as_given, checked_rows, training_data
from apmax.validation import Floats, check_count, shares


class BasisAPClassifierCV(APClassifierCV):
    """APClassifierCV for basis functions, whose scale is part of the penalty."""

    scales = ("given",)
    curved = False  # effects sum to the log-odds of the probabilities

    def margins_without(self, train: TrainingSet, X: Any) -> Floats:
        """Return margins of other rows by the chosen models, fitted to `train` alone.

        They are in units of the deviation of training margins.
        """
        ((scale, weights),) = self.weights_.items()
        used = np.flatnonzero(weights[1:])
        path = self._checked_path()
        path = path._replace(alphas=tuple(path.alphas[k] for k in used))
        design = make_design(train.X, scale, train.weight)
        mean = np.zeros(design.parameters)
        for k, found in zip((0, *used + 1), path.fits(Anchor(design, self.C_), train), strict=True):
            mean += weights[k] * standardised(design, found.w, train.weight)
        mean = standardised(design, design.scaled(mean), train.weight)
        return np.asarray(product(X, mean[:-1]) + mean[-1])

    def recalibrate(self, X: Any, held_out: Floats, target: BinaryTarget) -> None:
        """Calibrate to margins of other models, in units of the deviation of training margins."""
        share = shares(target.weight, target.positive.size)
        margins = product(X, self.coef_[0])
        centre, spread = centre_and_spread(margins, share)
        seen = ~np.isnan(held_out)
        weight = None if target.weight is None else target.weight[seen]
        fit = calibrate(
            held_out[seen], target.positive[seen], weight, target.total, curved=self.curved
        )
        slope = fit.slope / (spread or 1.0)
        self.coef_ = slope * self.coef_
        self.intercept_ = np.array([fit.offset - slope * centre])
        self.out_of_fold_ = fit.slope * held_out + fit.offset


class AdditiveAPClassifier(EffectPlots, AllRowsMixin, BinaryAPClassifier):
    r"""Additive model of a table, trained for average precision.

    The log-odds of the positive class are a sum of one function per column,

    .. math:: \log\frac{p}{1-p} = b + \sum_j f_j(x_j),

    so that the model can be read, plotted and explained row by row. A numeric column has a smooth
    function (cubic splines at its quantiles, and a linear term in its ranks mapped to a normal
    distribution), which is
    constant beyond the data and therefore robust to outliers. A categorical column has one value
    per category; rare categories share one. Missing values have a value of their own.
    :class:`APClassifierCV` fits the coefficients.

    Parameters
    ----------
    interactions : int or "auto", default="auto"
        Number of functions of two columns to add. "auto" compares 0, 10 and 30 by cross-validated
        AP and adds none unless the gain exceeds its standard error.
    categorical_features : "from_dtype" or array-like, default="from_dtype"
        Names, positions or mask of the categorical columns. By default, text and categorical
        types are categories and everything else is a number.
    cv : int, splitter or iterable, optional
        As in :class:`APClassifierCV`.
    n_jobs : int, optional
        Number of processes that share the folds.
    pos_label : optional
        The positive class. The default is the last class in sorted order, with a warning if that
        is the more frequent one.

    Attributes
    ----------
    shape_functions_ : dict of str to NumberEffect, CategoryEffect or PairEffect
        The function of each column: `grid` and `effect` of a number, `levels` and `effect` of a
        category, and the share of the data (`density`) at each. Effects are contributions to the
        log-odds of `pos_label_` and have mean 0 over the training data.
    intercept_ : float
        The log-odds b of `pos_label_`.
    classes_, pos_label_, n_features_in_, feature_names_in_
        As in :class:`APClassifierCV`.
    linear_ : APClassifierCV
        The fitted coefficients of the basis functions.
    columns_ : Columns
        The encoding of the table, learned from the training rows.
    n_iter_ : int
        As in :class:`APClassifierCV`.
    out_of_fold_ : ndarray of shape (n_samples,)
        As in :class:`APClassifierCV`; NaN for rows of weight 0.
    result_ : FitResult
        Whether all fits converged, and whether Ctrl-C ended the search.

    See Also
    --------
    AutoAPClassifier : Compares this model with trees and stacks them.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from apmax import AdditiveAPClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = AdditiveAPClassifier(cv=3).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.98
    True
    >>> contributions = model.explain(X[1::2])
    >>> contributions.shape
    (284, 31)
    """

    __metadata_request__fit = {"groups": True}  # noqa: RUF012 -- requested as by GroupKFold

    shape_functions_: dict[str, Effect]
    intercept_: float
    linear_: APClassifierCV
    _terms: list[Term]
    """Basis functions, in the order of the coefficients of `linear_`."""
    out_of_fold_: Floats
    result_: FitResult

    def __init__(
        self,
        *,
        interactions: int | str = "auto",
        categorical_features: Any = "from_dtype",
        cv: Any = None,
        n_jobs: int | None = None,
        pos_label: Any = None,
    ) -> None:
        self.interactions = interactions
        self.categorical_features = categorical_features
        self.cv = cv
        self.n_jobs = n_jobs
        self.pos_label = pos_label

    @unchanged_on_error
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None
    ) -> AdditiveAPClassifier:
        """Fit the model.

        Parameters
        ----------
        X : array-like, pandas or polars DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN or None where missing.
        y : array-like of shape (n_samples,)
            Two classes.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights.
        groups : array-like of shape (n_samples,), optional
            As in :meth:`APClassifierCV.fit`.

        Returns
        -------
        AdditiveAPClassifier
            The fitted estimator.
        """
        if self.interactions != "auto":
            why = "it is a number of pairs of columns, or 'auto'"
            check_count(self.interactions, "interactions", at_least=0, why=why)  # type: ignore[arg-type]
        data = training_data(self, X, y, sample_weight, groups)
        self.columns_, table, target, splits = data.columns, data.table, data.target, data.splits
        terms = main_terms(self.columns_, table, target)
        with cooperative_interrupts(), one_blas_thread():
            pairs = Pairs([], [])
            if self.interactions != 0:
                pairs = find_pairs(
                    self.columns_,
                    terms,
                    table,
                    target,
                    splits,
                    self.interactions,
                    self.on_progress,
                )
            log_odds = self._fit_terms(terms, pairs, table, target, splits)
        warn_if_few(target.positive, stacklevel=4)
        self.classes_, self.pos_label_ = target.classes, target.pos_label
        log_odds = log_odds if self.pos_label_ == self.classes_[1] else -log_odds
        self.out_of_fold_ = as_given(log_odds, data.rows, data.given)
        return self

    def _fit_terms(
        self,
        main: Sequence[Term],
        pairs: Pairs,
        table: Table,
        target: BinaryTarget,
        splits: Sequence[Split],
    ) -> Floats:
        """Fit the coefficients of the terms, set the functions and return held-out log-odds."""
        self._terms = terms = [*main, *pairs.terms]
        self.linear_ = BasisAPClassifierCV(cv=splits, n_jobs=self.n_jobs)
        self.linear_.on_progress = self.on_progress
        with warnings.catch_warnings():
            # They advise to change parameters or features that are not the user's.
            warnings.simplefilter("ignore", UserWarning)
            X = matrix(terms, table)
            self.linear_.fit(X, target.positive, target.counts)
        if pairs.terms and not self.linear_.result_.interrupted:
            # All labels chose the pairs, so that the folds of `linear_` are not independent.
            try:
                with interrupts_before_errors():
                    held_out = self._held_out_margins(main, pairs, table, target, splits)
                self.linear_.recalibrate(X, held_out, target)
            except CooperativeInterrupt:
                message = "interrupted: calibrated on rows that helped to choose the pairs"
                self.linear_.result_ = replace(
                    self.linear_.result_, converged=False, interrupted=True, message=message
                )
        if not self.linear_.result_.converged:
            warnings.warn(self.linear_.result_.message, ConvergenceWarning, stacklevel=4)
        self.linear_.cv = None  # the rows of the splits are of no use to a fitted model
        self._set_effects()
        log_odds: Floats = self.linear_.out_of_fold_
        del self.linear_.out_of_fold_  # kept once, by the caller
        return log_odds

    def _set_effects(self) -> None:
        """Set the functions from the coefficients of `linear_`."""
        found, self.intercept_ = effects(
            self._terms, self.linear_.coef_[0], float(self.linear_.intercept_[0])
        )
        self.shape_functions_ = {effect.name: effect for effect in found}
        if len(self.shape_functions_) < len(found):
            raise ShapeError("a column of `X` has the name of a pair of columns: rename it")
        self.result_, self.n_iter_ = self.linear_.result_, self.linear_.n_iter_

    def _held_out_margins(
        self,
        main: Sequence[Term],
        pairs: Pairs,
        table: Table,
        target: BinaryTarget,
        splits: Sequence[Split],
    ) -> Floats:
        """Return margins of each row by models whose pairs, too, were chosen without the row."""
        tasks = (
            delayed(_margins_without)(self.linear_, [*main, *of_split], table, target, split, k)
            for k, (of_split, split) in enumerate(zip(pairs.of_splits, splits, strict=True))
        )
        found: list[Floats] = []
        for margins in Parallel(n_jobs=self.n_jobs, return_as="generator")(tasks):
            found.append(margins)
            if self.on_progress is not None:
                best = float(np.nanmax(self.linear_.scores_[self.linear_.scale_].mean(axis=1)))
                self.on_progress("held-out rows", len(found), len(splits), best)
            raise_if_interrupted()
        return mean_held_out(splits, found, target.positive.size)

    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds of ``classes_[1]``.

        Parameters
        ----------
        X : array-like, pandas or polars DataFrame of shape (n_samples, n_features)
            New data with the columns of `fit`.
        """
        log_odds = self._log_odds(self._table(X))
        return log_odds if self.pos_label_ == self.classes_[1] else -log_odds

    def explain(self, X: Any) -> Any:
        """Return the contribution of each column to the log-odds of `pos_label_`, row by row.

        Parameters
        ----------
        X : array-like, pandas or polars DataFrame of shape (n_samples, n_features)
            The rows to explain.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_terms + 1)
            One column per entry of `shape_functions_`, in that order, and the intercept last. Each
            row sums to the log-odds. A frame is returned for a frame.
        """
        table = self._table(X)
        parts = [effect(table) for effect in self.shape_functions_.values()]
        parts.append(np.full(table.numbers.shape[0], self.intercept_))
        return frame_like(X, np.column_stack(parts), [*self.shape_functions_, INTERCEPT])

    def __getstate__(self) -> dict[str, Any]:
        # Only `fit_files` needs the basis functions, between its fits.
        return {name: one for name, one in super().__getstate__().items() if name != "_terms"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _log_odds(self, table: Table) -> Floats:
        """Return the log-odds of the positive class."""
        total = np.full(table.numbers.shape[0], self.intercept_)
        for effect in self.shape_functions_.values():
            total += effect(table)
        return total

    def _table(self, X: Any) -> Table:
        check_is_fitted(self, "shape_functions_")
        return self.columns_.transform(checked_rows(self, X, reset=False))


def _margins_without(
    linear: BasisAPClassifierCV,
    terms: Sequence[Term],
    table: Table,
    target: BinaryTarget,
    split: Split,
    number: int,
) -> Floats:
    """Return margins of the rows that a split holds out, by the terms of its training rows."""
    train, test = split
    # Numbers of rows in the place of X, so that only those of the sample are expanded.
    sample = TrainingSet(train, target.rows(train)).thinned(number)
    sample = sample._replace(X=matrix(terms, table.rows(sample.X)))
    with one_blas_thread(sample.X.size):
        return linear.margins_without(sample, matrix(terms, table.rows(test)))
