"""Model files in Python: a scikit-learn pipeline with the threshold that the file stores."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from apmax.app.decisions import Decision
from apmax.app.drift import DriftWarning, Shift
from apmax.app.model import Model, load_model
from apmax.app.stored_models import positive_label
from apmax.errors import ParameterError
from apmax.tabular import Leaderboard
from apmax.validation import Floats


class ModelPipeline(Pipeline):  # type: ignore[misc]
    """A model file as a fitted pipeline; :func:`load` returns it.

    Predictions of a table that differs from the training table give a :class:`DriftWarning` for
    each column: empty columns, values of another type, and mostly new categories.

    Parameters
    ----------
    steps, transform_input, memory, verbose
        As in :class:`sklearn.pipeline.Pipeline`; :func:`load` sets them.

    Attributes
    ----------
    leaderboard_ : Leaderboard
        The models that were compared in training.
    operating_point_ : object or None
        `predict` uses its `threshold`; it also has `precision` and `recall`. It is the one that
        ``apmax threshold`` has stored, if any, and can be set to what :func:`apmax.operating_point`
        returns; :func:`save` stores it.
    target_ : str or None
        Name of the column of labels, if the file stores it; :func:`save` stores it.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import pandas as pd
    >>> import apmax
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"amount": rng.normal(size=500)})
    >>> y = X["amount"] + rng.normal(size=500) > 2
    >>> fitted = apmax.AdditiveAPClassifier(cv=2).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     apmax.save(fitted, f"{folder}/loans.apmax", X)
    ...     model = apmax.load(f"{folder}/loans.apmax")
    >>> model.operating_point_ = apmax.operating_point(y, model.predict_proba(X)[:, 1], top=0.05)
    >>> int(model.predict(X).sum())
    25
    >>> [(shift.column, shift.size) for shift in model.shifts(X + 1)]
    [('predicted probability', 'large'), ('amount', 'large')]
    """

    leaderboard_: Leaderboard | None = None
    target_: str | None = None
    _point: Decision | None = None
    _model: Model | None = None
    """The model of the file; None in a clone."""

    @classmethod
    def of(cls, model: Model) -> ModelPipeline:
        """Return the pipeline of a model."""
        pipeline = cls(model.pipeline.steps)
        pipeline.leaderboard_, pipeline.target_ = model.leaderboard, model.target
        pipeline.operating_point_ = model.operating_point
        pipeline._model = replace(model, pipeline=pipeline)
        return pipeline

    @property
    def operating_point_(self) -> Any:
        """The threshold that `predict` uses, with its precision and recall, or None."""
        return self._point

    @operating_point_.setter
    def operating_point_(self, point: Any) -> None:
        self._point = point if point is None else Decision.of_point(point)

    @property
    def model(self) -> Model | None:
        """The model of the file with the present operating point; None in a clone."""
        if self._model is None:
            return None
        return replace(self._model, operating_point=self._point)

    def fit(self, X: Any, y: Any = None, **params: Any) -> ModelPipeline:
        """Fit the steps again; threshold and leaderboard of the file no longer apply.

        Parameters
        ----------
        X : DataFrame or matrix
            Training data.
        y : array-like of shape (n_samples,)
            Labels.
        **params
            Passed to the steps, as by :class:`sklearn.pipeline.Pipeline`.

        Returns
        -------
        ModelPipeline
            The fitted pipeline.
        """
        super().fit(X, y, **params)
        self.operating_point_ = self.leaderboard_ = self._model = None
        if hasattr(self[-1], "feature_means_"):  # of the training data of the file
            del self[-1].feature_means_
        return self

    def predict(self, X: Any, **params: Any) -> NDArray[Any]:
        """Return labels: the positive one for probabilities from the threshold on.

        Without an `operating_point_` the threshold is 0.5.

        Parameters
        ----------
        X : DataFrame or matrix
            Rows with the columns of the training data.
        **params
            Passed to the last step, as by :class:`sklearn.pipeline.Pipeline`.
        """
        if params:  # the steps know which parameters there are
            return np.asarray(super().predict(X, **params))
        positive = self.classes_ == positive_label(self[-1])
        threshold = 0.5 if self._point is None else self._point.threshold
        alert = super().predict_proba(X)[:, positive].ravel() >= threshold
        self._warn_of_drift(X)
        return np.asarray(np.where(alert, self.classes_[positive], self.classes_[~positive]))

    def predict_proba(self, X: Any, **params: Any) -> Floats:
        """Return the probabilities of both labels, in the order of `classes_`.

        Parameters
        ----------
        X : DataFrame or matrix
            Rows with the columns of the training data.
        **params
            Passed to the last step, as by :class:`sklearn.pipeline.Pipeline`.
        """
        found: Floats = super().predict_proba(X, **params)
        self._warn_of_drift(X)
        return found

    def predict_log_proba(self, X: Any, **params: Any) -> Floats:
        """Return the logarithms of the probabilities.

        Parameters
        ----------
        X : DataFrame or matrix
            Rows with the columns of the training data.
        **params
            Passed to the last step, as by :class:`sklearn.pipeline.Pipeline`.
        """
        found: Floats = super().predict_log_proba(X, **params)
        self._warn_of_drift(X)
        return found

    def decision_function(self, X: Any, **params: Any) -> Floats:
        """Return the log-odds of the second label of `classes_`.

        Parameters
        ----------
        X : DataFrame or matrix
            Rows with the columns of the training data.
        **params
            Passed to the last step, as by :class:`sklearn.pipeline.Pipeline`.
        """
        found: Floats = super().decision_function(X, **params)
        self._warn_of_drift(X)
        return found

    def explain(self, X: Any) -> Any:
        """Return a frame with the contribution of each column to the log-odds of each row.

        Linear and additive models are sums of such effects, which have mean 0 over the training
        data, and an intercept, which is left out. For trees and stacks with trees, a contribution
        is the change of the log-odds if the column had its typical value: the median, or the most
        frequent category.

        Parameters
        ----------
        X : DataFrame or matrix
            Rows with the columns of the training data.
        """
        if self._model is None:
            raise ParameterError("a clone has no model to explain: use the result of apmax.load")
        return self._model.explain(X)

    def shifts(self, X: Any) -> list[Shift]:
        """Return how far the predicted probability and each column moved since training.

        Parameters
        ----------
        X : DataFrame or matrix
            New rows with the columns of the training data; labels are not needed.

        Returns
        -------
        list of Shift
            That of the predicted probability, then those of the columns, the largest first. Empty
            if the file has no profile of the training data: pass `X` to :func:`save`.
        """
        if self._model is None:
            raise ParameterError(
                "a clone has no training data to compare with: use the result of apmax.load"
            )
        return self._model.shifts(X, self._model.probability(X))

    def _warn_of_drift(self, X: Any) -> None:
        if self._model is not None and self._model.preprocessor is not None:
            for one in self._model.differences(X):
                warnings.warn(one.text, DriftWarning, stacklevel=3)


def load(path: str | os.PathLike[str]) -> ModelPipeline:
    """Load a model file as a fitted scikit-learn pipeline.

    Loading executes no code from the file.

    Parameters
    ----------
    path : str or path
        A file written by ``apmax train`` or :func:`save`.

    Returns
    -------
    ModelPipeline
        A fitted :class:`sklearn.pipeline.Pipeline` for pandas frames with the columns of the
        training table. `predict` uses the threshold that ``apmax threshold`` has stored. It
        also has `leaderboard_`, `operating_point_`, `explain` and `shifts`.

    Examples
    --------
    >>> import apmax
    >>> import pandas as pd
    >>> model = apmax.load("loans.apmax")  # doctest: +SKIP
    >>> frame = pd.read_csv("new-loans.csv")  # doctest: +SKIP
    >>> model.predict_proba(frame)[:, 1]  # doctest: +SKIP
    """
    return ModelPipeline.of(load_model(path))
