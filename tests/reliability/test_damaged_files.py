"""Damaged data files and files made to exhaust a reader are read or refused, never run."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from apmax import (
    AdditiveAPClassifier,
    APClassifier,
    APClassifierCV,
    AutoAPClassifier,
    StochasticAPClassifier,
)
from apmax.errors import ShapeError
from tests.reliability.formats import FORMATS, make_zip
from tests.reliability.reader_process import run_jobs
from tests.reliability.soak import record, scaled

SHORT = dict.fromkeys(FORMATS, 60)
LONG = {
    "libsvm": 40_000, "libsvm.gz": 26_000, "libsvm.bz2": 15_000, "libsvm.xz": 10_000, "csv": 12_000,
    "csv.gz": 4_000, "jsonl": 10_000, "xlsx": 2_000, "parquet": 10_000, "feather": 10_000,
    "npz": 27_000, "model": 20_000, "checkpoint": 2_000,
    "fitted parquet": 4_000, "fitted feather": 5_000, "fitted csv": 3_000,
}  # fmt: skip
"""200,000 files."""
AT_ONCE = 5000
MB = 1 << 20


def jobs(counts: dict[str, int]) -> list[dict[str, Any]]:
    """Return the jobs that read this number of damaged files of each format."""
    return [
        {"format": name, "first": first, "end": min(first + AT_ONCE, count)}
        for name, count in counts.items()
        for first in range(0, count, AT_ONCE)
    ]


def assert_read_or_refused(answers: list[dict[str, Any]], files: int) -> None:
    failures = [failure for answer in answers for failure in answer["failures"]]
    assert failures == []
    assert sum(answer["read"] + answer["refused"] for answer in answers) == files
    for answer in answers:  # otherwise the damage is too small, or too large
        assert answer["read"] > 0, answer
        assert answer["refused"] > 0, answer


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    assert_read_or_refused(run_jobs(tmp_path, jobs(SHORT)), 60 * len(FORMATS))


@pytest.mark.soak
def test_200_000_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    counts = {name: scaled(count) for name, count in LONG.items()}
    answers = [run_jobs(tmp_path, [job])[0] for job in jobs(counts)]
    assert_read_or_refused(answers, sum(counts.values()))
    read = sum(answer["read"] for answer in answers)
    record(
        "damaged files are read or refused within 5 s of CPU time and bounded memory, and nothing "
        "is executed",
        f"{sum(counts.values()):,} files of {len(counts)} formats: {read:,} read, the others "
        "refused",
    )


def npy(shape: tuple[int, ...], content: bytes, descr: str = "<f8") -> bytes:
    stream = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + content


def npz(X: bytes) -> bytes:
    return make_zip({"X.npy": X}, method=8)


def xz_with_4_gb_dictionary() -> bytes:
    content = bytearray(lzma.compress(b"1 1:1\n" * 100, preset=0))
    content[content.index(b"\x21\x01", 12) + 2] = 40  # the property of the filter LZMA2
    end = 12 + (content[12] + 1) * 4 - 4
    content[end : end + 4] = zlib.crc32(content[12:end]).to_bytes(4, "little")
    return bytes(content)


class HostileFile(NamedTuple):
    """Suffix, megabytes that reading may take, how the answer begins, and the content."""

    suffix: str
    megabytes: int
    answer: str
    content: Callable[[int], bytes]


WIDE = b",".join(b"c%d" % k for k in range(20_000)) + b"\n"
ROWS, TABLE = b"1 1:1\n" * 200_000, b"1,2\n" * 300_000
REFUSED = "FileFormatError "
HOSTILE: dict[str, HostileFile] = {
    "an index of 2^62": HostileFile("svm", 64, REFUSED, lambda size: b"1 %d:1\n" % 2**62),
    "one long number": HostileFile("svm", 64, "FileFormatError|read", lambda size: b"1" * size),
    "blank lines": HostileFile("svm", 64, f"{REFUSED}.*empty", lambda size: b"\n" * size),
    "10^12 claimed rows": HostileFile("npz", 64, "FileError", lambda _: npz(npy((10**12, 1), b""))),
    "objects": HostileFile("npz", 64, REFUSED, lambda _: npz(npy((1, 1), b"cos\nsystem\n.", "|O"))),
    "a gzip bomb": HostileFile(
        "svm.gz", 200, f"{REFUSED}.*limit for its size", lambda _: gzip.compress(ROWS) * 36
    ),
    "a bzip2 bomb": HostileFile(
        "csv.bz2", 200, f"{REFUSED}.*limit for its size", lambda _: bz2.compress(TABLE) * 36
    ),
    "an xz dictionary of 4 GB": HostileFile(
        "svm.xz", 64, "FileFormatError|FileError", lambda _: xz_with_4_gb_dictionary()
    ),
    "one long line": HostileFile("csv", 64, "FileFormatError|read", lambda size: b"x" * size),
    "one long cell": HostileFile(
        "csv", 64, "FileFormatError|read", lambda size: b"a,b\n1," + b"x" * size
    ),
    "open quotes": HostileFile("csv", 300, REFUSED, lambda _: b'a,b\n"1,2\n' * 99_999),
    "a million columns": HostileFile(
        "csv", 600, f"{REFUSED}.*cells", lambda _: b",".join(b"c%d" % k for k in range(MB))
    ),
    "short rows": HostileFile(
        "csv", 200, f"{REFUSED}.*cells, expected 20000", lambda _: WIDE + b"1\n" * 20_000
    ),
    "rows of an empty cell": HostileFile(
        "csv", 200, f"{REFUSED}.*cells, expected 20000", lambda _: WIDE + b'""\n' * 20_000
    ),
    "short rows after a long cell": HostileFile(
        "csv", 200, REFUSED, lambda size: WIDE + b"x" * size + b"\n" + b"1\n" * 20_000
    ),
    "rows of one tab": HostileFile(
        "tsv",
        200,
        f"{REFUSED}.*cells, expected 20000",
        lambda _: WIDE.replace(b",", b"\t") + b"\t\n" * 20_000,
    ),
    "another key on each line": HostileFile(
        "jsonl",
        200,
        f"{REFUSED}.*20,000 columns",
        lambda _: b"".join(b'{"k%d":1}\n' % k for k in range(20_000)),
    ),
    "one long array among lines": HostileFile(
        "jsonl", 200, REFUSED, lambda _: b"[%s]\n" % (b"1," * 20_000 + b"1") + b"[1]\n" * 20_000
    ),
    "empty lists in a model": HostileFile(
        "apmax",
        200,
        "ModelFileError .*far more values",
        lambda _: make_zip({"model.json": b"[" + b"[]," * 11_000_000 + b"[]]"}, method=8),
    ),
    "empty records in a model": HostileFile(
        "apmax",
        250,
        "ModelFileError ",
        lambda _: make_zip({"model.json": b"[" + b'{"":0},' * 170_000 + b"[]]"}, method=8),
    ),
    "only separators": HostileFile("csv", 600, REFUSED, lambda _: b"a,b\n" + b"," * 100_000),
}


@pytest.mark.parametrize("megabytes", [1, pytest.param(100, marks=pytest.mark.soak)], ids=str)
def test_hostile_files_take_time_and_memory_in_proportion_to_their_size(
    megabytes: int, tmp_path: Path
) -> None:
    orders = []
    for name, file in HOSTILE.items():
        path = tmp_path / f"{name}.{file.suffix}"
        path.write_bytes(file.content(megabytes * MB))
        read = "use_model" if file.suffix == "apmax" else "read_dataset"
        orders.append(
            {
                "path": str(path),
                "megabytes": file.megabytes + 40 * megabytes,
                "reader": f"tests.reliability.formats:{read}",
            }
        )
    answers = dict(zip(HOSTILE, run_jobs(tmp_path, orders), strict=True))
    wrong = {k: v for k, v in answers.items() if not re.match(HOSTILE[k].answer, str(v))}
    assert wrong == {}


WIDTH = r"1099511627776 features.*more than this machine's"
DENSE = "needs a dense X"
"""Dense tables are as wide as they are in memory."""


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (APClassifier(), WIDTH),
        (APClassifierCV(cv=2), WIDTH),
        (StochasticAPClassifier(), WIDTH),
        (AdditiveAPClassifier(cv=2), DENSE),
        (AutoAPClassifier(cv=2), DENSE),
    ],
    ids=str,
)
def test_widths_beyond_the_memory_are_refused_before_they_are_allocated(
    estimator: Any, message: str
) -> None:
    import scipy.sparse as sp

    X = sp.csr_matrix((np.ones(2), ([0, 1], [0, 2**40 - 1])), shape=(8, 2**40))
    with pytest.raises(ShapeError, match=message):
        estimator.fit(X, np.arange(8) % 2)
