"""Fits from files: equal to fits in memory, whatever the format; bad files are refused."""

from __future__ import annotations

import gc
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from apmax import APClassifier
from apmax.errors import (
    BackendError,
    CheckpointError,
    FileError,
    FileFormatError,
    LabelError,
    NonFiniteError,
    NotNumericError,
    ShapeError,
    WeightError,
)
from apmax.scale import blocks, cache, files, sample_negatives
from apmax.scale.files import TableFiles

pa = pytest.importorskip("pyarrow")
import pyarrow.csv as pa_csv  # noqa: E402
import pyarrow.feather as pa_feather  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

RNG = np.random.default_rng(1)
N, NAMES = 3000, ["a", "b", "c", "d"]
X = RNG.normal(size=(N, 4)) * [1, 20, 1, 0.1] + [0, 100, 0, 0]
Y = X[:, 0] + RNG.logistic(size=N) > 3
WEIGHT = RNG.integers(0, 4, N).astype(float)


def table(rows: slice = slice(None), **changes: Any) -> Any:
    columns = {name: X[rows, k] for k, name in enumerate(NAMES)}
    return pa.table({**columns, "y": Y[rows].astype(int), "v": WEIGHT[rows], **changes})


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let 3,000 rows be many blocks."""
    for module in (blocks, files):
        monkeypatch.setattr(module, "block_rows", lambda features: 300)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "data"
    place.mkdir()
    for i in range(3):
        pq.write_table(table(slice(i * 1000, (i + 1) * 1000)), place / f"{i}.parquet")
    return place


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that no test leaves a temporary file."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield
    assert list(place.iterdir()) == []


def fitted(files: Any, **options: Any) -> APClassifier:
    return APClassifier(alpha=0.3).fit_files(files, "y", columns=NAMES, **options)


def assert_same(model: APClassifier, other: APClassifier) -> None:
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(model.classes_, other.classes_)


@pytest.mark.parametrize("cached", [None, False])
def test_a_fit_from_files_equals_one_in_memory(folder: Path, cached: Any) -> None:
    model = fitted(folder / "*.parquet", cache=cached)
    assert_same(model, APClassifier(alpha=0.3).fit(X, Y.astype(int)))
    assert model.feature_names_in_.tolist() == NAMES
    assert model.result_.converged
    weighted = fitted(folder, sample_weight="v", cache=cached)
    assert_same(weighted, APClassifier(alpha=0.3).fit(X, Y.astype(int), WEIGHT))


def test_cached_and_streamed_fits_agree(folder: Path) -> None:
    first, second = fitted(folder), fitted(folder, cache=False)
    np.testing.assert_allclose(first.coef_, second.coef_, rtol=1e-9)


def write(path: Path, data: Any) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(data, path)
    elif path.suffix in (".feather", ".arrow"):
        pa_feather.write_feather(data, str(path), compression="uncompressed")
    else:
        pa_csv.write_csv(data, path)
    return path


@pytest.mark.parametrize("suffix", ["feather", "arrow", "csv"])
def test_every_format_gives_the_same_model(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"all.{suffix}", table())
    expected = APClassifier(alpha=0.3).fit(X, Y.astype(int))
    for cached in (None, False):
        assert_same(fitted(path, cache=cached), expected)


@pytest.mark.parametrize(
    ("labels", "pos_label"),
    [
        (np.where(Y, "fraud", "ok"), "fraud"),
        (np.where(Y, 2, 1), None),
        (Y, None),
        (np.where(Y, 1.0, -1.0), None),
        (pa.array(np.where(Y, "b", "a")).dictionary_encode(), "b"),
    ],
    ids=["text", "integers", "bool", "floats", "dictionary"],
)
def test_labels_of_every_type(labels: Any, pos_label: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "all.parquet", table(y=labels))
    expected = APClassifier(pos_label=pos_label).fit(X, np.asarray(labels))
    for cached in (None, False):
        model = APClassifier(pos_label=pos_label)
        model.fit_files(path, "y", columns=NAMES, cache=cached)
        assert_same(model, expected)
        assert model.pos_label_ == expected.pos_label_


def test_single_precision_columns_are_cached_in_single_precision(tmp_path: Path) -> None:
    single = {name: X[:, k].astype(np.float32) for k, name in enumerate(NAMES)}
    path = write(tmp_path / "all.parquet", table(**single))
    assert TableFiles(path, "y", NAMES).dtype == np.float32
    assert TableFiles(path, "y").dtype == np.float64  # the weights are doubles
    expected = APClassifier(alpha=0.3).fit(X.astype(np.float32), Y.astype(int))
    assert_same(fitted(path), expected)


def test_files_without_positives_and_without_rows_are_parts_like_others(tmp_path: Path) -> None:
    order = np.argsort(Y, kind="stable")
    data = table().take(order)
    for i, rows in enumerate([slice(0, 2000), slice(0, 0), slice(2000, 3000)]):
        write(tmp_path / f"{i}.parquet", data.slice(rows.start, rows.stop - rows.start))
    model = fitted(sorted(tmp_path.glob("*.parquet")))
    assert_same(model, APClassifier(alpha=0.3).fit(X, Y.astype(int)))


def test_numbers_of_other_types_in_one_file_are_converted(tmp_path: Path) -> None:
    whole = np.round(X)
    columns = {name: whole[:, k] for k, name in enumerate(NAMES)}
    write(tmp_path / "0.parquet", table(**columns).slice(0, 1500))
    integers = {name: whole[:, k].astype(np.int32) for k, name in enumerate(NAMES)}
    write(tmp_path / "1.parquet", table(**integers).slice(1500))
    model = fitted(tmp_path / "*.parquet")
    assert_same(model, APClassifier(alpha=0.3).fit(whole, Y.astype(int)))


def csv_whose_first_rows_are_integers(path: Path, last: str) -> Path:
    """More than the 1 MB from which pyarrow infers types."""
    rows = [f"{i % 97},{i % 2},{i % 3}" for i in range(200_000)]
    path.write_text("\n".join(["a,y,v", *rows, last]) + "\n")
    return path


def test_csv_columns_may_turn_to_fractions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "block_rows", lambda features: 50_000)
    path = csv_whose_first_rows_are_integers(tmp_path / "a.csv", "1.5,1,0.25")
    *_, last = TableFiles(path, "y", None, "v").arrays()
    assert (last.X[-1], last.weight[-1], last.labels[-1].as_py()) == (1.5, 0.25, 1)
    sample = sample_negatives(path, "y", sample_weight="v")
    assert sample.X[-1] == 1.5
    assert sample.y.dtype.kind == "i"


@pytest.mark.parametrize("last", ["x,1,1", "1,0.5,1", "1,1,x", "1,1"])
def test_csv_values_that_cannot_be_read_name_the_file(
    last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "block_rows", lambda features: 50_000)
    path = csv_whose_first_rows_are_integers(tmp_path / "a.csv", last)
    for read in (APClassifier().fit_files, sample_negatives):
        with pytest.raises(FileFormatError, match=r"a\.csv cannot be read .*: correct the file"):
            read(path, "y", sample_weight="v")


with_nan = X[:, 1].copy()
with_nan[1234] = np.nan
text = np.where(Y, "1.5", "x")
labels_with_null = pa.array([None if i == 7 else int(v) for i, v in enumerate(Y)])

BAD_TABLES: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("NaN", {"b": with_nan}, NonFiniteError, r"0\.parquet: column 'b' is nan in row 1234"),
    ("null", {"b": pa.array(with_nan, from_pandas=True)}, NonFiniteError, "'b' is nan in row 1234"),
    ("infinity", {"c": np.where(Y, np.inf, 0.0)}, NonFiniteError, r"column 'c' is inf"),
    ("text", {"d": text}, NotNumericError, r"column 'd' is of type string"),
    ("one class", {"y": np.zeros(N)}, LabelError, r"one class only"),
    ("three classes", {"y": np.arange(N) % 3}, LabelError, r"two classes"),
    ("null label", {"y": labels_with_null}, LabelError, r"1 missing labels in rows 0 to 299"),
    ("NaN label", {"y": np.where(Y, 1.0, np.nan)}, LabelError, r"missing labels"),
    ("negative weight", {"v": np.where(Y, -1.0, 1.0)}, WeightError, r"'v' is -1\.0 in row \d+"),
    ("NaN weight", {"v": np.where(Y, np.nan, 1.0)}, NonFiniteError, r"column 'v' is nan"),
    ("no weight", {"v": np.where(Y, 0.0, 1.0)}, WeightError, r"0 for every positive"),
]


@pytest.mark.parametrize("cached", [None, False], ids=["cached", "streamed"])
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [row[1:] for row in BAD_TABLES],
    ids=[row[0] for row in BAD_TABLES],
)
def test_bad_values(
    changes: dict[str, Any], error: type[Exception], message: str, cached: Any, tmp_path: Path
) -> None:
    path = write(tmp_path / "0.parquet", table(**changes))
    model = APClassifier()
    with pytest.raises(error, match=message):
        model.fit_files(path, "y", columns=NAMES, sample_weight="v", cache=cached)
    assert not hasattr(model, "coef_")


def test_columns_that_differ_between_files(folder: Path) -> None:
    write(folder / "3.parquet", table().drop(["b"]))
    with pytest.raises(FileFormatError, match=r"3\.parquet has no column 'b'.*same columns"):
        fitted(folder)
    write(folder / "3.parquet", table(b=text))
    with pytest.raises(NotNumericError, match=r"3\.parquet: column 'b' is of type string"):
        fitted(folder)


def test_bad_arguments(folder: Path, tmp_path: Path) -> None:
    for wrong, message in (
        (folder / "*.csv", "no files match"),
        (folder / "9.parquet", "no files match"),
        ([folder / "9.parquet"], "no such file"),
        ([write(tmp_path / "a.csv", table()), folder / "0.parquet"], "csv and parquet"),
    ):
        with pytest.raises(FileError, match=message):
            fitted(wrong)
    os.mkfifo(tmp_path / "pipe.parquet")
    (tmp_path / "device.parquet").symlink_to("/dev/zero")
    for name in ("pipe", "device"):  # nothing waits for a writer, or reads without end
        one, several = tmp_path / f"{name}.parquet", tmp_path / f"{name}*.parquet"
        for wrong in (one, several, [one]):
            with pytest.raises(FileError, match="not a regular file"):
                fitted(wrong)
    with pytest.raises(FileError, match="is a folder"):
        fitted([folder])
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(FileError, match="unknown type"):
        fitted(tmp_path / "a.json")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(FileFormatError, match="cannot be read as parquet"):
        fitted(tmp_path / "damaged.parquet")
    with pytest.raises(FileFormatError, match="no column 'z'"):
        APClassifier().fit_files(folder, "z")
    with pytest.raises(FileFormatError, match="'y' is a feature and also"):
        APClassifier().fit_files(folder, "y", columns=["a", "y"])
    with pytest.raises(FileError, match="is not a folder"):
        fitted(folder, cache=tmp_path / "nowhere")
    with pytest.raises(ShapeError, match="hold no rows"):
        fitted(write(tmp_path / "empty.parquet", table().slice(0, 0)))
    for model, message in (
        (APClassifier(surrogate="squared_hinge"), "squared_hinge.*block by block"),
        (APClassifier(gamma=200.0), "above 80"),
    ):
        with pytest.raises(BackendError, match=message):
            model.fit_files(folder, "y")


def after_batches(monkeypatch: pytest.MonkeyPatch, count: int, action: Any) -> None:
    """Call `action` once, after some batches have been read."""
    converted, left = TableFiles._converted, [count]

    def counting(self: TableFiles, *arguments: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            action()
        return converted(self, *arguments)

    monkeypatch.setattr(TableFiles, "_converted", counting)


@pytest.mark.parametrize(("cached", "batches"), [(None, 2), (False, 2), (False, 35)])
def test_a_file_that_is_deleted_or_changed_stops_the_fit(
    cached: Any, batches: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_batches(monkeypatch, batches, (folder / "2.parquet").unlink)
    with pytest.raises(FileError, match=r"2\.parquet was deleted"):
        fitted(folder, cache=cached)
    monkeypatch.undo()
    for module in (blocks, files):
        monkeypatch.setattr(module, "block_rows", lambda features: 300)
    write(folder / "2.parquet", table().slice(2000))
    after_batches(monkeypatch, batches, lambda: os.utime(folder / "2.parquet", (1, 1)))
    with pytest.raises(FileError, match=r"2\.parquet changed"):
        fitted(folder, cache=cached)


def test_a_cache_larger_than_the_disk_is_refused_before_decoding(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(folder)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    monkeypatch.setattr(cache.FlatFiles, "_decode", None)
    with pytest.raises(FileError, match=r"needs .* GB.*cache=False"):
        fitted(folder)


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """Let files not grow beyond `most` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_a_disk_that_fills_up_gives_a_clear_error(folder: Path) -> None:
    fitted(folder)  # kernels are compiled and stored
    with full_disk(50_000), pytest.raises(FileError, match=r"cannot be written \(File too large"):
        fitted(folder)
    gc.collect()


