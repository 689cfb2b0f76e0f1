"""Training data from files larger than memory: all positives and weighted negatives.

A file is read twice in parts, first its labels and then its rows. Rows are drawn into a temporary
file of the same format, which is read like any other.
"""

from __future__ import annotations

import csv
import io
import logging
import lzma
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from apmax.app.files import (
    COMPRESSED,
    format_suffix,
    max_bytes,
    one_line,
)
from apmax.app.headers import MISSING
from apmax.app.io import Dataset, is_array_file, load
from apmax.app.table_limits import long_cells
from apmax.app.tables import (
    COLUMNAR,
    TEXT_TABLES,
    Layout,
    checked_encoding,
    find_layout,
    rows_in_parts,
    undecodable,
)
from apmax.app.target import find_column, same_label
from apmax.atomic_files import temporary_folder
from apmax.errors import FileFormatError, InputError, ParameterError
from apmax.memory import VARIABLE, rows_for_training
from apmax.scale.sampling import ClassDraw, sizes_of_classes
from apmax.validation import Floats, check_path

logger = logging.getLogger("apmax")
EXPANSION = 10
"""Assumed size of compressed text relative to its file."""
HEAD = 1 << 20
MAX_LABELS = 1000
"""Distinct labels that are counted; a column with more is not a target."""


class Plan(NamedTuple):
    """How many rows of each class are drawn: others first, then positives."""

    label: str | None
    """The positive label; None if all rows are alike."""
    rows: Floats
    """Rows of each class in the file."""
    drawn: Floats
    """Rows of each class in the sample."""

    def codes(self, labels: Sequence[Any]) -> NDArray[np.intp]:
        """Return 1 for each positive label."""
        positive = None if self.label is None else _as_read(self.label)
        of_class = {one: _as_read(_stripped(one)) == positive for one in set(labels)}
        return np.array([of_class[one] for one in labels], np.intp)


class Draw(ClassDraw):
    """Chooses the rows of a sample while a file is read for the second time."""

    def __init__(self, file: Path, plan: Plan) -> None:
        super().__init__(plan.rows, plan.drawn, seed=0)
        self.file, self.plan = file, plan

    def of_labels(self, labels: Sequence[Any]) -> NDArray[np.intp]:
        """Return which of the next rows, with these labels, are drawn."""
        codes = self.plan.codes(labels)
        self._check(np.bincount(codes, minlength=2) <= self.left)
        return self.rows(codes)

    def end(self) -> None:
        """Raise FileFormatError if there were fewer rows than in the first pass."""
        self._check(self.left == 0 if self.plan.label is not None else np.True_)

    def _check(self, as_counted: Any) -> None:
        if not np.all(as_counted):
            raise FileFormatError(
                f"{self.file} changed while it was read: wait until it is complete, or use a copy"
            )


def load_sample(path: Any, rows: int | None, **options: Any) -> Dataset:
    """Load a file for training, or a sample of its rows if all of them do not fit into memory.

    `rows` is the largest number of rows to load; the default is as many as training has memory for.
    The other arguments are those of :func:`apmax.app.io.load`.
    """
    if rows is not None and rows < 2:
        raise ParameterError(f"--rows = {rows} must be at least 2: both classes need a row")
    table = None if str(path) == "-" else _open_table(check_path(path), options)
    most = None if table is None else rows or rows_for_training(table.width, table.bytes_per_row)
    if table is None or most is None or (rows is None and table.max_rows() <= most):
        dataset = load(path, **options)
        if rows is not None and dataset.X.shape[0] > rows:
            raise ParameterError(
                f"--rows needs a CSV, TSV, Parquet or Feather file: convert {path}, or leave "
                "--rows out"
            )
        return dataset
    counts = table.count_labels(options.get("positive"))
    total = sum(counts.values())
    if total <= most:
        return load(path, **options)
    plan = _plan(counts, options.get("positive"), most)
    with temporary_folder() as folder:
        copy = folder / f"sample{format_suffix(table.file)}"
        draw = Draw(table.file, plan)
        table.write_sample(copy, draw)
        draw.end()
        if plan.label is not None:  # in the sample, it may not be the rarer one
            options["positive"] = plan.label
        try:
            dataset = load(copy, **options)
        except InputError as error:
            raise type(error)(str(error).replace(str(copy), f"a sample of {path}")) from None
    dataset = replace(dataset, source=table.file)
    if dataset.y is None:
        return dataset
    stands_for = (plan.rows / np.maximum(plan.drawn, 1))[dataset.y.astype(int)]
    weight = stands_for if dataset.weight is None else stands_for * dataset.weight
    why = "--rows limits them" if rows is not None else "all of them do not fit into memory"
    others, positives = (
        f"all {count:,.0f}" if drawn == count else f"{drawn:,.0f} of {count:,.0f}"
        for drawn, count in zip(plan.drawn, plan.rows, strict=True)
    )
    note = (
        f"{path} has {total:,} rows, and {why}: training uses {positives} positives and {others} "
        "other rows, weighted to stand for all; set --rows or the environment variable "
        f"{VARIABLE} to change this"
    )
    return replace(dataset, weight=weight, stands_for=stands_for, notes=(note, *dataset.notes))


