"""The comparison of models of tables, from the stored results of ``benchmarks.tabular``.

Differences are means over the splits of a table, then over tables. Two standard errors are shown
for a table: over its splits, and of one split by the paired bootstrap of its test rows. Bars use
the first, which is usually the smaller one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

Results = dict[str, dict[str, dict[int, dict[str, Any]]]]
"""Stored lines by method, table and seed."""

PAIRS = (
    ("additive", "logistic"), ("additive", "hgb"), ("additive", "additive-main"),
    ("additive-main", "spline-logistic"), ("spline-logistic", "logistic"),
    ("auto", "hgb"), ("auto", "lightgbm-ap"), ("auto", "flaml"), ("auto", "additive"),
    ("lightgbm-ap", "hgb"), ("hgb", "logistic"),
)  # fmt: skip
LEAST_MEANS = {
    ("additive-main", "spline-logistic"): 0.002, ("additive", "logistic"): 0.05,
    ("auto", "hgb"): 0.015, ("auto", "lightgbm-ap"): 0.01, ("auto", "flaml"): 0.005,
}  # fmt: skip
NEVER_BELOW = (("additive", "logistic"), ("auto", "hgb"))
MOST_BELOW = 0.003
LEAST_SHARE_OF_GAP = 0.7
MOST_CPU = 3.0
MOST_LOG_LOSS = 1.03


class Difference(NamedTuple):
    """AP of one method minus that of another, on the splits of a table that both have."""

    mean: float
    over_splits: float
    over_rows: float

    def __str__(self) -> str:
        return f"{self.mean:+.4f} ± {self.over_splits:.4f} (rows ± {self.over_rows:.4f})"


class Bar(NamedTuple):
    """A target; `kept` is None where results are missing."""

    text: str
    kept: bool | None

    def __str__(self) -> str:
        return f"{ {True: 'ok', False: 'MISSED', None: '–'}[self.kept]:<6}  {self.text}"


def differences(results: Results, first: str, second: str) -> dict[str, Difference]:
    """`first` minus `second`, by table."""
    found = {}
    for table, lines in results[first].items():
        seeds = sorted(set(lines) & set(results[second].get(table, {})))
        if not seeds:
            continue
        pairs = [(lines[seed], results[second][table][seed]) for seed in seeds]
        gains = [one["ap"] - other["ap"] for one, other in pairs]
        resampled = [np.subtract(one["resampled"], other["resampled"]) for one, other in pairs]
        found[table] = Difference(
            float(np.mean(gains)),
            float(np.std(gains, ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else np.nan,
            float(np.sqrt(np.mean([np.var(gain, ddof=1) for gain in resampled]))),
        )
    return found


def mean_of(results: Results, method: str, table: str, measure: str) -> float:
    lines = results[method].get(table, {}).values()
    return float(np.mean([line[measure] for line in lines])) if lines else np.nan


def mean_and_error(gains: Iterable[Difference]) -> tuple[float, float]:
    """Over tables."""
    means = [gain.mean for gain in gains]
    error = np.std(means, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
    return float(np.mean(means)), float(error)


def bars(results: Results) -> list[Bar]:
    found = [_mean_bar(results, pair, least) for pair, least in LEAST_MEANS.items()]
    found += [_never_below(results, pair) for pair in NEVER_BELOW]
    found += [_share_of_gap(results), _cpu(results), _flaml_time(results)]
    found += [_log_loss(results, "additive-main", "spline-logistic")]
    found += [_log_loss(results, "auto", "logistic")]
    return found


def _mean_bar(results: Results, pair: tuple[str, str], least: float) -> Bar:
    text = f"{pair[0]} − {pair[1]}: mean at least {least:+.3f}"
    gains = differences(results, *pair)
    if not gains:
        return Bar(text, None)
    mean, error = mean_and_error(gains.values())
    return Bar(f"{text} ({mean:+.4f} ± {error:.4f}, {len(gains)} tables)", mean >= least)


def _never_below(results: Results, pair: tuple[str, str]) -> Bar:
    text = f"{pair[0]} on no table below {pair[1]} by {MOST_BELOW} and one standard error"
    gains = differences(results, *pair)
    below = {
        table: gain
        for table, gain in gains.items()
        if gain.mean < -MOST_BELOW and not gain.mean >= -gain.over_splits
    }
    listed = "; ".join(f"{table} {gain}" for table, gain in below.items())
    return Bar(f"{text}{': ' if listed else ''}{listed}", not below if gains else None)


def _share_of_gap(results: Results) -> Bar:
    text = f"additive closes {LEAST_SHARE_OF_GAP:.0%} of the gap from logistic to hgb"
    closed, gap = (
        differences(results, "additive", "logistic"),
        differences(results, "hgb", "logistic"),
    )
    tables = set(closed) & set(gap)
    if not tables:
        return Bar(text, None)
    share = sum(closed[t].mean for t in tables) / sum(gap[t].mean for t in tables)
    return Bar(f"{text} ({share:.0%})", share >= LEAST_SHARE_OF_GAP)


def _cpu(results: Results) -> Bar:
    text = f"CPU time of additive at most {MOST_CPU:g} × one scaling of spline-logistic"
    ratios = [
        line["cpu"] / results["spline-logistic"][table][seed]["notes"]["cpu_of_one"]
        for table, lines in results["additive"].items()
        for seed, line in lines.items()
        if seed in results["spline-logistic"].get(table, {})
    ]
    if not ratios:
        return Bar(text, None)
    low, median, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    text = f"{text} (median {median:.2f}, deciles {low:.2f} and {high:.2f})"
    return Bar(text, bool(median <= MOST_CPU))


def _flaml_time(results: Results) -> Bar:
    text = "flaml has at least the CPU time of auto"
    pairs = [
        (line["cpu"], results["auto"][table][seed]["cpu"])
        for table, lines in results["flaml"].items()
        for seed, line in lines.items()
        if seed in results["auto"].get(table, {})
    ]
    short = sum(taken < needed for taken, needed in pairs)
    return Bar(f"{text} (less on {short} of {len(pairs)} splits)", not short if pairs else None)


def _log_loss(results: Results, method: str, reference: str) -> Bar:
    text = f"log-loss of {method} at most {MOST_LOG_LOSS} × that of {reference} and the constant's"
    above, compared = [], 0
    for table, lines in results[method].items():
        baseline = results[reference].get(table, {})
        seeds = set(lines) & set(baseline)
        if not seeds:
            continue
        compared += 1
        reached = np.mean([lines[seed]["log_loss"] for seed in seeds])
        logistic = np.mean([baseline[seed]["log_loss"] for seed in seeds])
        constant = np.mean([lines[seed]["constant_log_loss"] for seed in seeds])
        if reached > MOST_LOG_LOSS * logistic or reached > constant:
            above.append(f"{table} {reached:.4f} ({logistic:.4f}, constant {constant:.4f})")
    listed = "; ".join(above)
    return Bar(f"{text}{': ' if listed else ''}{listed}", not above if compared else None)


def print_summary(results: Results, tables: Iterable[str]) -> bool:
    """Print everything; whether no bar was missed."""
    chosen = set(tables)
    results = {
        method: {table: lines for table, lines in by_table.items() if table in chosen}
        for method, by_table in results.items()
    }
    methods = [method for method in results if results[method]]
    for measure, digits in (("ap", 4), ("log_loss", 4), ("cpu", 1)):
        print(f"\n{measure:<14} " + " ".join(f"{method:>15}" for method in methods))
        for table in tables:
            values = [mean_of(results, method, table, measure) for method in methods]
            if not np.all(np.isnan(values)):
                print(f"{table:<14} " + " ".join(f"{value:>15.{digits}f}" for value in values))
    for first, second in PAIRS:
        gains = differences(results, first, second)
        if gains:
            mean, error = mean_and_error(gains.values())
            up = sum(gain.mean > 0 for gain in gains.values())
            down = sum(gain.mean < 0 for gain in gains.values())
            print(f"\n{first} − {second}: {mean:+.4f} ± {error:.4f}, {up} up, {down} down")
            for table, gain in gains.items():
                print(f"  {table:<14} {gain}")
    print()
    found = bars(results)
    for bar in found:
        print(bar)
    return all(bar.kept for bar in found)  # a bar without results is not kept