def test_a_checkpoint_on_a_full_disk_gives_a_clear_error(folder: Path, tmp_path: Path) -> None:
    fitted(folder)
    place = tmp_path / "checkpoints"
    place.mkdir()
    with full_disk(100), pytest.raises(FileError, match="cannot write the checkpoint"):
        fitted(folder, cache=False, checkpoint=place / "fit.json")
    assert list(place.iterdir()) == []


def test_ctrl_c_keeps_the_best_model_and_the_checkpoint(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    model = APClassifier(alpha=0.3)
    seen: list[str] = []

    def press(stage: str, done: int, of: int, ap: float) -> None:
        seen.append(stage)
        if stage == "average precision" and done == 1:
            signal.raise_signal(signal.SIGINT)

    model.on_progress = press
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit_files(folder, "y", columns=NAMES, checkpoint=path)
    assert model.result_.interrupted
    assert model.coef_.shape == (1, 4)
    assert set(seen) == {"decoding files", "logistic regression", "average precision"}
    assert path.exists()
    resumed = fitted(folder, checkpoint=path)
    assert not path.exists()
    assert resumed.result_.converged
    whole = fitted(folder)
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    np.testing.assert_array_equal(resumed.intercept_, whole.intercept_)


def test_an_index_of_pandas_without_a_name_is_a_feature_only_if_it_is_named(folder: Path) -> None:
    path, index = folder / "0.parquet", "__index_level_0__"
    rows = table().select([*NAMES, "y"]).append_column(index, pa.array(np.arange(N)))
    pq.write_table(rows, path)
    assert APClassifier().fit_files(path, "y").feature_names_in_.tolist() == NAMES
    assert sample_negatives(path, "y").table.column_names == NAMES
    assert sample_negatives(path, "y", columns=[index]).table.column_names == [index]


def test_ctrl_c_while_decoding_ends_the_fit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    after_batches(monkeypatch, 2, lambda: signal.raise_signal(signal.SIGINT))
    model = APClassifier()
    with pytest.raises(KeyboardInterrupt):
        model.fit_files(folder, "y", columns=NAMES)
    assert not hasattr(model, "coef_")


def test_a_checkpoint_of_other_data_is_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    model = APClassifier(alpha=0.3, max_iter=1)
    model.on_progress = lambda stage, done, of, ap: (
        signal.raise_signal(signal.SIGINT) if stage == "logistic regression" else None
    )
    with pytest.warns(ConvergenceWarning, match="kept the logistic regression"):
        model.fit_files(folder, "y", columns=NAMES, checkpoint=path)
    with pytest.raises(CheckpointError, match="max_iter 1 instead of 200"):
        fitted(folder, checkpoint=path)
    (folder / "2.parquet").unlink()
    with pytest.raises(CheckpointError, match="rows 3000"):
        APClassifier(alpha=0.3, max_iter=1).fit_files(folder, "y", columns=NAMES, checkpoint=path)
