"""Reports of a training and of a stored model on labelled data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from apmax.app.io import Dataset
from apmax.app.model import Model
from apmax.app.report.effects import traced_effects
from apmax.app.report.provenance import provenance
from apmax.app.report.results import Report, ScoredModel
from apmax.app.training import TrainedModel
from apmax.metrics import average_precision
from apmax.tabular import Standing
from apmax.tabular.library import ADDITIVE, LOGISTIC
from apmax.validation import Floats

TRAINING_AP = "AP in training, by cross-validation"
MIN_SURPRISE = 0.05
"""Gain in AP over cross-validation below which there is no warning."""


def training_report(
    trained: TrainedModel,
    dataset: Dataset,
    *,
    title: str = "",
    warnings: Sequence[str] = (),
    command: str = "",
) -> Report:
    """Return a report of all models that were compared, on the rows that they were not fitted to.

    Parameters
    ----------
    trained : TrainedModel
        What `apmax.app.training.train_model` returned.
    dataset : Dataset
        The data that it was given, from `apmax.app.io.load`.
    title : str, optional
        Heading of the page; by default the name of the file.
    warnings : sequence of str, optional
        Problems that are shown first, one sentence each.
    command : str, optional
        The command that writes this report.

    Returns
    -------
    Report
        For :func:`write_report` and :func:`write_tables`.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import pandas as pd
    >>> from apmax.app.io import Dataset
    >>> from apmax.app.report import training_report
    >>> from apmax.app.training import train_model
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"amount": rng.normal(size=400)})
    >>> y = X["amount"] + rng.normal(size=400) > 2
    >>> loans = Dataset(
    ...     X, y.to_numpy(), source=Path("loans.csv"), positive="True", negative="False"
    ... )
    >>> trained = train_model(loans, model="logistic", folds=2)
    >>> report = training_report(trained, loans)
    >>> report.title, [one.name for one in report.results]
    ('loans.csv', ['logistic'])
    """
    y, model = dataset.labels(), trained.model
    seen = ~np.any([np.isnan(one) for one in trained.out_of_fold.values()], axis=0)
    weight = None if dataset.weight is None else dataset.weight[seen]
    results = [
        ScoredModel(one.model, y[seen], expit(trained.out_of_fold[one.model][seen]), weight)
        for one in trained.leaderboard
    ]
    facts = {
        **provenance(dataset.source),
        **_labels(model),
        "folds": str(model.facts["folds"]),
        "probabilities": "from cross-validation: no model was fitted to the rows that it scores",
        **_weights(dataset),
    }
    return Report(
        title or dataset.source.name,
        results,
        trained.leaderboard,
        advice=trained.advice,
        **_explanation(model, dataset),
        warnings=warnings,
        facts=facts,
        command=command,
    )


def model_report(
    model: Model,
    dataset: Dataset,
    log_odds: Floats,
    *,
    warnings: Sequence[str] = (),
    command: str = "",
    note: str = "",
) -> Report:
    """Return a report of one model on labelled data, with the drift since its training.

    Parameters
    ----------
    model : Model
        What `apmax.app.model.load_model` returns.
    dataset : Dataset
        Labelled rows that the model was not fitted to, from `apmax.app.io.load`.
    log_odds : ndarray of shape (n,)
        The model's log-odds of these rows, ``model.log_odds(dataset.X)``.
    warnings : sequence of str, optional
        Problems that are shown first, one sentence each.
    command : str, optional
        The command that writes this report.
    note : str, optional
        Where the log-odds come from.

    Returns
    -------
    Report
        For :func:`write_report` and :func:`write_tables`.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import pandas as pd
    >>> from apmax.app.io import Dataset
    >>> from apmax.app.report import model_report
    >>> from apmax.app.training import train_model
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"amount": rng.normal(size=400)})
    >>> y = X["amount"] + rng.normal(size=400) > 2
    >>> labels = {"positive": "True", "negative": "False"}
    >>> old, new = (
    ...     Dataset(X[k::2], y[k::2].to_numpy(), source=Path("loans.csv"), **labels) for k in (0, 1)
    ... )
    >>> model = train_model(old, model="logistic", folds=2).model
    >>> report = model_report(model, new, model.log_odds(new.X))
    >>> report.winner.name, [shift.column for shift in report.drift]
    ('logistic', ['predicted probability', 'amount'])
    """
    y, probabilities = dataset.labels(), np.asarray(expit(log_odds))
    facts = {**provenance(dataset.source), **_labels(model)}
    if "rows" in model.facts:
        facts["training rows"] = f"{model.facts['rows']:,}"
    if model.leaderboard:
        standing = next(one for one in model.leaderboard if one.chosen)
        facts[TRAINING_AP] = f"{standing.ap:.3f} ± {standing.ap_se:.3f}"
        warnings = [
            *warnings,
            *_too_good(average_precision(y, log_odds, sample_weight=dataset.weight), standing),
        ]
    if note:
        facts["probabilities"] = note
    point = model.operating_point
    facts |= _weights(dataset)
    return Report(
        dataset.source.name,
        [ScoredModel(model.name, y, probabilities, dataset.weight)],
        model.leaderboard,
        on_new_data=True,
        threshold=None if point is None else point.threshold,
        cost_ratio=None if point is None else point.cost_ratio,
        **_explanation(model, dataset),
        drift=model.shifts(dataset.X, probabilities),
        warnings=warnings,
        facts=facts,
        command=command,
    )


def _too_good(ap: float, standing: Standing) -> list[str]:
    """Warn of an AP that rows which the model was not fitted to hardly ever have."""
    error = 0.0 if np.isnan(standing.ap_se) else standing.ap_se
    if ap <= standing.ap + max(MIN_SURPRISE, 4 * error):
        return []
    return [
        f"AP is {ap:.3f} on these rows but {standing.ap:.3f} ± {standing.ap_se:.3f} in "
        "cross-validation: if they were used for training, this report is too optimistic"
    ]


def _labels(model: Model) -> dict[str, str]:
    target = {} if model.target is None else {"target": model.target}
    return {**target, "positive label": model.positive, "negative label": model.negative}


def _weights(dataset: Dataset) -> dict[str, str]:
    return {} if dataset.weight is None else {"sample weights": dataset.weight_column or "given"}


def _explanation(model: Model, dataset: Dataset) -> dict[str, Any]:
    """Return the effects of columns or the weights of features, if the model has any."""
    if model.coef is not None:
        return {"coefficients": model.strongest_features(dataset.X)}
    functions = getattr(model.classifier, "shape_functions_", None)
    if functions:
        return {"effects": tuple(functions.values()), "effects_of": model.name}
    members = getattr(model.classifier, "models_", {})
    if ADDITIVE in members:
        name = f"{ADDITIVE}, a part of the {model.name}"
        return {
            "effects": tuple(members[ADDITIVE][0].shape_functions_.values()),
            "effects_of": name,
        }
    if [*members] == [LOGISTIC]:
        features = model.features(dataset.X)
        if not hasattr(features, "columns"):
            features = pd.DataFrame(features, columns=model.feature_names())
        traced = traced_effects(features, model.explain(dataset.X))
        return {"effects": tuple(traced), "effects_of": model.name}
    return {"no_effects": _no_effects(model)}


def _no_effects(model: Model) -> str:
    """Say that the model has no effects, and which one has, with its AP in training."""
    additive = [one for one in model.leaderboard or () if one.model == ADDITIVE]
    compared = "".join(f", whose AP in training is {one.ap:.3f}" for one in additive)
    return (
        f"{model.name} is not a sum of effects of columns, so no column has a curve. To read "
        f"effects, train with --model {ADDITIVE}{compared}. For the reasons of single rows, use "
        "`apmax predict --explain 3`."
    )
