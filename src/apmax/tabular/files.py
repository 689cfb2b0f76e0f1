"""Fits of models of tables to files that need not fit into memory."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from apmax.binary_classifier import unchanged_on_error
from apmax.blas_threads import one_blas_thread
from apmax.interrupts import cooperative_interrupts
from apmax.tabular.columns import Columns

logger = logging.getLogger("apmax")


class FilesMixin:
    """Adds `fit_files` to an estimator with `fit`."""

    pos_label: Any

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
        self._fit_sample(files, target, columns, sample_weight, rows, random_state)
        return self

    def _fit_sample(
        self,
        files: Any,
        target: str,
        columns: Sequence[str] | None,
        sample_weight: str | None,
        rows: int | None,
        random_state: int,
    ) -> bool:
        """Fit the model to a sample; return whether it holds fewer rows than the files."""
        from apmax.scale.sampling import sample_negatives

        sample = sample_negatives(
            files,
            target,
            rows="memory" if rows is None else rows,
            columns=columns,
            sample_weight=sample_weight,
            pos_label=self.pos_label,
            random_state=random_state,
        )
        fewer = sample.y.size < sample.rows
        logger.info("training on %d of %d rows", sample.y.size, sample.rows)
        frame, y, weight = sample.table.to_pandas(), sample.y, sample.sample_weight
        del sample
        self.fit(frame, y, weight)  # type: ignore[attr-defined]
        return fewer


class AllRowsMixin(FilesMixin):
    """Adds `fit_files` to an additive model: a sample for its basis, all rows for coefficients."""

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
        probabilities. Then the coefficients are fitted to all rows. Needs the extra ``files`` and
        pandas.

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
        Ctrl-C after the fit to the sample keeps its coefficients, with a warning.

        See Also
        --------
        apmax.scale.sample_negatives : The sample.
        """
        if cache is not False:
            from apmax.scale.cache import cache_folder

            cache_folder(cache)  # an error comes before the fit to the sample
        if self._fit_sample(files, target, columns, sample_weight, rows, random_state):
            self._refit(files, target, columns, sample_weight, cache)
        return self

    def _refit(
        self,
        files: Any,
        target: str,
        columns: Sequence[str] | None,
        sample_weight: str | None,
        cache: Any,
    ) -> None:
        """Fit the coefficients to all rows, unless the fit to the sample was interrupted."""
        if self.result_.interrupted:
            return
        try:
            with cooperative_interrupts(), one_blas_thread():
                w, result = self._all_rows(files, target, columns, sample_weight, cache)
        except KeyboardInterrupt:
            message = "interrupted: kept the coefficients of the sample"
            self.result_ = replace(self.result_, converged=False, interrupted=True, message=message)
        else:
            self.linear_.coef_, self.linear_.intercept_ = w[None, :-1], w[-1:]
            self.linear_.result_, self.linear_.n_iter_ = result, result.iterations
            self._set_effects()  # type: ignore[attr-defined]
        if not self.result_.converged:
            warnings.warn(self.result_.message, ConvergenceWarning, stacklevel=4)

    def _all_rows(
        self,
        files: Any,
        target: str,
        columns: Sequence[str] | None,
        sample_weight: str | None,
        cache: Any,
    ) -> Any:
        """Return the coefficients of all rows and how their fits ended."""
        from apmax.scale.blocks import Progress
        from apmax.scale.cache import CachedBlocks, FlatFiles, StreamedBlocks, cache_folder
        from apmax.scale.encoded import EncodedFiles
        from apmax.tabular.grids import GridBlocks, Grids
        from apmax.tabular.refit import refit

        grids, progress = Grids(self.columns_, self._terms), Progress(self.on_progress)
        table = EncodedFiles(
            files,
            target,
            columns,
            sample_weight,
            encode=grids.positions,
            width=len(grids.axes),
            dtype=np.uint32,
        )
        if cache is False:
            blocks = StreamedBlocks(table, self.pos_label_)
            return refit(GridBlocks(blocks, grids), self.linear_, progress)
        flat = FlatFiles(table, cache_folder(cache), progress)
        try:
            cached = CachedBlocks(flat, flat.labels.values.index(self.pos_label_))
            return refit(GridBlocks(cached, grids), self.linear_, progress)
        finally:
            flat.close()
