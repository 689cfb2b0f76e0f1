"""LIBSVM text: as scikit-learn reads it, in any compression, at any block size."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from apmax.app.data import libsvm, read_libsvm
from apmax.errors import ParameterError

Write = Callable[[str, str | bytes], Path]
ROWS = "1 1:0.5 3:2\n-1 2:-1e-3\n"
FINITE = st.floats(-1e300, 1e300)  # scikit-learn rounds to 16 digits, the largest to infinity


def assert_equal_to_the_last_bit(actual: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
    (X, y), (X_expected, y_expected) = actual, expected
    assert X.shape == X_expected.shape
    np.testing.assert_array_equal(X.indptr, X_expected.indptr)
    np.testing.assert_array_equal(X.indices, X_expected.indices)
    for values, expected_values in ((X.data, X_expected.data), (y, y_expected)):
        assert values.dtype == np.float64
        np.testing.assert_array_equal(values.view(np.int64), expected_values.view(np.int64))


@pytest.mark.parametrize("name", ["w8a", "a9a", "ijcnn1", "mushrooms", "phishing"])
def test_real_files_are_read_as_scikit_learn_reads_them(name: str, real_data: Path) -> None:
    path = real_data / "libsvm" / f"{name}.xz"
    with lzma.open(path) as file:
        expected = load_svmlight_file(file, zero_based=False)
    assert_equal_to_the_last_bit(read_libsvm(path), expected)


@given(
    X=arrays(np.float64, st.tuples(st.integers(1, 8), st.integers(1, 6)), elements=FINITE),
    data=st.data(),
)
def test_what_scikit_learn_writes_is_read_as_it_reads_it(
    tmp_path_factory: Any, X: Any, data: Any
) -> None:
    y = data.draw(arrays(np.float64, X.shape[0], elements=FINITE))
    path = tmp_path_factory.mktemp("round") / "file"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    expected = load_svmlight_file(path, n_features=X.shape[1], zero_based=False)
    assert_equal_to_the_last_bit(read_libsvm(path, features=X.shape[1]), expected)


def written_numbers() -> Any:
    """Decimal numbers in every spelling, among them those that are hard to round."""
    digits = st.text("0123456789", min_size=1, max_size=25)
    exponent = st.one_of(st.just(""), st.integers(-330, 280).map("e{:+d}".format))
    spelt = st.builds(
        "{}{}{}{}".format,
        st.sampled_from(["", "-", "+"]),
        digits,
        st.one_of(st.just(""), st.just("."), digits.map(".{}".format)),
        exponent,
    )
    halfway = st.builds(
        lambda mantissa, shift: f"{(2 * mantissa + 1) * 5**shift}e-{shift}",
        st.integers(2**52, 2**53),
        st.integers(0, 12),
    )
    return st.one_of(spelt, halfway, FINITE.map(repr), st.floats(-1, 1).map("{:.17g}".format))


@given(st.lists(written_numbers(), min_size=1, max_size=20))
def test_numbers_are_the_doubles_that_python_reads(tmp_path_factory: Any, written: Any) -> None:
    numbers = [(text, float(text)) for text in written if np.isfinite(float(text))]
    path = tmp_path_factory.mktemp("numbers") / "file"
    path.write_text("".join(f"{text} 1:{text}\n" for text, _ in numbers) + "0 1:0\n")
    expected = np.array([number for _, number in numbers] + [0.0])
    X, y = read_libsvm(path)
    for actual in (X.data, y):
        np.testing.assert_array_equal(actual.view(np.int64), expected.view(np.int64))


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_compressed_files_are_read_alike(
    suffix: str, compress: Callable[[bytes], bytes], write: Write
) -> None:
    X, y = read_libsvm(write(f"rows{suffix}", compress(ROWS.encode())))
    np.testing.assert_array_equal(X.toarray(), [[0.5, 0, 2], [0, -1e-3, 0]])
    np.testing.assert_array_equal(y, [1, -1])
    assert X.indices.dtype == X.indptr.dtype == np.int32


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("Windows' newlines", ROWS.replace("\n", "\r\n")),
        ("no newline at the end", ROWS.rstrip("\n")),
        ("blank lines", "\n  \n" + ROWS.replace("\n", "\n\n\t\n")),
        ("comments", "# first\n" + ROWS.replace("\n", " # 7:1 and more\n") + "#last"),
        ("a comment that touches", ROWS.replace("\n", "#x:y\n")),
        ("query ids", ROWS.replace("1 1:", "1 qid:12 1:").replace("-1 2:", "-1 qid:3 2:")),
        ("tabs and blanks", " " + ROWS.replace(" ", "\t \t")),
        ("a plus", "+" + ROWS.replace("3:2", "3:+2")),
        ("other spellings", "1. 1:.5 3:2.000e0\n-10E-1 2:-0.1E-02\n"),
        ("unsorted indices", "1 3:2 1:0.5\n-1 2:-1e-3\n"),
        ("many digits", "1 1:0.50000000000000000000000 3:2\n-1 2:-1e-3\n"),
        ("many digits, unsorted", "1 3:2 1:0.50000000000000000000000\n-1 2:-1e-3\n"),
        ("many digits in a label", "1.0000000000000000000000 3:2 1:0.5\n-1 2:-1e-3\n"),
        ("leading zeros", "01 001:00.5 000000000000000000000000003:2\n-1 2:-1e-3\n"),
        ("a byte order mark", "\ufeff" + ROWS),
    ],
)
def test_every_way_to_write_the_same_rows(what: str, text: str, write: Write) -> None:
    X, y = read_libsvm(write("rows", text))
    np.testing.assert_array_equal(X.toarray(), [[0.5, 0, 2], [0, -1e-3, 0]], err_msg=what)
    np.testing.assert_array_equal(y, [1, -1], err_msg=what)
    assert X.has_sorted_indices


@pytest.mark.parametrize("block", [1, 2, 7, 64])
def test_lines_may_be_longer_than_a_block(
    block: int, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    rows = [
        f"{sign} " + " ".join(f"{k}:{value!r}" for k, value in enumerate(row.tolist(), start=1))
        for sign, row in zip((1, -1, 1), rng.normal(size=(3, 9)), strict=True)
    ]
    path = write("rows", "\n".join(rows))
    expected = read_libsvm(path)
    monkeypatch.setattr(libsvm, "BLOCK", block)
    assert_equal_to_the_last_bit(read_libsvm(path), expected)


def test_rows_without_features_are_rows(write: Write) -> None:
    X, y = read_libsvm(write("rows", "1\n-1 2:1\n1 #\n"))
    assert X.shape == (3, 2)
    assert y.size == 3


def test_zeros_that_are_written_are_kept_with_their_sign(write: Write) -> None:
    X, _ = read_libsvm(write("rows", "1 1:0 2:-0.0\n"))
    assert X.nnz == 2
    assert np.signbit(X.data).tolist() == [False, True]


def test_features_widens_the_matrix(write: Write) -> None:
    X, _ = read_libsvm(write("rows", ROWS), features=7)
    assert X.shape == (2, 7)


@pytest.mark.parametrize("features", [0, -1, 2.0, "3", True, 2**41])
def test_features_must_be_a_count(features: Any, write: Write) -> None:
    with pytest.raises(ParameterError, match="`features` must be"):
        read_libsvm(write("rows", ROWS), features=features)


def test_indices_beyond_int32_are_held(write: Write) -> None:
    X, _ = read_libsvm(write("rows", f"1 1:2\n-1 2:3 {2**31}:4 {2**40}:5\n1 7:6\n"))
    assert X.shape == (3, 2**40)
    assert X.indices.dtype == np.int64
    assert X.indices.tolist() == [0, 1, 2**31 - 1, 2**40 - 1, 6]
    assert X.data.tolist() == [2, 3, 4, 5, 6]
    narrow, _ = read_libsvm(write("rows", f"1 {2**31 - 1}:2\n"))
    assert narrow.indices.dtype == np.int32


def test_memory_is_that_of_the_result_and_a_few_blocks(write: Write) -> None:
    rng = np.random.default_rng(0)
    line = " ".join(f"{k}:{v}" for k, v in enumerate(rng.integers(1, 9, 100), start=1))
    path = write("rows", f"1 {line}\n" * 20_000)
    read_libsvm(write("small", ROWS))  # compiled before it is measured
    tracemalloc.start()
    X, y = read_libsvm(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    result = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes
    # The last chunk may be half empty; while arrays are joined, one of them is there twice.
    assert peak < 2.4 * result + 30 * libsvm.BLOCK
