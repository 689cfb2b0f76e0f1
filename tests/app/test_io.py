"""Reading data files: what is accepted, and the errors for what is not."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from apmax.app.headers import unique_names
from apmax.app.io import load
from apmax.app.tables import find_layout, read_table
from apmax.errors import FileError, FileFormatError, ParameterError, UnknownNameError

CSV = "x,y\n1,a\n2,b\n3,a\n"


def written(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separator_is_detected(tmp_path: Path, separator: str) -> None:
    rows = ["name,value,y", '"Smith, J; x",1.5,yes', "plain,2.5,no"]
    text = "\n".join(separator.join(row.rsplit(",", 2)) for row in rows)
    frame = read_table(written(tmp_path, "t.csv", text))
    assert list(frame.columns) == ["name", "value", "y"]
    assert frame["value"].tolist() == [1.5, 2.5]
    assert frame["name"][0] == "Smith, J; x"


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_compressed_tables_are_read(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    file = written(tmp_path, f"t.csv{suffix}", compress(CSV.encode()))
    assert read_table(file)["x"].tolist() == [1, 2, 3]
    damaged = written(tmp_path, f"cut.csv{suffix}", compress(CSV.encode() * 100)[:-9])
    if suffix:
        with pytest.raises(FileFormatError, match="cannot be decompressed"):
            read_table(damaged)


def test_missing_words_blanks_and_decimal_commas(tmp_path: Path) -> None:
    text = "a; b;c\n1,5; ? ;x \n-2,25;NA; 'y'\n3,0;4,5;null\n"
    frame = read_table(written(tmp_path, "t.csv", text))
    assert frame["a"].tolist() == [1.5, -2.25, 3.0]
    assert frame["c"].fillna("missing").tolist() == ["x", "y", "missing"]
    plain = read_table(written(tmp_path, "p.csv", "a,b\n1.5,?\n2,3\n"))
    assert plain["b"].isna().tolist() == [True, False]


@pytest.mark.parametrize(
    ("first", "names"),
    [
        ("a,b", ["a", "b"]),
        ("1,b", ["column 1", "column 2"]),
        ("a,a", ["column 1", "column 2"]),
        (",b", ["column 1", "b"]),
        ("?,b", ["column 1", "column 2"]),
    ],
)
def test_headers_are_told_from_data(tmp_path: Path, first: str, names: list[str]) -> None:
    assert list(read_table(written(tmp_path, "t.csv", f"{first}\n1,2\n")).columns) == names


def test_blank_lines_before_the_header_are_skipped(tmp_path: Path) -> None:
    frame = read_table(written(tmp_path, "t.csv", "\n \t\r\n\na,b\n1,2\n"))
    assert frame.to_dict("list") == {"a": [1], "b": [2]}


def test_a_target_name_identifies_a_header_of_numbers(tmp_path: Path) -> None:
    file = written(tmp_path, "years.csv", "2019,2020,y\n1,2,a\n3,4,b\n5,6,a\n")
    assert list(load(file, target="y").X.columns) == ["2019", "2020"]


def test_columns_can_be_forced_to_text(tmp_path: Path) -> None:
    file = written(tmp_path, "t.csv", "code,n\n01,1\n02,2\n")
    assert read_table(file)["code"].tolist() == [1, 2]
    assert read_table(file, text=["code"])["code"].tolist() == ["01", "02"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n3,4,5\n", r"row 2 \(line 3\): 3 cells, expected 2: quote cells"),
        ("a,b\n1,2,3\n", r"row 1 \(line 2\): 3 cells, expected 2"),
        ("a,b\n1,2\n\n3\n", r"row 2 \(line 4\): 1 cells, expected 2"),
        ('1,2\n"3\n4",5\n6\n', r"row 3 \(line 4\): 1 cells, expected 2"),
        ('a,b\n1,"2\n3,4\n', "cannot be read as a table"),
        (b"a,b\n1,\xff\n", "not UTF-8"),
        (b"a,b\n1,\0\n", "zero byte"),
        ("a,b\n1,2\n".encode("utf-16"), "zero byte"),
        ("a," * 100_001 + "b\n", "columns"),
    ],
)
def test_malformed_tables_are_refused(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_table(written(tmp_path, "t.csv", content))


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_columnar_files_are_read_and_damaged_ones_refused(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"t{suffix}"
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    frame.to_parquet(file) if suffix == ".parquet" else frame.to_feather(file)
    pd.testing.assert_frame_equal(read_table(file), frame)
    content = file.read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"PAR1" + bytes(100)):
        with pytest.raises(FileFormatError):
            read_table(written(tmp_path, f"d{suffix}", damaged))


def test_parquet_that_claims_too_many_rows_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"a": np.zeros(20_000_000, np.int64)}), file, compression="zstd")
    with pytest.raises(FileFormatError, match="claims 20,000,000 rows"):
        read_table(file)


@pytest.mark.parametrize(
    ("rows", "columns", "remedy"), [(2_500_000, 2, "save it as CSV"), (1, 100_001, "use LIBSVM")]
)
def test_feather_that_claims_too_many_cells_is_refused(
    tmp_path: Path, rows: int, columns: int, remedy: str
) -> None:
    file, missing = tmp_path / "bomb.feather", pa.nulls(rows)  # which takes no space in the file
    pf.write_feather(pa.table({f"c{k}": missing for k in range(columns)}), str(file))
    claim = f"claims {rows:,} rows and {columns:,} columns"
    with pytest.raises(FileFormatError, match=f"{claim}.*{remedy}"):
        read_table(file)


def test_unknown_targets_and_suffixes_are_explained(tmp_path: Path) -> None:
    file = written(tmp_path, "t.csv", CSV)
    with pytest.raises(UnknownNameError, match="did you mean 'y'"):
        load(file, target="Y")
    with pytest.raises(ParameterError, match="counted from 1 to 2"):
        load(file, target=3)
    assert load(file, target="last").target == load(file, target="2").target == "y"
    twice = written(tmp_path, "twice.tsv", "1\t2\n")
    assert list(read_table(twice).columns) == ["column 1", "column 2"]
    double = tmp_path / "double.parquet"
    pq.write_table(pa.table([[1], [2]], names=["y", "y"]), double)
    with pytest.raises((ParameterError, FileFormatError)):
        load(double, target="y")
    with pytest.raises(FileError, match=r"unknown suffix '\.docx'"):
        load(written(tmp_path, "t.docx", "x"), target="y")


def test_libsvm_is_read_with_and_without_a_suffix(tmp_path: Path) -> None:
    X = sp.csr_matrix(np.random.default_rng(0).integers(0, 3, (40, 7)), dtype=float)
    y = np.arange(40) % 4 == 0
    dump_svmlight_file(X, y.astype(int), str(tmp_path / "a.libsvm"), zero_based=False)
    content = (tmp_path / "a.libsvm").read_bytes()
    for name, packed in (("a.libsvm", content), ("a", content), ("a.t.xz", lzma.compress(content))):
        dataset = load(written(tmp_path, name, packed))
        np.testing.assert_allclose(dataset.X.toarray(), X.toarray())
        np.testing.assert_array_equal(dataset.labels(), y)
    assert not dataset.is_table


@pytest.mark.parametrize(
    "content",
    ["", "1 0:2\n", "1 2:1 1:1\n", "1 a:1\n", "1 1:nan\n", "inf 1:1\n", "x 1:1\n", "1 1\n"],
)
def test_malformed_libsvm_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(FileFormatError):
        load(written(tmp_path, "a.svm", content))


def test_npz_dense_and_sparse(tmp_path: Path) -> None:
    X = sp.random(30, 5, 0.4, format="csr", random_state=0)
    y = np.arange(30) % 3 == 0
    np.savez(tmp_path / "dense.npz", X=X.toarray(), y=y)
    np.savez(
        tmp_path / "sparse.npz",
        data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y[:, None],
    )  # fmt: skip
    for name in ("dense.npz", "sparse.npz"):
        dataset = load(tmp_path / name)
        np.testing.assert_allclose(sp.csr_matrix(dataset.X).toarray(), X.toarray())
        np.testing.assert_array_equal(dataset.labels(), y)
    with pytest.raises(ParameterError, match="not a table"):
        load(tmp_path / "dense.npz", target="y")


BAD_NPZ: dict[str, dict[str, Any]] = {
    "no X": {"y": np.ones(3)},
    "pickled objects": {"X": np.array([[1, "a"]], dtype=object)},
    "text": {"X": np.array([["a", "b"]])},
    "one dimension": {"X": np.ones(3)},
    "other length": {"X": np.ones((3, 2)), "y": np.ones(4)},
    "indices outside": {"data": np.ones(1), "indices": [9], "indptr": [0, 1], "shape": [1, 2]},
    "negative indices": {"data": np.ones(1), "indices": [-1], "indptr": [0, 1], "shape": [1, 2]},
    "falling indptr": {"data": np.ones(2), "indices": [0, 1], "indptr": [0, 2, 1], "shape": [2, 2]},
}


@pytest.mark.parametrize("name", BAD_NPZ)
def test_malformed_npz_is_refused(tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / "bad.npz", **BAD_NPZ[name])
    with pytest.raises(FileFormatError):
        load(tmp_path / "bad.npz")


def test_npz_bombs_are_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros((3000, 3000)))
    with pytest.raises(FileFormatError, match="claims 68 MB"):
        load(tmp_path / "bomb.npz")


@given(
    content=st.binary(max_size=300),
    suffix=st.sampled_from(["csv", "svm", "npz", "parquet", "gz", "jsonl"]),
)
def test_random_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str
) -> None:
    file = written(tmp_path_factory.mktemp("random"), f"a.{suffix}", content)
    with suppress(FileError):
        assert load(file).X.shape[0] > 0


def test_columns_may_have_the_names_of_arguments(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    rows = [f"{k},5;{k % 7}.5;{k % 2}" for k in range(60)]
    file.write_text("\n".join(["self;other;y", *rows]))
    frame = load(file, target="y").X
    assert frame["self"].tolist() == [k + 0.5 for k in range(60)]
    file = file.with_suffix(".jsonl")
    file.write_text("\n".join(f'{{"self": "{k},5", "y": {k % 2}}}' for k in range(60)))
    assert load(file, target="y").X["self"].tolist() == [k + 0.5 for k in range(60)]


def test_equal_names_of_columns_get_numbers(tmp_path: Path) -> None:
    file = written(tmp_path, "t.csv", "a,a (2),a,a,,b\n1,2,3,4,5,6\n")
    names = ["a", "a (2)", "a (3)", "a (4)", "column 5", "b"]
    assert read_table(file, target="b").columns.tolist() == names


HEADERLESS = {
    "2": ["2,0,0.5", "0,2,1.5", "2,2,2", "?,2,1", "2,male,yes", "2;3,5;yes"],
    "last": ["0.5,last,1"],
    "3": ["1,3,2", "3,NA,0.5"],
}


@pytest.mark.parametrize(
    ("target", "first"), [(target, row) for target, rows in HEADERLESS.items() for row in rows]
)
def test_a_cell_that_equals_the_position_of_the_target_does_not_make_a_header(
    tmp_path: Path, target: str, first: str
) -> None:
    rows = [first, first, first.replace(target, "7")]
    file = written(tmp_path, "t.csv", "\n".join(rows))
    with file.open("rb") as stream:
        layout = find_layout(file, stream, "utf-8", target)
    assert layout.names == ["column 1", "column 2", "column 3"]
    assert not layout.header
    assert len(read_table(file, target=target)) == 3


@pytest.mark.parametrize(
    ("target", "first"),
    [("2", "2,x,y"), ("2", "id,1,2"), ("1", "a,b,1"), ("2020", "country,2019,2020"),
     ("0", "0,1,2"), ("2020", "a,b,2020"), ("last", "id,1,last"), ("2", ",2,x")],
)  # fmt: skip
def test_a_number_may_be_the_name_of_the_target(tmp_path: Path, target: str, first: str) -> None:
    file = written(tmp_path, "t.csv", f"{first}\n5,6,3.5\n7,,4\n")
    frame = read_table(file, target=target)
    assert list(frame.columns)[1:] == first.split(",")[1:]
    assert len(frame) == 2


@pytest.mark.parametrize(
    ("target", "rows"),
    [("2", "0,1,2\n5,0,1\n"), ("2", "1,2,3\n5,0,1\n"), ("2", "2,x,y\n1,a,b\n"),
     ("2020", "2019,2020,2021\n1,2,3\n"), ("0", "1,0,0.5\n2,1,0.1\n"), ("-1", "3,-1\n2,1\n")],
)  # fmt: skip
def test_a_target_that_may_be_a_name_or_a_position_is_refused(
    tmp_path: Path, target: str, rows: str
) -> None:
    file = written(tmp_path, "t.csv", rows)
    with pytest.raises(ParameterError, match=f"--target = '{target}' is a cell of the first row"):
        load(file, target=target)


def test_a_model_recognises_the_header_of_numbers_that_it_was_trained_with(tmp_path: Path) -> None:
    file = written(tmp_path, "t.csv", "0,1,2\na,3,0\nb,4,1\n")
    assert list(read_table(file, text=["0", "1"], target="2").columns) == ["0", "1", "2"]


def test_columns_of_one_name_are_told_apart_in_linear_time() -> None:
    def lines_run(count: int) -> int:
        lines = 0

        def trace(*_: Any) -> Any:
            nonlocal lines
            lines += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            names = unique_names(["c"] * count)
        finally:
            sys.settrace(before)
        assert names == ["c", *(f"c ({k})" for k in range(2, count + 1))]
        return lines

    assert lines_run(1000) < 2.1 * lines_run(500)


def test_complete_tables_of_any_compression_are_read(tmp_path: Path) -> None:
    header, row = ",".join(f"c{k}" for k in range(500)), ",".join(["0"] * 500)
    file = tmp_path / "t.csv.gz"
    file.write_bytes(gzip.compress("\n".join([header, *[row] * 10_000]).encode()))
    assert read_table(file).shape == (10_000, 500)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_long_cells_are_read(tmp_path: Path, end: str) -> None:
    header, row = ",".join(f"c{k}" for k in range(500)), "," * 499
    rows = [header, *[row] * 1000, "x" * 140_000 + row]
    frame = read_table(written(tmp_path, "t.csv", end.join(rows)))
    assert frame.shape == (1001, 500)
    assert len(frame["c0"].iloc[-1]) == 140_000


def test_a_short_row_after_a_long_cell_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, "t.csv", f"a,b\n{'x' * 140_000},1\n2\n")
    with pytest.raises(FileFormatError, match=r"row 2 \(line 3\): 1 cells, expected 2"):
        read_table(file)


def test_lines_with_keys_of_their_own_are_read(tmp_path: Path) -> None:
    lines = "".join(f'{{"k{k}": {k}, "y": 0}}\n\n' for k in range(500))
    assert read_table(written(tmp_path, "t.jsonl", lines)).shape == (500, 501)


def test_lines_with_raw_control_characters_are_read(tmp_path: Path) -> None:
    file = written(tmp_path, "t.jsonl", '{"note": "a\tb\x1b", "y": 1}\n{"note": "z", "y": 0}\n')
    assert read_table(file)["note"].tolist() == ["a\tb\x1b", "z"]
