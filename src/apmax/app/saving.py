"""Write models that were fitted in Python to model files."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from apmax.app.archive import LABELS
from apmax.app.column_values import CATEGORY, NUMBER
from apmax.app.decisions import Decision
from apmax.app.drift import has_few_values, profile
from apmax.app.features import TableEncoder, TablePreprocessor
from apmax.app.model import Model, model_content, model_from, save_model
from apmax.app.pipeline import ModelPipeline
from apmax.app.stored_models import positive_label
from apmax.errors import LabelError, ParameterError, ShapeError
from apmax.linear.base import LinearAPModel
from apmax.linear.platt import limited
from apmax.metrics import OperatingPoint
from apmax.tabular import AdditiveAPClassifier, AutoAPClassifier
from apmax.validation import Floats

CLASSIFIERS = (AutoAPClassifier, AdditiveAPClassifier, LinearAPModel, LogisticRegression)


def save(
    model: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    *,
    target: str | None = None,
    operating_point: OperatingPoint | None = None,
) -> None:
    """Write a fitted model to a file for the command line and :func:`load`.

    Parameters
    ----------
    model : estimator
        A fitted :class:`~apmax.AutoAPClassifier`, :class:`~apmax.AdditiveAPClassifier`, linear
        model of apmax or ``LogisticRegression``; a pipeline of a
        :class:`~apmax.app.TablePreprocessor` and one of these; or what :func:`load` returns, whose
        `operating_point_` is stored as well.
    path : str or path
        The file to write; it is replaced atomically.
    X : DataFrame or array, optional
        The training data, which the file needs if `model` was fitted to a frame without a
        preprocessor. They also allow ``apmax predict`` to report shifts since training. Of data
        larger than memory, a random sample of the rows is enough.
    target : str, optional
        Name of the column of labels, which ``apmax evaluate`` then uses by default. The default is
        `target_` of what :func:`load` returned, also after another fit.
    operating_point : OperatingPoint, optional
        The threshold of ``apmax predict`` and of the loaded model's `predict`, as
        :func:`~apmax.operating_point` chooses it by probabilities of held-out rows.

    Examples
    --------
    >>> import apmax
    >>> import pandas as pd
    >>> frame = pd.read_csv("loans.csv")  # doctest: +SKIP
    >>> X, y = frame.drop(columns="defaulted"), frame["defaulted"]  # doctest: +SKIP
    >>> model = apmax.AutoAPClassifier().fit(X, y)  # doctest: +SKIP
    >>> apmax.save(model, "loans.apmax", X, target="defaulted")  # doctest: +SKIP
    """
    target = getattr(model, "target_", None) if target is None else target
    if not (target is None or isinstance(target, str)):
        raise ParameterError(f"`target` = {target!r} must be the name of a column")
    rows = X.to_pandas() if hasattr(X, "to_pandas") else X
    point = operating_point or getattr(model, "operating_point_", None)
    stored = model.model if isinstance(model, ModelPipeline) else None
    if stored is None:
        stored = _described(model, rows)
    if target is not None:
        stored = replace(stored, target=target)
    if point is not None:
        stored = replace(stored, operating_point=Decision.of_point(point))
    again = model_from(model_content(stored))  # refused here rather than by `load`
    if X is not None:
        _check_rows(stored, rows)
        probability = again.probability(rows)
        _check_predictions(model, X, stored.classifier, probability)
        kinds = {} if stored.preprocessor is None else stored.preprocessor.kinds_
        held_out = _held_out(stored.classifier, probability)
        stored = replace(stored, profile=profile(rows, kinds, held_out))
    save_model(stored, path)


def _check_rows(stored: Model, X: Any) -> None:
    if np.shape(X)[0] == 0:
        raise ShapeError("`X` has no rows: pass the training data, or leave it out")
    if stored.preprocessor is None and hasattr(X, "columns"):
        raise ShapeError("the model was fitted to an array: pass an array, such as X.to_numpy()")


def _described(model: Any, X: Any) -> Model:
    """Return a model with its labels, and a preprocessor if it was fitted to a frame."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    *first, classifier = steps
    if not isinstance(classifier, CLASSIFIERS):
        raise ParameterError(
            f"a model file cannot hold {type(classifier).__name__}: fit AutoAPClassifier, "
            "AdditiveAPClassifier or a linear model of apmax, or store the model with joblib"
        )
    if len(first) > 1 or not all(isinstance(step, TablePreprocessor) for step in first):
        names = ", ".join(type(step).__name__ for step in first)
        raise ParameterError(
            f"a model file cannot hold the steps {names}: use apmax.app.TablePreprocessor as the "
            "only step before the classifier, or store the pipeline with joblib"
        )
    check_is_fitted(classifier)
    if not first and hasattr(classifier, "feature_names_in_"):
        first = [_preprocessor_of(classifier, X)]
    positive, negative = _label_texts(classifier)
    name = getattr(classifier, "best_", type(classifier).__name__)
    return Model(
        Pipeline([*(("table", step) for step in first), ("classifier", classifier)]),
        positive,
        negative,
        facts={"model": name, "features": int(classifier.n_features_in_)},
        leaderboard=getattr(classifier, "leaderboard_", None),
    )


