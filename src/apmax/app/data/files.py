"""One call for any data file: LIBSVM, CSV, TSV, Parquet or NumPy."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax.app.data.streams import PathLike, check_path, format_suffix, read_head
from apmax.app.data.tables import PARQUET, TEXT_TABLES, read_table
from apmax.app.data.target import Labels, check_positive_given, find_column, two_classes
from apmax.errors import FileError, ParameterError
from apmax.validation import Mask

LIBSVM = (".libsvm", ".svm", ".svmlight")
_LIBSVM_LINE = re.compile(
    rb"[ \t]*[+-]?(\d|\.\d)[\d.eE+-]*([ \t]+qid:\d+)?([ \t]+\d+:[^ \t:#,;]+)*[ \t]*(#.*)?\r?$"
)


@dataclass(frozen=True)
class Dataset:
    """Features and labels of a file.

    Attributes
    ----------
    X : CSR matrix, array, or pandas frame without the target.
    y : mask of the positives; None if no target was asked for.
    positive_label, negative_label : what they are called in the file.
    names : names of the features, where the file has them.
    target : name of the target's column, of a table.
    source : the file.
    against_rest : whether all values but the positive one are negative.
    counts : how often each value of the target is there.
    """

    X: Any
    y: Mask | None
    positive_label: Any
    negative_label: Any
    names: list[str] | None
    target: str | None
    source: Path
    against_rest: bool = False
    counts: dict[Any, int] = field(default_factory=dict)

    def rows(self, chosen: NDArray[Any]) -> Dataset:
        """The same data with these rows only, given as a mask or as row numbers."""
        X = self.X.iloc[chosen] if hasattr(self.X, "iloc") else self.X[chosen]
        return replace(self, X=X, y=None if self.y is None else self.y[chosen])


def load(
    path: PathLike,
    *,
    target: str | int | bool | None = None,
    positive: Any = None,
    against_rest: bool = False,
    text: Collection[str] = (),
) -> Dataset:
    """Load a data file; its suffix, or its first line, tells the format.

    ================================  ======================================================
    .csv .tsv .txt .data .parquet     table, see :func:`apmax.app.data.read_table`
    .npz                              ``X`` and ``y``; or CSR parts and ``y``
    .libsvm .svm, and no suffix       LIBSVM, see :func:`apmax.app.data.read_libsvm`
    ================================  ======================================================

    All but .parquet and .npz may be compressed as .gz, .bz2 or .xz.

    Parameters
    ----------
    path : the file.
    target : the column to predict, of a table: its name, its number counted from 1, or "last".
        False leaves the labels of any file aside, for data that have none that mean anything.
    positive : which of the target's two values is positive; by default the rarer one. Case,
        blanks and a full stop at the end may differ.
    against_rest : whether all other values are negative; or else there must be one other.
    text : columns of a text table that hold words, whatever they look like in this file.

    Examples
    --------
    >>> from apmax.app.data import load
    >>> data = load("loans.csv", target="defaulted", positive="yes")  # doctest: +SKIP
    """
    file = check_path(path)
    check_positive_given(positive, against_rest)
    if target is True:
        raise ParameterError('`target` must be a name, a number, "last", False or None, got True')
    try:
        return _load(file, _Asked(target, positive, against_rest), text)
    except MemoryError as error:
        raise FileError(
            f"{file} does not fit into memory ({error}): take fewer rows or columns, or LIBSVM for "
            "data that are mostly zeros"
        ) from error


class _Asked(NamedTuple):
    """What is to be predicted, as :func:`load` was told."""

    target: str | int | bool | None
    positive: Any
    against_rest: bool

    def labels(self, values: NDArray[Any], name: str) -> Labels:
        return two_classes(values, self.positive, name, against_rest=self.against_rest)


def _load(file: Path, asked: _Asked, text: Collection[str]) -> Dataset:
    suffix = format_suffix(file)
    if suffix in PARQUET:
        return _from_table(file, asked, text)
    if suffix == ".npz":
        from apmax.app.data.npz import read_npz

        X, y = read_npz(file)
        return _from_arrays(file, X, y, asked)
    if suffix in LIBSVM or (suffix not in (".csv", ".tsv", ".tab") and _looks_like_libsvm(file)):
        from apmax.app.data.libsvm import read_libsvm

        return _from_arrays(file, *read_libsvm(file), asked)
    if suffix in TEXT_TABLES:
        return _from_table(file, asked, text)
    raise FileError(
        f"{file} is of no known kind: its suffix is {suffix or 'missing'!r}, and its first line is "
        f"not LIBSVM; rename it to end in one of {', '.join((*TEXT_TABLES, *PARQUET))}, .npz"
    )


def _looks_like_libsvm(file: Path) -> bool:
    """Whether lines are labels with index:value pairs; some may have a label only, not all."""
    lines = read_head(file).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    told = [line for line in lines if line.strip() and not line.lstrip().startswith(b"#")][:50]
    return any(b":" in line for line in told) and all(map(_LIBSVM_LINE.match, told))


def _from_table(file: Path, asked: _Asked, text: Collection[str]) -> Dataset:
    target = asked.target
    frame = read_table(file, text=text)
    if isinstance(target, str) and target not in frame.columns and _in_first_row(file, target):
        frame = read_table(file, header=True, text=text)  # a name tells that it is one of names
    names = [str(name) for name in frame.columns]
    if target is None or target is False:
        return Dataset(frame, None, None, None, names, None, file)
    column = find_column(names, target)
    labels = asked.labels(frame[column].to_numpy(), f"column {column!r} of {file}")
    names.remove(column)
    X = frame.drop(columns=column)
    return Dataset(X, *labels[:3], names, column, file, asked.against_rest, labels.counts)


def _in_first_row(file: Path, target: str) -> bool:
    """Whether a text table has this word in its first row, although that looks like data."""
    if format_suffix(file) in PARQUET or target == "last" or target.lstrip("+-").isdigit():
        return False
    first = read_head(file).decode("utf-8-sig", "replace").lstrip().split("\n")[0]
    return target in [cell.strip("'\" \r") for cell in re.split(r"[,;\t]", first)]


def _from_arrays(file: Path, X: Any, y: NDArray[Any] | None, asked: _Asked) -> Dataset:
    target = asked.target
    if target is False or (y is None and target is None):
        return Dataset(X, None, None, None, None, None, file)
    if target is not None:
        raise ParameterError(
            f"`target` = {target!r} names a column, but {file} is no table: its labels are "
            + (
                "in the file already; leave `target` out"
                if y is not None
                else "missing; store them as the array y"
            )
        )
    labels = asked.labels(np.asarray(y), f"the label in {file}")
    return Dataset(X, *labels[:3], None, None, file, asked.against_rest, labels.counts)
