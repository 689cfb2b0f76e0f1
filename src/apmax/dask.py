"""Average precision on a Dask cluster: a linear classifier and the metric.

Needs the extra ``dask``: ``pip install 'apmax[dask]'``.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from apmax.binary_classifier import unchanged_on_error
from apmax.errors import ParameterError
from apmax.interrupts import cooperative_interrupts
from apmax.linear import APClassifier
from apmax.objective.surrogates import Surrogate
from apmax.scale.blocks import Progress
from apmax.scale.checkpoint import Checkpoint
from apmax.scale.estimator import settings_of, store, target_of
from apmax.scale.fit import fit
from apmax.scale.ranking import APInterval, average_precision_of
from apmax.validation import check_real

try:
    import dask
    from distributed import Client, default_client

    from apmax.scale.cluster import (
        ClusterBlocks,
        block_of,
        describe,
        merge_descriptions,
        persisted,
        persisted_evenly,
        result_of,
        tree,
        unrecomputable,
    )
    from apmax.scale.partitions import (
        checked_collections,
        feature_names,
        packed,
        parts_of,
        raw_parts,
    )
except ImportError as error:
    raise ImportError(
        f"apmax.dask needs Dask and distributed ({error}): pip install 'apmax[dask]'"
    ) from error

__all__ = ["APInterval", "DaskAPClassifier", "average_precision"]


class DaskAPClassifier(BaseEstimator):  # type: ignore[misc]
    """:class:`apmax.APClassifier` for Dask arrays, DataFrames and Parquet files.

    Each evaluation of the objective is one graph of pure tasks that send sums, not rows: at most
    about 370 KB per partition for 30 features. Before the fit, partitions may be moved to balance
    memory. Results do not depend on the number of workers, and they are the same if workers end
    during the fit: their tasks run again elsewhere.

    Parameters
    ----------
    surrogate : str, default="logistic"
        Only "logistic" can be fitted in parts.
    gamma : float, default=None
        Slope of the surrogate, at most 80. None is 20.
    alpha, max_iter, tol, pos_label
        As in :class:`apmax.APClassifier`.
    checkpoint : path, optional
        File to which each pass appends its value and gradient. `fit` with the same data and
        parameters resumes from it with bit-identical results. It is deleted when the fit is
        complete, and kept after Ctrl-C or an error.
    worker_timeout : float, default=300
        Seconds without any worker after which `fit` raises :class:`apmax.errors.NoWorkerError`.
        Increase it for clusters whose workers take longer to start.
    client : distributed.Client, optional
        The cluster; by default the current one.

    Attributes
    ----------
    coef_, intercept_, classes_, pos_label_, log_odds_limits_, n_features_in_, n_iter_, history_, \
