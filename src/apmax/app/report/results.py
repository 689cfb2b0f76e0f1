"""The content of a report: scored rows, a leaderboard, effects, drift, and facts about the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from apmax.app.drift import Shift
from apmax.errors import InputError, ParameterError
from apmax.tabular.effects import Effect
from apmax.tabular.leaderboard import Leaderboard, Standing
from apmax.validation import (
    Floats,
    Mask,
    check_labels,
    check_real,
    check_same_length,
    check_scores,
    check_weights,
)


@dataclass(frozen=True, eq=False)
class ScoredModel:
    """A model's probabilities of labelled rows that it was not fitted to.

    Examples
    --------
    >>> from apmax.app.report import ScoredModel
    >>> ScoredModel("model", [1, 0, 0, 0], [0.9, 0.4, 0.2, 0.1]).prevalence
    0.25
    """

    name: str
    """Name of the model."""
    y: Mask
    """Labels: bool, {0, 1} or {-1, 1}; stored as bool."""
    probabilities: Floats
    """Probabilities of the positive class, in [0, 1]."""
    weight: Floats | None = None
    """Sample weights; a weight of 2 equals the row twice. Rows of weight 0 are left out."""

    def __post_init__(self) -> None:
        y, p = check_labels(self.y), check_scores(self.probabilities)
        check_same_length(y=y, probabilities=p)
        weight = self.weight
        if check_weights(weight, y) is not None:
            weight = np.asarray(weight, dtype=np.float64)
            there = weight > 0
            y, p, weight = y[there], p[there], weight[there]
        for name, value in (("y", y), ("probabilities", p), ("weight", weight)):
            object.__setattr__(self, name, value)
        if p.min() < 0 or p.max() > 1:
            raise InputError(
                f"`probabilities` of {self.name!r} lie between {p.min():g} and {p.max():g}: they "
                "must be in [0, 1]; convert log-odds with scipy.special.expit"
            )

    @property
    def mass(self) -> Floats:
        """How many rows each row stands for: its weight, or 1."""
        return np.ones(self.y.size) if self.weight is None else self.weight

    @property
    def prevalence(self) -> float:
        """The share of positives, which is the AP of random scores."""
        return float(np.average(self.y, weights=self.weight))


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that one report shows; empty parts are left out of the page.

    :func:`training_report` and :func:`model_report` make one of a model of apmax. A model of any
    other library needs a title and its probabilities.

    Examples
    --------
    >>> from apmax.app.report import Report, ScoredModel
    >>> report = Report("Loans", [ScoredModel("model", [1, 0, 0, 0], [0.9, 0.4, 0.2, 0.1])])
    >>> report.winner.name
    'model'
    """

    title: str
    """Heading of the page."""
    results: Sequence[ScoredModel]
    """Models scored on the same rows."""
    leaderboard: Leaderboard | None = None
    """The models that were compared in training."""
    on_new_data: bool = False
    """Whether the rows are others than those of the leaderboard's folds."""
    advice: str = ""
    """What the leaderboard says, in one sentence."""
    threshold: float | None = None
    """The stored threshold of the winner's alerts."""
    cost_ratio: float | None = None
    """What a missed positive costs, in false alarms, where the slider of costs begins."""
    effects: Sequence[Effect] = ()
    """Functions of an additive model."""
    coefficients: Sequence[tuple[str, float]] = ()
    """Features of a linear model and their weights per standard deviation, largest first."""
    effects_of: str = ""
    """Name of the model with these effects or coefficients; by default the winner."""
    no_effects: str = ""
    """Why there are no effects, and which model has some."""
    drift: Sequence[Shift] = ()
    """Shifts since training, from `apmax.app.drift.psi`."""
    warnings: Sequence[str] = ()
    """Problems that are shown first, one sentence each."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts about the data and the training."""
    command: str = ""
    """The command that writes this report."""

    def __post_init__(self) -> None:
        if not self.results:
            raise ParameterError("`results` is empty: a report needs at least one scored model")
        if self.cost_ratio is not None:
            check_real(self.cost_ratio, "cost_ratio", above=0, why="it is a cost in false alarms")

    @property
    def winner(self) -> ScoredModel:
        """The model that the leaderboard chose, or the first one."""
        names = [one.model for one in self.leaderboard or () if one.chosen]
        return next((one for one in self.results if one.name in names), self.results[0])

    @property
    def standing(self) -> Standing | None:
        """The winner's line of the leaderboard, if that describes these rows."""
        lines = () if self.on_new_data or self.leaderboard is None else self.leaderboard
        return next((one for one in lines if one.model == self.winner.name), None)
