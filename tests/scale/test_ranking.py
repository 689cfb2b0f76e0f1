"""Average precision of parts: exact, or an interval that includes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from apmax.errors import LabelError, NonFiniteError, NoPositiveError
from apmax.scale import ranking
from apmax.scale.ranking import average_precision_of

RNG = np.random.default_rng(2)
N = 30_000
Y = RNG.random(N) < 0.05
CASES = {
    "spread": RNG.normal(size=N) + Y,
    "ties": np.round(RNG.normal(size=N) + Y),
    "constant": np.zeros(N),
    "apart": np.where(Y, 2.0, 1.0),
    "heavy tails": np.exp(4 * RNG.normal(size=N)) * (1 + Y),
}
WEIGHT = RNG.uniform(0, 3, N)


def folds(y: Any, scores: Any, weight: Any, pieces: int = 7) -> Any:
    def fold(function: Any, merge: Any, *arguments: Any) -> Any:
        result = None
        for rows in np.array_split(np.arange(len(y)), pieces):
            part = (y[rows], scores[rows], None if weight is None else weight[rows])
            found = function(part, *arguments)
            result = found if result is None else merge(result, found)
        return result

    return fold


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", CASES)
def test_exact_values_equal_scikit_learn(name: str, weight: Any) -> None:
    found = average_precision_of(folds(Y, CASES[name], weight))
    expected = average_precision_score(Y, CASES[name], sample_weight=weight)
    assert found.value == pytest.approx(expected, rel=1e-12)
    assert found.lower == found.upper == found.value == float(found)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", CASES)
def test_intervals_include_the_exact_value(
    name: str, weight: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "MOST_POSITIVES", 10)
    for bins in (1 << 4, 1 << 17):
        monkeypatch.setattr(ranking, "BINS", bins)
        found = average_precision_of(folds(Y, CASES[name], weight))
        expected = average_precision_score(Y, CASES[name], sample_weight=weight)
        assert found.lower <= expected + 1e-12
        assert found.upper >= expected - 1e-12
        assert found.lower <= found.value <= found.upper


def test_intervals_are_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "MOST_POSITIVES", 10)
    rng = np.random.default_rng(0)
    y = rng.random(10**6) < 0.2
    found = average_precision_of(folds(y, rng.normal(size=y.size) + y, None))
    assert found.upper - found.lower < 5e-5


def test_parts_without_positives_or_rows_count_like_others() -> None:
    order = np.argsort(~Y, kind="stable")
    scores = CASES["spread"][order]
    found = average_precision_of(folds(Y[order], scores, None, pieces=50))
    assert found.value == pytest.approx(average_precision_score(Y[order], scores), rel=1e-12)
    few = average_precision_of(folds(Y[:20] | True, scores[:20], None, pieces=30))
    assert few.value == 1.0


def test_bad_labels_and_scores() -> None:
    scores = CASES["spread"]
    with pytest.raises(NoPositiveError, match="no label equals 1"):
        average_precision_of(folds(np.zeros(N), scores, None))
    with pytest.raises(LabelError, match="pos_label="):
        average_precision_of(folds(np.where(Y, "a", "b"), scores, None))
    with pytest.raises(NonFiniteError):
        average_precision_of(folds(Y, np.where(Y, np.nan, 0.0), None))
    found = average_precision_of(folds(np.where(Y, "a", "b"), scores, None), "a")
    assert found.value == pytest.approx(average_precision_score(Y, scores), rel=1e-12)
