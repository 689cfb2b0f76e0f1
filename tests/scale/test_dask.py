"""Fits and the metric on Dask clusters of threads: conventions, equality, bad input."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from apmax import APClassifier
from apmax import average_precision as local_ap
from apmax.errors import (
    BackendError,
    CheckpointError,
    LabelError,
    NonFiniteError,
    NotNumericError,
    NoWorkerError,
    ParameterError,
    ShapeError,
)

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import pandas as pd  # noqa: E402

from apmax.dask import DaskAPClassifier, average_precision  # noqa: E402
from apmax.scale.cluster import even_workers  # noqa: E402
from tests.dask_clusters import client_of, of_threads  # noqa: E402
from tests.hang import SECONDS  # noqa: E402

# Dask calls functions that pandas 3.1 has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")

RNG = np.random.default_rng(4)
N, NAMES = 3000, ["a", "b", "c"]
X = RNG.normal(size=(N, 3)) * [1, 5, 0.1] + [0, 10, 0]
Y = X[:, 0] + RNG.logistic(size=N) > 3
WEIGHT = RNG.uniform(0, 2, N)
DX, DY = da.from_array(X, chunks=(800, 3)), da.from_array(Y, chunks=800)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with of_threads(2) as cluster, client_of(cluster) as client:
        yield client


def assert_same(model: Any, other: APClassifier) -> None:
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(model.classes_, other.classes_)


@pytest.fixture
def frame() -> Any:
    data = pd.DataFrame(X, columns=NAMES).assign(y=np.where(Y, "bad", "good"), v=WEIGHT)
    return dd.from_pandas(data, npartitions=5)


def test_arrays_frames_and_parquet_files_give_the_model_of_a_fit_in_memory(
    client: Any, frame: Any, tmp_path: Path
) -> None:
    model = DaskAPClassifier(alpha=0.3).fit(DX, DY)
    assert_same(model, APClassifier(alpha=0.3).fit(X, Y))
    assert model.result_.converged
    labels = np.where(Y, "bad", "good")
    expected = APClassifier(alpha=0.3, pos_label="bad").fit(X, labels, WEIGHT)
    frame.to_parquet(tmp_path / "table")
    for data in (frame, str(tmp_path / "table")):
        model = DaskAPClassifier(alpha=0.3, pos_label="bad").fit(data, "y", sample_weight="v")
        assert_same(model, expected)
        assert model.feature_names_in_.tolist() == NAMES
        assert model.pos_label_ == "bad"
    for data in (frame, dd.read_parquet(tmp_path / "table")):
        model = DaskAPClassifier(alpha=0.3, pos_label="bad")
        assert_same(model.fit(data[NAMES], data["y"], data["v"]), expected)


def test_results_are_bit_equal_for_any_number_of_workers() -> None:
    found = []
    for workers in (1, 2, 4):
        with of_threads(workers) as cluster, client_of(cluster) as client:
            model = DaskAPClassifier(max_iter=4, tol=1e-9, client=client)
            with pytest.warns(ConvergenceWarning, match="max_iter"):
                model.fit(DX.rechunk((250, 3)), DY)
            found.append(np.append(model.coef_, model.intercept_))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_predictions_are_lazy_and_equal_those_of_the_local_model(client: Any, frame: Any) -> None:
    model = DaskAPClassifier(pos_label="bad").fit(frame[NAMES], frame["y"])
    local = model.to_local()
    assert type(local) is APClassifier
    for data, rows in ((DX, X), (frame[NAMES], pd.DataFrame(X, columns=NAMES))):
        model_of = DaskAPClassifier().fit(DX, DY) if data is DX else model
        of_rows = model_of.to_local()
        for method in ("decision_function", "predict_proba", "predict"):
            found = getattr(model_of, method)(data)
            assert dask.is_dask_collection(found)
            expected = getattr(of_rows, method)(rows)
            computed = found.compute()
            assert computed.shape == expected.shape
            assert np.array_equal(computed, expected) or np.allclose(computed, expected, rtol=1e-12)


def test_score_is_the_average_precision_of_the_positive_class(
    client: Any, frame: Any, tmp_path: Path
) -> None:
    model = DaskAPClassifier(pos_label="bad").fit(frame, "y", sample_weight="v")
    assert model.classes_.tolist() == ["bad", "good"]
    table, labels = pd.DataFrame(X, columns=NAMES), np.where(Y, "bad", "good")
    expected = model.to_local().score(table, labels, WEIGHT)
    assert expected > 2 * Y.mean()
    frame.to_parquet(tmp_path / "table")
    for data in (frame, str(tmp_path / "table"), dd.read_parquet(tmp_path / "table")):
        assert model.score(data, "y", "v") == pytest.approx(expected, rel=1e-12)
    assert model.score(frame[NAMES], frame["y"], frame["v"]) == pytest.approx(expected, rel=1e-12)
    of_arrays = DaskAPClassifier().fit(DX, DY)
    assert of_arrays.score(DX, DY) == pytest.approx(of_arrays.to_local().score(X, Y), rel=1e-12)


def test_a_client_that_is_not_the_default_one_fits_and_scores(client: Any) -> None:
    address = client.scheduler.address
    with distributed.Client(address, set_as_default=False, timeout=SECONDS) as other:
        model = DaskAPClassifier(alpha=0.5, client=other).fit(DX, DY)
        assert model.score(DX, DY) == pytest.approx(model.to_local().score(X, Y), rel=1e-12)


def test_estimators_are_cloned_and_pickled_without_their_client(client: Any) -> None:
    model = DaskAPClassifier(alpha=0.5, client=client).fit(DX, DY)
    assert clone(DaskAPClassifier(alpha=0.5)).alpha == 0.5
    copy = pickle.loads(pickle.dumps(model))
    assert copy.client is None
    np.testing.assert_array_equal(copy.to_local().coef_, model.coef_)


def test_unusual_partitions(client: Any) -> None:
    """Without positives, without rows, single precision, sparse, several blocks of columns."""
    order = np.argsort(Y, kind="stable")
    chunks = ((1500, 0, 1000, 500), (3,))
    rows, labels = (
        da.from_array(X[order], chunks=chunks),
        da.from_array(Y[order], chunks=chunks[:1]),
    )
    expected = APClassifier().fit(X, Y)
    assert_same(DaskAPClassifier().fit(rows, labels), expected)
    assert_same(DaskAPClassifier().fit(da.from_array(X, chunks=(1000, 2)), DY), expected)
    single = DaskAPClassifier().fit(DX.astype(np.float32), DY)
    assert_same(single, APClassifier().fit(X.astype(np.float32), Y))
    sparse = DX.map_blocks(sp.csr_matrix)
    assert_same(DaskAPClassifier().fit(sparse, DY), APClassifier().fit(sp.csr_matrix(X), Y))


def bad(rows: int, value: float) -> Any:
    changed = X.copy()
    changed[rows, 1] = value
    return da.from_array(changed, chunks=(800, 3))


BAD: list[tuple[str, Any, Any, type[Exception], str]] = [
    ("NaN", bad(1300, np.nan), DY, NonFiniteError, r"partition 1: .*row 500, feature 1"),
    ("infinity", bad(2999, np.inf), DY, NonFiniteError, r"partition 3"),
    ("text", da.from_array(np.full((N, 3), "x"), chunks=(800, 3)), DY, NotNumericError, "numbers"),
    ("three classes", DX, da.from_array(np.arange(N) % 3, chunks=800), LabelError, "3 classes"),
    ("one class", DX, DY & False, LabelError, "one class only"),
    ("lengths", DX, DY[:-1], ShapeError, r"3000 rows, but y .* 2999"),
    ("local X", X, DY, ParameterError, r"Dask collection, got ndarray"),
    ("local y", DX, Y, ParameterError, r"`y` must be a Dask collection"),
    ("no column", DX, "y", ParameterError, r"'y' is not a column"),
    ("one dimension", DY, DY, ShapeError, r"two-dimensional"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "labels", "error", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_bad_data(
    data: Any, labels: Any, error: type[Exception], message: str, client: Any
) -> None:
    model = DaskAPClassifier()
    with pytest.raises(error, match=message):
        model.fit(data, labels)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("kind", ["object", "string", "category", "Int64", "float64", "array"])
def test_missing_labels_are_refused_before_conversion(kind: str) -> None:
    from apmax.scale.cluster import describe, raw_block

    numbers = kind in ("Int64", "float64")
    values = [1, 0, 1, 0] if numbers else ["good", "bad", "good", "bad"]
    rows = np.zeros((4, 2))
    for missing in (None, np.nan, pd.NA):
        given = np.array([*values[:3], missing], dtype=object)
        if kind == "float64" and missing is pd.NA:
            continue
        y: Any = given if kind == "array" else pd.Series(given).astype(kind)
        with pytest.raises(LabelError, match="partition 3: y has missing labels"):
            raw_block(rows, y, None, 3, "float64")
    whole = np.array(values, dtype=object)
    y = whole if kind == "array" else pd.Series(whole).astype(kind)
    found = describe(raw_block(rows, y, None, 3, "float64"))
    assert found.totals == dict.fromkeys(values, 2.0)


def test_bad_parameters(client: Any) -> None:
    with pytest.raises(BackendError, match="squared_hinge"):
        DaskAPClassifier(surrogate="squared_hinge").fit(DX, DY)
    with pytest.raises(ParameterError, match="alpha"):
        DaskAPClassifier(alpha=-1).fit(DX, DY)
    model = DaskAPClassifier().fit(DX, DY)
    with pytest.raises(ParameterError, match=r"to_local\(\)\.predict"):
        model.predict(X)
    with pytest.raises(ParameterError, match="worker_timeout"):
        model.set_params(worker_timeout=-1).score(DX, DY)


def test_a_cluster_without_workers_ends_the_fit() -> None:
    with of_threads(0) as empty, client_of(empty) as client:
        model = DaskAPClassifier(worker_timeout=0.1, client=client)
        with pytest.raises(NoWorkerError, match=r"no worker for 0\.1 seconds.*worker_timeout"):
            model.fit(DX, DY)
    with pytest.raises(ParameterError, match="worker_timeout"):
        DaskAPClassifier(worker_timeout=0).fit(DX, DY)


@pytest.mark.parametrize(
    ("holders", "threads", "counts", "moved"),
    [
        ("aaaaaaaaabbbbbbb", {"a": 1, "b": 1}, {"a": 8, "b": 8}, 1),
        ("abababab", {"a": 1, "b": 1}, {"a": 4, "b": 4}, 0),
        ("aaaaaabbb", {"a": 1, "b": 2}, {"a": 3, "b": 6}, 3),
        ("aaaaa", {"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 2, "c": 1}, 3),
        ("aa", {"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1}, 1),
        ("xxxx", {"a": 1, "b": 1}, {"a": 2, "b": 2}, 4),  # their worker has ended
    ],
)
def test_parts_stay_unless_a_worker_holds_more_than_its_share(
    holders: str, threads: dict[str, int], counts: dict[str, int], moved: int
) -> None:
    found = even_workers([[one] for one in holders], threads)
    assert Counter(found) == counts
    assert sum(one != other for one, other in zip(found, holders, strict=True)) == moved


def test_workers_of_blocks_are_an_even_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    hints: list[tuple[int, Any, Any]] = []
    persist = distributed.Client.persist

    def spy(self: Any, parts: Any, **options: Any) -> Any:
        hints.append((len(parts), options.get("workers"), options.get("allow_other_workers")))
        return persist(self, parts, **options)

    with of_threads(2) as two, client_of(two) as client:
        monkeypatch.setattr(distributed.Client, "persist", spy)
        DaskAPClassifier(client=client).fit(DX, DY)
        raw, *of_blocks = hints
        assert raw == (4, None, None)
        assert sorted(of_blocks) == [(2, [worker], True) for worker in sorted(client.nthreads())]


def test_scattered_data_warn_at_the_start(client: Any) -> None:
    futures = client.scatter([X[:1500], X[1500:]])
    scattered = da.concatenate(
        [da.from_delayed(dask.delayed(one), (1500, 3), float) for one in futures]
    )
    with pytest.warns(UserWarning, match="2 partitions were scattered"):
        DaskAPClassifier().fit(scattered, da.from_array(Y, chunks=1500))
    persisted = client.persist(DX)
    DaskAPClassifier().fit(persisted, DY)  # can be computed again: no warning


def test_a_lost_client_resumes_from_the_checkpoint(client: Any, tmp_path: Path) -> None:
    path = tmp_path / "fit.json"

    class Lost(Exception):
        pass

    def lose(stage: str, done: int, of: int, ap: float) -> None:
        if stage == "average precision" and done == 2:
            raise Lost

    model = DaskAPClassifier(alpha=0.05, checkpoint=path)
    model.on_progress = lose
    with pytest.raises(Lost):
        model.fit(DX, DY)
    with pytest.raises(CheckpointError, match="alpha"):
        DaskAPClassifier(alpha=0.5, checkpoint=path).fit(DX, DY)
    content = path.read_bytes()
    path.write_bytes(content[:50] + b"\xff" + content[51:])
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        DaskAPClassifier(alpha=0.05, checkpoint=path).fit(DX, DY)
    path.write_bytes(content)
    resumed = DaskAPClassifier(alpha=0.05, checkpoint=path).fit(DX, DY)
    assert not path.exists()
    whole = DaskAPClassifier(alpha=0.05).fit(DX, DY)
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    np.testing.assert_array_equal(resumed.intercept_, whole.intercept_)


def test_average_precision_of_collections(client: Any, frame: Any) -> None:
    scores = X[:, 0]
    found = average_precision(DY, DX[:, 0])
    assert found.value == pytest.approx(local_ap(Y, scores), rel=1e-12)
    assert found.lower == found.upper
    found = average_precision(frame["y"], frame["a"], sample_weight=frame["v"], pos_label="bad")
    assert float(found) == pytest.approx(local_ap(Y, scores, sample_weight=WEIGHT), rel=1e-12)
    with pytest.raises(ShapeError, match="partitions"):
        average_precision(DY, DX[:, 0].rechunk(1000))
    with pytest.raises(ParameterError, match=r"apmax\.average_precision"):
        average_precision(Y, scores)


def test_text_is_refused_by_its_type_before_a_partition_is_read(client: Any) -> None:
    def read(k: int) -> pd.DataFrame:
        raise AssertionError("a partition was read")

    meta = pd.DataFrame({"a": [0.5], "term": pd.array(["x"], dtype="string"), "y": [True]})
    frame = dd.from_map(read, range(2), meta=meta)
    with pytest.raises(NotNumericError, match="column 'term' holds text"):
        DaskAPClassifier(client=client).fit(frame, "y")
