"""The HTML report of one or several models, and the same curves as matplotlib plots."""

from __future__ import annotations

from apmax.app.report.page import write_report
from apmax.app.report.plots import plot_calibration, plot_precision_recall
from apmax.app.report.results import Report, ScoredModel

__all__ = ["Report", "ScoredModel", "plot_calibration", "plot_precision_recall", "write_report"]
