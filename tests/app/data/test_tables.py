"""Tables of text and Parquet: separators, headers, missing cells, and what is broken."""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apmax.app.data import read_table, streams, table_layout
from apmax.app.data.extras import need
from apmax.app.data.table_layout import column_names, looks_like_header
from apmax.app.data.tables import MISSING
from apmax.errors import FileError, FileFormatError, MissingExtraError, ParameterError

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

Write = Callable[[str, str | bytes], Path]
ROWS = "age,job\n39,clerk\n50,cook\n"


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
@pytest.mark.parametrize(
    ("name", "separator"),
    [("t.csv", ","), ("t.csv", ";"), ("t.csv", "\t"), ("t.csv", "|"), ("t.CSV", ","),
     ("t.tsv", "\t"), ("t.data", ","), ("t.txt", ";")],
)  # fmt: skip
def test_separators_and_compressions(
    name: str, separator: str, suffix: str, compress: Callable[[bytes], bytes], write: Write
) -> None:
    text = ROWS.replace(",", separator).encode()
    frame = read_table(write(name + suffix, compress(text)))
    assert frame.to_dict("list") == {"age": [39, 50], "job": ["clerk", "cook"]}


@pytest.mark.parametrize(
    ("first_row", "is_header"),
    [
        (["age", "job"], True),
        (["a1", "x 2"], True),
        (["NA", "job"], True),
        (["39", "clerk"], False),
        (["-1e5", "clerk"], False),
        (["clerk", ""], False),
        (["clerk", "?"], False),
        (["clerk", "clerk"], False),
        (["'1'", "clerk"], False),
        (["clerk"], True),
    ],
)
def test_a_header_has_different_words_in_every_cell(first_row: list[str], is_header: bool) -> None:
    assert looks_like_header(first_row) is is_header


@pytest.mark.parametrize("before", ["\n\n", " \n\t\n", "\r\n \r\n", "\r\r", "\ufeff\n"])
def test_blank_lines_before_the_header_are_skipped(before: str, write: Write) -> None:
    assert read_table(write("t.csv", before + ROWS)).equals(read_table(write("u.csv", ROWS)))


def test_a_line_of_other_blanks_is_no_blank_line(write: Write) -> None:
    with pytest.raises(FileFormatError):
        read_table(write("t.csv", "\xa0\n" + ROWS))


