"""Refuse tables that would take far more memory than their files, before they are read.

Readers fill up short rows and missing keys, so a few kilobytes can claim gigabytes. A table may
have as many cells as `max_bytes` holds at 8 bytes each, and a text table as many as its bytes.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from apmax.app.files import PIECE_BYTES, max_bytes
from apmax.errors import FileFormatError

MAX_COLUMNS = 100_000
CELL_BYTES = 8
LONGEST_CELL = 1 << 30
SHEET_ROWS = 1 << 20
"""Rows of the largest sheet that Excel has."""


@contextmanager
def long_cells() -> Iterator[None]:
    """Let the csv module read cells of more than its 131,072 characters, as pandas does."""
    limit = csv.field_size_limit(LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def check_cells(file: Path, rows: int, columns: int) -> None:
    """Raise FileFormatError if a file claims far more cells than its size suggests."""
    if not (columns <= MAX_COLUMNS and 0 <= CELL_BYTES * rows * columns <= max_bytes(file)):
        raise _too_large(file, rows, columns)


def _too_large(file: Path, rows: int, columns: int) -> FileFormatError:
    claims = f"{file} claims {rows:,} rows and {columns:,} columns"
    if columns > MAX_COLUMNS:
        return FileFormatError(
            f"{claims}: a table has at most {MAX_COLUMNS:,} columns; use LIBSVM or .npz for wider "
            "data"
        )
    return FileFormatError(
        f"{claims}, far more cells than its size suggests: if this is intended, save it as CSV"
    )


@long_cells()
def check_text_rows(
    file: Path, stream: BinaryIO, encoding: str, separator: str, columns: int
) -> None:
    """Raise FileFormatError for a short row, if there are more cells than bytes.

    A complete row has a separator or the end of the line after each cell.
    """
    size, lines = 0, 1
    while piece := stream.read(PIECE_BYTES):
        size += len(piece)
        lines += piece.count(b"\n") + piece.count(b"\r") - piece.count(b"\r\n")
    stream.seek(0)
    if lines * columns <= size:
        return
    text = io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")
    blank = " \t\r\n".replace(separator, "")
    filled = (line for line in text if line.strip(blank))  # pandas skips the others, too
    for number, row in enumerate(csv.reader(filled, delimiter=separator, skipinitialspace=True)):
        if len(row) < columns:
            raise wrong_length(file, f"row {number + 1} of the file", len(row), columns)
    text.detach()
    stream.seek(0)


def wrong_length(file: Path, place: str, found: int, expected: int) -> FileFormatError:
    """Return the error for a row of a text table that is too short or too long."""
    advice = "quote cells that contain the separator"
    if found < expected:
        advice = "leave missing cells empty, but keep their separators"
    return FileFormatError(f"{file}, {place}: {found} cells, expected {expected}: {advice}")


def check_json_lines(file: Path, stream: BinaryIO, encoding: str) -> None:
    """Raise FileFormatError if the keys of all lines are too many for the number of lines."""
    text = io.TextIOWrapper(stream, encoding=encoding, newline="\n")
    # json.loads would make a decoder for each line; pandas also reads raw control characters.
    decoder = json.JSONDecoder(parse_int=float, strict=False)
    rows, keys = 0, set[str]()
    for line in filter(str.strip, text):
        record = decoder.decode(line)
        if not isinstance(record, dict):
            raise ValueError(f"a line is a {type(record).__name__}, not an object")
        rows += 1
        keys.update(record)
    check_cells(file, rows, len(keys))
    text.detach()
    stream.seek(0)


def check_sheet(file: Path) -> None:
    """Raise FileFormatError if the first sheet of a workbook is too large with its gaps filled."""
    from openpyxl import load_workbook

    cells = rows = width = 0
    most = max_bytes(file) // CELL_BYTES
    with closing(load_workbook(file, read_only=True, data_only=True)) as book:
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # those that the file states may be wrong
        for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
            cells += len(row)
            filled = (k for k in range(len(row), 0, -1) if row[k - 1] is not None)
            if last := next(filled, 0):
                rows, width = number, max(width, last)
            if number > SHEET_ROWS or max(cells, rows * width) > most:
                raise _too_large(file, number, max(width, len(row)))
