"""The content of a report: scored rows, a leaderboard, and facts about the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit

from apmax.app.leaderboard import Leaderboard
from apmax.validation import Floats, Mask, check_labels, check_same_length, check_scores


@dataclass(frozen=True, eq=False)
class ScoredModel:
    """A model's scores of labelled rows."""

    name: str
    y: Mask
    scores: Floats
    """Probabilities if all lie within [0, 1], and log-odds otherwise."""
    coefficients: Sequence[tuple[str, float]] = ()
    """Features of a linear model and their weights per standard deviation, largest first."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "y", check_labels(self.y))
        object.__setattr__(self, "scores", check_scores(self.scores))
        check_same_length(y=self.y, scores=self.scores)

    @property
    def prevalence(self) -> float:
        """The share of positives, which is the AP of random scores."""
        return float(self.y.mean())

    @property
    def are_probabilities(self) -> bool:
        """Whether all scores lie within [0, 1]."""
        return bool(self.scores.min() >= 0 and self.scores.max() <= 1)

    @property
    def probabilities(self) -> Floats:
        """The scores as probabilities."""
        return self.scores if self.are_probabilities else np.asarray(expit(self.scores))


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that one report shows."""

    title: str
    results: Sequence[ScoredModel]
    """Models scored on the same rows."""
    leaderboard: Leaderboard | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts about the data and the training."""
    command: str = ""
    """The command that writes this report."""
    warnings: Sequence[str] = ()
    """Problems that are shown first, one sentence each."""
