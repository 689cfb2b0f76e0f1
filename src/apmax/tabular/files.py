"""Fits of models of tables to files that need not fit into memory."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from apmax.binary_classifier import unchanged_on_error

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
        from apmax.scale.sampling import sample_negatives

        sample = sample_negatives(
            files,
            target,
            per_positive=None,
            rows="memory" if rows is None else rows,
            columns=columns,
            sample_weight=sample_weight,
            pos_label=self.pos_label,
            random_state=random_state,
        )
        logger.info("training on %d of %d rows", sample.y.size, sample.rows)
        frame, y, weight = sample.table.to_pandas(), sample.y, sample.sample_weight
        del sample
        return self.fit(frame, y, weight)  # type: ignore[attr-defined]
