"""What a report is made of: scored examples, a comparison over folds, and the facts around."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from apmax.app.report.comparison import Comparison
from apmax.errors import EmptyInputError, NonFiniteError, ParameterError, ShapeError
from apmax.validation import Floats, Mask, check_labels, check_same_length, check_scores

Scale = Literal["log-odds", "probability"]
"""How scores are to be read where a probability is needed."""

HISTORY_AP = ("validation_ap", "train_ap", "surrogate_ap")
"""Columns of a history that are drawn, in the order a reader cares about them."""


@dataclass(frozen=True, eq=False)
class Scored:
    """A model's scores of labelled examples, and what else it can tell about itself.

    Parameters
    ----------
    name : what the model is called, as plain text.
    y : labels: bool, {0, 1} or {-1, 1}.
    scores : finite log-odds or probabilities, larger meaning more likely positive.
    history : columns as in ``APClassifier.history_``; `step`, `seconds` and an AP are drawn.
    coefficients : (feature, weight) pairs of a linear model.
    per_deviation : whether these weights are per standard deviation of their features, and so
        compare with each other.
    scale : how the scores are to be read. None takes scores that all lie within [0, 1] as
        probabilities, and others as log-odds. Only calibration depends on it.

    Examples
    --------
    >>> from apmax.app.report import Scored
    >>> Scored("a model", [1, 0, 1, 0], [2.0, 1.0, -1.0, -2.0]).prevalence
    0.5
    """

    name: str
    y: Mask
    scores: Floats
    history: Mapping[str, Floats] | None = None
    coefficients: Sequence[tuple[str, float]] | None = None
    scale: Scale | None = None
    per_deviation: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ParameterError(
                f"`name` must be text, got {self.name!r}: it labels the model's curve; "
                "for example 'logistic regression'"
            )
        if self.scale not in (None, "log-odds", "probability"):
            raise ParameterError(
                f"`scale` must be 'log-odds', 'probability' or None, got {self.scale!r}: it says "
                "how scores become probabilities; None looks whether all lie within [0, 1]"
            )
        # A frozen dataclass still has to store what its checks have cleaned.
        store = object.__setattr__
        store(self, "y", check_labels(self.y))
        store(self, "scores", check_scores(self.scores))
        check_same_length(y=self.y, scores=self.scores)
        store(self, "history", _checked_history(self.history))
        store(self, "coefficients", _checked_coefficients(self.coefficients))
        if self.scale is None:
            within = self.scores.min() >= 0 and self.scores.max() <= 1
            store(self, "scale", "probability" if within else "log-odds")
        elif self.scale == "probability" and (self.scores.min() < 0 or self.scores.max() > 1):
            raise ParameterError(
                f"`scores` reach from {self.scores.min():g} to {self.scores.max():g} and cannot "
                "be probabilities: pass scale='log-odds', or predict_proba(X)[:, 1]"
            )

    @property
    def prevalence(self) -> float:
        """The share of positives: the precision, and the AP, of guessing."""
        return float(self.y.mean())

    @property
    def probabilities(self) -> Floats:
        """Scores as probabilities of being positive."""
        if self.scale == "probability":
            return self.scores
        return np.asarray(expit(self.scores), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Report:
    """Everything one report shows.

    Parameters
    ----------
    title : the heading.
    results : one or more models, scored on the same examples; the first is the baseline.
    comparison : AP over the folds of repeated cross-validation, if there was one.
    facts : what a reader must know about the data, as label → text.
    command : what to type to get this report again.
    doubts : what a reader should know before believing any of it: a sentence each.
    """

    title: str
    results: Sequence[Scored]
    comparison: Comparison | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    doubts: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "results", tuple(self.results))
        if not self.results:
            raise EmptyInputError("`results` is empty: pass at least one Scored model")
        names = [result.name for result in self.results]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ParameterError(
                f"`results` holds two models named {twice[0]!r}: their curves could not be told "
                "apart; give each its own name"
            )
        sizes = [(result.y.size, int(result.y.sum())) for result in self.results]
        for name, (n, m) in zip(names, sizes, strict=True):
            if (n, m) != sizes[0]:
                raise ShapeError(
                    f"`results` describe different examples: {names[0]!r} has {sizes[0][0]} with "
                    f"{sizes[0][1]} positives, {name!r} has {n} with {m}; curves compare only on "
                    "the same examples, so write two reports or score both models on one test set"
                )


def drawn_columns(history: Mapping[str, Floats]) -> list[str]:
    """The AP columns that hold a number; validation AP is all NaN where nothing was held out."""
    return [name for name in HISTORY_AP if name in history and np.isfinite(history[name]).any()]


def _checked_history(history: Mapping[str, ArrayLike] | None) -> dict[str, Floats] | None:
    if not history:
        return None
    columns = {name: np.asarray(column, np.float64).ravel() for name, column in history.items()}
    missing = [name for name in ("step", "seconds") if name not in columns]
    if missing:
        raise ParameterError(
            f"`history` lacks {missing[0]!r}, it has {sorted(columns)}: pass the history_ of a "
            "fitted APClassifier, or leave it out"
        )
    check_same_length(**columns)
    nothing = columns["step"].size == 0 or not drawn_columns(columns)
    return None if nothing else columns


def _checked_coefficients(
    pairs: Sequence[tuple[str, float]] | None,
) -> tuple[tuple[str, float], ...] | None:
    if pairs is None:
        return None
    clean = tuple((str(feature), float(weight)) for feature, weight in pairs)
    for feature, weight in clean:
        if not np.isfinite(weight):
            raise NonFiniteError(
                f"`coefficients` must be finite, got {weight} for {feature!r}: the fit went "
                "wrong, so there is nothing to report; lower the learning rate or scale X"
            )
    return clean or None