def evenly_drawn(dataset: Dataset) -> NDArray[np.intp]:
    """Return rows among which each row of the file is equally likely, for unweighted statistics."""
    if dataset.stands_for is None:
        return np.arange(dataset.X.shape[0])
    share = dataset.stands_for / dataset.stands_for.max()
    return np.flatnonzero(np.random.default_rng(0).random(share.size) < share)


def _plan(counts: Mapping[str, int], positive: Any, most: int) -> Plan:
    total = sum(counts.values())
    known = [label for label in counts if label not in MISSING]
    if positive is not None:
        alike = [label for label in known if same_label(label, positive)]
        known = [label for label in alike if label == str(positive)] or alike
    if not known or (positive is None and len(counts) > MAX_LABELS):  # `load` reports it
        return Plan(None, np.full(2, float(total)), np.full(2, float(most)))
    label = min(sorted(known, key=_order, reverse=True), key=lambda one: counts[one])
    plus = sum(count for one, count in counts.items() if _as_read(one) == _as_read(label))
    rows = np.array([total - plus, plus], np.float64)
    return Plan(label, rows, sizes_of_classes(rows, 1, np.inf, most))


def _order(label: str) -> tuple[bool, float, str]:
    """Sort numbers by their value, before text."""
    try:
        return False, float(label), ""
    except ValueError:
        return True, 0.0, label


def _stripped(label: Any) -> str:
    """Return a label as the reader of tables does."""
    return "" if label is None else str(label).strip(" \t'")


def _as_read(label: str) -> str | float:
    """Return a label as pandas reads it: numbers and truth values have several spellings."""
    try:
        return float({"true": "1", "false": "0"}.get(label.casefold(), label))
    except ValueError:
        return label


def _add(counts: Counter[str], label: Any, number: int, positive: Any) -> None:
    name = _stripped(label)
    known = len(counts) <= MAX_LABELS or name in counts
    counts[name if known or same_label(name, positive) else ""] += number


def _open_table(file: Path, options: dict[str, Any]) -> _TextTable | _ColumnarTable | None:
    """Return the file if it can be read in parts; whatever is wrong with it, `load` reports."""
    target, suffix = options.get("target"), format_suffix(file)
    try:
        if suffix in TEXT_TABLES and not is_array_file(file):
            return _TextTable(file, target, checked_encoding(options.get("encoding")))
        if suffix in COLUMNAR:
            table = _ColumnarTable(file, target)
            return table if 8 * table.rows * table.width <= max_bytes(file) else None
    except InputError:  # such as a target that is not a column
        raise
    except Exception:  # pyarrow and decompression raise many kinds for a damaged file
        logger.debug("%s cannot be read in parts", file, exc_info=True)
    return None


