"""Files whose content would crash or exhaust a reader are refused with a named error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apmax import APClassifier, AutoAPClassifier
from apmax.errors import FileError, FileFormatError, NotNumericError
from apmax.scale import sample_negatives
from apmax.scale.files import RawFiles

pa = pytest.importorskip("pyarrow")
import pandas as pd  # noqa: E402
import pyarrow.feather as pa_feather  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

N = 200
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
TEXT = np.where(X + RNG.normal(size=N) > 1, "yes", "no")
ENDS = np.concatenate([[0], np.cumsum([len(one) for one in TEXT])]).astype(np.int32)
READERS: dict[str, Callable[[Path], Any]] = {
    "cache": lambda path: APClassifier().fit_files(path, "y"),
    "no cache": lambda path: APClassifier().fit_files(path, "y", cache=False),
    "auto": lambda path: AutoAPClassifier(["logistic"], cv=2).fit_files(path, "y"),
    "sample": lambda path: sample_negatives(path, "y"),
}
every_reader = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


def feather(path: Path, old: bytes = b"", new: bytes = b"") -> Path:
    """Write a file, and replace bytes that occur in it once."""
    table = pa.table({"x": X, "y": pa.array(TEXT.tolist())})
    pa_feather.write_feather(table, str(path), compression="uncompressed")
    content = path.read_bytes()
    assert not old or content.count(old) == 1
    path.write_bytes(content.replace(old, new))
    return path


@every_reader
def test_offsets_of_text_beyond_the_file_are_refused(read: Any, tmp_path: Path) -> None:
    wrong = ENDS.copy()
    wrong[50:] += 2**30
    path = feather(tmp_path / "a.feather", ENDS.tobytes(), wrong.tobytes())
    with pytest.raises(FileFormatError, match=r"a\.feather cannot be read"):
        read(path)


@every_reader
@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (pa.ArrowMemoryError("malloc of size 1 failed"), FileError, "more memory than there is"),
        (pa.ArrowIndexError("index 9 out of bounds"), FileFormatError, "cannot be read"),
        (OSError("Corrupt snappy data"), FileFormatError, "cannot be read"),
        (pa.ArrowCancelled("Operation cancelled"), FileFormatError, "cannot be read"),
    ],
    ids=["memory", "index", "disk", "cancelled without Ctrl-C"],
)
def test_errors_of_pyarrow_name_the_file(
    read: Any, error: Any, raised: Any, message: str, tmp_path: Path, monkeypatch: Any
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": X, "y": TEXT.tolist()}), path)

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", fail)
    with pytest.raises(raised, match=rf"a\.parquet .*{message}"):
        read(path)


@every_reader
def test_a_column_that_occurs_twice_is_refused(read: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array(X)] * 2 + [pa.array(TEXT)], list("xxy")), path)
    with pytest.raises(FileFormatError, match=r"a\.parquet .*duplicate"):
        read(path)


def test_metadata_of_pandas_that_is_damaged_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"x": X, "y": TEXT.tolist()})
    metadata = {b"pandas": b'{"columns": [{"name": "x"}], "index_columns": []}'}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    assert READERS["auto"](path).feature_names_in_.tolist() == ["x"]


PICKLE = b"cos\nsystem\n(S'touch executed'\ntR."


@pytest.mark.parametrize("read", [READERS["cache"], READERS["auto"]], ids=["linear", "auto"])
@pytest.mark.parametrize(
    ("name", "metadata"),
    [
        ("pandas.period", b"{}"),
        ("pandas.period", b"[]"),
        ("pandas.period", b'{"freq": 3}'),
        ("pandas.interval", b'{"subtype": "int64", "closed": "zz"}'),
    ],
)
def test_damaged_metadata_of_extension_types_is_refused(
    name: str, metadata: bytes, read: Any, tmp_path: Path
) -> None:
    """Pandas registers its types with pyarrow, and their code reads the metadata."""
    pd.DataFrame({"p": pd.period_range("2020", periods=2)}).to_parquet(tmp_path / "types.parquet")
    pd.read_parquet(tmp_path / "types.parquet")
    with pytest.raises((FileFormatError, NotNumericError), match=r"rows\.parquet"):
        read(extension(tmp_path / "rows.parquet", name, metadata))


@pytest.mark.parametrize("read", [READERS["cache"], READERS["auto"]], ids=["linear", "auto"])
def test_a_pickle_in_the_metadata_of_an_extension_type_is_not_executed(
    read: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in CVE-2023-47248."""
    monkeypatch.chdir(tmp_path)
    read(extension(tmp_path / "rows.parquet", "arrow.py_extension_type", PICKLE))
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def extension(path: Path, name: str, metadata: bytes) -> Path:
    """Write a file whose feature is of an extension type."""
    stored = {b"ARROW:extension:name": name.encode(), b"ARROW:extension:metadata": metadata}
    fields = [pa.field("x", pa.int64(), metadata=stored), pa.field("y", pa.string())]
    pq.write_table(pa.table([np.arange(N), TEXT], schema=pa.schema(fields)), path)
    return path


def test_values_that_pandas_cannot_hold_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    dates = pa.array([864 * 10**5 * 10**9] * N, pa.date64())
    pq.write_table(pa.table({"x": X, "date": dates, "y": TEXT.tolist()}), path)
    model = AutoAPClassifier(["logistic"], categorical_features=["date"], cv=2)
    with pytest.raises(FileFormatError, match=r"a\.parquet.* cannot be converted to a data frame"):
        model.fit_files(path, "y")


def test_codes_of_labels_beyond_their_categories_are_refused(tmp_path: Path) -> None:
    codes = (TEXT == "yes").astype(np.int8)
    labels = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(["no", "yes"]))
    path = tmp_path / "a.feather"
    pa_feather.write_feather(pa.table({"x": X, "y": labels}), str(path), compression="uncompressed")
    content = path.read_bytes()
    assert content.count(codes.tobytes()) == 1
    path.write_bytes(content.replace(codes.tobytes(), (100 * codes).tobytes()))
    for read in READERS.values():
        with pytest.raises(FileFormatError, match=r"a\.feather cannot be read"):
            read(path)


class CountedName(str):
    """A name that counts comparisons."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)


class CountedSchema:
    """A schema that counts how often the list of its names is made."""

    lists = 0

    def __init__(self, names: list[str]) -> None:
        self._names = names

    @property
    def names(self) -> list[CountedName]:
        CountedSchema.lists += 1
        return [CountedName(name) for name in self._names]


def test_columns_are_found_in_linear_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, count = tmp_path / "a.feather", 2000
    names = [f"c{k}" for k in range(count)]
    pa_feather.write_feather(pa.table(dict.fromkeys(names, pa.array([0.0, 1.0]))), str(path))
    monkeypatch.setattr(RawFiles, "_schema", lambda *_: CountedSchema(names))
    monkeypatch.setattr(CountedName, "compared", 0)
    monkeypatch.setattr(CountedSchema, "lists", 0)
    source = RawFiles(path, "c0")
    assert [batch.num_columns for _, _, batch in source.batches(None)] == [count]
    assert source.columns == names[1:]
    assert CountedSchema.lists < 10
    assert CountedName.compared < 10 * count
