"""Data larger than memory: fits by folds over blocks of rows, and samples that fit into memory.

:meth:`apmax.APClassifier.fit_files` and :class:`apmax.dask.DaskAPClassifier` are the estimators.
"""

from apmax.scale.sampling import Sample, sample_negatives
from apmax.scale.selection import AlphaChoice, choose_alpha

__all__ = ["AlphaChoice", "Sample", "choose_alpha", "sample_negatives"]
