"""Read tables into pandas frames: CSV, TSV, Parquet and Feather."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from apmax.app.files import check_path, format_suffix, max_bytes, one_line, open_bytes
from apmax.errors import FileError, FileFormatError

COLUMNAR = (".parquet", ".pq", ".feather", ".arrow")
TEXT_TABLES = (".csv", ".tsv", ".tab", ".txt", ".data", ".dat")
SEPARATORS = (",", ";", "\t", "|")
MAX_COLUMNS = 100_000
SAMPLE_BYTES, SAMPLE_ROWS = 1 << 22, 20

_DECIMAL = r"(?:^|;)[ \t]*-?\d+{}\d+[ \t\r]*(?:;|$)"


def read_table(
    path: str | PathLike[str], *, text: Collection[str] = (), target: str | None = None
) -> Any:
    """Read a CSV, TSV, Parquet or Feather file into a pandas frame.

    The separator of a text table is detected among comma, semicolon, tab and "|". The first row
    is a header if its cells are distinct and none is empty, "?" or a number, or if it contains
    `target`. Columns without a name are called "column 3". Columns in `text` stay text: "01".
    """
    file = check_path(path)
    suffix = format_suffix(file)
    if suffix in COLUMNAR:
        return _read_columnar(file)
    if suffix not in TEXT_TABLES:
        known = ", ".join((*TEXT_TABLES, *COLUMNAR))
        raise FileError(
            f"{file} has the unknown suffix {suffix or ''!r}: rename it to end in {known} or .npz"
        )
    return _read_text(file, text, target)


def _read_columnar(file: Path) -> Any:
    from pyarrow import feather, parquet

    try:
        if format_suffix(file) in (".feather", ".arrow"):
            table = feather.read_table(file)
        else:
            with parquet.ParquetFile(file) as stored:
                rows, columns = stored.metadata.num_rows, stored.metadata.num_columns
                if not 0 <= 8 * rows * columns <= max_bytes(file):
                    raise FileFormatError(
                        f"{file} claims {rows} rows, far more than its size suggests: if this is "
                        "intended, save it without compression and dictionaries"
                    )
                table = stored.read()
        table.validate(full=True)  # compiled code would follow wrong offsets
        frame = table.to_pandas()
    except (MemoryError, FileFormatError):
        raise
    except Exception as error:  # pyarrow raises many kinds for a damaged file
        raise FileFormatError(
            f"{file} is not a {format_suffix(file)} file, or is damaged: {one_line(error)}"
        ) from error
    if frame.shape[1] == 0 or len(frame) == 0:
        raise FileFormatError(f"{file} is empty: expected at least one column and one row")
    frame = frame.reset_index(drop=frame.index.names == [None])
    return frame.set_axis(_unique_names([str(name) for name in frame.columns]), axis=1)


def _read_text(file: Path, text: Collection[str], target: str | None) -> Any:
    import pandas as pd

    with open_bytes(file) as stream:
        sample = _decoded_sample(file, stream)
        separator = "\t" if format_suffix(file) in (".tsv", ".tab") else _find_separator(sample)
        first = next(_rows(io.StringIO(sample, newline=""), separator), [])
        if not 1 <= len(first) <= MAX_COLUMNS:
            raise FileFormatError(
                f"{file}: the first row has {len(first)} cells, and a table has 1 to {MAX_COLUMNS} "
                "columns; use LIBSVM or .npz for wider data"
            )
        header = _looks_like_header(first) or target in [cell.strip("'\" ") for cell in first]
        names = _unique_names(first if header else [""] * len(first))
        comma = separator == ";" and not re.search(_DECIMAL.format(r"\."), sample, re.M)
        comma = comma and bool(re.search(_DECIMAL.format(","), sample, re.M))
        stream.seek(0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = pd.read_csv(
                    stream,
                    sep=separator,
                    header=0 if header else None,
                    names=names,
                    index_col=False,
                    decimal="," if comma else ".",
                    na_values=["?"],
                    skipinitialspace=True,
                    dtype=dict.fromkeys(set(text) & set(names), str) or None,
                    low_memory=False,
                    encoding="utf-8-sig",
                )
        except MemoryError:
            raise
        except UnicodeDecodeError as error:
            found = hex(error.object[error.start])
            message = f"{file} is not UTF-8 text (byte {found}): save it as UTF-8"
            raise FileFormatError(message) from error
        except Exception as error:  # pandas raises several kinds for a malformed table
            raise FileFormatError(
                f"{file} cannot be read as a table ({one_line(error)}): give every row and the "
                "header the same number of cells, and quote cells that contain the separator"
            ) from error
        if len(frame) == 0:
            raise FileFormatError(f"{file} has {len(names)} column names but no rows")
        if len(names) > 1 and frame.iloc[:, -1].isna().any():
            stream.seek(0)
            _check_row_lengths(file, stream, separator, len(names))
    for name in frame.columns:  # columns of type object can also hold booleans or long integers
        if pd.api.types.infer_dtype(frame[name], skipna=True) == "string":
            frame[name] = frame[name].str.strip(" \t'")
    return frame


def _decoded_sample(file: Path, stream: BinaryIO) -> str:
    """Return the first rows as text, without leading blank lines."""
    head = stream.read(SAMPLE_BYTES)
    if b"\0" in head:
        raise FileFormatError(
            f"{file} is not UTF-8 text (it contains a zero byte): save it as UTF-8, or give it the "
            "suffix of its format"
        )
    text = head.decode("utf-8-sig", "replace")
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


def _looks_like_header(cells: list[str]) -> bool:
    import pandas as pd

    plain = [cell.strip("'\" ") for cell in cells]
    plain = plain[1:] if len(plain) > 1 and not plain[0] else plain  # above pandas' row numbers
    numbers = pd.to_numeric(pd.Series(plain, dtype=object), errors="coerce").notna().any()
    return len(set(plain)) == len(plain) and not numbers and not {"", "?"} & set(plain)


def _unique_names(cells: list[str]) -> list[str]:
    names: dict[str, None] = {}
    for k, cell in enumerate(cells, start=1):
        plain = cell.strip("'\" ") or f"column {k}"
        name, copies = plain, 1
        while name in names:
            copies += 1
            name = f"{plain} ({copies})"
        names[name] = None
    return list(names)


def _check_row_lengths(file: Path, stream: BinaryIO, separator: str, columns: int) -> None:
    """Raise for the first row that is too short, which pandas fills with missing values."""
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
    for number, row in enumerate(_rows(text, separator), start=1):
        if len(row) < columns and any(map(str.strip, row)):
            raise FileFormatError(
                f"{file}, row {number}: {len(row)} cells, expected {columns}: leave missing cells "
                "empty, but keep their separators"
            )
    text.detach()
