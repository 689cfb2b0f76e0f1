"""Fitted classifiers as plain data for a model file, and back.

Each class has two functions: one returns the numbers, texts and arrays that predictions need, the
other one checks them and builds the estimator. Nothing else of an estimator is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from apmax.app.archive import Fields
from apmax.app.tree_ensemble import TreeEnsemble, as_trees
from apmax.errors import ModelFileError
from apmax.linear import APClassifierCV
from apmax.tabular import AdditiveAPClassifier, AutoAPClassifier
from apmax.tabular.columns import UNKNOWN, Columns, Levels
from apmax.tabular.effects import CategoryEffect, Effect, Margin, NumberEffect, PairEffect
from apmax.tabular.library import ADDITIVE, LOGISTIC, NAMES
from apmax.tabular.stacking import Blend, Stack
from apmax.validation import Floats

Document = dict[str, Any]
MAX_HATS = 64
"""Largest number of functions of one column in a pair; fitted models have fewer than ten."""


@dataclass(frozen=True, eq=False)
class LogisticTerms:
    """A logistic regression: a clipped line for each number, a value for each category."""

    low: Floats
    high: Floats
    """Ends of the range of each number, beyond which its contribution is constant."""
    slope: Floats
    offset: Floats
    missing: Floats
    """Contribution of a missing number; present ones contribute offset + slope · x."""
    categories: list[Floats]
    """Contributions of the codes of each categorical column."""
    intercept: float

    def decision_function(self, X: Floats) -> Floats:
        """Return the log-odds of rows of numbers and codes."""
        return np.asarray(self.contributions(X).sum(axis=1))

    def contributions(self, X: Floats) -> Floats:
        """Return what each column adds to the log-odds, and the intercept last."""
        numbers, codes = X[:, : self.slope.size], X[:, self.slope.size :]
        lines = self.offset + self.slope * np.clip(numbers, self.low, self.high)
        parts = [np.where(np.isnan(numbers), self.missing, lines)]
        for column, values in zip(codes.T, self.categories, strict=True):
            known = np.append(values, 0.0)  # the last entry is that of a new category
            parts.append(known[np.where(np.isnan(column), -1, column).astype(int)][:, None])
        return np.column_stack([*parts, np.full(X.shape[0], self.intercept)])

    @classmethod
    def of(cls, model: Pipeline, columns: Columns) -> LogisticTerms:
        """Return the terms of a pipeline of `apmax.tabular.logistic`."""
        features, logistic = model
        (_, numbers, _), (_, one_hot, _) = features.transformers_[:2]
        count, coefficients = len(columns.numeric), logistic.coef_[0]
        low = high = slope = offset = missing = np.zeros(count)
        if count:
            clip, imputer, scaler = numbers
            low, high = clip.low_, clip.high_
            flagged = imputer.indicator_.features_
            mean, scale = scaler.mean_, scaler.scale_
            weight = coefficients[: mean.size] / scale
            slope, offset = weight[:count], -(weight * mean)[:count]
            missing = slope * imputer.statistics_ + offset
            np.add.at(offset, flagged, -(weight * mean)[count:])
            np.add.at(missing, flagged, (weight * (1 - mean))[count:])
            coefficients = coefficients[mean.size :]
        categories = []
        for place, levels in enumerate(columns.of_category):
            codes = one_hot.categories_[place].astype(int)
            values = np.zeros(len(levels.names))
            values[codes], coefficients = coefficients[: codes.size], coefficients[codes.size :]
            categories.append(values)
        intercept = float(logistic.intercept_[0])
        return cls(low, high, slope, offset, missing, categories, intercept)


def classifier_document(classifier: Any) -> Document:
    """Return what predictions of a fitted classifier need."""
    classes, positive = classifier.classes_.tolist(), positive_label(classifier)
    labels = {"classes": classes, "positive": classes.index(positive)}
    if isinstance(classifier, AutoAPClassifier):
        return {"kind": "auto", **labels, **_auto_document(classifier)}
    if isinstance(classifier, AdditiveAPClassifier):
        return {"kind": "additive", **labels, **_additive_document(classifier)}
    kind = "logistic" if isinstance(classifier, LogisticRegression) else "linear"
    limits = getattr(classifier, "log_odds_limits_", (-np.inf, np.inf))
    return {
        "kind": kind,
        **labels,
        "coef": classifier.coef_[0],
        "intercept": float(classifier.intercept_[0]),
        "limits": list(limits) if np.isfinite(limits).all() else None,
        "curve": getattr(classifier, "log_odds_curve_", None),
        "means": getattr(classifier, "feature_means_", None),
    }


def classifier_from(stored: Fields) -> Any:
    """Return the classifier of a document; ModelFileError if it is not sound."""
    makers: dict[str, Callable[[Fields], Any]] = {
        "additive": _additive_from,
        "auto": _auto_from,
        "linear": _linear_from,
        "logistic": _logistic_from,
    }
    classes, positive = stored.labels("classes"), stored.count("positive")
    kind = stored.text("kind")
    if kind not in makers or positive > 1:
        raise ModelFileError("it contains a classifier that this version does not know")
    classifier = makers[kind](stored)
    classifier.classes_, classifier.pos_label_ = np.array(classes), classes[positive]
    if hasattr(classifier, "pos_label"):
        classifier.pos_label = classes[positive]
    return classifier


def positive_label(classifier: Any) -> Any:
    """Return the label that the classifier finds; scikit-learn's find the second one."""
    label = getattr(classifier, "pos_label_", classifier.classes_[1])
    return label.item() if isinstance(label, np.generic) else label


