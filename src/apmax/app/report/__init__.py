"""The HTML report of one or several models, its tables as CSV, and its curves as plots."""

from __future__ import annotations

from apmax.app.report.model_reports import model_report, training_report
from apmax.app.report.page import write_report
from apmax.app.report.plots import plot_calibration, plot_distributions, plot_precision_recall
from apmax.app.report.results import Report, ScoredModel
from apmax.app.report.tables import write_tables

__all__ = [
    "Report",
    "ScoredModel",
    "model_report",
    "plot_calibration",
    "plot_distributions",
    "plot_precision_recall",
    "training_report",
    "write_report",
    "write_tables",
]
