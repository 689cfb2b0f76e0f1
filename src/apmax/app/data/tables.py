"""Tables: CSV and TSV, plain or compressed, and Parquet, as pandas frames."""

from __future__ import annotations

import contextlib
import math
import re
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from apmax.app.data.compression import OPENERS, TIMES, most_bytes
from apmax.app.data.extras import need
from apmax.app.data.streams import PathLike, check_path, format_suffix, open_bytes
from apmax.app.data.table_layout import Layout, column_names, find_layout, find_short_row
from apmax.errors import FileError, FileFormatError, ParameterError

PARQUET = (".parquet", ".pq")
TEXT_TABLES = (".csv", ".tsv", ".tab", ".txt", ".data", ".dat")

WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
"""Bytes of a value in memory, by Parquet's types; of all others, 8 at least."""

MISSING = {
    "",
    "?",
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "#N/A N/A",
    "#NA",
    "<NA>",
    "NaN",
    "nan",
    "-NaN",
    "-nan",
    "NULL",
    "null",
    "None",
    "1.#IND",
    "-1.#IND",
    "1.#QNAN",
    "-1.#QNAN",
}
"""Cells that mean "missing": pandas' own, and ``?``. Told all of them, it is faster, too."""

BLANKS = " \t\r\n"
ROUGHEST = ord("'")
"""The last byte of those that are taken off the edges of text."""


def read_table(path: PathLike, *, header: bool | None = None, text: Collection[str] = ()) -> Any:
    """Read a table: .csv, .tsv (also .gz, .bz2, .xz) or .parquet.

    The separator of .tsv is a tab; that of other text is found among comma, semicolon, tab and |.
    Empty cells, ``?``, ``NA``, ``null`` and the like are missing. Text is stripped of blanks
    around it and of quotes, double or single.

    Parameters
    ----------
    path : the file.
    header : whether the first row holds the names of the columns. By default it does if its
        cells are all different and none is a number, empty or ``?``. Without a header the
        columns are "column 1", "column 2", …. An empty first cell, as above the row numbers that
        pandas and R write, does not count.
    text : columns to be read as text, whatever they look like in this file: "01" stays "01".

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    FileFormatError
        With the line, where rows differ in length, a quote is not closed, or there is no text.
    """
    file = check_path(path)
    if header not in (True, False, None):
        raise ParameterError(f"`header` must be True, False or None, got {header!r}")
    suffix = format_suffix(file)
    if suffix in PARQUET:
        return _read_parquet(file)
    if suffix not in TEXT_TABLES:
        raise FileError(
            f"{file}: a table ends in {', '.join((*TEXT_TABLES, *PARQUET))}, with .gz, .bz2 or "
            ".xz after it if compressed: rename the file"
        )
    return _read_text(file, find_layout(file, header, tab=suffix in (".tsv", ".tab")), text)


def _read_parquet(file: Path) -> Any:
    need("pandas", "reading Parquet")
    pyarrow = need("pyarrow", "reading Parquet")
    parquet = need("pyarrow.parquet", "reading Parquet")
    try:
        with parquet.ParquetFile(file) as stored:
            _check_size(file, stored.metadata)
            table = stored.read()
        frame = _as_frame(table)
    except (MemoryError, FileFormatError):
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise FileFormatError(
            f"{file} is no Parquet file, or a damaged one: {_one_line(error)}"
        ) from error
    if frame.shape[1] == 0:
        raise FileFormatError(f"{file} has no columns: expected a table with at least one")
    frame = frame.reset_index(drop=frame.index.names == [None])  # a named index is a column, too
    return frame.set_axis(column_names([str(name) for name in frame.columns]), axis=1)


def _as_frame(table: Any) -> Any:
    """By the notes that pandas leaves in a file, or without: those of another hand say anything."""
    try:
        return table.to_pandas()
    except MemoryError:
        raise
    except Exception:  # whatever a wrong note leads to; wrong data will say so once more
        return table.replace_schema_metadata(None).to_pandas()


def _check_size(file: Path, metadata: Any) -> None:
    """Refuse what a few bytes can claim: any number of rows that are all alike."""
    columns = [metadata.schema.column(k).physical_type for k in range(metadata.num_columns)]
    size = metadata.num_rows * sum(WIDTHS.get(kind, 8) for kind in columns)
    if not 0 <= size <= most_bytes(file):
        raise FileFormatError(
            f"{file} claims {metadata.num_rows} rows, over {most_bytes(file) >> 20} MB and {TIMES} "
            "times its size: it may be made to fill the memory; if it is meant, save it without "
            "compression and dictionaries"
        )


def _read_text(file: Path, layout: Layout, text: Collection[str]) -> Any:
    pandas = need("pandas", "reading a table")
    try:
        frame, layout = _parse_as_quoted(file, layout, text, pandas)
    except pandas.errors.EmptyDataError:
        raise FileFormatError(f"{file} holds names of columns but no rows") from None
    except pandas.errors.ParserError as error:
        _raise_malformed(file, error)
    except pandas.errors.ParserWarning:
        raise FileFormatError(
            f"{file}: the header names {len(layout.names)} columns, but the first row has more "
            "cells: name each column, or if the first line is no header, write one above it"
        ) from None
    except UnicodeDecodeError as error:
        found = hex(error.object[error.start])
        raise FileFormatError(
            f"{file} is no UTF-8 text: found the byte {found}; save it as UTF-8"
        ) from None
    _check_shape(file, frame, layout)
    return _tidied(frame, text, pandas)


