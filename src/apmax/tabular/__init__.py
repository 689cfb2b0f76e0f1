"""Classifiers of tables with numbers, categories and missing values."""

from __future__ import annotations

from apmax.tabular.additive import AdditiveAPClassifier
from apmax.tabular.auto import AutoAPClassifier
from apmax.tabular.leaderboard import Leaderboard, Standing
from apmax.tabular.library import NAMES

__all__ = ["NAMES", "AdditiveAPClassifier", "AutoAPClassifier", "Leaderboard", "Standing"]
