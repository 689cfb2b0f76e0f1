"""Read data files: tables, LIBSVM and NPZ."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from apmax.app.files import (
    MAX_EXPANSION,
    format_suffix,
    max_bytes,
    one_line,
    open_bytes,
    spooled_input,
)
from apmax.app.numbers import NumberFormat, NumberReader
from apmax.app.roles import NO_ROLES, Roles, assign_roles
from apmax.app.tables import COLUMNAR, EXCEL, JSON_LINES, read_table
from apmax.app.target import find_column, two_classes
from apmax.errors import FileError, FileFormatError, InputError, ParameterError
from apmax.validation import Floats, Mask, check_path

LIBSVM = (".libsvm", ".svm", ".svmlight")
_LIBSVM_LINE = re.compile(
    rb"[ \t]*[+-]?[\d.][\d.eE+-]*([ \t]+(qid|\d+):[^ \t:#,;]+)*[ \t]*(#.*)?\r?"
)


@dataclass(frozen=True)
class Dataset:
    """Features and labels of a data file."""

    X: Any
    """A frame without the target column, or a matrix."""
    y: Mask | None
    """The mask of positives; None if no target was requested."""
    source: Path
    positive: Any = None
    negative: Any = None
    target: str | None = None
    """Name of the target column, for tables."""
    against_rest: bool = False
    """Whether every label other than `positive` is negative."""
    counts: dict[Any, int] = field(default_factory=dict)
    """Number of rows per label."""
    ids: Any = None
    """The column that identifies rows, as a series, if it was named."""
    weight: Floats | None = None
    groups: NDArray[Any] | None = None
    times: Floats | None = None
    """Numbers that order the rows in time."""
    weight_column: str | None = None
    stands_for: Floats | None = None
    """How many rows of the file each row stands for, if it is a sample."""
    formats: dict[str, NumberFormat] = field(default_factory=dict)
    """How numbers are written, for columns that are not plain numbers."""
    notes: tuple[str, ...] = ()
    """How the file was read, one sentence per decision that the user should know."""

    @property
    def is_table(self) -> bool:
        """Whether `X` is a frame with named columns."""
        return hasattr(self.X, "columns")

    def labels(self) -> Mask:
        """Return the mask of positives, or raise ParameterError if there are no labels."""
        if self.y is None:
            raise ParameterError(f"{self.source} has no labels: name the target with --target")
        return self.y

    def rows(self, chosen: NDArray[Any]) -> Dataset:
        """Select rows by a mask or by row numbers."""
        X = self.X.iloc[chosen] if self.is_table else self.X[chosen]
        given = {
            name: getattr(self, name) for name in ("y", "weight", "groups", "times", "stands_for")
        }
        parts: dict[str, Any] = {
            name: None if values is None else values[chosen] for name, values in given.items()
        }
        ids = None if self.ids is None else self.ids.iloc[chosen]
        return replace(self, X=X, ids=ids, notes=(), **parts)


def load(
    path: str | PathLike[str],
    *,
    target: str | int | bool | None = None,
    positive: Any = None,
    against_rest: bool = False,
    text: Collection[str] = (),
    roles: Roles = NO_ROLES,
    drop_unlabelled: bool = False,
    numbers: NumberReader | None = None,
    encoding: str | None = None,
    identifier: str | None = None,
    trained_on: tuple[str, str] | None = None,
) -> Dataset:
    """Load a data file, or standard input if the path is "-".

    The format follows from the suffix; files with another suffix are read as LIBSVM if their
    first lines look like it. Text files may be compressed (.gz, .bz2, .xz).

    Parameters
    ----------
    path : str or path
        CSV, TSV, JSON lines, Excel, Parquet, Feather, LIBSVM or NPZ (`X` or CSR parts, and
        `y`).
    target : str, int, False or None
        The column to predict: its name, its number counted from 1, or "last". False ignores
        the labels of any file.
    positive, against_rest, trained_on
        The label to find, whether all others are negative, and the labels of the model that the
        data are for, as in :func:`apmax.app.target.two_classes`.
    text, numbers, encoding, identifier
        How a table is read, as in :func:`apmax.app.tables.read_table`; `identifier` is `roles.id`
        by default.
    roles : Roles
        Columns of a table that are not features.
    drop_unlabelled : bool
        Whether to leave out rows without a label, which are an error otherwise.

    FileError is raised if the file is missing, unreadable, damaged or of an unknown format.
    """
    if str(path) == "-":
        return _load_input(**{name: value for name, value in locals().items() if name != "path"})
    file = check_path(path)
    if against_rest and positive is None:
        raise ParameterError("--rest needs the label to find: name it with --positive VALUE")
    try:
        if is_array_file(file):
            dataset, labels = _load_arrays(file, target, roles)
        else:
            numbers = numbers or NumberReader()
            frame = read_table(
                file,
                text=text,
                target=target if isinstance(target, str) else None,
                numbers=numbers,
                encoding=encoding,
                identifier=identifier or roles.id,
            )
            dataset, labels = _with_roles(file, frame, target, roles, numbers)
    except MemoryError as error:
        raise FileError(
            f"{file} does not fit into memory: use fewer rows or columns, or LIBSVM for data that "
            "are mostly zeros"
        ) from error
    if labels is None:
        return dataset
    if drop_unlabelled:
        dataset, labels = _without_unlabelled(dataset, labels)
    name = "the label in" if dataset.target is None else f"column {dataset.target!r} of"
    y, found, other, counts = two_classes(
        labels, positive, f"{name} {file}", against_rest=against_rest, trained_on=trained_on
    )
    return replace(
        dataset, y=y, positive=found, negative=other, against_rest=against_rest, counts=counts
    )


def _load_arrays(
    file: Path, target: str | int | bool | None, roles: Roles
) -> tuple[Dataset, NDArray[Any] | None]:
    """Return the features of a matrix, and its labels if they are wanted and there."""
    if roles.given():
        raise ParameterError(
            f"{roles.given()} names a column, but {file} is not a table: leave it out"
        )
    X, y = _read_npz(file) if format_suffix(file) == ".npz" else _read_libsvm(file)
    dataset = Dataset(X, None, file)
    if target is None or target is False:
        return dataset, None if target is False or y is None else np.asarray(y)
    where = "are missing: store them as the array y" if y is None else "are in the file"
    raise ParameterError(
        f"`target` = {target!r} names a column, but {file} is not a table: its labels {where}; "
        "leave `target` out"
    )


def _with_roles(
    file: Path,
    frame: Any,
    target: str | int | bool | None,
    roles: Roles,
    numbers: NumberReader,
) -> tuple[Dataset, NDArray[Any] | None]:
    """Return the features and roles of a table, and its labels if they are wanted."""
    column = None
    if target is not None and target is not False:
        column = find_column(list(frame.columns), target)
    assigned = assign_roles(frame, roles, column)._asdict()
    notes, formats = tuple(numbers.notes), numbers.formats
    dataset = Dataset(y=None, source=file, target=column, notes=notes, formats=formats, **assigned)
    return dataset, None if column is None else frame[column].to_numpy()


def _load_input(**options: Any) -> Dataset:
    """Load standard input; messages call it so."""
    with spooled_input() as copy:
        try:
            return replace(load(copy, **options), source=Path("standard input"))
        except InputError as error:
            raise type(error)(str(error).replace(str(copy), "standard input")) from None


def _without_unlabelled(dataset: Dataset, labels: NDArray[Any]) -> tuple[Dataset, NDArray[Any]]:
    """Leave out rows without a label, with a note of how many."""
    import pandas as pd

    known = ~pd.isna(labels)
    if known.all():
        return dataset, labels
    dropped = int((~known).sum())
    note = f"{dropped:,} of {labels.size:,} rows have no label and are left out"
    return replace(dataset.rows(known), notes=(*dataset.notes, note)), labels[known]


def is_array_file(file: Path) -> bool:
    """Return whether a file holds a matrix, not a table."""
    suffix = format_suffix(file)
    if suffix in (*LIBSVM, ".npz"):
        return True
    if suffix in (*COLUMNAR, *JSON_LINES, *EXCEL, ".csv", ".tsv", ".tab"):
        return False
    with open_bytes(file) as stream:
        head = stream.read(1 << 16).removeprefix(b"\xef\xbb\xbf").split(b"\n")[:50]
    lines = [line for line in head if line.strip() and not line.lstrip().startswith(b"#")]
    return any(b":" in line for line in lines) and all(map(_LIBSVM_LINE.fullmatch, lines[:-1]))


def _read_libsvm(file: Path) -> tuple[Any, NDArray[np.float64]]:
    from sklearn.datasets import load_svmlight_file

    with open_bytes(file) as stream:
        if stream.read(3) != b"\xef\xbb\xbf":
            stream.seek(0)
        try:
            X, y = load_svmlight_file(stream, zero_based=False)
        except MemoryError:
            raise
        except Exception as error:
            raise FileFormatError(
                f"{file} is not valid LIBSVM text ({one_line(error)}): expected lines like "
                "'1 3:0.5 7:2', with indices from 1 in rising order"
            ) from error
    if y.size == 0:
        raise FileFormatError(f"{file} is empty: expected lines like '1 3:0.5 7:2'")
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        raise FileFormatError(
            f"{file} contains a number that is not finite: leave the feature out, or write a number"
        )
    return X, y


def _read_npz(file: Path) -> tuple[Any, NDArray[Any] | None]:
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(info.file_size for info in archive.infolist())
        if size > max_bytes(file):
            raise FileFormatError(
                f"{file} claims {size >> 20} MB, more than {MAX_EXPANSION} times its size: if this "
                "is intended, save it with numpy.savez, which does not compress"
            )
        with np.load(file, allow_pickle=False) as arrays:
            if "indptr" in arrays:
                data = arrays["data"] if "data" in arrays else np.ones(arrays["indices"].size)
                parts = (data, arrays["indices"], arrays["indptr"])
                X = sp.csr_matrix(parts, shape=tuple(arrays["shape"].tolist()))
                X.check_format(full_check=True)  # compiled code would follow wrong indices
                X.sum_duplicates()
            else:
                X = np.asanyarray(arrays["X"])  # bytes, if the member is not an array
            y = np.asanyarray(arrays["y"]) if "y" in arrays else None
            if y is not None and y.dtype.kind == "U":
                y.tolist()  # raises for code points that do not exist
    except (MemoryError, FileFormatError):
        raise
    except Exception as error:
        raise FileFormatError(
            f"{file} is not a usable .npz archive ({one_line(error)}): expected X and y, or data, "
            "indices, indptr, shape and y, saved as numbers"
        ) from error
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "biuf":
        raise FileFormatError(f"{file}: X must be a matrix of numbers, got {X.dtype} of {X.shape}")
    if y is not None and (y.size != X.shape[0] or y.dtype.kind not in "biufSU"):
        raise FileFormatError(f"{file}: y must be {X.shape[0]} labels, got {y.dtype} of {y.shape}")
    return X, None if y is None else y.reshape(-1)
