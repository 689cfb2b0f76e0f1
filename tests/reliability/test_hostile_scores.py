"""Metrics, the objective and the report: every layout of the scores gives the same result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from apmax import average_precision, operating_point, surrogate_ap
from apmax.app.report import ScoredModel
from apmax.app.report.calibration import calibration
from apmax.app.report.measures import bootstrap_band, count_alerts, operating_points
from tests.reliability.layouts import LAYOUTS, N, S, Y, array_bytes, assert_close


def objective(y: Any, s: Any, surrogate: str, gamma: float) -> tuple[float, Any]:
    result = surrogate_ap(s, y, surrogate=surrogate, gamma=gamma)
    return result.value, result.gradient


def scored(y: Any, s: Any) -> ScoredModel:
    return ScoredModel("a", y, expit(np.asarray(s, dtype=np.float64)))


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "average_precision": average_precision,
    "operating_point": lambda y, s: operating_point(y, s, recall=0.5),
    "surrogate_ap, squared hinge": lambda y, s: objective(y, s, "squared_hinge", 0.1),
    "surrogate_ap, logistic": lambda y, s: objective(y, s, "logistic", 2.0),
    "count_alerts": lambda y, s: count_alerts(scored(y, s)).true,
    "operating_points": lambda y, s: list(operating_points(scored(y, s)).values()),
    "bootstrap_band": lambda y, s: bootstrap_band(scored(y, s), resamples=5).precision,
    "calibration": lambda y, s: calibration(scored(y, s)).observed,
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_layout_gives_the_result_of_plain_arrays(function: str) -> None:
    call = FUNCTIONS[function]
    expected = call(Y.copy(), S.copy())
    for layout, make in LAYOUTS.items():
        y, s = make()
        before = array_bytes(y), array_bytes(s)
        assert_close(call(y, s), expected, err_msg=layout)
        assert (array_bytes(y), array_bytes(s)) == before, layout


EXTREME: dict[str, Any] = {
    "subnormals": S * 5e-324 * 2**20,
    "float16": S.astype(np.float16),
    "all tied": np.zeros(N),
    "±700": np.where(Y, 700.0, -700.0),
    "±1e5": np.where(np.arange(N) % 2, 1e5, -1e5) + S,
    "perfectly separated": np.where(Y, 1.0, 0.0) + S * 1e-3,
    "one outlier": np.where(np.arange(N) == 3, 1e9, S),
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_extreme_scores_give_the_finite_result_of_their_doubles(function: str) -> None:
    for name, s in EXTREME.items():
        found = FUNCTIONS[function](Y, s)
        assert_close(found, FUNCTIONS[function](Y, s.astype(np.float64)), err_msg=name)
        for part in found if isinstance(found, (tuple, list)) else [found]:
            numbers = [] if part is None else part  # None: a precision that no threshold reaches
            assert np.isfinite(np.asarray(numbers, dtype=float)).all(), name
