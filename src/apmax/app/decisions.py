"""Decisions: which rows are alerts, by a rule or by a threshold chosen on labelled data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np

from apmax.app.archive import Fields
from apmax.errors import ModelFileError, ParameterError
from apmax.metrics import ROUNDING, OperatingPoint, operating_point
from apmax.validation import Floats, Mask, check_real

FEW_ALERTS = 30
"""With fewer (effective) alerts than this, the precision on labelled data is uncertain."""


@dataclass(frozen=True)
class Rule:
    """How to choose the alerts."""

    kind: str
    """"threshold", "precision", "recall", "top" (a share), "rows" or "cost"."""
    value: float
    """The number given; for costs the probability FP / (FP + FN)."""
    text: str
    """The rule in words, for messages."""
    costs: tuple[float, float] | None = None
    """FP and FN: the costs of a false alarm and of a missed positive."""

    @property
    def needs_labels(self) -> bool:
        """Whether only labelled data can tell the threshold."""
        return self.kind in ("precision", "recall")

    @property
    def threshold(self) -> float | None:
        """The lowest probability of an alert; None if the rows of a file decide."""
        return None if self.kind in ("rows", "top") else self.value

    def __str__(self) -> str:
        """Return the rule in words, with its threshold unless it is one."""
        if self.threshold is None or self.text.startswith("probability"):
            return self.text
        return f"{self.text}: probability ≥ {shown_threshold(self.threshold)}"


def make_rule(
    *,
    threshold: str | float | None = None,
    precision: str | float | None = None,
    recall: str | float | None = None,
    top: str | None = None,
    cost: str | None = None,
) -> Rule | None:
    """Return the rule of the one option that is given, or None; ParameterError for several."""
    options = {
        "threshold": threshold,
        "precision": precision,
        "recall": recall,
        "top": top,
        "cost": cost,
    }
    given = {name: str(value) for name, value in options.items() if value is not None}
    if len(given) > 1:
        names = " and ".join(f"--{name}" for name in given)
        raise ParameterError(f"{names} exclude each other: each chooses the alerts; give one")
    for name, text in given.items():
        if name == "top":
            return _top(text)
        if name == "cost":
            return _cost(text)
        number = read_share(text, f"--{name}", zero=name == "threshold")
        shown = "probability" if name == "threshold" else name
        return Rule(name, number, f"{shown} ≥ {number:g}")
    return None


def read_share(text: str, option: str, *, zero: bool = False) -> float:
    """Return a share that is given as 0.2 or as 20%; ParameterError if it is none."""
    number = _number(text)
    if not (0 < number <= 1 or (zero and number == 0)):
        meant = f": {text.strip()}%?" if 1 < number <= 100 and "%" not in text else ""
        raise ParameterError(f"`{option}` = {text} must be a share, such as 0.2 or 20%{meant}")
    return number


def select(rule: Rule, probability: Floats) -> Mask:
    """Return the rows that the rule makes alerts, for rules that need no labels.

    Of equal probabilities at the edge of the top rows, the first in the file are taken.
    """
    if rule.threshold is not None:
        return np.asarray(probability >= rule.threshold)
    alerts = np.zeros(probability.size, dtype=bool)
    alerts[np.argsort(-probability, kind="stable")[: _count(rule, probability.size)]] = True
    return alerts


def rounded_down(threshold: float, digits: int) -> float:
    """Return the threshold with fewer digits, rounded down so that its own row stays an alert."""
    return float(Context(prec=digits, rounding=ROUND_FLOOR).plus(Decimal(repr(float(threshold)))))


def shown_threshold(threshold: float) -> str:
    """Format a threshold with four significant digits."""
    return f"{rounded_down(threshold, 4):.4g}"


@dataclass(frozen=True)
class Decision:
    """A threshold chosen on labelled data, and the alerts that it gave there."""

    threshold: float
    """Rows with at least this probability are alerts."""
    rule: str
    data: str
    """Name of the file with the labels."""
    rows: float
    positives: float
    alerts: float
    true_alerts: float
    """Numbers of rows, or their weights."""

    @property
    def precision(self) -> float:
        """Share of the alerts that are positive; NaN without alerts."""
        return self.true_alerts / self.alerts if self.alerts else math.nan

    @property
    def recall(self) -> float:
        """Share of the positives that are alerts."""
        return self.true_alerts / self.positives

    @property
    def cost_ratio(self) -> float | None:
        """What a missed positive costs, in false alarms, if costs chose the threshold."""
        kind, _, costs = self.rule.partition(" ")
        one, other = map(_number, costs.partition(":")[::2])
        known = kind == "cost" and one > 0 and 0 < other / one < math.inf
        return other / one if known else None

    def __str__(self) -> str:
        """Return the rule and where it was applied, if that is known."""
        return f"{self.rule} on {self.data}" if self.data else self.rule

    @classmethod
    def of_point(cls, point: Any) -> Decision:
        """Return a point chosen in Python, whose counts are shares of the rows.

        ParameterError if it is not what :func:`apmax.operating_point` returns.
        """
        if isinstance(point, cls):
            return point
        if not isinstance(point, OperatingPoint):
            raise ParameterError(
                f"an operating point must be the result of apmax.operating_point, got {point!r}"
            )
        why = "predict compares it with probabilities, so choose it by those"
        check_real(point.threshold, "threshold", at_least=0, at_most=1, why=why)
        for name in ("precision", "recall", "alert_rate"):
            check_real(getattr(point, name), name, above=0, at_most=1, why="it is a proportion")
        true_alerts = point.precision * point.alert_rate
        positives = min(true_alerts / point.recall, 1.0)
        return cls(
            point.threshold,
            f"set in Python, with precision {point.precision:.3g} and recall {point.recall:.3g}",
            "",
            rows=1.0,
            positives=positives,
            alerts=max(point.alert_rate, true_alerts),
            true_alerts=min(true_alerts, positives),
        )

    @classmethod
    def stored(cls, fields: Fields) -> Decision:
        """Return the decision of a model file; ModelFileError if it is not one."""
        names = ("rows", "positives", "alerts", "true_alerts")
        counts = [fields.number(name) for name in names]
        point = cls(
            fields.number("threshold"),
            fields.text("rule"),
            fields.text("data"),
            *(int(count) if count.is_integer() else count for count in counts),
        )
        ordered = 0 <= point.true_alerts <= min(point.alerts, point.positives)
        ordered = ordered and max(point.alerts, point.positives) <= point.rows
        if not (ordered and point.alerts > 0 < point.positives and 0 <= point.threshold <= 1):
            raise ModelFileError("the operating point is not one that apmax writes")
        return point


def choose(
    rule: Rule, y: Mask, probability: Floats, data: str, weight: Floats | None = None
) -> Decision:
    """Choose the threshold of a rule on labelled data, whose rows may have weights.

    UnreachableTargetError is raised if no threshold has the wanted precision, or if no alert at
    all has the lowest cost.
    """
    if rule.kind in ("rows", "threshold"):
        raise ParameterError(
            f"{rule.text!r} needs no labelled data: give it to `apmax predict`, or a share such "
            "as --top 5%"
        )
    target: dict[str, Any] = {rule.kind: rule.costs or rule.value}
    threshold = operating_point(y, probability, **target, sample_weight=weight).threshold
    return at_threshold(threshold, rule.text, y, probability, data, weight)


def at_threshold(
    threshold: float,
    rule: str,
    y: Mask,
    probability: Floats,
    data: str,
    weight: Floats | None = None,
) -> Decision:
    """Count the alerts of a threshold on labelled data."""
    alerts = probability >= threshold
    return Decision(
        threshold,
        rule,
        data,
        rows=_total(np.ones_like(y), weight),
        positives=_total(y, weight),
        alerts=_total(alerts, weight),
        true_alerts=_total(alerts & y, weight),
    )


def effective_rows(weight: Floats) -> float:
    """Return the number of equally weighted rows whose mean has the same variance."""
    largest = float(weight.max(initial=0.0))
    v = weight / largest if largest else weight  # so that no square overflows
    return float(v.sum() ** 2 / np.dot(v, v)) if largest else 0.0


def _total(rows: Mask, weight: Floats | None) -> float:
    """Return the number of rows, or the sum of their weights."""
    return int(rows.sum()) if weight is None else float(weight[rows].sum())


def _count(rule: Rule, rows: int) -> int:
    """Return how many rows are at the top; a share is rounded up."""
    if rule.kind == "rows":
        return min(int(rule.value), rows)
    return math.ceil((1 - ROUNDING) * rule.value * rows)


def _top(text: str) -> Rule:
    number = _number(text)
    if 0 < number < 1 or text.strip() == "100%":
        return Rule("top", number, f"top {100 * number:g}%")
    if number >= 1 and number.is_integer() and "%" not in text:
        return Rule("rows", number, f"top {number:.0f}")
    raise ParameterError(
        f"`--top` = {text!r} must be a number of rows, such as 100, or a share, such as 5%"
    )


def _cost(text: str) -> Rule:
    false_alert, _, missed = text.partition(":")
    one, other = _number(false_alert), _number(missed)
    if not (0 < one < math.inf and 0 < other < math.inf):
        raise ParameterError(
            f"`--cost` = {text!r} must be the costs of a false alarm and of a missed positive as "
            "FP:FN, such as 1:20"
        )
    # Alert if the expected cost p·FN of no alert exceeds that of an alert, (1 - p)·FP.
    return Rule("cost", 1 / (1 + other / one), f"cost {one:g}:{other:g}", (one, other))


def _number(text: str) -> float:
    """Return a number, which may be in percent; NaN for other text."""
    try:
        return float(text.strip().removesuffix("%")) / (100 if "%" in text else 1)
    except ValueError:
        return math.nan
