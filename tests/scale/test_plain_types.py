"""Files with types that many functions of pyarrow do not take, such as those that Polars writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apmax import APClassifier
from apmax.errors import FileFormatError
from apmax.scale import files, sample_negatives

pa = pytest.importorskip("pyarrow")
ROWS = 3000
RNG = np.random.default_rng(1)
X = RNG.normal(size=ROWS)
Y = np.where(X + RNG.logistic(size=ROWS) > 3, "yes", "no")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let 3,000 rows be many blocks."""
    monkeypatch.setattr(files, "block_rows", lambda features: 300)


def write(path: Path, **columns: Any) -> Path:
    table = pa.table({**columns, "y": Y})
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    return path


def test_types_that_polars_writes_are_read(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    code = pl.Series(Y, dtype=pl.Categorical)
    pl.DataFrame({"x": X, "text": Y, "code": code, "y": Y}).write_ipc(tmp_path / "all.feather")
    model = APClassifier().fit_files(tmp_path / "all.feather", "y", columns=["x"])
    expected = APClassifier().fit(X[:, None], Y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-5)
    sample = sample_negatives(tmp_path / "all.feather", "y", rows=ROWS)
    assert sample.table.column("text").to_pylist() == Y.tolist()
    assert sample.table.column("code").to_pylist() == Y.tolist()


def test_repeated_values_are_read(tmp_path: Path) -> None:
    ends, words = pa.array([1000, ROWS], pa.int32()), pa.array(["a", "b"])
    values = {
        "number": pa.array([1.0, 2.0]),
        "text": words.cast(pa.string_view()),
        "code": words.dictionary_encode(),
    }
    runs = {name: pa.RunEndEncodedArray.from_arrays(ends, one) for name, one in values.items()}
    path = write(tmp_path / "all.feather", **runs)
    table = sample_negatives(path, "y", rows=ROWS).table
    for name, one in values.items():
        first, second = one.to_pylist()
        assert table.column(name).to_pylist() == [first] * 1000 + [second] * 2000


def test_a_column_of_another_type_in_one_file_is_named(tmp_path: Path) -> None:
    write(tmp_path / "0.feather", c=np.arange(ROWS))
    write(tmp_path / "1.feather", c=np.arange(ROWS).astype(str))
    with pytest.raises(FileFormatError, match=r"columns differ between files .*c "):
        sample_negatives(tmp_path, "y", rows=ROWS)


def test_a_column_of_lists_is_named_as_such(tmp_path: Path) -> None:
    path = write(tmp_path / "all.feather", c=pa.array([["a"]] * ROWS, pa.list_(pa.string_view())))
    with pytest.raises(FileFormatError, match=r"leave it out with columns=\[…\]"):
        sample_negatives(path, "y", rows=ROWS)
