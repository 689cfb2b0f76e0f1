"""Reports of a training and of a stored model on labelled data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from apmax.app.drift import psi
from apmax.app.io import Dataset
from apmax.app.model import Model
from apmax.app.report.provenance import provenance
from apmax.app.report.results import Report, ScoredModel
from apmax.app.training import TrainedModel
from apmax.tabular.library import ADDITIVE
from apmax.validation import Floats


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
        The result of `train_model`.
    dataset : Dataset
        The data it was given.
    title : str, optional
        The default is the name of the data file.
    warnings : sequence of str
        Problems that are shown first.
    command : str
        The command that was run.
    """
    y, model = dataset.labels(), trained.model
    seen = ~np.any([np.isnan(one) for one in trained.out_of_fold.values()], axis=0)
    results = [
        ScoredModel(one.model, y[seen], expit(trained.out_of_fold[one.model][seen]))
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
        trained.advice,
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
        The model.
    dataset : Dataset
        Labelled data that it was not fitted to.
    log_odds : ndarray
        Its log-odds of these rows.
    warnings : sequence of str
        Problems that are shown first.
    command : str
        The command that was run.
    note : str
        Where the probabilities come from.
    """
    probabilities = np.asarray(expit(log_odds))
    trained = {"training rows": f"{model.facts['rows']:,}"} if "rows" in model.facts else {}
    if "cv_ap" in model.facts:
        error = model.facts.get("cv_ap_se")
        trained["AP in training, by cross-validation"] = f"{model.facts['cv_ap']:.3f}" + (
            "" if error is None else f" ± {error:.3f}"
        )
    facts = {
        **provenance(dataset.source),
        **_labels(model),
        **trained,
        **({"probabilities": note} if note else {}),
        **_weights(dataset),
    }
    return Report(
        dataset.source.name,
        [ScoredModel(model.name, dataset.labels(), probabilities)],
        **_explanation(model, dataset),
        drift=() if model.profile is None else psi(model.profile, dataset.X, probabilities),
        warnings=warnings,
        facts=facts,
        command=command,
    )


def _labels(model: Model) -> dict[str, str]:
    target = {} if model.target is None else {"target": model.target}
    return {**target, "positive label": model.positive, "negative label": model.negative}


def _weights(dataset: Dataset) -> dict[str, str]:
    if dataset.weight is None:
        return {}
    return {"sample weights": "used in training and in the leaderboard; elsewhere rows count once"}


def _explanation(model: Model, dataset: Dataset) -> dict[str, Any]:
    """Return the effects of an additive model, also in a stack, or the weights of a linear one."""
    functions = getattr(model.classifier, "shape_functions_", None)
    if functions:
        return {"effects": tuple(functions.values()), "effects_of": model.name}
    members = getattr(model.classifier, "models_", {}).get(ADDITIVE, ())
    if members:
        name = f"{ADDITIVE}, a part of the {model.name}"
        return {"effects": tuple(members[0].shape_functions_.values()), "effects_of": name}
    return {"coefficients": model.strongest_features(dataset.X)}
