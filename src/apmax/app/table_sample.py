"""Training data from files larger than memory: all positives and weighted negatives.

A file is read twice in parts, first its labels and then its rows. Rows are drawn into a temporary
file of the same format, which is read like any other.
"""

from __future__ import annotations

import csv
import io
import logging
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from apmax.app.files import COMPRESSED, check_path, format_suffix, max_bytes, one_line
from apmax.app.io import Dataset, load
from apmax.app.tables import (
    COLUMNAR,
    TEXT_TABLES,
    Layout,
    checked_encoding,
    find_layout,
    undecodable,
)
from apmax.app.target import find_column, same_label
from apmax.errors import FileFormatError, InputError, ParameterError
from apmax.memory import VARIABLE, rows_for_training
from apmax.scale.sampling import ClassDraw, sizes_of_classes
from apmax.validation import Floats

logger = logging.getLogger("apmax")
EXPANSION = 10
"""Assumed size of compressed text relative to its file."""
HEAD = 1 << 20
ROWS_AT_ONCE = 10_000
MOST_LABELS = 1000
"""Distinct labels that are counted; a column with more is not a target."""
MISSING = {"", "?", "nan", "na", "n/a", "#n/a", "null", "none", "<na>"}


class Plan(NamedTuple):
    """How many rows of each class are drawn: others first, then positives."""

    label: str | None
    """The positive label; None if all rows are alike."""
    there: Floats
    sizes: Floats

    def codes(self, labels: Sequence[Any]) -> NDArray[np.intp]:
        """Return 1 for each positive label."""
        code = {one: self.label is not None and same_label(one, self.label) for one in set(labels)}
        return np.array([code[one] for one in labels], np.intp)