def test_a_first_line_without_end_is_refused_as_such(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (streams, table_layout):
        monkeypatch.setattr(module, "LONGEST", 1 << 20)
    wide = ",".join(f"name {k}" for k in range(200_000))
    with pytest.raises(FileFormatError, match="first line has over 1 MB"):
        read_table(write("t.csv", wide + "\n1,2\n"))


def test_without_a_header_columns_are_numbered(write: Write) -> None:
    frame = read_table(write("t.csv", "39,clerk\n50,cook\n"))
    assert list(frame.columns) == ["column 1", "column 2"]
    assert len(frame) == 2


def test_the_header_can_be_said(write: Write) -> None:
    words = write("t.csv", "clerk,tall\ncook,short\n")
    assert list(read_table(words).columns) == ["clerk", "tall"]
    assert read_table(words, header=False).shape == (2, 2)
    numbers = write("n.csv", "2019,2020,2020\n1,2,3\n")
    assert list(read_table(numbers, header=True).columns) == ["2019", "2020", "2020 (2)"]
    unnamed = write("u.csv", ",a\n1,2\n")
    assert list(read_table(unnamed, header=True).columns) == ["column 1", "a"]


@given(st.lists(st.sampled_from(["", " ", "a", " a", "'a'", "a (2)", "column 2"]), max_size=6))
def test_names_of_columns_are_distinct(cells: list[str]) -> None:
    names = column_names(cells)
    assert len(set(names)) == len(names) == len(cells)


@pytest.mark.parametrize("cell", ["", "?", "NA", "NaN", "null", " ? ", " ", "'?'", '"?"', '""'])
def test_missing_cells(cell: str, write: Write) -> None:
    frame = read_table(write("t.csv", f"a,b,c\n1,x,1\n{cell},{cell},2\n3,y,3\n"))
    assert frame["a"].isna().tolist() == [False, True, False]
    assert frame["b"].isna().tolist() == [False, True, False]
    assert frame["a"].dtype == np.float64


@pytest.mark.parametrize(
    "row", ["1, x y ,'z'", "1,x y,z", '1,"x y","z"', " 1 ,x y , 'z' ", "1,' x y ',z\t", "'1',x y,z"]
)
def test_text_is_stripped_of_blanks_and_quotes(row: str, write: Write) -> None:
    frame = read_table(write("t.csv", f"a,b,c\n{row}\n{row}\n"))
    assert frame.to_dict("list") == {"a": [1, 1], "b": ["x y"] * 2, "c": ["z"] * 2}


def test_a_quote_inside_a_word_stays(write: Write) -> None:
    frame = read_table(write("t.csv", "a,b\nit's,'tis\nO'Neil,dogs'\n"))
    assert frame.to_dict("list") == {"a": ["it's", "O'Neil"], "b": ["'tis", "dogs'"]}


@pytest.mark.parametrize("quoted", ["'x'", "'x, y'"])
def test_a_column_in_single_quotes_may_hold_separators(quoted: str, write: Write) -> None:
    rows = f"1,{quoted},\n2,{quoted},it's\n" * 12 + "3,'a, b',\n"
    frame = read_table(write("t.csv", f"a,b,c\n{rows}"))
    assert frame["b"].tolist() == [quoted.strip("'")] * 24 + ["a, b"]
    assert frame["c"].count() == 12


LATER = {
    "apostrophes that would swallow rows": ("31,z,'70s hit\n32,z,'80s\n33,z,k\n", "z"),
    "one apostrophe": ("31,z,'70s hit\n", "z"),
    "double quotes around a separator": ('31,"p, q",k\n', "p, q"),
    "double quotes": ('31,"pq",k\n', "pq"),
}


@pytest.mark.parametrize("case", LATER)
def test_single_quotes_of_the_first_rows_hold_unless_later_ones_differ(
    case: str, write: Write
) -> None:
    rows, word = LATER[case]
    frame = read_table(write("t.csv", "a,b,c\n" + "1,'x','y'\n" * 9000 + rows))
    assert len(frame) == 9000 + rows.count("\n")
    assert frame["b"].iloc[-1] == word
    assert frame["b"].iloc[0] == "x"


def test_apostrophes_do_not_hide_a_short_row(write: Write) -> None:
    row, short = "1,'x, y, z',it's\n", "1,'x, y, z'\n"
    path = write("t.csv", "a,b,c\n" + "1,'x, y, z',2\n" * 20 + row + short + row)
    with pytest.raises(FileFormatError, match="line 23: 2 cells"):
        read_table(path)


@pytest.mark.parametrize("cell", ["", "NA", "?"])
@pytest.mark.parametrize("yes", ["True", "'True'"])
def test_true_and_false_with_gaps_are_numbers(yes: str, cell: str, write: Write) -> None:
    frame = read_table(write("t.csv", f"a,b,c\n1,{yes},1\n2,{cell},2\n3,False,3\n"))
    if yes == "True":
        np.testing.assert_array_equal(frame["b"], [1.0, np.nan, 0.0])
    else:
        assert frame["b"].dropna().tolist() == ["True", "False"]


def test_a_cell_is_read_alike_whatever_else_its_column_holds(write: Write) -> None:
    for other in ("y", "5%", " y"):
        frame = read_table(write("t.csv", f"a,b\n1,\u00a0x\n2,{other}\n"))
        assert frame["b"].tolist()[0] == "\u00a0x"


def test_a_short_row_is_found_among_single_quotes(write: Write) -> None:
    path = write("t.csv", "a,b,c\n" + "1,'x, y',2\n" * 20 + "1,'x, y'\n")
    with pytest.raises(FileFormatError, match="line 22: 2 cells"):
        read_table(path)


@pytest.mark.parametrize("cell", ["'a'", " a"])
def test_missing_cells_stay_so_where_edges_are_taken_off(cell: str, write: Write) -> None:
    frame = read_table(write("t.csv", f"a,b\n1,{cell}\n2,\n3,b\n4,{cell}\n"))
    assert frame["b"].isna().tolist() == [False, True, False, False]
    assert frame["b"].dropna().tolist() == ["a", "b", "a"]


@pytest.mark.parametrize("last", ["", "3"])
def test_numbers_behind_edges_are_numbers(last: str, write: Write) -> None:
    frame = read_table(write("t.csv", f"a,b\nx,1\ny,'2'\nz,{last}\n"))
    assert frame["b"].dtype == (np.int64 if last else np.float64)
    assert frame["b"].dropna().tolist() == [1, 2, 3][: 2 + bool(last)]


def test_all_that_pandas_calls_missing_is_missing(write: Write) -> None:
    path = write("t.csv", "a,b\n" + "".join(f"{cell},x\n" for cell in sorted(MISSING)))
    assert read_table(path)["a"].isna().all()
    assert read_table(path, text=["a"])["a"].isna().all()
    assert pd.read_csv(path)["a"].dropna().tolist() == ["?"]
    words = importlib.import_module("pandas._libs.parsers").STR_NA_VALUES
    assert words <= MISSING


def test_a_plus_and_a_minus_are_labels(write: Write) -> None:
    frame = read_table(write("t.csv", "a,b\n1,+\n2,-\n"))
    assert frame["b"].tolist() == ["+", "-"]


def test_quoted_cells_may_hold_separators_newlines_and_quotes(write: Write) -> None:
    frame = read_table(write("t.csv", 'a,b,c\n1,"x, y",\n2,"two\nlines",3\n3,"say ""no""",\n'))
    assert frame["b"].tolist() == ["x, y", "two\nlines", 'say "no"']
    assert frame["c"].isna().tolist() == [True, False, True]


@pytest.mark.parametrize(
    "text", [ROWS.replace("\n", "\r\n"), "\n\n" + ROWS, ROWS + "\n\n", "\ufeff" + ROWS, ROWS[:-1]]
)
def test_newlines_and_marks_do_not_matter(text: str, write: Write) -> None:
    frame = read_table(write("t.csv", text))
    assert frame.to_dict("list") == {"age": [39, 50], "job": ["clerk", "cook"]}


def test_types_are_decided_over_all_rows(write: Write) -> None:
    numbers = "".join(f"{k},{k}\n" for k in range(60_000))
    frame = read_table(write("t.csv", f"a,b\n{numbers}x,7\n"))
    assert frame["a"].map(type).eq(str).all()
    assert frame["b"].dtype == np.int64


BROKEN: list[tuple[str, str, str | bytes, str]] = [
    # what is wrong, name, content, what the message says
    ("a long row", "t.csv", "a,b\n1,2\n1,2,3\n", r"line 3: 3 cells, expected 2"),
    ("a long row, no header", "t.csv", "1,2\n1,2,3\n", r"line 2: 3 cells, expected 2"),
    (
        "a long first row",
        "t.csv",
        "a,b\n1,2,3\n4,5,6\n",
        r"header names 2 columns, but the first row has more",
    ),
    ("a short row", "t.csv", "a,b,c\n1,2,3\n1,2\n1,2,3\n", r"line 3: 2 cells, expected 3"),
    ("a short row after blanks", "t.csv", "\na,b,c\n\n1,2,3\n1,2\n", r"line 5: 2 cells"),
    ("a short row among quotes", "t.csv", 'a,b,c\n"1,1",2,3\n"1,1",2\n', r"line 3: 2 cells"),
    ("a short last row", "t.csv", "1,2,3\n1,2,3\n1", r"line 3: 1 cells, expected 3"),
    ("an open quote", "t.csv", 'a,b\n1,"x\n2,y\n', r"quote .*never closed"),
    ("zeros", "t.csv", b"a,b\n\0\1\2\3", r"is no text: byte 5 is zero"),
    ("not UTF-8", "t.csv", b"a,b\n1,\xe9\n", r"is no UTF-8 text: .*0xe9"),
    ("not UTF-8, later", "t.csv", b"a,b\n" + b"1,2\n" * 99_999 + b"1,\xff\n", r"no UTF-8 text"),
    ("empty", "t.csv", "", r"is empty"),
    ("blank", "t.csv", "\n \n", r"is empty"),
    ("only a header", "t.csv", "a,b\n", r"2 columns but no rows"),
    ("Parquet that is none", "t.parquet", b"PAR1 no", r"is no Parquet file"),
    ("empty Parquet", "t.parquet", b"", r"is no Parquet file"),
    ("a damaged archive", "t.csv.gz", b"a,b\n1,2\n", r"cannot be decompressed as .gz"),
]


@pytest.mark.parametrize(
    ("name", "content", "message"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_broken_tables(name: str, content: str | bytes, message: str, write: Write) -> None:
    with pytest.raises(FileFormatError, match=message) as caught:
        read_table(write(name, content))
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_files_that_are_no_tables(write: Write, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"a table ends in \.csv"):
        read_table(write("t.doc", ROWS))
    with pytest.raises(FileError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(ParameterError, match="`header` must be"):
        read_table(write("t.csv", ROWS), header="yes")


def test_parquet_keeps_types_and_a_named_index(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [39, 50], "job": ["clerk ", None]})
    frame.to_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.parquet"), frame)
    frame.set_index("age").to_parquet(tmp_path / "i.pq")
    assert list(read_table(tmp_path / "i.pq").columns) == ["age", "job"]


def test_a_missing_package_says_how_to_install_it(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"needs pandas.*pip install 'apmax\[data\]'"):
        read_table(write("t.csv", ROWS))
    with pytest.raises(ImportError):
        need("pandas", "reading")


def test_real_tables(real_data: Path) -> None:
    folder = real_data / "tabular"
    adult: Any = read_table(folder / "adult-train.csv.xz")
    assert adult.shape == (32561, 15)
    assert adult["column 2"].isna().sum() == 1836
    assert set(adult["column 15"]) == {"<=50K", ">50K"}
    mammography = read_table(folder / "mammography.csv.xz")
    assert (mammography["column 7"] == 1).sum() == 260
    assert read_table(folder / "letter.csv.xz").shape == (20000, 17)
