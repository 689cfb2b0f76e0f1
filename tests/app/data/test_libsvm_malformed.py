"""One row for each broken LIBSVM file: where it is broken, and what the message says."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from apmax.app.data import read_libsvm
from apmax.errors import FileError, FileFormatError

Write = Callable[[str, str | bytes], Path]

ROWS: list[tuple[str, str, int, int, str]] = [
    # what is wrong, text, line, column, what the message says
    ("label is a word", "yes 1:2\n", 1, 1, "found 'yes', expected a label"),
    ("label is missing", "1 1:1\n1:2 2:3\n", 2, 1, "found '1:2', expected a label"),
    ("label nan", "nan 1:1\n", 1, 1, "found 'nan', expected a label.*finite"),
    ("labels, several", "1,2 1:1\n", 1, 1, "found '1,2', expected a label"),
    ("label too large", "1 1:1\n1e999 1:1\n", 2, 1, "too large for a double"),
    ("no colon", "1 1:1 5 2:1\n", 1, 7, "found '5', expected index:value"),
    ("no index", "1 :5\n", 1, 3, "found ':5', expected index:value"),
    ("index is a word", "1 a:5\n", 1, 3, "found 'a:5', expected index:value"),
    ("index is a fraction", "1 1.5:5\n", 1, 3, "found '1.5:5', expected index:value"),
    ("index 0", "1 1:1\n\n# x\n1 0:5\n", 4, 3, "'0:5' has index 0: .*count from 1; add 1"),
    ("index negative", "1 1:1 -3:5\n", 1, 7, "'-3:5' has a negative index"),
    ("index 2^62", f"1 {2**62}:5\n", 1, 3, r"'4611686018427387904:5' has an index above 2⁴⁰"),
    ("index 2^70", f"1 {2**70}:5\n", 1, 3, "above 2⁴⁰: a model has a weight for each"),
    ("index of 99 digits", f"1 {'9' * 99}:5\n", 1, 3, "above 2⁴⁰"),
    ("index of 9999 digits", f"1 {'9' * 9999}:5\n", 1, 3, "above 2⁴⁰"),
    ("index twice", "1 2:1 2:3\n", 1, 7, "'2:3' has an index for the second time"),
    ("index twice, unsorted", "1 5:1 2:1 7:1 5:3\n", 1, 15, "'5:3' has an index for the second"),
    ("value missing", "1 1: 2:3\n", 1, 5, "found nothing, expected a finite number"),
    ("value missing at the end", "1 1:", 1, 5, "found nothing, expected a finite number"),
    ("value is a word", "1 1:x\n", 1, 5, "found 'x', expected a finite number"),
    ("value nan", "1 1:nan\n", 1, 5, "'nan' has a value that is not finite: leave"),
    ("value inf", "1 1:1 2:-Inf\n", 1, 9, "'-Inf' has a value that is not finite"),
    ("value too large", "1 1:1\n1 3:1 4:-1e309\n", 2, 9, "'-1e309' has a number too large"),
    ("value of two numbers", "1 1:2:3\n", 1, 5, "found '2:3', expected a finite number"),
    ("value with a comma", "1 1:2,5\n", 1, 5, "found '2,5', expected"),
    ("value in hexadecimal", "1 1:0x10\n", 1, 5, "found '0x10', expected"),
    ("value with an underscore", "1 1:1_0\n", 1, 5, "found '1_0', expected"),
    ("exponent missing", "1 1:1e\n", 1, 5, "found '1e', expected"),
    ("only a sign", "1 1:+\n", 1, 5, r"found '\+', expected"),
    ("only a dot", "1 1:.\n", 1, 5, "found '.', expected"),
    ("query id is a word", "1 qid:x 1:1\n", 1, 3, "found 'qid:x', expected .*qid:"),
    ("query id later", "1 1:1 qid:3\n", 1, 7, "found 'qid:3', expected index:value"),
    ("characters before", "1 1:1\r\n1 é:1\r\n", 2, 3, "found 'é:1'"),
    ("a CSV file", "a,b,c\n1,2,3\n", 1, 1, "found 'a,b,c', expected a label"),
    ("old newlines", "1 1:1\r-1 2:1\r", 1, 7, "found '-1', expected index:value"),
]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
@pytest.mark.parametrize("lines_before", [0, 30_000], ids=["", "in the second block"])
def test_the_message_says_where_and_what(
    text: str, line: int, column: int, message: str, lines_before: int, write: Write
) -> None:
    before = "-1 1:0.12345678901234567 2:1 3:1 4:1 5:1\n" * lines_before
    path = write("broken", before + text)
    where = f"broken, line {line + lines_before}, column {column}: .*"
    with pytest.raises(FileFormatError, match=where + message) as caught:
        read_libsvm(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_columns_count_characters_not_bytes(write: Write) -> None:
    # The first row is fine up to its comment; only the second has letters before the mistake.
    path = write("broken", "1 1:1 # ü\n1 ü:1\n")
    with pytest.raises(FileFormatError, match="line 2, column 3"):
        read_libsvm(path)


def test_an_index_above_features_is_shown(write: Write) -> None:
    with pytest.raises(FileFormatError, match=r"line 2, column 7: '9:1' .*above features=8"):
        read_libsvm(write("rows", "1 8:1\n1 2:1 9:1\n"), features=8)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "   "])
def test_a_file_without_rows_is_empty(text: str, write: Write) -> None:
    with pytest.raises(FileFormatError, match="is empty: expected lines like"):
        read_libsvm(write("rows", text))


def test_binary_files_are_refused_at_once(write: Write) -> None:
    with pytest.raises(FileFormatError, match="is no text: byte 2 is zero"):
        read_libsvm(write("rows", b"1\0\1\2" * 1000))
    with pytest.raises(FileFormatError, match="UTF-16"):
        read_libsvm(write("rows", "1 1:1\n".encode("utf-16")))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.gz", gzip.compress(b"1 1:1\n" * 1000, mtime=0)[:-20]),
        ("plain.gz", b"1 1:1\n"),
        ("plain.bz2", b"1 1:1\n"),
        ("plain.xz", b"1 1:1\n"),
        ("other.bz2", gzip.compress(b"1 1:1\n", mtime=0)),
        ("flipped.gz", gzip.compress(b"1 1:1\n" * 1000, mtime=0)[:20] + b"\xff" * 40),
    ],
)
def test_damaged_compression_is_named(name: str, content: bytes, write: Write) -> None:
    with pytest.raises(FileFormatError, match=f"{name} cannot be decompressed as"):
        read_libsvm(write(name, content))


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file; check the path"):
        read_libsvm(tmp_path / "absent")
    with pytest.raises(FileError, match="is a folder"):
        read_libsvm(tmp_path)
    with pytest.raises(FileError, match=r"cannot be the path of a file|no such file"):
        read_libsvm("a\0b")
    with pytest.raises(ValueError, match="`path` must be the path of a file, got None"):
        read_libsvm(None)
