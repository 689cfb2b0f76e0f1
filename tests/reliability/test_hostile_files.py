"""Files made to break a reader: refused by name, quickly, in little memory, and never run."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import pickle
import re
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apmax import APClassifier
from apmax.app.data import load, read_libsvm
from apmax.app.pipeline.storage import load_model
from apmax.errors import ApmaxError, FileError, FileFormatError, ModelFileError, ShapeError
from tests.reliability.batches import ENVIRONMENT, fuzz, fuzz_all
from tests.reliability.formats import CSV, LIBSVM, model_trees, sealed

QUICK = {
    "libsvm": 800, "libsvm.gz": 250, "libsvm.bz2": 250, "libsvm.xz": 250, "csv": 150, "txt": 50,
    "csv.gz": 50, "parquet": 200, "npz": 500, "model": 500,
}  # fmt: skip
LONG = {
    "libsvm": 45_000, "libsvm.gz": 30_000, "libsvm.bz2": 30_000, "libsvm.xz": 30_000, "csv": 5_000,
    "txt": 2_000, "csv.gz": 2_000, "parquet": 6_000, "npz": 30_000, "model": 30_000,
}  # fmt: skip
"""Inputs of each format; the tables' take ten times as long."""


def test_damaged_files_are_read_or_refused() -> None:
    for figures in fuzz_all(QUICK):
        assert figures.inputs == QUICK[figures.name]
        assert 0 < figures.read < figures.inputs  # else the damage is too small, or too great


