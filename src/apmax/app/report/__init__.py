"""Reports: one HTML page that explains a model, and the same plots for papers.

``write_report`` needs nothing beyond the core; the plots need ``pip install 'apmax[report]'``.
"""

from __future__ import annotations

from apmax.app.report.comparison import Comparison, Difference, FoldScores
from apmax.app.report.html import write_report
from apmax.app.report.plots import (
    plot_calibration,
    plot_coefficients,
    plot_history,
    plot_precision_recall,
    save_plots,
)
from apmax.app.report.results import Report, Scored

__all__ = [
    "Comparison",
    "Difference",
    "FoldScores",
    "Report",
    "Scored",
    "plot_calibration",
    "plot_coefficients",
    "plot_history",
    "plot_precision_recall",
    "save_plots",
    "write_report",
]