def _linear_from(stored: Fields) -> Any:
    classifier = APClassifierCV()
    coef = stored.floats("coef")
    classifier.coef_, classifier.n_features_in_ = coef[None, :], coef.size
    classifier.intercept_ = np.array([stored.number("intercept")])
    if coef.size == 0:
        raise ModelFileError("the weights are missing")
    if "limits" in stored:
        classifier.log_odds_limits_ = stored.pair("limits")
    if "curve" in stored:
        curve = stored.floats("curve", ndim=2)
        if curve.shape[0] != 2 or curve.shape[1] < 1 or (np.diff(curve) < 0).any():
            raise ModelFileError("the curve of the probabilities is damaged")
        classifier.log_odds_curve_ = curve
    if "means" in stored:
        classifier.feature_means_ = stored.floats("means", size=coef.size)
    return classifier


def _logistic_from(stored: Fields) -> Any:
    linear, classifier = _linear_from(stored), LogisticRegression()
    classifier.coef_, classifier.intercept_ = linear.coef_, linear.intercept_
    classifier.n_features_in_ = linear.n_features_in_
    if "means" in stored:
        classifier.feature_means_ = linear.feature_means_
    return classifier


def _auto_document(model: AutoAPClassifier) -> Document:
    columns, width = model.columns_, len(model.columns_.numeric) + len(model.columns_.categorical)
    members: dict[str, list[Document]] = {}
    for name in model.blend_.members:
        fitted = model.models_[name]
        if name == ADDITIVE:
            members[name] = [_additive_document(one) for one in fitted]
        elif name == LOGISTIC:
            members[name] = [
                _as_document(
                    one if isinstance(one, LogisticTerms) else LogisticTerms.of(one, columns)
                )
                for one in fitted
            ]
        else:
            members[name] = [
                _as_document(one if isinstance(one, TreeEnsemble) else as_trees(one, width))
                for one in fitted
            ]
    return {
        "best": model.best_,
        "named": hasattr(model, "feature_names_in_"),
        "columns": _columns_document(columns),
        "members": model.blend_.members,
        "weights": model.blend_.stack.weights,
        "intercept": model.blend_.stack.intercept,
        "models": members,
        "mean_contributions": model.mean_contributions_ if LOGISTIC in members else None,
    }


def _auto_from(stored: Fields) -> AutoAPClassifier:
    members = stored.texts("members")
    if not members or len(set(members)) < len(members) or not set(members) < set(NAMES):
        raise ModelFileError("it contains models that this version does not know")
    model = AutoAPClassifier()
    columns = _columns_from(stored.record("columns"))
    model.columns_, model.best_ = columns, stored.text("best")
    model.n_features_in_ = len(columns.names)
    if stored.flag("named"):
        model.feature_names_in_ = np.array(columns.names, dtype=object)
    weights = stored.floats("weights", size=len(members))
    model.blend_ = Blend(members, Stack(weights, stored.number("intercept")))
    model.models_, models = {}, stored.record("models")
    width = len(columns.numeric) + len(columns.categorical)
    for name in members:
        records = models.records(name)
        if name == ADDITIVE:
            found: list[Any] = [_additive_from(one) for one in records]
            if any(one.columns_.names != columns.names for one in found):
                raise ModelFileError("the additive model has other columns than the table")
        elif name == LOGISTIC:
            found = [_logistic_terms_from(one, columns) for one in records]
        else:
            found = [_trees_from(one, width) for one in records]
        if not found or (name == ADDITIVE and len(found) > 1):
            raise ModelFileError(f"it contains {len(found)} models {name!r}")
        model.models_[name] = found
    if LOGISTIC in members or "mean_contributions" in stored:
        model.mean_contributions_ = stored.floats("mean_contributions", size=width)
    return model


def _as_document(record: Any) -> Document:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _trees_from(stored: Fields, width: int) -> TreeEnsemble:
    trees = TreeEnsemble(
        stored.count("n_features"),
        stored.flag("averaged"),
        stored.flag("single"),
        stored.array("roots", "<i8"),
        stored.array("code", "<i4"),
        stored.floats("value"),
        stored.array("right", "<i4"),
        stored.array("bit_offsets", "<i8"),
        stored.array("bits", "<u4"),
    )
    if trees.n_features != width:
        raise ModelFileError("the trees have another number of columns than the table")
    return trees


