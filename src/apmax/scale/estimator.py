"""A fit over blocks, stored in an :class:`apmax.APClassifier`."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from apmax.binary_target import BinaryTarget, binary_target
from apmax.interrupts import cooperative_interrupts
from apmax.linear.base import TrainingSet
from apmax.linear.classifier import LOGISTIC_C, APClassifier
from apmax.scale.blocks import Engine, Progress
from apmax.scale.cache import CachedBlocks, FlatFiles, StreamedBlocks, cache_folder, scan_labels
from apmax.scale.checkpoint import Checkpoint
from apmax.scale.files import Paths, TableFiles
from apmax.scale.fit import LinearFit, Settings, check_surrogate, fit

logger = logging.getLogger("apmax")


def settings_of(model: APClassifier) -> Settings:
    """Return the validated parameters of a model that can be fitted block by block."""
    surrogate, gamma = model._checked_parameters()
    check_surrogate(surrogate, gamma)
    return Settings(gamma, float(model.alpha), int(model.max_iter), float(model.tol), LOGISTIC_C)


def fit_files(
    model: APClassifier,
    files: Paths,
    target: str,
    *,
    columns: Sequence[str] | None,
    sample_weight: str | None,
    cache: Any,
    checkpoint: str | os.PathLike[str] | None,
) -> None:
    """Fit a model to files; :meth:`apmax.APClassifier.fit_files` describes the arguments."""
    settings = settings_of(model)
    folder = None if cache is False else cache_folder(cache)
    record = Checkpoint(checkpoint)
    progress = Progress(model.on_progress)
    with cooperative_interrupts():
        table = TableFiles(files, target, columns, sample_weight)
        flat = None if cache is False else FlatFiles(table, folder, progress)
        try:
            engine: Engine
            if flat is None:
                labels = scan_labels(table)
                found = target_of(labels.values, labels.totals, model)
                engine = StreamedBlocks(table, labels.values, found.pos_label)
            else:
                found = target_of(flat.labels.values, flat.labels.totals, model)
                engine = CachedBlocks(flat, flat.labels.values.index(found.pos_label))
            fitted = fit(engine, settings, checkpoint=record, progress=progress)
        finally:
            if flat is not None:
                flat.close()
    store(model, fitted, found, table.columns, stacklevel=5)


def target_of(values: Sequence[Any], totals: Sequence[float], model: Any) -> BinaryTarget:
    """Return the target of classes and their weights: one example of each class."""
    return binary_target(
        np.array(values), totals, pos_label=model.pos_label, estimator=type(model).__name__
    )


def store(
    model: APClassifier,
    fitted: LinearFit,
    target: BinaryTarget,
    names: Sequence[str] | None,
    *,
    stacklevel: int,
) -> None:
    """Set the fitted attributes and warn if the fit did not converge."""
    model._set_coefficients(fitted.design, fitted.w, TrainingSet(None, target), fitted.calibration)
    model.n_features_in_ = fitted.w.size - 1
    if names is not None and all(isinstance(name, str) for name in names):
        model.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    result = fitted.result
    model.n_iter_, model.history_, model.result_ = (
        max(1, result.iterations), fitted.history, result,
    )  # fmt: skip
    logger.info("%s after %d iterations", result.message, result.iterations)
    if fitted.statistics.rows[1] == 1:
        message = "the target holds one positive example: only its rank can be learnt"
        warnings.warn(message, ConvergenceWarning, stacklevel=stacklevel)
    if not result.converged:
        warnings.warn(result.message, ConvergenceWarning, stacklevel=stacklevel)