@pytest.mark.soak
@pytest.mark.parametrize("name", LONG)
def test_many_damaged_files_are_read_or_refused(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = fuzz(name, LONG[name], first=10_000)
    assert 0 < figures.read < figures.inputs == LONG[name]
    with capsys.disabled():
        print(f"\n{figures}")


def test_the_long_part_has_200_000_inputs() -> None:
    assert sum(LONG.values()) >= 200_000


def read_or_refused(path: Path) -> int | str:
    """The rows that were read, or why none were."""
    try:
        return int(load(path).X.shape[0])
    except ApmaxError as error:
        return str(error)


SCRAPS = st.sampled_from(
    ["1", "-1", "0", " ", "\t", "\n", ":", "1:1", "2:.5", "#", "qid:1", "e", ".", ",", ";", '"',
     "'", "a", "é", "\0", "\r", "?", "9" * 30, "1e400"]
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(text=st.lists(SCRAPS, max_size=40).map("".join), suffix=st.sampled_from([".svm", ".csv"]))
def test_any_text_is_read_or_refused(text: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"any{suffix}"
    path.write_text(text, newline="")
    found = read_or_refused(path)
    if isinstance(found, str):
        assert found
        assert "\n" not in found
    else:
        assert found <= text.count("\n") + text.count("\r") + 1


# --- single cases: files of megabytes, or that would become that


def npz(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def npy(shape: tuple[int, ...], content: bytes, descr: Any = "<f8") -> bytes:
    stream = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + content


def xz_that_wants_4_gb() -> bytes:
    """The header of an .xz file with the largest dictionary."""
    content = bytearray(lzma.compress(b"1 1:1\n" * 100, preset=0))
    at = content.index(b"\x21\x01", 12) + 2  # the filter LZMA2 with one byte of properties
    content[at] = 40
    size = (content[12] + 1) * 4
    content[12 + size - 4 : 12 + size] = zlib.crc32(content[12 : 12 + size - 4]).to_bytes(
        4, "little"
    )
    return bytes(content)


def parquet_of(rows: int) -> bytes:
    """A Parquet file of some kilobytes with any number of millions of rows, all alike."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    table = pa.table({"x": np.zeros(1 << 20), "y": np.zeros(1 << 20)})
    with pq.ParquetWriter(stream, table.schema, compression="zstd") as writer:
        for _ in range(rows >> 20):
            writer.write_table(table, row_group_size=1 << 20)
    return stream.getvalue()


MB = 1 << 20
ROWS = b"1 1:1\n" * 200_000
TABLE = b"1,2\n" * 300_000


def cases(size: int) -> list[tuple[str, str, Callable[[], bytes], int, str]]:
    """What, name of the file, content, megabytes of memory for it, how the answer begins."""
    return [
        ("an index of 2^62", "svm", lambda: b"1 %d:1\n" % 2**62, 64, "FileFormatError .*above"),
        ("one row", "svm", lambda: b"1 " + b" ".join(b"%d:1" % k for k in range(1, size // 20))
         + b"\n-1",
         size // 25_000, r"read \(2, "),
        ("one number", "svm", lambda: b"1" * size, 40 * size // MB + 64,
         "FileFormatError .*double"),
        ("blank lines", "svm", lambda: b"\n" * size, 300, "FileFormatError .*empty"),
        ("npz of 10^12 rows", "npz", lambda: npz(X=npy((10**12, 1), bytes(80))), 64,
         "FileFormatError .*claims the shape"),
        ("npz that grows 1000 times", "npz", lambda: npz(X=npy((5 * MB, 1), bytes(40 * MB))), 64,
         "FileFormatError .*40 MB, more than"),
        ("npz of objects", "npz", lambda: npz(X=npy((1, 1), b"cos\nsystem\n.", "|O")), 64,
         "FileFormatError .*holds object"),
        ("npz with a huge header", "npz", lambda: npz(X=b"\x93NUMPY\2\0\xff\xff\xff\x7f"), 64,
         "FileFormatError .*no array"),
        ("npz with a nested header", "npz",
         lambda: npz(X=b"\x93NUMPY\1\0\xff\xf0" + b"(" * 0xF0FF), 64, "FileFormatError .*no array"),
        ("gz bomb of rows", "svm.gz", lambda: gzip.compress(ROWS) * 36, 500,
         "FileFormatError .*times its size"),
        ("bz2 bomb of rows", "svm.bz2", lambda: bz2.compress(ROWS) * 36, 500,
         "FileFormatError .*times its size"),
        ("xz bomb of one line", "csv.xz", lambda: lzma.compress(b"1" * MB, preset=0) * 40, 500,
         "FileFormatError"),
        ("gz bomb of a table", "csv.gz", lambda: gzip.compress(TABLE) * 36, 500,
         "FileFormatError .*times its size"),
        ("xz that wants 4 GB", "svm.xz", xz_that_wants_4_gb, 64, "FileFormatError .*decompressed"),
        ("Parquet of equal rows", "parquet", lambda: parquet_of(5 * MB), 100,
         "FileFormatError .*claims 5242880 rows"),
        ("one line", "csv", lambda: b"x" * size, 10 * size // MB + 64, "FileFormatError|read"),
        ("one cell", "csv", lambda: b"a,b\n1," + b"x" * size, 10 * size // MB + 64,
         "FileFormatError|read"),
        ("zeros", "csv", lambda: b"a,b\n1,\0\n", 64, "FileFormatError .*byte 7 is zero"),
        ("late zeros", "csv", lambda: b"a,b\n" + b"1,2\n" * 30_000 + b"\0,3\n", 64, "Fil|read"),
        ("open quotes", "csv", lambda: b'a,b\n"1,2\n' * 99_999, 300, "FileFormatError|read"),
        ("10^6 columns", "csv", lambda: b",".join(b"c%d" % k for k in range(10**6)) + b"\n1\n",
         600, "FileFormatError .*1000000 cells.*100000 columns"),
        ("blanks in a quote", "csv", lambda: b"a,b\n'" + b" " * 60_000 + b"x,2\n", 64, "read"),
        ("empty lines", "csv", lambda: b"a;b\n" + b"\n" * 65_000 + b"1;2\n", 64, "read"),
        ("quotes", "csv", lambda: b'"' * size, 10 * size // MB + 64, "FileFormatError|read"),
        ("separators", "csv", lambda: b"a,b\n" + b"," * size, 64 * size // MB + 64,
         "FileFormatError .*cells"),
    ]  # fmt: skip


def answers(size: int, folder: Path) -> dict[str, str]:
    """What a process answers that has a limit of time and memory for each file."""
    orders = []
    for what, name, content, megabytes, _ in cases(size):
        path = folder / f"{what}.{name}"
        path.write_bytes(content())
        orders.append((what, str(path), megabytes))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.reliability.little_room", json.dumps(orders)],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    ended = next((what for what, *_ in orders if what not in found), None)
    return found | ({ended: f"ended with {done.returncode}: {done.stderr}"} if ended else {})


@pytest.mark.parametrize("size", [2, pytest.param(100, marks=pytest.mark.soak)], ids=str)
def test_a_hostile_file_takes_time_and_memory_by_its_size(size: int, tmp_path: Path) -> None:
    found = answers(size * MB, tmp_path)
    wrong = {
        what: found.get(what, "not reached")
        for what, *_, begins in cases(size * MB)
        if not re.match(begins, found.get(what, "not reached"))
    }
    assert wrong == {}


def test_a_wide_header_is_read_whole(tmp_path: Path) -> None:
    names = [f"column with a long name {k}" for k in range(5000)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" * 5000) + "\n")
    data = load(tmp_path / "wide.csv")
    assert data.names == names


@pytest.mark.parametrize("reader", [load, read_libsvm, load_model], ids=lambda f: f.__name__)
def test_what_is_no_regular_file_is_refused_at_once(
    reader: Callable[[Any], Any], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    for path in (tmp_path, tmp_path / "pipe.csv", tmp_path / "loop.csv", Path("/dev/zero")):
        with pytest.raises((FileError, ModelFileError)):
            reader(path)


def test_a_width_that_no_memory_holds_is_refused_before_it_is_allocated(tmp_path: Path) -> None:
    (tmp_path / "wide.svm").write_text(f"1 {2**40}:1\n-1 1:1\n" * 4)
    data = load(tmp_path / "wide.svm")
    assert data.X.shape == (8, 2**40)
    for solver in ("lbfgs", "adap-adam"):
        with pytest.raises(ShapeError, match=r"1099511627776 features.*GB of this machine's"):
            APClassifier(solver).fit(data.X, data.y)


def test_bytes_of_a_file_are_read_the_same_through_every_compression(tmp_path: Path) -> None:
    text = LIBSVM * 3000
    packed = {"": text, ".gz": gzip.compress(text), ".bz2": bz2.compress(text)}
    halves = lzma.compress(text[:5000]) + lzma.compress(text[5000:]) + bytes(8)
    for suffix, content in (packed | {".xz": halves}).items():
        (tmp_path / f"a.svm{suffix}").write_bytes(content)
    plain, labels = read_libsvm(tmp_path / "a.svm")
    for suffix in (".gz", ".bz2", ".xz"):
        again, again_labels = read_libsvm(tmp_path / f"a.svm{suffix}")
        assert (plain != again).nnz == 0
        np.testing.assert_array_equal(labels, again_labels)
    (tmp_path / "cut.csv.xz").write_bytes(lzma.compress(CSV)[:-20])
    with pytest.raises(FileFormatError, match="cannot be decompressed"):
        load(tmp_path / "cut.csv.xz")


# --- models


class Bomb:
    """What runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.mark}",)


def code_in_disguise(mark: Path) -> dict[str, bytes]:
    """Every container that some loader of models somewhere would run."""
    import joblib
    import torch

    def written(write: Callable[[Any], Any]) -> bytes:
        stream = io.BytesIO()
        write(stream)
        return stream.getvalue()

    bomb = Bomb(mark)
    objects = np.empty(1, dtype=object)
    objects[0] = bomb
    raw = pickle.dumps(bomb)
    command = f"touch {mark}"
    return {
        **{f"pickle, protocol {k}": pickle.dumps(bomb, protocol=k) for k in range(6)},
        "GLOBAL and REDUCE": f"cos\nsystem\n(V{command}\ntR.".encode(),
        "INST": f"(V{command}\nios\nsystem\n.".encode(),
        "OBJ": f"(cos\nsystem\nV{command}\no.".encode(),
        "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c"
        + bytes([len(command)]) + command.encode() + b"\x85R.",
        "eval": f"c__builtin__\neval\n(V__import__('os').system({command!r})\ntR.".encode(),
        "pickle in gzip": gzip.compress(raw),
        "pickle in zlib, as joblib": written(lambda f: joblib.dump(bomb, f, compress=3)),
        "joblib": written(lambda f: joblib.dump(bomb, f)),
        "npy of objects": written(lambda f: np.save(f, objects, allow_pickle=True)),
        "npz of objects": written(lambda f: np.savez(f, coef=objects)),
        "torch": written(lambda f: torch.save(bomb, f)),
        "torch, old": written(lambda f: torch.save(bomb, f, _use_new_zipfile_serialization=False)),
        "skops": npz(schema=json.dumps({"__class__": "system", "__module__": "os"}).encode()),
        "Python": f"import os; os.system({command!r})".encode(),
        "YAML": f"!!python/object/apply:os.system [{command!r}]".encode(),
        "JSON, then a pickle": json.dumps(model_trees()[0]).encode() + raw,
    }  # fmt: skip


def test_code_in_disguise_is_refused_and_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for name, content in code_in_disguise(mark).items():
        refuse(content, tmp_path)
        assert not mark.exists(), name


def refuse(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.apmax"
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        load_model(path)
    for suffix in (".npz", ".parquet", ".csv", ".svm"):
        data = tmp_path / f"data{suffix}"
        data.write_bytes(path.read_bytes())
        with contextlib.suppress(ApmaxError):
            load(data)


def test_the_disguises_are_sharp(tmp_path: Path) -> None:
    """The table above would run its command in a loader that unpickles."""
    mark = tmp_path / "mark"
    for name in ("pickle, protocol 0", "pickle, protocol 5", "INST", "OBJ", "STACK_GLOBAL", "eval"):
        pickle.loads(code_in_disguise(mark)[name])
        assert mark.exists(), name
        mark.unlink()


BODY = model_trees()[0]["model"]
FORGED: dict[str, bytes] = {
    "a huge intercept": sealed({**BODY, "intercept": 10**400}),
    "an intercept as text": sealed({**BODY, "intercept": "0.5"}),
    "an intercept that is true": sealed({**BODY, "intercept": True}),
    "a NaN intercept": sealed({**BODY, "intercept": float("nan")}),
    "facts as pairs": sealed({**BODY, "facts": [["a", 1]]}),
    "a number as target": sealed({**BODY, "target": 3}),
    "half a character": sealed({**BODY, "positive": "\ud800"}),
    "half a character in a fact": sealed({**BODY, "facts": {"a": "\udfff"}}),
    "a huge median": sealed(
        {**BODY, "encoder": [{**BODY["encoder"][0], "median": 10**400}, *BODY["encoder"][1:]]}
    ),
    "categories as text": sealed(
        {**BODY, "encoder": [{**BODY["encoder"][2], "categories": "abc"}]}
    ),
    "a date without an order": sealed(
        {**BODY, "encoder": [{**one, "order": ""} for one in BODY["encoder"]]}
    ),
    "an encoder of no columns": sealed({**BODY, "encoder": []}),
    "names twice": sealed(BODY).replace(b'"intercept"', b'"intercept": 1.0, "intercept"'),
    "a schema of lists": sealed(BODY, schema=[[]] * 100),
    "a version of lines": sealed(BODY, schema=7, version="a\nb" * 1000),
    "an integer of 5000 digits": sealed(BODY).replace(b"0.25", b"9" * 5000),
    "100000 lists": b"[" * 100_000 + b"]" * 100_000,
    "1500 objects": b'{"a":' * 1500 + b"1" + b"}" * 1500,
    "lists that double": json.dumps([[["lol"] * 50] * 50] * 50).encode(),
    "NaN": b"NaN",
    "UTF-16": json.dumps(model_trees()[0])[:-9].encode("utf-16"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_model_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.apmax"
    path.write_bytes(FORGED[name])
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300 + len(str(path))
