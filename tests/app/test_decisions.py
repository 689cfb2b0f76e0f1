"""Rules that choose alerts, and thresholds chosen on labelled data."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from apmax.app.archive import Fields
from apmax.app.decisions import Decision, choose, effective_rows, make_rule, select
from apmax.errors import ModelFileError, ParameterError, UnreachableTargetError

Y = np.array([1, 0, 1, 1, 0, 0, 0, 0, 1, 0], dtype=bool)
P = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05])


def rule(**option: Any) -> Any:
    return make_rule(**option)


def test_without_an_option_there_is_no_rule() -> None:
    assert make_rule() is None


@pytest.mark.parametrize(
    ("option", "alerts"),
    [
        ({"threshold": 0.6}, 4),
        ({"threshold": 0.0}, 10),
        ({"top": "3"}, 3),
        ({"top": "30%"}, 3),
        ({"top": "1%"}, 1),
        ({"top": "99"}, 10),
        ({"cost": "1:1"}, 5),
        ({"cost": "1:4"}, 8),
        ({"cost": "4:1"}, 2),
    ],
)
def test_rules_without_labels(option: dict[str, Any], alerts: int) -> None:
    np.testing.assert_array_equal(select(rule(**option), P), np.arange(10) < alerts)


@pytest.mark.parametrize("name", ["threshold", "precision", "recall", "top"])
def test_shares_may_be_percents(name: str) -> None:
    assert make_rule(**{name: "80%"}) == make_rule(**{name: "0.8"})
    assert make_rule(**{name: "80 %"}) == make_rule(**{name: "0.8"})
    with pytest.raises(ParameterError, match=r"0\.2 or 20%|5%"):
        make_rule(**{name: "180%"})


def test_the_number_of_top_rows_is_exact_with_ties() -> None:
    np.testing.assert_array_equal(select(rule(top="2"), np.full(4, 0.3)), [1, 1, 0, 0])


@pytest.mark.parametrize(
    ("option", "threshold", "true_alerts", "alerts"),
    [
        ({"precision": 0.75}, 0.6, 3, 4),
        ({"precision": 1.0}, 0.9, 1, 1),
        ({"recall": 0.5}, 0.6, 3, 4),
        ({"recall": 1.0}, 0.1, 4, 9),
        ({"top": "50%"}, 0.5, 3, 5),
        ({"cost": "1:1"}, 0.6, 3, 4),  # 1 false alarm, 1 missed
        ({"cost": "1:10"}, 0.1, 4, 9),  # 5 false alarms, none missed
        ({"cost": "3:1"}, 0.9, 1, 1),  # 3 missed: less than one false alarm and 1 missed
    ],
)
def test_thresholds_chosen_on_labels(
    option: dict[str, Any], threshold: float, true_alerts: int, alerts: int
) -> None:
    chosen = choose(rule(**option), Y, P, "v.csv")
    assert (chosen.threshold, chosen.true_alerts, chosen.alerts) == (threshold, true_alerts, alerts)
    assert (chosen.rows, chosen.positives, chosen.data) == (10, 4, "v.csv")
    assert chosen.precision == true_alerts / alerts
    assert chosen.recall == true_alerts / 4


def test_rows_of_equal_probability_are_alerts_together() -> None:
    chosen = choose(rule(cost="1:1"), Y, np.where(P >= 0.5, 0.5, 0.1), "v.csv")
    assert (chosen.threshold, chosen.true_alerts, chosen.alerts) == (0.5, 3, 5)


def test_targets_out_of_reach() -> None:
    with pytest.raises(UnreachableTargetError, match="no alert at all is cheapest"):
        choose(rule(cost="9:1"), Y, -P, "v.csv")
    with pytest.raises(UnreachableTargetError, match=r"highest is 0\.4"):
        choose(rule(precision=0.9), Y, np.full(10, 0.5), "v.csv")


WRONG = (
    *({"threshold": 1.5}, {"precision": 0}, {"recall": 80}, {"top": "0"}, {"top": "2.5"}),
    *({"top": "101%"}, {"top": "many"}, {"cost": "5"}, {"cost": "0:1"}, {"cost": "a:b"}),
    *({"cost": "inf:1"}, {"top": "nan%"}, {"top": "inf"}),
)


@pytest.mark.parametrize("option", WRONG, ids=str)
def test_wrong_values_name_the_option(option: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=f"`--{next(iter(option))}`"):
        make_rule(**option)


def test_rules_exclude_each_other() -> None:
    with pytest.raises(ParameterError, match="--precision and --top exclude each other"):
        make_rule(precision=0.8, top="5%")


@pytest.mark.parametrize("option", [{"top": "10"}, {"threshold": 0.3}], ids=str)
def test_rules_that_need_no_labels_are_not_stored(option: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="needs no labelled data"):
        choose(rule(**option), Y, P, "v.csv")


GOOD = Decision(0.25, "recall ≥ 0.5", "v.csv", rows=10, positives=4, alerts=3, true_alerts=2)


def test_decisions_return_from_a_file() -> None:
    assert Decision.stored(Fields(asdict(GOOD), {})) == GOOD


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": float("nan")}, {"threshold": 2.0}, {"threshold": "0.5"}, {"rule": 3},
        {"alerts": 0}, {"alerts": True}, {"true_alerts": 4}, {"positives": 0}, {"rows": 2},
        {"data": None},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_decisions_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError, match=f"operating point|{next(iter(wrong))!r} is missing"):
        Decision.stored(Fields({**asdict(GOOD), **wrong}, {}))


def test_the_effective_number_of_rows_has_no_unit() -> None:
    weight = np.array([1.0, 2.0, 3.0, 0.0])
    for unit in (1e-300, 1.0, 1e300):
        assert effective_rows(unit * weight) == pytest.approx(36 / 14)
    assert effective_rows(np.zeros(3)) == effective_rows(np.empty(0)) == 0


@pytest.mark.parametrize(
    ("rule", "ratio"),
    [
        ("cost 1:20", 20),
        ("cost 2:5", 2.5),
        ("recall ≥ 0.5", None),
        ("cost", None),
        ("cost 1:0", None),
    ],
)
def test_the_ratio_of_costs_is_read_from_the_rule(rule: str, ratio: float | None) -> None:
    assert replace(GOOD, rule=rule).cost_ratio == ratio