def _parse_as_quoted(
    file: Path, layout: Layout, text: Collection[str], pandas: Any
) -> tuple[Any, Layout]:
    """By the single quotes of its first rows, unless later ones show that they are no quotes."""
    if layout.quote == "'":
        with contextlib.suppress(pandas.errors.ParserError, pandas.errors.ParserWarning):
            frame = _parse(file, layout, text, pandas)
            if not any(_holds_newlines_or_quotes(frame[name]) for name in _words_of(frame)):
                return frame, layout
    layout = layout._replace(quote='"')
    return _parse(file, layout, text, pandas), layout


def _holds_newlines_or_quotes(column: Any) -> bool:
    """As cells do where an apostrophe has swallowed the rows up to the next one."""
    return bool(column.astype(str).str.contains('[\n"]').any())


def _parse(file: Path, layout: Layout, text: Collection[str], pandas: Any) -> Any:
    options = {
        "sep": layout.separator,
        "quotechar": layout.quote,
        "compression": None,  # of a path with some other suffix
        "header": 0 if layout.header else None,
        "skipinitialspace": layout.blank_after_separator,  # slower, and seldom needed
        "na_values": MISSING,
        "keep_default_na": False,
        "names": layout.names,
        "decimal": layout.decimal,
        "dtype": dict.fromkeys(set(text) & set(layout.names), str) or None,  # pandas minds {}
        "index_col": False,  # else a first row longer than the header would make an index
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.DtypeWarning)
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        # pandas reads a path faster than a stream, but says less of damaged compression.
        packed = file.suffix.lower() in OPENERS
        opened: Any = open_bytes(file) if packed else contextlib.nullcontext(file)
        with opened as source:
            try:
                return pandas.read_csv(source, **options)
            except pandas.errors.DtypeWarning:
                # A column has numbers in one part and text in another: decide over all of it,
                # which takes more memory and half as long again.
                if packed:
                    source.seek(0)
                return pandas.read_csv(source, low_memory=False, **options)


def _check_shape(file: Path, frame: Any, layout: Layout) -> None:
    """Find what pandas lets pass: a table without rows, and rows that are too short."""
    columns = len(layout.names)
    if len(frame) == 0:
        raise FileFormatError(f"{file} holds the names of {columns} columns but no rows")
    # Short rows are filled up, so the last column tells whether there can be any.
    if columns > 1 and _has_gaps(frame.iloc[:, -1]):
        short = find_short_row(file, layout, len(frame))
        if short is not None:
            raise FileFormatError(
                f"{file}, line {short.line}: {short.cells} cells, expected {columns}: leave cells "
                "empty for what is missing, but keep their separators"
            )


def _has_gaps(column: Any) -> bool:
    return column.dtype.kind not in "iub" and bool(column.hasnans)


def _tidied(frame: Any, text: Collection[str], pandas: Any) -> Any:
    """Text without the blanks and single quotes around it, and numbers where that shows them."""
    for name, dtype in _words_of(frame).items():
        column = frame[name]
        kind = pandas.api.types.infer_dtype(column) if isinstance(dtype, np.dtype) else "string"
        if kind == "integer":  # which pandas keeps as objects if they need more than 64 bits
            frame[name] = column.map(_as_double).astype(np.float64)
        elif kind == "boolean":  # and these if some are missing
            frame[name] = column.astype(np.float64)
        elif _may_have_rough_edges(column):
            codes, words = pandas.factorize(column)  # each word once
            clean = pandas.Series([_without_edges(word) for word in words], dtype=dtype)
            clean = clean if name in text else _as_numbers(clean, pandas)
            frame[name] = pandas.api.extensions.take(clean.array, codes, allow_fill=True)
    return frame


def _words_of(frame: Any) -> dict[str, Any]:
    """Columns of objects, as those of text are, with their types."""
    return {name: dtype for name, dtype in frame.dtypes.items() if dtype.kind == "O"}


def _without_edges(word: str) -> str | None:
    word = word.strip(BLANKS)
    if len(word) > 1 and word[0] == word[-1] == "'":
        word = word[1:-1].strip(BLANKS)
    return None if word in MISSING else word


def _may_have_rough_edges(column: Any) -> bool:
    """Whether text begins or ends with a single quote, a blank or a like byte.

    Trimming all text to see whether it changes would take longer than reading it.
    """
    pyarrow = need("pyarrow", "reading a table")
    array = pyarrow.array(column, pyarrow.large_string(), from_pandas=True)
    for chunk in array.chunks if isinstance(array, pyarrow.ChunkedArray) else [array]:
        _, offsets, data = chunk.buffers()
        if data is None:
            continue
        low = np.frombuffer(data, np.uint8) <= ROUGHEST
        if low.any():
            edge = np.empty(low.size + 1, bool)  # a low byte here, or just before
            edge[0], edge[-1] = low[0], low[-1]
            np.logical_or(low[1:], low[:-1], out=edge[1:-1])
            bounds = np.frombuffer(offsets, np.int64)[chunk.offset :][: len(chunk) + 1]
            if edge[bounds].any():
                return True
    return False


def _as_double(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _as_numbers(column: Any, pandas: Any) -> Any:
    try:
        return pandas.to_numeric(column)
    except (ValueError, TypeError):
        return column


def _raise_malformed(file: Path, error: Exception) -> NoReturn:
    text = str(error)
    ragged = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text)
    if ragged:
        expected, line, seen = ragged.groups()
        raise FileFormatError(
            f"{file}, line {line}: {seen} cells, expected {expected}: quote cells that hold the "
            "separator, and give every row the same number"
        ) from None
    unclosed = re.search(r"EOF inside string starting at row (\d+)", text)
    if unclosed:
        raise FileFormatError(
            f"{file}: the quote opened in row {int(unclosed.group(1)) + 1} is never closed"
        ) from None
    raise FileFormatError(f"{file} cannot be read as a table: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
