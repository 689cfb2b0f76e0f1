"""Dask collections as one Delayed object per partition, checked against each other."""

from __future__ import annotations

import os
from typing import Any

import dask
import numpy as np

from apmax.errors import ParameterError, ShapeError
from apmax.linear.numbers_only import check_types
from apmax.scale.cluster import raw_block


def packed(y: Any, scores: Any, sample_weight: Any) -> list[Any]:
    """Return labels, scores and weights as one Delayed object per partition."""
    columns = [parts_of(y), parts_of(scores)]
    columns.append([None] * len(columns[0]) if sample_weight is None else parts_of(sample_weight))
    if len({len(one) for one in columns}) > 1:
        raise ShapeError(
            f"y, scores and sample_weight have {', '.join(str(len(one)) for one in columns)} "
            "partitions: give all of them the same"
        )
    pack = dask.delayed(_pack, pure=False)
    return [pack(*row) for row in zip(*columns, strict=True)]


def checked_collections(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return Dask collections of paths; names of columns are checked and stay."""
    if isinstance(X, (str, os.PathLike)):
        import dask.dataframe as dd

        X = dd.read_parquet(os.fspath(X))
    for name, value in (("X", X), ("y", y), ("sample_weight", sample_weight)):
        if isinstance(value, str) and value not in getattr(X, "columns", []):
            raise ParameterError(
                f"`{name}` = {value!r} is not a column of X: pass a Dask Series or array, or the "
                "name of a column of a DataFrame or of Parquet files"
            )
        if not (value is None or isinstance(value, str) or dask.is_dask_collection(value)):
            raise ParameterError(
                f"`{name}` must be a Dask collection, got {type(value).__name__}: use "
                "apmax.APClassifier for data in memory"
            )
    if getattr(X, "ndim", 2) != 2:
        raise ShapeError(f"`X` must be two-dimensional, got {X.ndim} dimensions")
    if hasattr(X, "rechunk"):
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        y, sample_weight = (_aligned(one, X) for one in (y, sample_weight))
    return X, y, sample_weight


def _aligned(one: Any, X: Any) -> Any:
    """Return an array in the same blocks of rows as X, if their sizes are known."""
    if not hasattr(one, "rechunk") or np.isnan(X.shape[0]) or np.isnan(one.shape[0]):
        return one
    if one.shape[0] != X.shape[0]:
        raise ShapeError(
            f"`X` has {X.shape[0]} rows, but y or sample_weight {one.shape[0]}: pass one value per "
            "row"
        )
    return one.rechunk((X.chunks[0], *one.chunks[1:]))


def raw_parts(X: Any, y: Any, sample_weight: Any) -> list[Any]:
    """Return one Delayed block per partition."""
    names = feature_names(X, y, sample_weight)
    kinds = [X.dtype] if names is None else [X.dtypes[name] for name in names]
    check_types(zip(names or [], kinds, strict=False))
    dtype = "float32" if all(kind == np.float32 for kind in kinds) else "float64"
    columns = [parts_of(X)]
    for one in (y, sample_weight):
        named = one is None or isinstance(one, str)
        columns.append([one] * len(columns[0]) if named else parts_of(one))
    if len({len(one) for one in columns}) > 1:
        raise ShapeError(
            f"X has {len(columns[0])} partitions, y {len(columns[1])} and sample_weight "
            f"{len(columns[2])}: give them the same, for example with repartition or rechunk"
        )
    block = dask.delayed(raw_block, pure=False)
    return [block(*row, i, dtype) for i, row in enumerate(zip(*columns, strict=True))]


def feature_names(X: Any, y: Any, sample_weight: Any) -> list[Any] | None:
    """Return the columns of a DataFrame that are features."""
    if not hasattr(X, "columns"):
        return None
    roles = [one for one in (y, sample_weight) if isinstance(one, str)]
    return [name for name in X.columns if name not in roles]


def parts_of(collection: Any) -> list[Any]:
    """Return the partitions of a collection as Delayed objects."""
    if not dask.is_dask_collection(collection):
        raise ParameterError(
            f"a Dask array or Series is needed, got {type(collection).__name__}: for data in "
            "memory use apmax.average_precision"
        )
    # Optimised on their own, frames of the same files would get different partitions.
    parts = collection.to_delayed(optimize_graph=not hasattr(collection, "divisions"))
    return list(np.asarray(parts, dtype=object).ravel())


def _pack(y: Any, scores: Any, weight: Any) -> tuple[Any, Any, Any]:
    return y, scores, weight