def load_sample(path: Any, rows: int | None, **options: Any) -> Dataset:
    """Load a file for training, or a sample of its rows if all of them do not fit into memory.

    Parameters
    ----------
    path : path
        As for :func:`apmax.app.io.load`.
    rows : int, optional
        Most rows to load; by default, as many as training has memory for.
    **options
        Arguments of :func:`apmax.app.io.load`.
    """
    if rows is not None and rows < 2:
        raise ParameterError(f"--rows = {rows} must be at least 2: both classes need a row")
    table = None if str(path) == "-" else _open_table(check_path(path), options)
    most = None if table is None else rows or rows_for_training(table.width, table.bytes_per_row)
    if table is None or most is None or (rows is None and table.at_most() <= most):
        return load(path, **options)
    counts = table.count_labels()
    total = sum(counts.values())
    if total <= most:
        return load(path, **options)
    plan = _plan(counts, options.get("positive"), most)
    with tempfile.TemporaryDirectory(prefix="apmax-") as folder:
        copy = Path(folder) / f"sample{format_suffix(table.file)}"
        table.draw(copy, plan)
        if plan.label is not None:  # in the sample, it may not be the rarer one
            options["positive"] = plan.label
        try:
            dataset = load(copy, **options)
        except InputError as error:
            raise type(error)(str(error).replace(str(copy), f"a sample of {path}")) from None
    dataset = replace(dataset, source=table.file)
    if dataset.y is None:
        return dataset
    stands_for = (plan.there / np.maximum(plan.sizes, 1))[dataset.y.astype(int)]
    weight = stands_for if dataset.weight is None else stands_for * dataset.weight
    why = "--rows limits them" if rows is not None else "all of them do not fit into memory"
    others, positives = (
        f"all {there:,.0f}" if size == there else f"{size:,.0f} of {there:,.0f}"
        for size, there in zip(plan.sizes, plan.there, strict=True)
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
    known = [label for label in counts if label.casefold() not in MISSING]
    if positive is not None:
        known = [label for label in known if same_label(label, positive)]
    if len(counts) > MOST_LABELS or not known:  # `load` reports what is wrong
        return Plan(None, np.array([total, 0.0]), np.array([most, 0.0]))
    label = min(sorted(known, reverse=True), key=lambda one: counts[one])
    plus = sum(count for one, count in counts.items() if same_label(one, label))
    there = np.array([total - plus, plus], np.float64)
    return Plan(label, there, sizes_of_classes(there, 1, np.inf, most))


def _counted(label: str, counts: Counter[str]) -> str:
    """Return the label, or one for all others if there are too many."""
    return label if label in counts or len(counts) <= MOST_LABELS else ""


class _Table:
    """A file that can be read in parts."""

    file: Path
    width: int
    bytes_per_row: float

    def at_most(self) -> float:
        """Return about the number of rows, rather more."""
        raise NotImplementedError

    def count_labels(self) -> Counter[str]:
        """Return the number of rows per label."""
        raise NotImplementedError

    def draw(self, copy: Path, plan: Plan) -> None:
        """Write a random sample of the rows."""
        raise NotImplementedError


def _open_table(file: Path, options: dict[str, Any]) -> _Table | None:
    """Return the file if it can be read in parts; whatever is wrong with it, `load` reports."""
    target, suffix = options.get("target"), format_suffix(file)
    try:
        if suffix in TEXT_TABLES:
            return _TextTable(file, target, checked_encoding(options.get("encoding")))
        if suffix in COLUMNAR:
            table = _ColumnarTable(file, target)
            return table if 8 * table.rows * table.width <= max_bytes(file) else None
    except Exception:  # pyarrow and decompression raise many kinds for a damaged file
        logger.debug("%s cannot be read in parts", file, exc_info=True)
    return None


class _TextTable(_Table):
    def __init__(self, file: Path, target: str | None, encoding: str) -> None:
        self.file, self.encoding = file, encoding
        with self._open() as stream:
            head = stream.read(HEAD)
        self.layout: Layout = find_layout(file, io.BytesIO(head), target, encoding)
        self.width = len(self.layout.names)
        self.bytes_per_row = len(head) / max(1, head.count(b"\n"))
        names = self.layout.names
        self.column = names.index(find_column(names, "last" if target is None else target))

    def at_most(self) -> float:
        expansion = EXPANSION if self.file.suffix.lower() in COMPRESSED else 1
        return expansion * self.file.stat().st_size / self.bytes_per_row

    def count_labels(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for row in self._rows():
            counts[_counted(self._label(row), counts)] += 1
        return counts

    def draw(self, copy: Path, plan: Plan) -> None:
        draw, rows = ClassDraw(plan.there, plan.sizes, seed=0), self._rows()
        with copy.open("w", encoding=self.encoding, newline="") as text:
            writer = csv.writer(text, delimiter=self.layout.separator)
            if self.layout.header:
                writer.writerow(self.layout.names)
            while part := list(islice(rows, ROWS_AT_ONCE)):
                codes = plan.codes([self._label(row) for row in part])
                writer.writerows(part[k] for k in draw.rows(codes))

    def _label(self, row: list[str]) -> str:
        return row[self.column].strip(" \t'")

    def _open(self) -> BinaryIO:
        opened = COMPRESSED.get(self.file.suffix.lower(), open)
        return cast(BinaryIO, opened(self.file, "rb"))

    def _rows(self) -> Iterator[list[str]]:
        """Yield the rows without the header and empty lines."""
        header = self.layout.header
        with (
            self._reporting(),
            self._open() as stream,
            io.TextIOWrapper(stream, encoding=self.encoding, newline="") as text,
        ):
            reader = csv.reader(text, delimiter=self.layout.separator, skipinitialspace=True)
            for row in reader:
                if len(row) != self.width:
                    if not any(map(str.strip, row)):
                        continue
                    raise FileFormatError(
                        f"{self.file}, line {reader.line_num}: {len(row)} cells, expected "
                        f"{self.width}: leave missing cells empty, but keep their separators, and "
                        "quote cells that contain the separator"
                    )
                if header:
                    header = False
                    continue
                yield row

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            raise undecodable(self.file, error, self.encoding) from error
        except (csv.Error, OSError, EOFError) as error:
            raise FileFormatError(
                f"{self.file} cannot be read as a table ({one_line(error)}): it is damaged or "
                "truncated"
            ) from error


class _ColumnarTable(_Table):
    def __init__(self, file: Path, target: str | None) -> None:
        from pyarrow.dataset import dataset

        from apmax.scale.files import RawFiles

        kind = "feather" if format_suffix(file) in (".feather", ".arrow") else "parquet"
        self.file, self.names = file, dataset(file, format=kind).schema.names
        self.target = find_column(self.names, "last" if target is None else target)
        self.source = RawFiles(file, self.target)
        self.width = len(self.names)
        self.rows = self.source.rows() or 0
        self.bytes_per_row = file.stat().st_size / max(1, self.rows)

    def at_most(self) -> float:
        return self.rows

    def count_labels(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for _, _, batch in self.source.batches([self.target]):
            for one in batch.column(self.target).value_counts().tolist():
                label = "" if one["values"] is None else str(one["values"])
                counts[_counted(label, counts)] += one["counts"]
        return counts

    def draw(self, copy: Path, plan: Plan) -> None:
        import pyarrow as pa
        from pyarrow import feather, parquet

        draw, drawn = ClassDraw(plan.there, plan.sizes, seed=0), []
        for _, _, batch in self.source.batches(self.names):
            batch.validate(full=True)  # compiled code would follow wrong offsets
            codes = plan.codes(batch.column(self.target).to_pylist())
            drawn.append(pa.Table.from_batches([batch]).take(draw.rows(codes)))
        table = pa.concat_tables(drawn)
        if format_suffix(copy) in (".feather", ".arrow"):
            feather.write_feather(table, str(copy))
        else:
            parquet.write_table(table, copy)
