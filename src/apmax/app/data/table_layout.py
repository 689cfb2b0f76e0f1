"""How a text table is laid out: its separator, its header, and whether its rows are whole."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from apmax.app.data.streams import LONGEST, check_is_text, open_bytes, read_head
from apmax.errors import FileFormatError

if TYPE_CHECKING:
    import _csv  # where the type of a reader is

SEPARATORS = (",", ";", "\t", "|")
SAMPLE_ROWS = 20
MOST_COLUMNS = 100_000
"""pandas takes 30 µs for each and more, so a minute for a million."""
MOST_SEPARATORS = 4 * MOST_COLUMNS
"""In a line, where quoted cells may hold some of them."""
BLOCK = 1 << 18


# Blanks and not \s: over empty lines that would look at each of them once for every other.
DECIMAL_COMMA = re.compile(r"(?:^|;)[ \t]*-?\d+,\d+[ \t\r]*(?:;|$)", re.MULTILINE)
DECIMAL_POINT = re.compile(r"(?:^|;)[ \t]*-?\d+\.\d+[ \t\r]*(?:;|$)", re.MULTILINE)
SINGLE_QUOTED = re.compile(r"'[^']*' *")


class Layout(NamedTuple):
    """What has to be known before a table is read."""

    separator: str
    names: list[str]
    header: bool
    blank_after_separator: bool
    decimal: str = "."
    quote: str = '"'


class ShortRow(NamedTuple):
    """A row with too few cells, and the line it ends on."""

    line: int
    cells: int


def find_layout(file: Path, header: bool | None, *, tab: bool) -> Layout:
    """Look at the first rows; `header` None means to find out."""
    head = read_head(file)
    check_is_text(head, file)
    text = head.decode("utf-8-sig", "replace")
    if not text.strip():
        raise FileFormatError(f"{file} is empty: expected a table with at least one row")
    text = text[_start_of_text(text) :]
    if len(head) >= LONGEST and len(next(_lines(text))) == len(text):
        raise FileFormatError(
            f"{file}: the first line has over {LONGEST >> 20} MB, and a line of a table is a row: "
            "use LIBSVM or .npz for wider data"
        )
    most = max(line.count(s) for line in islice(_lines(text), SAMPLE_ROWS) for s in SEPARATORS)
    if most > MOST_SEPARATORS:  # before they are cut into as many strings
        _refuse_width(file, most + 1)
    separator = "\t" if tab else _find_separator(text)
    quote = _find_quote(text, separator)
    first, *second = [*islice(_rows(text, separator, quote), 2)] or [[]]
    widest = max(map(len, (first, *second)))
    if not first or widest > MOST_COLUMNS:
        _refuse_width(file, widest)
    cells = [cell.strip() for cell in first]
    if header is None:
        header = looks_like_header(cells)
    names = column_names(cells if header else [""] * len(cells))
    comma = separator == ";" and DECIMAL_COMMA.search(text) and not DECIMAL_POINT.search(text)
    blank = " " in text and f"{separator} " in text  # the first is found, or not, at once
    return Layout(separator, names, header, blank, "," if comma else ".", quote)


def _start_of_text(text: str) -> int:
    """Where the first line begins that is not blank."""
    blank = len(text) - len(text.lstrip(" \t\r\n"))  # what pandas calls blank
    return max(text.rfind("\n", 0, blank), text.rfind("\r", 0, blank)) + 1


def _refuse_width(file: Path, cells: int) -> NoReturn:
    raise FileFormatError(
        f"{file}: the first rows have {cells or 'no'} cells that can be read, and a table has "
        f"1 to {MOST_COLUMNS} columns: use LIBSVM or .npz for wider data"
    )


def looks_like_header(cells: list[str]) -> bool:
    """All different, none a number, empty or ``?``; the first may be empty, above row numbers."""
    if len(cells) > 1 and not cells[0].strip("'\" "):
        cells = cells[1:]
    return len(set(cells)) == len(cells) and not any(
        cell.strip("'\" ") in ("", "?") or _is_number(cell.strip("'\" ")) for cell in cells
    )


def column_names(cells: list[str]) -> list[str]:
    """Different names for all columns: "column 3" where there is none, "a (2)" for a second "a"."""
    names: dict[str, None] = {}
    for k, cell in enumerate(cells, start=1):
        plain = cell.strip("'\" ") or f"column {k}"
        name, copies = plain, 1
        while name in names:
            copies += 1
            name = f"{plain} ({copies})"
        names[name] = None
    return list(names)


def find_short_row(file: Path, layout: Layout, rows: int) -> ShortRow | None:
    """The first of `rows` with fewer cells than there are columns, none having more."""
    separators = (rows + layout.header) * (len(layout.names) - 1)
    # Apostrophes are single quotes, too, and make counting worth nothing.
    if layout.quote == '"' and _count_outside_quotes(file, layout.separator) == separators:
        return None
    with open_bytes(file) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        reader = _reader(text, layout.separator, layout.quote)
        try:
            for row in reader:
                if len(row) < len(layout.names) and any(map(str.strip, row)):
                    return ShortRow(reader.line_num, len(row))
        except csv.Error as error:
            raise FileFormatError(
                f"{file}, line {reader.line_num + 1}: {error}; shorten the cell, or leave it out"
            ) from None
        text.detach()
    return None


def _count_outside_quotes(file: Path, separator: str) -> int:
    """Separators with an even number of quotes before them, since a quoted quote is doubled."""
    count, inside = 0, False
    block, found = bytearray(BLOCK), np.empty(BLOCK, bool)  # used again, so they stay in the cache
    with open_bytes(file) as stream:
        while size := stream.readinto(block):  # type: ignore[attr-defined]  # of all binary streams
            text = np.frombuffer(block, np.uint8, size)
            is_separator = np.equal(text, ord(separator), out=found[:size])
            if inside or block.find(b'"', 0, size) >= 0:
                quotes = np.cumsum(text == ord('"'), dtype=np.uint32) + inside
                is_separator &= quotes % 2 == 0
                inside = bool(quotes[-1] % 2)
            count += int(np.count_nonzero(is_separator))
    return count


def _find_separator(text: str) -> str:
    """The one that cuts the first rows into as many cells each, and into most."""
    best, most = ",", 1
    for separator in filter(text.__contains__, SEPARATORS):
        widths = set(map(len, _first_rows(text, separator)))
        if len(widths) == 1 and max(widths) > most:
            best, most = separator, max(widths)
    if most > 1:
        return best
    first = next(_lines(text))
    return max(SEPARATORS, key=first.count)  # the comma, of equals: it comes first


def _find_quote(text: str, separator: str) -> str:
    """The double one, or the single where a column is all in them or only they explain the rows."""
    if "'" not in text or '"' in text:
        return '"'
    rows = _first_rows(text, separator)
    if len(set(map(len, rows))) > 1:
        return "'" if len(set(map(len, _first_rows(text, separator, "'")))) == 1 else '"'
    columns = zip(*(rows[1:] or rows), strict=True)  # names need no quotes
    return "'" if any(all(map(SINGLE_QUOTED.fullmatch, column)) for column in columns) else '"'


def _lines(text: str) -> Iterator[str]:
    """One after the other, and no more than are asked for."""
    return io.StringIO(text, newline="")  # not splitlines, which has a dozen newlines


def _first_rows(text: str, separator: str, quote: str = '"') -> list[list[str]]:
    return [row for row in islice(_rows(text, separator, quote), SAMPLE_ROWS) if row]


def _rows(text: str, separator: str, quote: str = '"') -> Iterator[list[str]]:
    try:
        yield from _reader(_lines(text), separator, quote)
    except csv.Error:  # a cell that is no cell; pandas will say where
        return


def _reader(lines: Iterable[str], separator: str, quote: str) -> _csv.Reader:
    return csv.reader(lines, delimiter=separator, quotechar=quote, skipinitialspace=True)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