class _TextTable:
    """A text table that is read in parts."""

    def __init__(self, file: Path, target: str | None, encoding: str) -> None:
        self.file, self.encoding = file, encoding
        with self._open() as stream:
            head = stream.read(HEAD)
        self.layout: Layout = find_layout(file, io.BytesIO(head), encoding, target)
        self.width = len(self.layout.names)
        self.bytes_per_row = len(head) / max(1, head.count(b"\n"))
        names = self.layout.names
        self.column = names.index(find_column(names, "last" if target is None else target))

    def max_rows(self) -> float:
        """Return about the number of rows, rather more."""
        expansion = EXPANSION if self.file.suffix.lower() in COMPRESSED else 1
        return expansion * self.file.stat().st_size / self.bytes_per_row

    def count_labels(self, positive: Any) -> Counter[str]:
        """Return the number of rows per label; further labels than `MAX_LABELS` count as ""."""
        counts: Counter[str] = Counter()
        for part in self._parts():
            for label, count in Counter(map(itemgetter(self.column), part)).items():
                _add(counts, label, count, positive)
        return counts

    def write_sample(self, copy: Path, draw: Draw) -> None:
        """Write the rows that are drawn, as text."""
        with copy.open("w", encoding=self.encoding, newline="") as text:
            writer = csv.writer(text, delimiter=self.layout.separator)
            writer.writerow(self.layout.names)  # always: the first row drawn may look like one
            for part in self._parts():
                drawn = draw.of_labels(list(map(itemgetter(self.column), part)))
                writer.writerows(part[k] for k in drawn)

    def _open(self) -> BinaryIO:
        opened = COMPRESSED.get(self.file.suffix.lower(), open)
        return cast(BinaryIO, opened(self.file, "rb"))

    def _parts(self) -> Iterator[list[list[str]]]:
        """Yield the rows without the header and empty lines, many at a time."""
        with (
            self._reporting(),
            self._open() as stream,
            io.TextIOWrapper(stream, encoding=self.encoding, newline="") as text,
        ):
            yield from rows_in_parts(self.file, text, self.layout)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            with long_cells():
                yield
        except UnicodeDecodeError as error:
            raise undecodable(self.file, error, self.encoding) from error
        except (csv.Error, OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            raise FileFormatError(
                f"{self.file} cannot be read as a table ({one_line(error)}): it is damaged or "
                "truncated"
            ) from error


class _ColumnarTable:
    """A Parquet or Feather file that is read in parts."""

    def __init__(self, file: Path, target: str | None) -> None:
        from pyarrow.dataset import dataset

        from apmax.scale.files import UNNAMED_INDEX, RawFiles

        kind = "feather" if format_suffix(file) in (".feather", ".arrow") else "parquet"
        schema = dataset(file, format=kind).schema
        self.file, self.names = file, schema.names
        stored = (schema.pandas_metadata or {}).get("index_columns", [])
        index = [name for name in stored if name in self.names]
        columns = [name for name in self.names if name not in index]
        named = [name for name in index if not UNNAMED_INDEX.fullmatch(name)]
        # In the order of `load`, which puts a named index first.
        self.target = find_column([*named, *columns], "last" if target is None else target)
        self.source = RawFiles(file, self.target)
        self.width = len(self.names)
        self.rows = self.source.rows() or 0
        self.bytes_per_row = file.stat().st_size / max(1, self.rows)

    def max_rows(self) -> float:
        """Return the number of rows."""
        return self.rows

    def count_labels(self, positive: Any) -> Counter[str]:
        """Return the number of rows per label, as for a text table."""
        counts: Counter[str] = Counter()
        for _, _, batch in self.source.batches([self.target]):
            for one in batch.column(self.target).value_counts().tolist():
                _add(counts, one["values"], one["counts"], positive)
        return counts

    def write_sample(self, copy: Path, draw: Draw) -> None:
        """Write the rows that are drawn."""
        import pyarrow as pa
        from pyarrow import feather, parquet

        drawn = []
        for _, _, batch in self.source.batches(self.names):
            chosen = draw.of_labels(batch.column(self.target).to_pylist())
            drawn.append(pa.Table.from_batches([batch]).take(chosen))
        table = pa.concat_tables(drawn)
        if format_suffix(copy) in (".feather", ".arrow"):
            feather.write_feather(table, str(copy))
        else:
            parquet.write_table(table, copy)
