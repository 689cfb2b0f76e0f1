"""Fits of models of tables to files that need not fit into memory."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from apmax.binary_classifier import unchanged_on_error
from apmax.blas_threads import one_blas_thread
from apmax.errors import NotNumericError
from apmax.interrupts import CooperativeInterrupt, cooperative_interrupts
from apmax.tabular.columns import DATE_TYPES, DURATION_TYPES, Columns, chosen_columns

logger = logging.getLogger("apmax")
POSITION = np.dtype(np.uint32)
"""Type of the encoded columns."""


class FilesMixin:
    """Adds `fit_files` to an estimator with `fit`."""

    pos_label: Any
    categorical_features: Any

    @unchanged_on_error
    def fit_files(
        self,
        files: Any,
        target: str,
        *,
        columns: Sequence[str] | None = None,
        sample_weight: str | None = None,
        rows: int | None = None,
        random_state: int = 0,
    ) -> Any:
        """Fit the model to files that need not fit into memory.

        The fit uses a sample: all positives, and as many negatives as there is memory for, weighted
        to stand for all of them. Needs the extra ``files`` and pandas.

        Parameters
        ----------
        files : path, glob pattern, folder, or list of paths
            Parquet, Feather (Arrow) or CSV files with the same columns.
        target : str
            Column of labels.
        columns : list of str, optional
            Columns of features of any type. The default is all other columns.
        sample_weight : str, optional
            Column of non-negative weights.
        rows : int, optional
            Most rows of the sample. The default is what fits into half of the memory, or into the
            amount that the environment variable ``APMAX_MEMORY`` gives, such as ``8GB``.
        random_state : int, default=0
            Seed of the sample.

        Returns
        -------
        self
            The fitted estimator; `out_of_fold_` is of the rows of the sample.

        See Also
        --------
        apmax.scale.sample_negatives : The sample.
        """
        from apmax.scale.files import RawFiles

        source = RawFiles(files, target, columns, sample_weight)
        self._fit_sample(source, rows, random_state)
        return self

    def _fit_sample(
        self,
        source: Any,
        rows: int | None,
        random_state: int,
        check: Callable[[int], None] | None = None,
    ) -> bool:
        """Fit the model to a sample; return whether it holds fewer rows than the files.

        If so, `check` is called with the number of rows of the files before the fit.
        """
        from apmax.scale.arrow_errors import data_frame
        from apmax.scale.sampling import sample_of

        _refuse_dates(source, self.categorical_features)
        sample = sample_of(
            source,
            rows="memory" if rows is None else rows,
            pos_label=self.pos_label,
            random_state=random_state,
            stacklevel=5,  # the caller of `fit_files`, which is decorated
        )
        fewer = sample.y.size < sample.rows
        if fewer and check is not None:
            check(sample.rows)
        logger.info("training on %d of %d rows", sample.y.size, sample.rows)
        frame = data_frame(sample.table, f"{source.paths[0]}, or another of the files,")
        y, weight = sample.y, sample.sample_weight
        del sample
        with warnings.catch_warnings():
            # The sample has issued it.
            warnings.filterwarnings("ignore", "the positive class is", UserWarning)
            self.fit(frame, y, weight)  # type: ignore[attr-defined]
        return fewer


def _refuse_dates(source: Any, categorical: Any) -> None:
    """Raise NotNumericError for columns of dates or durations before any row is read."""
    listed = chosen_columns(categorical, source.columns) or set()
    for k, name in enumerate(source.columns):
        if k not in listed:
            kind = str(source.schemas[0].field(name).type)
            if kind.startswith((*DATE_TYPES, *DURATION_TYPES)):
                raise NotNumericError(
                    f"column {name!r} of {source.paths[0]} holds dates or durations ({kind}): "
                    "leave it out with columns=[…], or store it as a number, such as an age in days"
                )


class AllRowsMixin(FilesMixin):
    """Adds `fit_files` to an additive model: a sample for its basis, all rows for coefficients."""

    classes_: Any
    columns_: Columns
    linear_: Any
    result_: Any
    pos_label_: Any
    on_progress: Any
    _terms: Any

    @unchanged_on_error
    def fit_files(
        self,
        files: Any,
        target: str,
        *,
        columns: Sequence[str] | None = None,
        sample_weight: str | None = None,
        rows: int | None = None,
        random_state: int = 0,
        cache: str | os.PathLike[str] | bool | None = None,
    ) -> Any:
        """Fit the model to files that need not fit into memory.

        A sample of the rows gives everything but the coefficients: the knots of the functions,
        categories, pairs of columns, the strength of the penalties, and the calibration of
        probabilities. Then the coefficients are fitted to all rows and averaged with those of the
        sample. Needs the extra ``files`` and pandas.

        Parameters
        ----------
        files, target, columns, sample_weight, rows, random_state
            As in :meth:`AutoAPClassifier.fit_files`.
        cache : path or bool, optional
            Folder for a temporary copy of the rows of 4 bytes per column, and another 4 per column
            in pairs; the default is the system's folder for temporary files. False reads and
            encodes the files in every pass instead.

        Returns
        -------
        self
            The fitted estimator; `out_of_fold_` is of the rows of the sample and of models that
            were fitted to it.

        Notes
        -----
        Ctrl-C after the fit to the sample keeps its coefficients, with a warning. An error discards
        them, such as that of a file that changed, or of a disk that is full. Before the fit to the
        sample, the disk is checked to have 4 bytes free per row and column.

        See Also
        --------
        apmax.scale.sample_negatives : The sample.
        """
        from apmax.scale.cache import cache_folder, check_space
        from apmax.scale.files import RawFiles

        folder = None if cache is False else cache_folder(cache)
        # Both stages share its time stamps, so that files which change in between are noticed.
        source = RawFiles(files, target, columns, sample_weight)

        def check(of: int) -> None:
            if cache is not False:
                check_space(folder, of * len(source.columns) * POSITION.itemsize)

        if self._fit_sample(source, rows, random_state, check):
            self._refit(source, cache)
        return self

    def _refit(self, source: Any, cache: Any) -> None:
        """Fit the coefficients to all rows, unless the fit to the sample was interrupted."""
        if self.result_.interrupted:
            return
        with cooperative_interrupts(), one_blas_thread():
            try:
                w, result = self._all_rows(source, cache)
            except CooperativeInterrupt:
                message = "interrupted: kept the coefficients of the sample"
                self.result_ = replace(
                    self.result_, converged=False, interrupted=True, message=message
                )
            else:
                self.linear_.coef_, self.linear_.intercept_ = w[None, :-1], w[-1:]
                self.linear_.result_, self.linear_.n_iter_ = result, result.iterations
                self._set_effects()  # type: ignore[attr-defined]
        if not self.result_.converged:
            warnings.warn(self.result_.message, ConvergenceWarning, stacklevel=4)

    def _all_rows(self, source: Any, cache: Any) -> Any:
        """Return the coefficients of all rows and how their fits ended."""
        from apmax.scale.blocks import Progress
        from apmax.scale.cache import CachedBlocks, FlatFiles, StreamedBlocks, cache_folder
        from apmax.scale.encoded import EncodedFiles
        from apmax.tabular.grids import GridBlocks, Grids
        from apmax.tabular.refit import refit

        grids, progress = Grids(self.columns_, self._terms), Progress(self.on_progress)
        table = EncodedFiles(source, encode=grids.positions, width=len(grids.axes), dtype=POSITION)
        classes = self.classes_.tolist()
        if cache is False:
            blocks = StreamedBlocks(table, classes, self.pos_label_)
            return refit(GridBlocks(blocks, grids), self.linear_, progress)
        flat = FlatFiles(table, cache_folder(cache), progress, classes)
        try:
            cached = CachedBlocks(flat, classes.index(self.pos_label_))
            return refit(GridBlocks(cached, grids), self.linear_, progress)
        finally:
            flat.close()