def _logistic_terms_from(stored: Fields, columns: Columns) -> LogisticTerms:
    count = len(columns.numeric)
    low, high = stored.floats("low", size=count), stored.floats("high", size=count)
    if (low > high).any():
        raise ModelFileError("the range of a column is damaged")
    return LogisticTerms(
        low,
        high,
        stored.floats("slope", size=count),
        stored.floats("offset", size=count),
        stored.floats("missing", size=count),
        stored.several_floats("categories", [len(one.names) for one in columns.of_category]),
        stored.number("intercept"),
    )


def _columns_document(columns: Columns) -> Document:
    return {
        "names": columns.names,
        "numeric": columns.numeric,
        "categorical": columns.categorical,
        "levels": [{"names": one.names, "rest": one.rest} for one in columns.of_category],
        "typical": columns.typical,
    }


def _columns_from(stored: Fields) -> Columns:
    columns = Columns.__new__(Columns)
    columns.names = stored.texts("names")
    columns.numeric, columns.categorical = stored.numbers("numeric"), stored.numbers("categorical")
    columns.of_category = [_levels_from(one) for one in stored.records("levels")]
    columns.ignored = {}
    places = [*columns.numeric, *columns.categorical]
    sound = len(columns.of_category) == len(columns.categorical) and places
    if not (sound and len(set(places)) == len(places) and max(places) < len(columns.names)):
        raise ModelFileError("the columns of the table are damaged")
    numeric = set(columns.numeric)
    columns.typical = stored.typical(
        "typical", {columns.names[k]: k in numeric for k in sorted(places)}
    )
    return columns


def _levels_from(stored: Fields) -> Levels:
    levels = Levels(stored.texts("names"), stored.count("rest", at_least=UNKNOWN))
    if levels.rest >= len(levels.names):
        raise ModelFileError("the categories of a column are damaged")
    return levels


def _additive_document(model: AdditiveAPClassifier) -> Document:
    # Its columns can be fewer than those of the other models, if it was fitted to a sample.
    return {
        "columns": _columns_document(model.columns_),
        "named": hasattr(model, "feature_names_in_"),
        "effects": [_effect_document(one) for one in model.shape_functions_.values()],
        "intercept": model.intercept_,
    }


def _effect_document(effect: Effect) -> Document:
    document = _as_document(effect)
    if isinstance(effect, PairEffect):
        document |= {"first": _as_document(effect.first), "second": _as_document(effect.second)}
    return {"kind": type(effect).__name__, **document}


def _additive_from(stored: Fields) -> AdditiveAPClassifier:
    model, columns = AdditiveAPClassifier(), _columns_from(stored.record("columns"))
    effects = [_effect_from(one, columns) for one in stored.records("effects")]
    model.shape_functions_ = {effect.name: effect for effect in effects}
    if len(model.shape_functions_) < len(effects):
        raise ModelFileError("two effects of the additive model have one name")
    model.intercept_, model.columns_ = stored.number("intercept"), columns
    model.n_features_in_ = len(columns.names)
    if stored.flag("named"):
        model.feature_names_in_ = np.array(columns.names, dtype=object)
    model.classes_, model.pos_label_ = np.array([False, True]), True
    return model


def _effect_from(stored: Fields, columns: Columns) -> Effect:
    kind = stored.text("kind")
    if kind == "PairEffect":
        first, second = (_margin_from(stored.record(n), columns) for n in ("first", "second"))
        effect, density = stored.floats("effect", ndim=2), stored.floats("density", ndim=2)
        if effect.shape != (first.size, second.size) or density.shape != effect.shape:
            raise ModelFileError("an effect of two columns is damaged")
        return PairEffect(first, second, effect, stored.number("missing"), density)
    name, column, effect = stored.text("name"), stored.count("column"), stored.floats("effect")
    density = stored.floats("density", size=effect.size)
    if kind == "CategoryEffect" and column < len(columns.categorical):
        levels = stored.texts("levels")
        if effect.size == len(levels) == len(columns.of_category[column].names):
            return CategoryEffect(name, column, levels, effect, density)
    elif kind == "NumberEffect" and column < len(columns.numeric):
        grid = stored.floats("grid", size=effect.size)
        if grid.size and (np.diff(grid) >= 0).all():
            return NumberEffect(name, column, grid, effect, stored.number("missing"), density)
    raise ModelFileError(f"the effect of {name!r} is damaged")


def _margin_from(stored: Fields, columns: Columns) -> Margin:
    name, column, levels = stored.text("name"), stored.count("column"), stored.texts("levels")
    if "knots" in stored:
        knots = stored.floats("knots")
        sound = 1 < knots.size <= MAX_HATS and (np.diff(knots) > 0).all()
        if column < len(columns.numeric) and sound:
            return Margin(name, column, knots, [])
    elif column < len(columns.categorical) and len(levels) <= MAX_HATS:
        return Margin(name, column, None, levels)
    raise ModelFileError(f"the effect of {name!r} is damaged")
