"""Read tables into pandas frames: CSV, TSV, JSON lines, Excel, Parquet and Feather."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

from apmax.app.files import format_suffix, max_bytes, one_line, open_bytes
from apmax.app.headers import has_header, unique_names
from apmax.app.numbers import NumberReader
from apmax.app.table_limits import (
    MAX_COLUMNS,
    check_cells,
    check_json_lines,
    check_sheet,
    check_text_rows,
    long_cells,
    wrong_length,
)
from apmax.app.target import find_column
from apmax.errors import FileError, FileFormatError, ParameterError
from apmax.validation import check_path

COLUMNAR = (".parquet", ".pq", ".feather", ".arrow")
JSON_LINES, EXCEL = (".jsonl", ".ndjson"), (".xlsx",)
TEXT_TABLES = (".csv", ".tsv", ".tab", ".txt", ".data", ".dat")
SEPARATORS = (",", ";", "\t", "|")
SAMPLE_BYTES, SAMPLE_ROWS = 1 << 22, 20
ROWS_AT_ONCE = 10_000
"""Rows of a text table that are read at a time where it is read row by row."""


def read_table(
    path: str | PathLike[str],
    *,
    text: Collection[str] = (),
    target: str | None = None,
    numbers: NumberReader | None = None,
    encoding: str | None = None,
    identifier: str | None = None,
) -> Any:
    """Read a CSV, TSV, JSON lines, Excel, Parquet or Feather file into a pandas frame.

    The separator of a text table is detected among comma, semicolon, tab and "|". The first row
    is a header if its cells are distinct and none is empty, "?" or a number, or if it contains
    `target` or most of the columns that `text` and `numbers` know. Columns without a name are
    called "column 3". Columns in `text` stay text: "01".
    So does the column `identifier`, given by name, number or as "last", unless `numbers` knows it.
    `numbers` decides how numbers in text are written, and keeps notes; `encoding` is UTF-8 by
    default.
    """
    file = check_path(path)
    suffix = format_suffix(file)
    numbers = numbers or NumberReader()
    if suffix in TEXT_TABLES:
        return _read_text(file, text, target, numbers, checked_encoding(encoding), identifier)
    if suffix in (*COLUMNAR, *JSON_LINES, *EXCEL):
        if suffix in COLUMNAR:
            frame = _read_columnar(file)
        elif suffix in EXCEL:
            frame = _read_excel(file)
        else:
            frame = _read_json_lines(file, checked_encoding(encoding))
        texts = {name: frame[name] for name in _text_columns(frame) if name not in text}
        return _replaced(frame, numbers.convert(texts, points=False))
    known = ", ".join((*TEXT_TABLES, *JSON_LINES, *EXCEL, *COLUMNAR))
    raise FileError(
        f"{file} has the unknown suffix {suffix or ''!r}: rename it to end in {known} or .npz"
    )


@contextmanager
def _refusing(file: Path, message: str) -> Iterator[None]:
    """Turn whatever a library raises for a damaged file into FileFormatError.

    `message` contains "{}" for what the library said.
    """
    try:
        yield
    except (MemoryError, FileError):
        raise
    except Exception as error:
        said = message.format(one_line(error))
        raise FileFormatError(f"{file} {said}") from error


def _read_columnar(file: Path) -> Any:
    from pyarrow import feather, parquet

    with _refusing(file, f"is not a {format_suffix(file)} file, or is damaged: {{}}"):
        if format_suffix(file) in (".feather", ".arrow"):
            table = feather.read_table(file)
            check_cells(file, table.num_rows, table.num_columns)
        else:
            with parquet.ParquetFile(file) as stored:
                check_cells(file, stored.metadata.num_rows, stored.metadata.num_columns)
                table = stored.read()
        table.validate(full=True)  # compiled code would follow wrong offsets
        frame = table.to_pandas()
    return _named(file, frame.reset_index(drop=frame.index.names == [None]))


def _read_json_lines(file: Path, encoding: str) -> Any:
    """Read one JSON object per line."""
    import pandas as pd

    example = '{{"age": 39, "job": "clerk"}}'
    with _refusing(file, f"is not JSON lines ({{}}): write one object per line, such as {example}"):
        try:
            with open_bytes(file) as stream:
                check_json_lines(file, stream, encoding)
                frame = pd.read_json(stream, lines=True, dtype=False, encoding=encoding)
        except UnicodeDecodeError as error:
            raise undecodable(file, error, encoding) from error
    return _named(file, frame)


def _read_excel(file: Path) -> Any:
    """Read the first sheet of a workbook; its first row is the header."""
    import pandas as pd

    said = "is not an Excel workbook, or is damaged ({}): save the sheet as CSV"
    with _refusing(file, said):
        with zipfile.ZipFile(file) as archive:
            size = sum(info.file_size for info in archive.infolist())
        if size > max_bytes(file):
            raise FileFormatError(f"{file} claims {size >> 20} MB: save the sheet as CSV")
        try:
            check_sheet(file)
            frame = pd.read_excel(file, engine="openpyxl", na_values=["?"])
        except ImportError:
            raise FileError(
                f"{file}: Excel files need openpyxl: pip install 'apmax[excel]', or save the sheet "
                "as CSV"
            ) from None
    return _named(file, frame)


def _named(file: Path, frame: Any) -> Any:
    """Return a frame with names that are text and differ."""
    if frame.shape[1] == 0 or len(frame) == 0:
        raise FileFormatError(f"{file} is empty: expected at least one column and one row")
    return frame.set_axis(unique_names([str(name) for name in frame.columns]), axis=1)


def _text_columns(frame: Any) -> list[str]:
    """Return the columns of text; type object can also hold booleans or long integers."""
    import pandas as pd

    return [
        name
        for name in frame.columns
        if pd.api.types.infer_dtype(frame[name], skipna=True) == "string"
    ]


def _read_text(
    file: Path,
    text: Collection[str],
    target: str | None,
    numbers: NumberReader,
    encoding: str,
    identifier: str | None,
) -> Any:
    import pandas as pd

    with open_bytes(file) as stream:
        layout = find_layout(file, stream, encoding, target, {*text, *numbers.known})
        separator, header, names = layout
        if identifier is not None:
            with suppress(ParameterError):  # the caller reports a column that is not there
                name = find_column(names, identifier)
                text = [*text, *([] if name in numbers.known else [name])]
        parse = partial(
            pd.read_csv,
            sep=separator,
            header=0 if header else None,
            names=names,
            index_col=False,
            na_values=["?"],
            skipinitialspace=True,
            low_memory=False,
            encoding=encoding,
        )
        stream.seek(0)
        remedy = "give every row the same number of cells, and quote cells with the separator"
        with _refusing(file, f"cannot be read as a table ({{}}): {remedy}"):
            check_text_rows(file, stream, encoding, separator, len(names))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", pd.errors.ParserWarning)
                    frame = parse(stream, dtype=dict.fromkeys(set(text) & set(names), str) or None)
            except UnicodeDecodeError as error:
                raise undecodable(file, error, encoding) from error
            except (pd.errors.ParserError, pd.errors.ParserWarning):
                stream.seek(0)
                _check_row_lengths(file, stream, layout, encoding)
                raise
        if len(frame) == 0:
            raise FileFormatError(f"{file} has {len(names)} column names but no rows")
        if len(names) > 1 and frame.iloc[:, -1].isna().any():
            stream.seek(0)
            _check_row_lengths(file, stream, layout, encoding)
        words = _text_columns(frame)
        for name in words:
            frame[name] = frame[name].str.strip(" \t'")
        texts = {name: frame[name] for name in words if name not in text}
        floats = [name for name in names if frame[name].dtype.kind == "f"]
        again = [name for name in floats if numbers.needs_text(name, frame[name].to_numpy())]
        if again:  # 1.101 may be 1101, which only the text can show
            stream.seek(0)
            raw = parse(stream, dtype=str, usecols=again)
            texts |= {name: raw[name].str.strip(" \t'") for name in again}
    others = frame[[name for name in floats if name not in again]]
    points = bool((others.notna() & (others % 1 != 0)).any(axis=None))
    texts = {name: texts[name] for name in names if name in texts}
    return _replaced(frame, numbers.convert(texts, points=points))


def _replaced(frame: Any, columns: Mapping[str, Any]) -> Any:
    """Return the frame with other values in some columns; unlike `assign`, of any name."""
    for name, values in columns.items():
        frame[name] = values
    return frame


class Layout(NamedTuple):
    """How a text table is written."""

    separator: str
    header: bool
    """Whether the first row is one."""
    names: list[str]


def find_layout(
    file: Path, stream: BinaryIO, encoding: str, target: str | None, known: Collection[str] = ()
) -> Layout:
    """Detect the separator and the header of a text table from its first rows.

    A row with `target`, or most of the `known` names, is a header, whatever its cells look like.
    """
    sample = _decoded_sample(file, stream, encoding)
    separator = "\t" if format_suffix(file) in (".tsv", ".tab") else _find_separator(sample)
    rows = list(islice(_rows(io.StringIO(sample, newline=""), separator), SAMPLE_ROWS)) or [[]]
    first = rows[0]
    if not 1 <= len(first) <= MAX_COLUMNS:
        raise FileFormatError(
            f"{file}: the first row has {len(first)} cells, and a table has 1 to {MAX_COLUMNS} "
            "columns; use LIBSVM or .npz for wider data"
        )
    header = has_header(file, rows, target, known)
    return Layout(separator, header, unique_names(first if header else [""] * len(first)))


def checked_encoding(encoding: str | None) -> str:
    """Return the name of a text encoding that Python knows; a mark of byte order is skipped."""
    try:
        name = codecs.lookup(encoding or "utf-8").name
        "".encode(name)
    except (LookupError, ValueError):
        raise ParameterError(
            f"--encoding = {encoding!r} is not a text encoding: use one such as utf-8, cp1252, "
            "latin-1 or utf-16"
        ) from None
    return "utf-8-sig" if name == "utf-8" else name


def undecodable(file: Path, error: UnicodeDecodeError, encoding: str) -> FileFormatError:
    """Return the error for text in another encoding."""
    name = encoding.removesuffix("-sig").upper()
    return FileFormatError(
        f"{file} is not {name} text (byte {hex(error.object[error.start])}): save it as UTF-8, or "
        "name its encoding, for example --encoding cp1252 (Windows) or --encoding latin-1"
    )


def _decoded_sample(file: Path, stream: BinaryIO, encoding: str) -> str:
    """Return the first rows as text, without leading blank lines."""
    head = stream.read(SAMPLE_BYTES)
    if b"\0" in head and not encoding.startswith(("utf-16", "utf-32")):
        raise FileFormatError(
            f"{file} is not UTF-8 text (it contains a zero byte): save it as UTF-8, use --encoding "
            "utf-16 if it is that, or give it the suffix of its format"
        )
    text = head.decode(encoding, "replace")
    if not text.strip():
        raise FileFormatError(f"{file} is empty: expected a table with at least one row")
    return re.sub(r"\A(?:[ \t]*[\r\n])+", "", text)


def _rows(text: TextIO, separator: str) -> Iterator[list[str]]:
    reader = csv.reader(text, delimiter=separator, skipinitialspace=True)
    with suppress(csv.Error):  # pandas reports where
        yield from reader


def _find_separator(text: str) -> str:
    """Choose the separator that gives the first rows the same and the largest number of cells."""
    best, most = ",", 1
    for separator in filter(text.__contains__, SEPARATORS):
        rows = islice(_rows(io.StringIO(text, newline=""), separator), SAMPLE_ROWS)
        widths = {len(row) for row in rows if row}
        if len(widths) == 1 and max(widths) > most:
            best, most = separator, max(widths)
    return best if most > 1 else max(SEPARATORS, key=text.split("\n", 1)[0].count)


@long_cells()
def _check_row_lengths(file: Path, stream: BinaryIO, layout: Layout, encoding: str) -> None:
    """Raise for the first row that is too short, which pandas would fill up, or too long."""
    text = io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")
    with suppress(csv.Error):  # pandas reports where
        for _ in rows_in_parts(file, text, layout):
            pass
    text.detach()


def rows_in_parts(file: Path, text: TextIO, layout: Layout) -> Iterator[list[list[str]]]:
    """Yield the rows without the header and empty lines, many at a time.

    FileFormatError is raised for the first row that is too short or too long.
    """
    reader = csv.reader(text, delimiter=layout.separator, skipinitialspace=True)
    number, width = 0 if layout.header else 1, len(layout.names)  # of the first row in a part
    while part := [(row, reader.line_num) for row in islice(reader, ROWS_AT_ONCE)]:
        rows = [row for row, _ in part]
        if set(map(len, rows)) != {width}:
            part = [one for one in part if any(map(str.strip, one[0]))]
            for k, (row, line) in enumerate(part, start=number):
                if len(row) != width:
                    raise wrong_length(file, f"row {k} (line {line})", len(row), width)
            rows = [row for row, _ in part]
        yield rows[1:] if number == 0 else rows
        number += len(rows)