result_
        As in :class:`apmax.APClassifier`.

    See Also
    --------
    apmax.APClassifier.fit_files : The same fit on one machine, from files.

    Notes
    -----
    Partitions are kept in the memory of the cluster during the fit; Dask writes what does not fit
    to disk. Partitions of about 128 MB are best. A worker that ends is replaced by the others if
    Dask can read its partitions again; scattered data cannot be read again, which issues a warning.

    Examples
    --------
    A cluster of threads of this process; ``Client()`` starts one of processes:

    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from apmax.dask import DaskAPClassifier, average_precision
    >>> X = da.random.default_rng(0).normal(size=(4_000, 3), chunks=(2_000, 3))
    >>> y = X[:, 0] + X[:, 1] > 2.5
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0"):
    ...     model = DaskAPClassifier().fit(X, y)
    ...     found = average_precision(y, model.decision_function(X))  # lazy scores
    >>> found.value > 0.99, found.lower == found.upper
    (True, True)
    """

    def __init__(
        self,
        *,
        surrogate: str | Surrogate = "logistic",
        gamma: float | None = None,
        alpha: float = 1.0,
        max_iter: int = 200,
        tol: float = 1e-4,
        pos_label: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        worker_timeout: float = 300.0,
        client: Client | None = None,
    ) -> None:
        self.surrogate = surrogate
        self.gamma = gamma
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol
        self.pos_label = pos_label
        self.checkpoint = checkpoint
        self.worker_timeout = worker_timeout
        self.client = client

    @unchanged_on_error
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> DaskAPClassifier:
        """Fit the model.

        Parameters
        ----------
        X : Dask array, Dask DataFrame, or path of Parquet files
            Features; those of a DataFrame or of files are all columns but `y` and `sample_weight`
            if these are names of columns.
        y : Dask array, Dask Series, or str
            Labels in the same partitions as X, or the name of a column.
        sample_weight : Dask array, Dask Series, or str, optional
            Non-negative weights, likewise.

        Returns
        -------
        DaskAPClassifier
            The fitted estimator.
        """
        local = APClassifier(**self._local_parameters())
        settings = settings_of(local)
        timeout, record = self._checked_timeout(), Checkpoint(self.checkpoint)
        client = self._client()
        X, y, sample_weight = checked_collections(X, y, sample_weight)
        _warn_if_scattered(client, X, y, sample_weight)
        names = feature_names(X, y, sample_weight)
        with cooperative_interrupts():
            raw = persisted(client, raw_parts(X, y, sample_weight))
            description = result_of(client, tree(raw, describe, merge_descriptions), timeout)
            totals = description.totals
            target = target_of(list(totals), list(totals.values()), self)
            to_block = dask.delayed(block_of, pure=False)
            blocks = [to_block(part, target.pos_label) for part in raw]
            parts = persisted_evenly(client, blocks, raw)
            del raw, blocks
            engine = ClusterBlocks(client, parts, description, timeout)
            fitted = fit(
                engine,
                settings,
                checkpoint=record,
                progress=Progress(getattr(self, "on_progress", None)),
            )
        store(local, fitted, target, names, stacklevel=4)
        self._local = local
        for name, value in vars(local).items():
            if name.endswith("_"):
                setattr(self, name, value)
        return self

    def to_local(self) -> APClassifier:
        """Return the fitted model as a plain :class:`apmax.APClassifier`."""
        check_is_fitted(self, "coef_")
        return self._local

    def decision_function(self, X: Any) -> Any:
        """Return the log-odds of ``classes_[1]``, lazily.

        Parameters
        ----------
        X : Dask array or DataFrame
            New data with the columns of `fit`.
        """
        return self._mapped(X, "decision_function")

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class as a lazy Dask array.

        Parameters
        ----------
        X : Dask array or DataFrame
            New data with the columns of `fit`.
        """
        return self._mapped(X, "predict_proba", columns=2)

    def predict(self, X: Any) -> Any:
        """Return the class with probability above one half, lazily.

        Parameters
        ----------
        X : Dask array or DataFrame
            New data with the columns of `fit`.
        """
        return self._mapped(X, "predict", dtype=self.to_local().classes_.dtype)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the average precision of the positive class, `pos_label_`.

        Parameters
        ----------
        X, y, sample_weight
            Held-out data, as for `fit`.

        Returns
        -------
        float
            Average precision, as :func:`average_precision` computes it.
        """
        local, timeout = self.to_local(), self._checked_timeout()
        X, y, sample_weight = checked_collections(X, y, sample_weight)
        names = feature_names(X, y, sample_weight)
        y, sample_weight = (X[one] if isinstance(one, str) else one for one in (y, sample_weight))
        log_odds = self.decision_function(X if names is None else X[names])
        if local.pos_label_ != local.classes_[1]:
            log_odds = -log_odds
        client = self._client()
        parts = persisted(client, packed(y, log_odds, sample_weight))

        def fold(function: Any, merge: Any, *arguments: Any) -> Any:
            graph = tree(parts, function, merge, *arguments)
            return result_of(client, graph, timeout)

        return average_precision_of(fold, local.pos_label_).value

    def _mapped(self, X: Any, method: str, columns: int | None = None, dtype: Any = float) -> Any:
        local = self.to_local()
        if hasattr(X, "map_blocks"):
            X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
            if columns is None:
                return X.map_blocks(_predict, local, method, dtype=dtype, drop_axis=1)
            return X.map_blocks(
                _predict, local, method, dtype=dtype, chunks=(X.chunks[0], (columns,))
            )
        if not hasattr(X, "map_partitions"):
            raise ParameterError(
                f"`X` must be a Dask array or DataFrame, got {type(X).__name__}: for data in "
                f"memory use to_local().{method}(X)"
            )
        import dask.array as da

        shape = (np.nan,) if columns is None else (np.nan, columns)
        predict = dask.delayed(_predict)
        return da.concatenate(
            [
                da.from_delayed(predict(part, local, method), shape, dtype=dtype)
                for part in parts_of(X)
            ],
            allow_unknown_chunksizes=True,
        )

    def _local_parameters(self) -> dict[str, Any]:
        names = ("surrogate", "gamma", "alpha", "max_iter", "tol", "pos_label")
        return {name: getattr(self, name) for name in names}

    def _checked_timeout(self) -> float:
        why = "it is a number of seconds"
        return check_real(self.worker_timeout, "worker_timeout", above=0, why=why)

    def _client(self) -> Client:
        if self.client is not None:
            return self.client
        try:
            return default_client()
        except ValueError:
            raise ParameterError(
                "there is no Dask cluster: create a client first, for example with "
                "distributed.Client(), or pass client="
            ) from None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "client": None}


def average_precision(
    y: Any, scores: Any, *, sample_weight: Any = None, pos_label: Any = None
) -> APInterval:
    """Compute average precision of Dask arrays or Series.

    With up to two million positives the result is exact: their sorted scores are sent to every
    partition. With more it is an interval from a histogram, usually a few 1e-5 wide.

    Parameters
    ----------
    y : Dask array or Series
        Labels: bool, {0, 1}, {-1, 1}, or any two values with `pos_label`.
    scores : Dask array or Series
        Finite scores in the same partitions; larger means more likely positive.
    sample_weight : Dask array or Series, optional
        Non-negative weights.
    pos_label : optional
        The positive class, needed unless labels are bool, {0, 1} or {-1, 1}.

    Returns
    -------
    APInterval
        With fields `value`, `lower` and `upper`, which are equal if the result is exact.

    Examples
    --------
    >>> import dask.array as da
    >>> from apmax.dask import average_precision
    >>> y = da.from_array([1, 0, 1, 0], chunks=2)
    >>> scores = da.from_array([0.9, 0.8, 0.4, 0.35], chunks=2)
    >>> print(f"{average_precision(y, scores).value:.3f}")
    0.833
    """
    parts = packed(y, scores, sample_weight)

    def fold(function: Any, merge: Any, *arguments: Any) -> Any:
        return dask.compute(tree(parts, function, merge, *arguments), optimize_graph=False)[0]

    return average_precision_of(fold, pos_label)


def _predict(X: Any, model: APClassifier, method: str) -> Any:
    if X.shape[0] == 0:
        shape = (0, 2) if method == "predict_proba" else (0,)
        return np.empty(shape, model.classes_.dtype if method == "predict" else float)
    return getattr(model, method)(X)


def _warn_if_scattered(client: Client, *collections: Any) -> None:
    given = [one for one in collections if dask.is_dask_collection(one)]
    keys = unrecomputable(client, *given)
    if keys:
        warnings.warn(
            f"{len(keys)} partitions were scattered to the workers, so that Dask cannot compute "
            "them again: the fit fails if one of these workers ends; create the data from files",
            UserWarning,
            stacklevel=4,
        )