def _label_texts(classifier: Any) -> tuple[str, str]:
    """Return the positive and the negative label as text."""
    classes, positive = classifier.classes_.tolist(), positive_label(classifier)
    kinds = {type(label) for label in classes}
    if len(classes) != 2 or len(kinds) != 1 or not kinds <= {*LABELS}:
        raise LabelError(
            f"a model file cannot hold the labels {classes!r}: fit to two labels of one type, "
            "text, numbers or booleans"
        )
    return str(positive), str(next(label for label in classes if label != positive))


def _preprocessor_of(classifier: Any, X: Any) -> TablePreprocessor:
    """Return a preprocessor that passes the columns of a frame on to the classifier."""
    names = [str(name) for name in classifier.feature_names_in_]
    if not hasattr(X, "columns"):
        raise ShapeError(
            "the model was fitted to named columns: pass the training data or a sample of its rows "
            "as a frame `X`, or fit a pipeline of apmax.app.TablePreprocessor and the classifier"
        )
    found = [str(name) for name in X.columns]
    if found != names:
        missing = [name for name in names if name not in found]
        more = [name for name in found if name not in names]
        what = f"also has the column {more[0]!r}" if more else "has the columns in another order"
        if missing:
            what = f"has no column {missing[0]!r}"
        raise ShapeError(
            f"`X` {what}: pass the columns to which the model was fitted, "
            "X[model.feature_names_in_]"
        )
    if not hasattr(classifier, "columns_"):
        return TableEncoder().fit_kinds(X, dict.fromkeys(names, NUMBER))
    columns = classifier.columns_
    numeric = {names[k] for k in columns.numeric}
    numeric |= {str(name) for name in X.select_dtypes("number")} - {
        names[k] for k in columns.categorical
    }
    return TablePreprocessor().fit_kinds(
        X, {name: NUMBER if name in numeric else CATEGORY for name in names}
    )


def _check_predictions(model: Any, X: Any, classifier: Any, probability: Floats) -> None:
    """Raise ParameterError if the file would not predict as the model does."""
    of_positive = classifier.classes_.tolist().index(positive_label(classifier))
    expected = model.predict_proba(X)[:, of_positive]
    if not np.allclose(probability, expected, rtol=1e-6, atol=1e-9):
        row = int(np.argmax(np.abs(probability - expected)))
        raise ParameterError(
            f"the file would predict {probability[row]:.6g} for row {row}, and the model predicts "
            f"{expected[row]:.6g}: convert categories to text before you fit the model"
        )


def _held_out(classifier: Any, fitted: Floats) -> Floats:
    """Return the probabilities of the training rows, by cross-validation if that is better."""
    found = getattr(classifier, "out_of_fold_", None)
    if isinstance(found, dict):
        found = found[classifier.best_]
    elif found is not None:
        if isinstance(classifier, LinearAPModel):  # calibrated as its predictions are
            found = limited(found, *classifier.log_odds_limits_, classifier.log_odds_curve_)
        if positive_label(classifier) != classifier.classes_[1]:
            found = -found  # only those of AutoAPClassifier are of the positive class
    if found is None or found.size != fitted.size or has_few_values(fitted):
        return fitted
    known = ~np.isnan(found)  # nowhere if Ctrl-C ended the fit
    return np.asarray(expit(found[known])) if known.any() else fitted
