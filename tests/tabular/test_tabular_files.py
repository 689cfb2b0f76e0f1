"""Models of tables are fitted to samples of files that need not fit into memory."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from apmax import AdditiveAPClassifier, AutoAPClassifier, memory
from apmax.errors import FileFormatError, NotNumericError
from apmax.scale import sample_negatives
from apmax.scale.sampling import ClassDraw

pytest.importorskip("pyarrow")
ROWS = 6000
RNG = np.random.default_rng(4)
X = pd.DataFrame({"a": RNG.normal(size=ROWS), "kind": RNG.choice(["x", "y", "z"], ROWS)})
Y = X["a"] ** 2 + 2 * (X["kind"] == "z") + RNG.logistic(size=ROWS) > 4.5
LABELS = np.where(Y, "bad", "good")


@pytest.fixture
def pattern(tmp_path: Path) -> str:
    table = X.assign(v=2.0, status=LABELS)
    table[:2500].to_parquet(tmp_path / "0.parquet")
    table[2500:].to_parquet(tmp_path / "1.parquet")
    return str(tmp_path / "*.parquet")


def models() -> list[Any]:
    return [
        AdditiveAPClassifier(interactions=0, cv=3, pos_label="bad"),
        AutoAPClassifier(["logistic"], cv=3, pos_label="bad"),
    ]


@pytest.mark.parametrize("which", [0, 1], ids=["additive", "auto"])
def test_files_that_fit_give_the_model_of_fit(which: int, pattern: str) -> None:
    model, expected = models()[which], models()[which]
    assert model.fit_files(pattern, "status", columns=["a", "kind"], sample_weight="v") is model
    expected.fit(X, LABELS, np.full(ROWS, 2.0))
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    assert model.feature_names_in_.tolist() == ["a", "kind"]


@pytest.mark.parametrize("which", [0, 1], ids=["additive", "auto"])
def test_ctrl_c_while_the_sample_is_read_leaves_no_trace(
    which: int, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClassDraw, "rows", lambda *_: signal.raise_signal(signal.SIGINT))
    model = models()[which]
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.fit_files(pattern, "status", columns=["a", "kind"])
    assert vars(model) == before


@pytest.mark.parametrize("which", [0, 1], ids=["additive", "auto"])
def test_columns_that_are_an_index_in_pandas_are_features(which: int, tmp_path: Path) -> None:
    table = X.assign(status=LABELS).set_index("a")
    table.to_parquet(tmp_path / "0.parquet")
    named, whole = models()[which], models()[which]
    named.fit_files(tmp_path / "0.parquet", "status", columns=["a", "kind"])
    assert named.feature_names_in_.tolist() == ["a", "kind"]
    whole.fit_files(tmp_path / "0.parquet", "status")
    assert whole.feature_names_in_.tolist() == ["kind", "a"]


def test_an_index_without_a_name_is_no_feature(tmp_path: Path) -> None:
    kept = X["a"] > -1
    X.assign(status=LABELS)[kept].to_parquet(tmp_path / "0.parquet")
    model = models()[0].fit_files(tmp_path / "0.parquet", "status")
    expected = models()[0].fit(X[kept], LABELS[kept])
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize("which", [0, 1], ids=["additive", "auto"])
@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_types_of_pandas_give_the_model_of_fit(which: int, suffix: str, tmp_path: Path) -> None:
    missing = RNG.random(ROWS) < 0.1
    frame = pd.DataFrame(
        {
            "category": X["kind"].astype("category"),
            "grade": pd.Categorical(np.where(X["a"] > 0, "low", "high"), ordered=True),
            "count": X["a"].round().astype("Int64").mask(missing),
            "flag": (X["a"] > 1).astype("boolean").mask(missing),
            "text": X["kind"].astype("string").mask(missing),
            "number": X["a"].astype("Float32").mask(missing),
        }
    )
    path = tmp_path / f"0.{suffix}"
    getattr(frame.assign(status=LABELS), f"to_{suffix}")(path)
    model, expected = models()[which], models()[which]
    model.fit_files(path, "status")
    expected.fit(frame, LABELS)
    np.testing.assert_array_equal(model.predict_proba(frame), expected.predict_proba(frame))


def test_larger_files_are_sampled(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = models()[0].fit_files(pattern, "status", columns=["a", "kind"])
    sampled = models()[0].fit_files(pattern, "status", columns=["a", "kind"], rows=3000)
    assert sampled.out_of_fold_.size == 3000
    assert sampled.score(X, LABELS) == pytest.approx(whole.score(X, LABELS), abs=0.02)
    p = sampled.predict_proba(X)[:, 0]
    assert p.mean() == pytest.approx(Y.mean(), rel=0.1)  # weights keep probabilities calibrated
    monkeypatch.setenv("APMAX_MEMORY", "12640kB")  # 2000 rows of two columns
    assert memory.rows_for_training(2) == 2000
    limited = models()[0].fit_files(pattern, "status", columns=["a", "kind"])
    assert limited.out_of_fold_.size == 2000


def test_an_error_leaves_the_model_as_it_was(pattern: str) -> None:
    model = models()[0]
    with pytest.raises(FileFormatError, match="no column 'statu'"):
        model.fit_files(pattern, "statu")
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(
    "read",
    [
        lambda pattern: AdditiveAPClassifier(interactions=0, cv=3).fit_files(pattern, "status"),
        lambda pattern: AutoAPClassifier(["logistic"], cv=3).fit_files(pattern, "status"),
        lambda pattern: sample_negatives(pattern, "status"),
    ],
    ids=["additive", "auto", "sample"],
)
def test_a_frequent_positive_class_is_reported_once_at_the_line_of_the_caller(
    read: Callable[[str], Any], pattern: str
) -> None:
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        read(pattern)
    found = [one for one in issued if "the positive class is 'good'" in str(one.message)]
    assert [one.filename for one in found] == [__file__]


@pytest.mark.parametrize("kind", ["datetime64[us]", "timedelta64[us]"])
def test_dates_in_files_are_refused_with_a_remedy_that_works(kind: str, tmp_path: Path) -> None:
    x = np.arange(200.0)
    frame = pd.DataFrame({"x": x, "since": (x % 10).astype(np.int64).astype(kind), "y": x % 10 > 8})
    frame.to_parquet(tmp_path / "t.parquet")
    model = AutoAPClassifier(["logistic"], cv=2)
    with pytest.raises(NotNumericError, match=r"'since' of .*t.parquet .*columns=\[…\]"):
        model.fit_files(tmp_path / "t.parquet", "y")
    model.fit_files(tmp_path / "t.parquet", "y", columns=["x"])
    model.set_params(categorical_features=["since"]).fit_files(tmp_path / "t.parquet", "y")
