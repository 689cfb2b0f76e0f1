"""Samples of files, and the choice of alpha on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from apmax import APClassifier, average_precision
from apmax.errors import (
    FileFormatError,
    LabelError,
    NonFiniteError,
    NotNumericError,
    ParameterError,
    WeightError,
)
from apmax.scale import choose_alpha, sample_negatives, sampling
from apmax.scale.selection import row_folds

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

RNG = np.random.default_rng(5)
N = 20_000
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + 0.5 * X[:, 1] ** 2 + RNG.logistic(size=N) > 5
WEIGHT = RNG.uniform(0.5, 2, N)
NAMES = ["a", "b", "c"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(2):
        rows = slice(i * N // 2, (i + 1) * N // 2)
        columns = {name: X[rows, k] for k, name in enumerate(NAMES)}
        labels = np.where(Y[rows], "bad", "good")
        kinds = np.where(X[rows, 2] > 0, "x", "y")
        data = pa.table({**columns, "kind": kinds, "v": WEIGHT[rows], "status": labels})
        pq.write_table(data, tmp_path / f"{i}.parquet")
    return tmp_path


def test_all_positives_and_weighted_negatives(folder: Path) -> None:
    sample = sample_negatives(
        folder, "status", per_positive=4, sample_weight="v", pos_label="bad", columns=NAMES
    )
    positive = sample.y == "bad"
    assert positive.sum() == Y.sum()
    assert (~positive).sum() == 4 * Y.sum()
    assert sample.rows == N
    for of_sample, of_all in ((positive, Y), (~positive, ~Y)):
        assert sample.sample_weight[of_sample].sum() == pytest.approx(WEIGHT[of_all].sum())
    rows = {tuple(row) for row in X.tolist()}
    assert all(tuple(row) in rows for row in sample.X.tolist())
    again = sample_negatives(
        folder, "status", per_positive=4, sample_weight="v", pos_label="bad", columns=NAMES
    )
    np.testing.assert_array_equal(sample.X, again.X)


def test_a_limit_on_rows_leaves_half_for_the_positives(folder: Path) -> None:
    sample = sample_negatives(folder, "status", rows=200, pos_label="bad")
    positive = sample.y == "bad"
    assert (positive.size, positive.sum()) == (200, 100)
    assert sample.sample_weight.sum() == pytest.approx(N)
    assert sample.table.column_names == ["a", "b", "c", "kind", "v"]
    with pytest.raises(NotNumericError, match="'kind' is of type string"):
        _ = sample.X


def test_by_default_there_are_ten_negatives_per_positive_and_at_least_200_000(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sample_negatives(folder, "status", pos_label="bad").y.size == N
    monkeypatch.setattr(sampling, "LEAST_NEGATIVES", 100)
    assert sample_negatives(folder, "status", pos_label="bad").y.size == 11 * Y.sum()
    monkeypatch.setenv("APMAX_MEMORY", "8160kB")  # 6000 bytes per row, and 20 per byte
    memory = sample_negatives(folder, "status", rows="memory", pos_label="bad")
    assert memory.y.size == 1200
    with pytest.raises(ParameterError, match="'memory'"):
        sample_negatives(folder, "status", rows="half", pos_label="bad")


def test_a_draw_has_the_given_size_and_is_even(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.arange(1000) % 10 == 0
    for most in (10**9, 0):  # exact, and for numbers that NumPy cannot draw from
        monkeypatch.setattr(sampling, "MOST_HYPERGEOMETRIC", most)
        count = np.zeros(1000)
        for seed in range(200):
            draw = sampling.ClassDraw(np.array([900, 100]), np.array([90, 100]), seed)
            parts = [start + draw.rows(codes[start : start + 250]) for start in range(0, 1000, 250)]
            rows = np.concatenate(parts)
            assert (np.diff(rows) > 0).all()
            assert codes[rows].sum() == 100
            assert most == 0 or rows.size == 190
            count[rows] += 1
        share = count[~codes].reshape(4, -1).mean(axis=1) / 200
        np.testing.assert_allclose(share, 0.1, atol=0.01)


def test_a_fit_to_the_sample_ranks_nearly_as_well(folder: Path) -> None:
    sample = sample_negatives(folder, "status", per_positive=10, pos_label="bad", columns=NAMES)
    of_sample = APClassifier(pos_label="bad").fit(sample.X, sample.y, sample.sample_weight)
    of_all = APClassifier().fit(X, Y)
    ap = average_precision(Y, -of_sample.decision_function(X))  # "bad" is the first class
    assert ap > average_precision(Y, of_all.decision_function(X)) - 0.01
    mean = of_sample.predict_proba(X)[:, 0].mean()
    assert mean == pytest.approx(Y.mean(), rel=0.05)


def test_bad_samples(folder: Path) -> None:
    with pytest.raises(ParameterError, match="per_positive"):
        sample_negatives(folder, "status", per_positive=0)
    with pytest.raises(LabelError, match="two classes"):
        sample_negatives(folder, "a")
    with pytest.raises(FileFormatError, match="no column 'z'"):
        sample_negatives(folder, "z")
    with pytest.raises(LabelError, match="'worse' is not a class"):
        sample_negatives(folder, "status", pos_label="worse")


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (-1.0, WeightError, r"1\.parquet: column 'v' is -1\.0 in row 77"),
        (np.nan, NonFiniteError, r"1\.parquet: column 'v' is nan in row 77"),
        (np.inf, NonFiniteError, r"1\.parquet: column 'v' is inf in row 77"),
    ],
)
def test_bad_weights_are_named(
    value: float, error: type[Exception], message: str, folder: Path
) -> None:
    path = folder / "1.parquet"
    data = pq.read_table(path)
    weight = data["v"].to_numpy().copy()
    weight[77] = value
    place = data.column_names.index("v")
    pq.write_table(data.set_column(place, "v", pa.array(weight)), path)
    with pytest.raises(error, match=message):
        sample_negatives(folder, "status", sample_weight="v")


def test_folds_follow_the_rows_and_not_their_order() -> None:
    folds = row_folds(X, 5)
    order = RNG.permutation(N)
    np.testing.assert_array_equal(row_folds(X[order], 5), folds[order])
    assert np.bincount(folds, minlength=5).min() > 0.19 * N
    np.testing.assert_array_equal(
        row_folds(np.array([[0.0], [-0.0]]), 1000), row_folds(np.zeros((2, 1)), 1000)
    )


def test_alpha_is_chosen_by_held_out_ap() -> None:
    choice = choose_alpha(X, Y, alphas=(10, 0.1), cv=3)
    assert choice.alphas == (10.0, 0.1)
    assert choice.alpha == choice.alphas[int(np.argmax(choice.scores))]
    fold = row_folds(X, 3)
    expected = []
    for k in range(3):
        model = APClassifier(alpha=10).fit(X[fold != k], Y[fold != k])
        expected.append(average_precision(Y[fold == k], model.decision_function(X[fold == k])))
    assert choice.scores[0] == pytest.approx(np.mean(expected), abs=1e-3)
    weighted = choose_alpha(X, Y, np.where(Y, 2.0, 2.0), alphas=(10, 0.1), cv=3)
    np.testing.assert_allclose(weighted.scores, choice.scores, atol=1e-4)


def test_a_fold_without_positives_is_an_error() -> None:
    y = np.arange(200) == 3
    with pytest.raises(LabelError, match="holds no positive"):
        choose_alpha(X[:200], y, cv=5)
