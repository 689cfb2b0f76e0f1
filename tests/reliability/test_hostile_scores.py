"""Functions of scores × inputs: what the plain input gives, or an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from apmax import (
    SurrogateAP,
    average_precision,
    operating_point,
    precision_recall_curve,
    surrogate_ap,
)
from apmax.app.report import Report, Scored, write_report
from apmax.app.report.alerts import count_alerts, operating_points
from apmax.app.report.bootstrap import bootstrap_band
from apmax.app.report.calibration import reliability
from apmax.errors import ApmaxError
from tests.reliability.kinds import SAME, N, S, Y, contents, equal


def both(result: SurrogateAP) -> tuple[float, Any]:
    return result.value, result.gradient


SCORE_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "average_precision": average_precision,
    "precision_recall_curve": precision_recall_curve,
    "operating_point": lambda y, s: operating_point(y, s, recall=0.5),
    "surrogate_ap, hinge": lambda y, s: both(surrogate_ap(s, y)),
    "surrogate_ap, logistic": lambda y, s: both(
        surrogate_ap(s, y, surrogate="logistic", gamma=2.0)
    ),
    "count_alerts": lambda y, s: count_alerts(Scored("a", y, s)).true,
    "operating_points": lambda y, s: list(operating_points(Scored("a", y, s)).values()),
    "bootstrap_band": lambda y, s: bootstrap_band(Scored("a", y, s), resamples=5).precision,
    "reliability": lambda y, s: reliability(Scored("a", y, s)).observed,
}


REFUSED: dict[str, Callable[[], tuple[Any, Any]]] = {
    "NaN": lambda: (Y, np.where(np.arange(N) == 7, np.nan, S)),
    "infinity": lambda: (Y, np.where(np.arange(N) == 7, np.inf, S)),
    "minus infinity": lambda: (Y, np.where(np.arange(N) == 7, -np.inf, S)),
    "text": lambda: (Y, S.astype(str)),
    "dates": lambda: (Y, S.astype("M8[D]")),
    "complex": lambda: (Y, S + 0j),
    "empty": lambda: (Y[:0], S[:0]),
    "two columns": lambda: (Y, np.stack([S, S], 1)),
    "no positives": lambda: (np.zeros(N, bool), S),
    "labels 1 and 2": lambda: (Y + 1, S),
    "labels of text": lambda: (np.where(Y, "a", "b"), S),
    "categories": lambda: (pd.Series(np.where(Y, "a", "b")).astype("category"), S),
    "missing labels": lambda: (pd.Series(Y).astype("boolean").mask(Y), S),
    "a sparse vector": lambda: (Y, sp.csr_matrix(S)),
    "None": lambda: (None, None),
    "a dictionary": lambda: (Y, {"a": 1}),
    "lengths": lambda: (Y, S[1:]),
}


@pytest.mark.parametrize("function", SCORE_FUNCTIONS)
@pytest.mark.parametrize("given", SAME)
def test_scores_of_every_kind_give_what_plain_ones_give(function: str, given: str) -> None:
    call = SCORE_FUNCTIONS[function]
    y, s = SAME[given]()
    before = contents(y), contents(s)
    equal(call(y, s), call(Y.copy(), S.copy()))
    assert (contents(y), contents(s)) == before


@pytest.mark.parametrize("function", SCORE_FUNCTIONS)
@pytest.mark.parametrize("given", REFUSED)
def test_scores_that_mean_nothing_are_refused(function: str, given: str) -> None:
    y, s = REFUSED[given]()
    with pytest.raises(ApmaxError):
        SCORE_FUNCTIONS[function](y, s)


EXTREME: dict[str, Any] = {
    "subnormals": S * 5e-324 * 2**20,
    "float16": S.astype(np.float16),
    "integers": np.arange(N) % 7,
    "bool": S > 0,
    "all tied": np.zeros(N),
    "±700": np.where(Y, 700.0, -700.0),
    "±1e5": np.where(np.arange(N) % 2, 1e5, -1e5) + S,
    "perfectly separated": np.where(Y, 1.0, 0.0) + S * 1e-3,
    "one far away": np.where(np.arange(N) == 3, 1e9, S),
}


@pytest.mark.parametrize("function", SCORE_FUNCTIONS)
@pytest.mark.parametrize("given", EXTREME)
def test_extreme_scores_give_what_their_doubles_give(function: str, given: str) -> None:
    call, s = SCORE_FUNCTIONS[function], EXTREME[given]
    before = s.tobytes()
    found = call(Y, s)
    equal(found, call(Y, s.astype(np.float64)))
    for part in found if isinstance(found, (tuple, list)) else [found]:
        assert part is None or np.isfinite(np.asarray(part, dtype=float)).all()
    assert s.tobytes() == before


@pytest.mark.parametrize("scale", [1e300, 1e308], ids=["1e300", "1e308"])
def test_huge_scores_keep_their_ranking_or_are_refused(scale: float) -> None:
    s = np.clip(S / np.abs(S).max(), -1, 1) * scale
    assert average_precision(Y, s) == pytest.approx(average_precision(Y, S))
    with pytest.raises(ApmaxError, match="squares that double precision cannot hold"):
        surrogate_ap(s, Y)


SHAPES: dict[str, tuple[Any, Any]] = {
    "one row": (np.array([True]), np.array([0.5])),
    "one positive": (np.arange(N) == 3, S),
    "all positive": (np.ones(N, bool), S),
    "duplicated rows": (np.repeat(Y, 3), np.repeat(S, 3)),
}


@pytest.mark.parametrize("given", SHAPES)
def test_few_and_many_positives_agree_with_the_definition(given: str) -> None:
    y, s = SHAPES[given]
    at_least = s[None, :] >= s[y][:, None]
    assert average_precision(y, s) == pytest.approx(
        (at_least[:, y].sum(1) / at_least.sum(1)).mean()
    )
    result = surrogate_ap(s, y, surrogate="logistic", gamma=2.0)
    pairs = 1 / (1 + np.exp(-2.0 * (s[None, :] - s[y][:, None])))
    assert result.value == pytest.approx((pairs[:, y].sum(1) / pairs.sum(1)).mean(), rel=1e-6)
    assert np.isfinite(result.gradient).all()


def test_a_report_of_extreme_scores_is_written(tmp_path: Path) -> None:
    for name, s in EXTREME.items():
        write_report(Report(f"<{name}>", [Scored("a", Y, s)]), tmp_path / "report.html")
        text = (tmp_path / "report.html").read_text()
        assert "NaN" not in text.split("<script")[0]
