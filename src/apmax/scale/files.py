"""Data files read in batches: columns of features, a target, and perhaps weights."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax.errors import (
    FileError,
    FileFormatError,
    LabelError,
    NonFiniteError,
    NotNumericError,
    WeightError,
)
from apmax.interrupts import raise_if_interrupted
from apmax.objective._pair_sums import NO_WEIGHTS
from apmax.scale.arrow_errors import DAMAGED, file_errors, require_pyarrow
from apmax.scale.blocks import LARGEST_WEIGHT, block_rows
from apmax.scale.plain_types import plain_columns, plain_type
from apmax.validation import Floats, check_path

FORMATS = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather"}
FORMATS |= {".csv": "csv", ".csv.gz": "csv"}
UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
"""Names under which pandas stores an index without a name."""
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class Batch(NamedTuple):
    """Some rows of one file."""

    X: NDArray[Any]
    labels: Any
    """A pyarrow array without nulls."""
    weight: Floats


class RawFiles:
    """Files of one format with the same columns, of any types.

    Parameters
    ----------
    files : path, glob pattern, folder, or list of paths
        Parquet, Feather (Arrow) or CSV files, read in sorted order (a list in its own).
    target : str
        Column of labels.
    columns : list of str, optional
        Columns of features. The default is all others but an index of pandas without a name.
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
        require_pyarrow()
        self.paths = matching_files(files)
        self.format = _format_of(self.paths)
        self.target, self.weight = target, sample_weight
        self.roles = [target] + ([sample_weight] if sample_weight is not None else [])
        self.stamps = [_stamp(path) for path in self.paths]
        self.schemas = [self._schema(path) for path in self.paths]
        names = [name for name in self.schemas[0].names if not UNNAMED_INDEX.fullmatch(name)]
        self.columns = [name for name in names if name not in self.roles]
        if columns is not None:
            self.columns = [columns] if isinstance(columns, str) else list(columns)
        if not self.columns:
            raise FileFormatError(f"{self.paths[0]} has no column of features beside {self.roles}")
        clash = [name for name in self.columns if name in self.roles]
        if clash:
            raise FileFormatError(f"column {clash[0]!r} is a feature and also one of {self.roles}")
        for path, schema in zip(self.paths, self.schemas, strict=True):
            self._check_schema(path, schema)
        self.block_rows = block_rows(len(self.columns))

    def rows(self) -> int | None:
        """Return the number of rows, if the format stores it; changed files raise FileError."""
        if self.format == "csv":
            return None
        rows = 0
        for path, stamp in zip(self.paths, self.stamps, strict=True):
            _check_unchanged(path, stamp)
            with _reading(path, stamp):
                rows += int(self._dataset(path).count_rows())
        return rows

    def weights(self, batch: Any, path: Path, row: int) -> Floats:
        """Return the weights of a record batch; empty for all ones.

        Raises
        ------
        NonFiniteError, WeightError
            If one is not a finite number ≥ 0.
        """
        if self.weight is None:
            return NO_WEIGHTS
        weight = np.ascontiguousarray(as_numbers(batch, self.weight), dtype=np.float64)
        _check_finite(weight[:, None], [self.weight], path, row)
        if weight.min() < 0:
            at = int(np.argmin(weight))
            raise WeightError(
                f"{path}: column {self.weight!r} is {weight[at]} in row {row + at}, but weights "
                "must be ≥ 0: use 0 to leave a row out"
            )
        if weight.max() > LARGEST_WEIGHT:
            raise WeightError(
                f"{path}: column {self.weight!r} is {weight.max():g} in row "
                f"{row + int(np.argmax(weight))}, and sums of such weights overflow: divide all "
                "weights by their mean"
            )
        return weight

    def batches(self, columns: list[str] | None) -> Iterator[tuple[Path, int, Any]]:
        """Yield record batches of all rows in order, with their file and first row.

        They hold some columns, or all that are used.

        Raises
        ------
        FileError
            If a file is missing, damaged, or was changed since the object was created.
        """
        wanted = [*self.columns, *self.roles] if columns is None else columns
        for path, stamp, schema in zip(self.paths, self.stamps, self.schemas, strict=True):
            _check_unchanged(path, stamp)
            row = 0
            with _reading(path, stamp):
                for stored in self._record_batches(path, schema, wanted):
                    stored.validate(full=True)  # compiled code would follow wrong offsets
                    batch = plain_columns(stored)
                    for start in range(0, batch.num_rows, self.block_rows):
                        raise_if_interrupted()
                        yield path, row + start, batch.slice(start, self.block_rows)
                    row += batch.num_rows
            _check_unchanged(path, stamp)

    def _record_batches(self, path: Path, schema: Any, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        if self.format == "parquet":
            import pyarrow.parquet as pq

            # Without a stream of its own, each column of a row group is held in memory.
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:
                yield from file.iter_batches(batch_size=self.block_rows, columns=columns)
            pa.default_memory_pool().release_unused()
        elif self.format == "feather":  # a scanner would look into batches before their validation
            wanted = {*columns}
            fields = [k for k, name in enumerate(schema.names) if name in wanted]
            options = pa.ipc.IpcReadOptions(included_fields=fields)
            with pa.OSFile(str(path)) as stream, pa.ipc.open_file(stream, options=options) as file:
                for number in range(file.num_record_batches):
                    yield file.get_batch(number)
        else:
            scanner = self._dataset(path, schema).scanner(
                columns=columns, batch_size=self.block_rows, batch_readahead=1, fragment_readahead=1
            )
            yield from scanner.to_batches()

    def _dataset(self, path: Path, schema: Any = None) -> Any:
        import pyarrow.dataset as ds

        return ds.dataset(str(path), schema, format=self.format)

    def _schema(self, path: Path) -> Any:
        import pyarrow as pa

        advice, verb = "it is damaged or has the wrong suffix", f"read as {self.format}"
        with file_errors(path, advice, verb):
            schema = self._dataset(path).schema
            _ = schema.names  # decodes them
        return pa.schema([self._field(field) for field in schema])

    def _field(self, field: Any) -> Any:
        """Return a field with the type that is read."""
        from pyarrow import float64, types

        if self.format != "csv":
            return field.with_type(plain_type(field.type))
        # Types of CSV files are those of their first rows, and later ones may have fractions.
        integer = types.is_integer(field.type) and field.name != self.target
        return field.with_type(float64()) if integer else field

    def _check_schema(self, path: Path, schema: Any) -> None:
        known = {*schema.names}  # `names` is a new list each time
        missing = [name for name in (*self.columns, *self.roles) if name not in known]
        if missing:
            raise FileFormatError(
                f"{path} has no column {missing[0]!r}: its columns are "
                f"{', '.join(schema.names[:8])}{', …' if len(schema.names) > 8 else ''}. All files "
                "need the same columns"
            )
        if self.weight is not None:
            _check_number(path, schema, self.weight)


class TableFiles(RawFiles):
    """Files whose features are numbers, read as arrays."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        kinds = [one.field(name).type for one in self.schemas for name in self.columns]
        self.dtype = np.dtype(np.float32 if all(map(_fits_single, kinds)) else np.float64)
        self.width = len(self.columns)

    def arrays(self, *, only_labels: bool = False) -> Iterator[Batch]:
        """Yield all rows in order; only labels and weights on request."""
        columns = [] if only_labels else self.columns
        for path, row, batch in self.batches([*columns, *self.roles]):
            yield self._converted(batch, columns, path, row)

    def _converted(self, batch: Any, columns: list[str], path: Path, row: int) -> Batch:
        X = np.empty((batch.num_rows, len(columns)), self.dtype)
        for k, name in enumerate(columns):
            X[:, k] = as_numbers(batch, name)
        labels = batch.column(self.target)
        if labels.null_count:
            raise LabelError(
                f"{path}: column {self.target!r} has {labels.null_count} missing labels in rows "
                f"{row} to {row + batch.num_rows - 1}: drop these rows"
            )
        weight = self.weights(batch, path, row)
        _check_finite(X, columns, path, row)
        return Batch(X, labels, weight)

    def _check_schema(self, path: Path, schema: Any) -> None:
        super()._check_schema(path, schema)
        for name in self.columns:
            _check_number(path, schema, name)


class LabelCodes:
    """Labels as 0 and 1, in order of first appearance, with rows and weight of each class."""

    def __init__(self, column: str, values: Sequence[Any] = ()) -> None:
        self.column = column
        self.values: list[Any] = list(values)
        self.totals = [0.0] * len(self.values)

    def codes(self, labels: Any, weight: Floats) -> NDArray[np.uint8]:
        """Return the code of each label; a third class raises LabelError."""
        with file_errors(f"column {self.column!r}", DAMAGED):
            codes = self._codes(labels)
        for code in range(len(self.values)):
            rows = codes == code
            self.totals[code] += float(weight[rows].sum() if weight.size else rows.sum())
        return codes

    def _codes(self, labels: Any) -> NDArray[np.uint8]:
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_dictionary(labels.type):
            labels = labels.dictionary_decode()
        if labels.null_count:
            raise LabelError(f"column {self.column!r} has missing labels: drop these rows")
        for value in pc.unique(labels).to_pylist():
            if value not in self.values:
                self.values.append(value)
                self.totals.append(0.0)
            if len(self.values) > 2 or value != value:  # noqa: PLR0124
                raise LabelError(
                    f"column {self.column!r} holds {', '.join(map(repr, self.values))}: a target "
                    "has two classes and no missing labels"
                )
        found = pc.index_in(labels, pa.array(self.values).cast(labels.type))
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.uint8)


def matching_files(files: Paths) -> list[Path]:
    """Return the files of a path, a glob pattern, a folder or a list."""
    if isinstance(files, (str, os.PathLike)):
        text = os.path.expanduser(os.fspath(files))
        if os.path.isdir(text):
            found = sorted(p for p in Path(text).rglob("*") if p.is_file() and _suffix(p))
        else:
            found = [Path(text)] if os.path.exists(text) else sorted(map(Path, glob.glob(text)))
    else:
        found = [Path(one) for one in files]
    if not found:
        raise FileError(f"no files match {str(files)!r}, relative to {Path.cwd()}: check the path")
    return list(map(check_path, found))


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
            f"{path} changed while it was being read: fit again once it is complete, or fit a copy"
        )


@contextmanager
def _reading(path: Path, stamp: tuple[int, int]) -> Iterator[None]:
    """Raise FileError for a file that cannot be read, also if because it changed."""
    try:
        with file_errors(path, DAMAGED):
            yield
    except FileError:
        _check_unchanged(path, stamp)
        raise


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


def as_numbers(table: Any, name: str) -> NDArray[Any]:
    """Return a column of a table or a record batch as an array with NaN for nulls."""
    from pyarrow import float64, types

    column = table.column(name)
    if types.is_decimal(column.type):
        column = column.cast(float64())
    if not _is_number(column.type):
        raise NotNumericError(
            f"column {name!r} is of type {column.type}, not a number: leave it out with "
            "columns=[…], or encode it first"
        )
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _check_number(path: Path, schema: Any, name: str) -> None:
    if not _is_number(schema.field(name).type):
        raise NotNumericError(
            f"{path}: column {name!r} is of type {schema.field(name).type}, not a number: leave it "
            "out with columns=[…], or encode it first"
        )


def _check_finite(X: NDArray[Any], names: list[str], path: Path, row: int) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(X.sum())  # a finite sum has finite terms
    if finite or np.isfinite(X).all():
        return
    bad = ~np.isfinite(X)
    at, column = np.unravel_index(int(np.argmax(bad)), bad.shape)
    raise NonFiniteError(
        f"{path}: column {names[column]!r} is {X[at, column]} in row {row + at}: drop or impute "
        "missing and infinite values first"
    )
