"""Data files read in batches: columns of features, a target, and perhaps weights."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax.errors import FileError, FileFormatError, LabelError, NonFiniteError, NotNumericError
from apmax.interrupts import raise_if_interrupted
from apmax.objective._pair_sums import NO_WEIGHTS
from apmax.scale.blocks import block_rows
from apmax.validation import Floats

FORMATS = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather"}
FORMATS |= {".csv": "csv", ".csv.gz": "csv"}
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class Batch(NamedTuple):
    """Some rows of one file."""

    X: NDArray[Any]
    labels: Any
    """A pyarrow array without nulls."""
    weight: Floats


class TableFiles:
    """Files of one format with the same columns.

    Parameters
    ----------
    files : path, glob pattern, folder, or list of paths
        Parquet, Feather (Arrow) or CSV files, read in sorted order (a list in its own).
    target : str
        Column of labels.
    columns : list of str, optional
        Columns of features, all of them numbers. The default is all others.
    sample_weight : str, optional
        Column of weights.
    """

    def __init__(
        self,
        files: Paths,
        target: str,
        columns: Sequence[str] | None = None,
        sample_weight: str | None = None,
    ) -> None:
        _require_pyarrow()
        self.paths = matching_files(files)
        self.format = _format_of(self.paths)
        self.target, self.weight = target, sample_weight
        roles = [target] + ([sample_weight] if sample_weight is not None else [])
        first = self._schema(self.paths[0])
        self.columns = [name for name in first.names if name not in roles]
        if columns is not None:
            self.columns = [columns] if isinstance(columns, str) else list(columns)
        if not self.columns:
            raise FileFormatError(f"{self.paths[0]} has no column of features beside {roles}")
        clash = [name for name in self.columns if name in roles]
        if clash:
            raise FileFormatError(f"column {clash[0]!r} is a feature and also one of {roles}")
        self.stamps = [_stamp(path) for path in self.paths]
        schemas = [first] + [self._schema(path) for path in self.paths[1:]]
        for path, schema in zip(self.paths, schemas, strict=True):
            self._check_schema(path, schema)
        single = all(_fits_single(one.field(name).type) for one in schemas for name in self.columns)
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def rows(self) -> int | None:
        """Return the number of rows, if the format stores it."""
        if self.format == "csv":
            return None
        return sum(int(self._dataset(path).count_rows()) for path in self.paths)

    def batches(self, *, only_labels: bool = False) -> Iterator[Batch]:
        """Yield all rows in order; only labels and weights on request.

        Raises
        ------
        FileError
            If a file is missing or was changed since the object was created.
        """
        columns = [] if only_labels else self.columns
        wanted = [*columns, self.target] + ([self.weight] if self.weight is not None else [])
        for path, stamp in zip(self.paths, self.stamps, strict=True):
            _check_unchanged(path, stamp)
            row = 0
            try:
                scanner = self._dataset(path).scanner(
                    columns=wanted,
                    batch_size=block_rows(len(self.columns)),
                    batch_readahead=1,
                    fragment_readahead=1,
                )
                for batch in scanner.to_batches():
                    raise_if_interrupted()
                    if batch.num_rows:
                        yield self._converted(batch, columns, path, row)
                        row += batch.num_rows
            except OSError as error:  # pyarrow's errors of reading are OSErrors, too
                _check_unchanged(path, stamp)
                raise FileFormatError(f"{path} cannot be read ({_one_line(error)})") from None
            _check_unchanged(path, stamp)

    def _converted(self, batch: Any, columns: list[str], path: Path, row: int) -> Batch:
        X = np.empty((batch.num_rows, len(columns)), self.dtype)
        for k, name in enumerate(columns):
            X[:, k] = _numbers(batch.column(name))
        labels = batch.column(self.target)
        if labels.null_count:
            raise LabelError(
                f"{path}: column {self.target!r} has {labels.null_count} missing labels in rows "
                f"{row} to {row + batch.num_rows - 1}: drop these rows"
            )
        weight = NO_WEIGHTS
        if self.weight is not None:
            weight = np.ascontiguousarray(_numbers(batch.column(self.weight)), dtype=np.float64)
            self._check_finite(weight[:, None], [self.weight], path, row)
        self._check_finite(X, columns, path, row)
        return Batch(X, labels, weight)

    @staticmethod
    def _check_finite(X: NDArray[Any], names: list[str], path: Path, row: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(X.sum())  # a finite sum has finite terms
        if finite or np.isfinite(X).all():
            return
        bad = ~np.isfinite(X)
        at, column = np.unravel_index(int(np.argmax(bad)), bad.shape)
        raise NonFiniteError(
            f"{path}: column {names[column]!r} is {X[at, column]} in row {row + at}: drop or "
            "impute missing and infinite values first"
        )

    def _dataset(self, path: Path) -> Any:
        import pyarrow.dataset as ds

        return ds.dataset(str(path), format=self.format)

    def _schema(self, path: Path) -> Any:
        try:
            return self._dataset(path).schema
        except (OSError, ValueError) as error:
            raise FileFormatError(
                f"{path} cannot be read as {self.format} ({_one_line(error)}): it is damaged or "
                "has the wrong suffix"
            ) from None

    def _check_schema(self, path: Path, schema: Any) -> None:
        names = [*self.columns, self.target] + ([self.weight] if self.weight is not None else [])
        missing = [name for name in names if name not in schema.names]
        if missing:
            raise FileFormatError(
                f"{path} has no column {missing[0]!r}: its columns are "
                f"{', '.join(schema.names[:8])}{', …' if len(schema.names) > 8 else ''}. All files "
                "need the same columns"
            )
        for name in names:
            if name != self.target and not _is_number(schema.field(name).type):
                raise NotNumericError(
                    f"{path}: column {name!r} is of type {schema.field(name).type}, not a number: "
                    "leave it out with columns=[…], or encode it first"
                )


class LabelCodes:
    """Labels as 0 and 1, in order of first appearance, with rows and weight of each class."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.values: list[Any] = []
        self.totals: list[float] = []

    def codes(self, labels: Any, weight: Floats) -> NDArray[np.uint8]:
        """Return the code of each label; a third class raises LabelError."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_dictionary(labels.type):
            labels = labels.dictionary_decode()
        for value in pc.unique(labels).to_pylist():
            if value not in self.values:
                self.values.append(value)
                self.totals.append(0.0)
            if len(self.values) > 2 or value != value:  # noqa: PLR0124
                raise LabelError(
                    f"column {self.path!r} holds {', '.join(map(repr, self.values))}: a target has "
                    "two classes and no missing labels"
                )
        found = pc.index_in(labels, pa.array(self.values).cast(labels.type))
        codes = np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.uint8)
        for code in range(len(self.values)):
            rows = codes == code
            self.totals[code] += float(weight[rows].sum() if weight.size else rows.sum())
        return codes


def matching_files(files: Paths) -> list[Path]:
    """Return the files of a path, a glob pattern, a folder or a list."""
    if isinstance(files, (str, os.PathLike)):
        text = os.path.expanduser(os.fspath(files))
        if os.path.isdir(text):
            found = sorted(p for p in Path(text).rglob("*") if p.is_file() and _suffix(p))
        else:
            found = [Path(text)] if os.path.exists(text) else sorted(map(Path, glob.glob(text)))
    else:
        found = [Path(one).expanduser() for one in files]
    if not found:
        raise FileError(f"no files match {str(files)!r}, relative to {Path.cwd()}: check the path")
    for path in found:
        if not path.is_file():
            raise FileError(f"{path}: no such file; check the path, relative to {Path.cwd()}")
    return found


def _suffix(path: Path) -> str | None:
    """Return the format of a file by its name, None if unknown."""
    name = path.name.lower()
    return next((kind for suffix, kind in FORMATS.items() if name.endswith(suffix)), None)


def _format_of(paths: Iterable[Path]) -> str:
    formats = {path: _suffix(path) for path in paths}
    for path, kind in formats.items():
        if kind is None:
            raise FileError(
                f"{path} has an unknown type: use Parquet, Feather or CSV ({', '.join(FORMATS)})"
            )
    kinds = sorted({kind for kind in formats.values() if kind})
    if len(kinds) > 1:
        raise FileError(f"files mix the formats {' and '.join(kinds)}: convert them to one")
    return kinds[0]


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        raise FileError(
            f"{path} was deleted while it was being read: restore it and fit again"
        ) from None
    return status.st_size, status.st_mtime_ns


def _check_unchanged(path: Path, stamp: tuple[int, int]) -> None:
    if _stamp(path) != stamp:
        raise FileError(
            f"{path} changed while it was being read: fit again once it is complete, or use a "
            "cache, which reads each file once"
        )


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(
        types.is_floating(kind)
        or types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
    )


def _fits_single(kind: Any) -> bool:
    """Return whether single precision holds every value of a type."""
    from pyarrow import types

    small = types.is_int8(kind) or types.is_int16(kind) or types.is_uint8(kind)
    small = small or types.is_uint16(kind) or types.is_boolean(kind)
    return bool(small or types.is_float32(kind) or types.is_float16(kind))


def _numbers(column: Any) -> NDArray[Any]:
    """Return a column as a NumPy array with NaN for nulls."""
    from pyarrow import float64, types

    if types.is_decimal(column.type):
        column = column.cast(float64())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _require_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError(
            "reading files in batches needs pyarrow: pip install 'apmax[files]'"
        ) from None


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:200]
