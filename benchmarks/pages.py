"""Tables of the documentation, made from the stored results in ``docs/results``.

Pages contain blocks of cog (https://cog.readthedocs.io) that call these functions. ``make numbers``
renews the blocks, and the tests fail if a page differs from the results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks import remedies, tabular, tabular_summary
from benchmarks.linear_quality import MEAN_ABOVE, MOST_BELOW, MOST_LOSS
from benchmarks.remedies import gains
from benchmarks.tables import MOST_TRAINING_ROWS
from benchmarks.timing import RESULTS

NAMES = {
    "logistic": "tuned logistic regression",
    "spline-logistic": "logistic regression on the same basis",
    "hgb": "HistGradientBoosting, defaults",
    "lightgbm-ap": "LightGBM, tuned by AP",
    "flaml": 'FLAML, `metric="ap"`, same CPU time',
    "xgboost": "XGBoost, defaults",
    "catboost": "CatBoost, defaults",
    "additive-main": "`AdditiveAPClassifier`, no interactions",
    "additive": "`AdditiveAPClassifier`",
    "auto": "`AutoAPClassifier`",
    "auto-one-se": '`AutoAPClassifier(select="one-se")`',
    "auto-stack": '`AutoAPClassifier(select="stack")`',
}

RECIPE_NAMES = {
    "baseline": "AP of the baseline",
    "APLoss, Adam, lr 1e-3": "`APLoss(from_logits=True)`, Adam, lr 0.001",
    "APLoss, Adam, lr 1e-2": "the same, lr 0.01",
    "APLoss, ADAP, lr 1e-2": "the same, `ADAP`, lr 0.01",
    "randomized coordinate, lr 1e-3": '`tracker="randomized_coordinate"`, lr 0.001',
    "moving average, lr 1e-3": '`tracker="moving_average"`, lr 0.001',
    "probabilities, γ = 20, lr 1e-3": "probabilities with γ = 20, lr 0.001",
    "ExactAPHead": "`ExactAPHead`",
}


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, between empty lines."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


def gain(values: Sequence[float]) -> str:
    """Return mean ± standard error; bold if the mean exceeds the error."""
    found = np.asarray(values)
    mean, error = float(found.mean()), float(found.std(ddof=1) / np.sqrt(found.size))
    return gain_and_error(mean, error)


def gain_and_error(mean: float, error: float) -> str:
    """Return mean ± standard error; bold if the mean exceeds the error."""
    text = _minus(f"{mean:+.4f}")
    return f"{f'**{text}**' if abs(mean) > error else text} ± {error:.4f}"


def _minus(text: str) -> str:
    """Return the text with minus signs before numbers, and hyphens elsewhere."""
    return re.sub(r"-(?=\d)", "−", text)


def table_lines() -> list[dict[str, Any]]:
    """Return the stored lines of ``benchmarks.tabular`` and ``benchmarks.remedies``."""
    results = tabular.read(tabular.RESULTS)
    stored = [line for tables in results.values() for of in tables.values() for line in of.values()]
    return stored + remedies.read()


def table_differences(pairs: Sequence[tuple[str, str]], *, median: bool = True) -> str:
    """Compare pairs of methods on all tables that both have."""
    lines, rows = table_lines(), []
    for first, second in pairs:
        found = [*gains(lines, first, second).values()]
        up = f"{sum(value > 0 for value in found)} of {len(found)}"
        middle = [_minus(f"{np.median(found):+.4f}")] if median else []
        rows.append([NAMES[first], NAMES[second], gain(found), *middle, up])
    header = ["model", "compared with", "mean gain in AP", *(["median"] if median else [])]
    return markdown([*header, "tables up"], rows)


def evidence() -> str:
    """Compare the models of tables with others, and say where AP training itself helps."""
    others = [("auto", other) for other in ("hgb", "catboost", "lightgbm-ap", "flaml")]
    pairs = [*others, ("additive", "logistic"), ("additive-main", "spline-logistic")]
    linear = max(row["apmax"] - row["logistic"] for row in _stored("linear_quality"))
    return table_differences(pairs, median=False) + (
        "- **On tables** the gain comes from better models and their combination, not from the "
        "objective: with everything\n  else equal (last row), AP training gains nothing.\n"
        f"- **Linear models** on raw features gain up to {linear:.2f} if they are too simple for "
        "the data, and nothing elsewhere.\n"
        "- **Networks** gain nothing beyond two standard errors. Train with cross-entropy; AP "
        "training is a candidate.\n\n"
    )


def table_targets() -> str:
    """Show the targets of ``make bench-tabular`` and what was measured."""
    kept = {True: "yes", False: "no", None: "not measured"}
    found = tabular_summary.bars(tabular.read(tabular.RESULTS))
    return markdown(["target", "reached"], [[_minus(bar.text), kept[bar.kept]] for bar in found])


def splits(methods: Sequence[str]) -> str:
    """Show of how many splits of each table the methods have results."""
    results, rows = tabular.read(tabular.RESULTS), []
    for method in methods:
        tables: dict[int, list[str]] = {}
        for table, lines in results[method].items():
            tables.setdefault(len(lines), []).append(table)
        counts = [f"{count} of {_some(names)}" for count, names in sorted(tables.items())]
        rows.append([f"`{method}`", ", ".join(counts)])
    return markdown(["method", "splits"], rows)


def gains_by_size() -> str:
    """Show gain and CPU time of AutoAPClassifier by the number of training rows."""
    lines = table_lines()
    sizes = {line["table"]: line["rows"] for line in lines if "rows" in line}
    over = {other: gains(lines, "auto", other) for other in ("logistic", "hgb")}
    limits = (0, 1_000, 4_000, MOST_TRAINING_ROWS)
    rows = []
    for low, high in pairwise(limits):
        tables = [name for name in over["hgb"] if low < sizes[name] <= high]
        found = [gain([one[name] for name in tables]) for one in over.values()]
        cpu = [one["cpu"] for one in lines if one["method"] == "auto" and one["table"] in tables]
        rows.append([f"{low:,}–{high:,}", str(len(tables)), *found, f"{np.median(cpu):.0f} s"])
    header = ["training rows", "tables", "over logistic regression", "over boosted trees"]
    return markdown([*header, "median CPU time"], rows)


def speed(name: str) -> str:
    """Show measured ratios with their targets."""
    rows = []
    for line in _stored(name):
        least, found, bar = line["at_least"], line["measured"], line["bar"]
        missed = "" if (found >= bar if least else found <= bar) else ", **missed**"
        rows.append([line["what"], f"{found:.3g}", f"{'≥' if least else '≤'} {bar:g}{missed}"])
    return markdown(["", "measured", "target"], rows)


def load(name: str) -> str:
    """Say how busy the machine was during a measurement."""
    stored = _stored(name)
    found = [line["load"] for line in stored]
    cores = stored[0]["cores"]
    return f"Load average during the measurement: {min(found)}–{max(found)} on {cores} cores."


def linear_quality() -> str:
    """Show test AP of linear models and boosted trees on the sets of ``make bench-quality``."""
    rows = [
        [
            row["data"],
            f"{row['logistic']:.4f}",
            f"{row['apmax']:.4f}",
            gain_and_error(row["apmax"] - row["logistic"], row["error"]),
            f"{row['trees']:.4f}",
        ]
        for row in _stored("linear_quality")
    ]
    header = ["data", "logistic regression", "APClassifierCV", "gain ± standard error"]
    return markdown([*header, "boosted trees"], rows)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} tables"


def network_quality() -> str:
    """Show gains of APLoss over cross-entropy, on training rows held out and on test sets."""
    stored = _stored("surrogate_quality")
    columns = [(rows, kind) for rows in ("held out", "test") for kind in ("linear", "network")]
    rows = []
    for recipe in [name for name in RECIPE_NAMES if name != "baseline"]:
        found = [stored[part][kind].get(recipe) for part, kind in columns]
        rows.append(
            [RECIPE_NAMES[recipe], *("" if one is None else gain([*one.values()]) for one in found)]
        )
    means = [f"{np.mean([*stored[part][kind]['baseline'].values()]):.3f}" for part, kind in columns]
    rows.insert(0, [RECIPE_NAMES["baseline"], *means])
    header = ["", "held out, linear", "held out, network", "test, linear", "test, network"]
    return markdown(header, rows)


def network_gains(kind: str, rows: str, recipe: str) -> str:
    """Show the gain of one recipe on each data set."""
    found = _stored("surrogate_quality")[rows][kind][recipe]
    return markdown([*found], [[_minus(f"{value:+.4f}") for value in found.values()]])


def tracker_gradients() -> str:
    """Show size, cosine and AP by tracker and by m/B."""
    stored = _stored("tracker_gradients")
    rows = [
        [name, *(f"{size:.2f}, {cosine:.2f}, {ap:.3f}" for size, cosine, ap in of_ratio.values())]
        for name, of_ratio in stored.items()
    ]
    ratios = [f"m/B = {ratio}" for ratio in next(iter(stored.values()))]
    return markdown(["tracker, β₀", *ratios], rows)


def libauc_and_entropy() -> str:
    """Say how long LibAUC's step of the MLP takes, relative to that of cross-entropy."""
    measured = {line["what"]: line["measured"] for line in _stored("torch_speed")}
    first, second = (
        measured[f"LibAUC's APLoss + SOAP / ours, MLP 300-256-1, batch {batch}"]
        * measured[f"APLoss + ADAP / BCE + Adam, MLP 300-256-1, batch {batch}"]
        for batch in (64, 256)
    )
    return (
        f"On the MLP, LibAUC's step takes {first:.2f} and {second:.2f} times as long as BCE + Adam "
        "(batch 64 and 256), so a loss and an optimizer as fast as these miss that target as well."
    )


def _stored(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def linear_quality_targets() -> str:
    """Say which targets of ``make bench-quality`` are kept."""
    rows = _stored("linear_quality")
    gained = np.array([row["apmax"] - row["logistic"] for row in rows])
    error = float(np.sqrt(np.square([row["error"] for row in rows]).sum())) / len(rows)
    ratios = [row["loss_ratio"] for row in rows]
    below = [row["data"] for row, value in zip(rows, gained, strict=True) if value < -MOST_BELOW]
    targets = {
        f"a mean gain of at least {MEAN_ABOVE}": _kept(gained.mean() >= MEAN_ABOVE),
        f"no loss above {MOST_BELOW}": ", ".join([_kept(not below), *below]),
        f"a log-loss of at most {MOST_LOSS} times that of logistic regression": (
            f"{_kept(max(ratios) <= MOST_LOSS)}, {min(ratios):.2f}–{max(ratios):.2f}"
        ),
    }
    listed = "; ".join(f"{target} ({found})" for target, found in targets.items())
    mean = _minus(f"{gained.mean():+.4f}")
    return f"The mean gain is {mean} ± {error:.4f}. Targets: {listed}."


def _kept(met: bool) -> str:
    return "met" if met else "missed"


def release() -> str:
    """Show the size of the installed core and the times of its imports."""
    facts = _stored("release")
    with_dependencies = facts["installed_bytes_with_dependencies"]
    package, estimator = facts["import_seconds"], facts["estimator_import_seconds"]
    values = {
        "wheel": f"{facts['wheel_bytes'] / 1e6:.2f} MB",
        "installed, `apmax` alone": f"{facts['installed_bytes'] / 1e6:.1f} MB",
        "installed, with all required packages": f"{with_dependencies / 1e6:.0f} MB",
        "CPU time of `import apmax`, after NumPy": f"{1e3 * package:.1f} ms",
        "CPU time of `from apmax import APClassifierCV`": f"{estimator:.2f} s",
    }
    return markdown(["", "measured"], [list(row) for row in values.items()])


def linear_objectives() -> str:
    """Show gains in held-out AP over logistic regression by the objective of APClassifierCV."""
    stored = _stored("linear_objectives")
    rows = []
    for setting in stored[0]["ap"]:
        gained = [row["ap"][setting] - row["ap"]["logistic regression"] for row in stored]
        if setting != "logistic regression":
            rows.append([setting, gain(gained), _minus(f"{min(gained):+.4f}")])
    return markdown(["objective", f"mean gain, {len(stored)} sets", "smallest"], rows)


def linear_methods() -> str:
    """Show held-out AP of the stochastic methods by learning rate."""
    first, *stored = _stored("linear_methods")
    sets = list(first["ap"])

    def three(values: Sequence[float]) -> str:
        return " / ".join(f"{value:.3f}".lstrip("0") for value in values)

    rows = [
        [f"`{row['method']}`", f"{row['rate']:g}"]
        + [three(row["ap"][name]) for name in sets]
        + [three([row["paper"][name] for name in sets])]
        for row in stored
    ]
    rows.append([f"`{first['method']}`", ""] + [three([first["ap"][name]]) for name in sets] + [""])
    return markdown(["method", "η", *sets, f"paper: {', '.join(sets)}"], rows)


def remedy_gains() -> str:
    """Compare remedies for imbalance with the same learner without them."""
    rows = [
        [
            row["learner"],
            row["remedy"],
            gain_and_error(row["mean"], row["error"]),
            f"{row['up']} of {row['tables']}",
        ]
        for row in remedies.summary(remedies.read())
    ]
    return markdown(["learner", "remedy", "gain in AP", "tables up"], rows)


def application() -> str:
    """Compare `apmax train` with default gradient boosting, table by table."""
    lines = (RESULTS / "application.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [
        [
            one["table"],
            f"{one['rows']:,}",
            f"`{one['chosen']}`",
            f"{one['ap'][one['chosen']]:.4f}",
            gain_and_error(one["gain"], one["gain_se"]),
            f"`{one['advised']}`",
            _minus(f"{-one['behind_best']:+.4f}") + f" ± {one['behind_best_se']:.4f}",
        ]
        for one in map(json.loads, lines)
    ]
    header = ["table", "rows", "kept", "test AP", "minus boosting", "advised", "minus kept"]
    return markdown(header, rows)


def application_summary() -> str:
    """Summarise the comparison of `apmax train` with default gradient boosting."""
    lines = (RESULTS / "application.jsonl").read_text(encoding="utf-8").splitlines()
    stored = [json.loads(line) for line in lines]
    below = {one["table"]: (one["gain"], one["gain_se"]) for one in stored if one["gain"] < 0}
    clearly = [table for table, (mean, error) in below.items() if -mean > error]
    listed = [
        _minus(f"{name} ({mean:+.4f} ± {error:.4f})") for name, (mean, error) in below.items()
    ]
    within = [
        sum(one["behind_best"] <= times * one["behind_best_se"] for one in stored)
        for times in (1, 2)
    ]
    cost = np.mean([one["behind_best"] for one in stored])
    return (
        f"- The kept model gains {gain([one['gain'] for one in stored])} over boosting (standard "
        f"error over tables). It is below on {', '.join(listed)}.\n"
        "- Target: at least the AP of boosting on every table. By more than one standard error it "
        f"is {'missed on ' + ', '.join(clearly) if clearly else 'met'}.\n"
        f"- The advised model is within one standard error of the kept one on {within[0]} of "
        f"{len(stored)} tables, and within two on {within[1]}. It costs {cost:.4f} AP on average.\n"
    )


def time_budgets() -> str:
    """Show the seconds that fits take for each time budget, and the rows they use."""
    found = _stored("time_budget")
    tables = list(dict.fromkeys(one["table"] for one in found))
    budgets = list(dict.fromkeys(one["budget"] for one in found))
    of = {(one["table"], one["budget"]): one for one in found}
    rows = [
        [
            table,
            f"{of[table, budgets[0]]['rows']:,}",
            *(_budget_cell(of[table, budget]) for budget in budgets),
        ]
        for table in tables
    ]
    return markdown(["table", "rows", *(f"{budget:g} s" for budget in budgets)], rows)


def _budget_cell(one: dict[str, Any]) -> str:
    return f"{one['seconds']} s, {one['models']} models, {one['rows_used']:,} rows"


def boosting_weights() -> str:
    """Show what weights gain for boosted trees, and the rule that decides on them."""
    lines = (RESULTS / "boosting_weights.jsonl").read_text(encoding="utf-8").splitlines()
    by_table: dict[str, list[float]] = {}
    for line in map(json.loads, lines):
        by_table.setdefault(line["table"], []).append(line["weighted"] - line["plain"])
    means = {table: float(np.mean(values)) for table, values in by_table.items()}
    ends = sorted(means, key=lambda table: -means[table])
    shown = [f"{name} {gain(by_table[name])}" for name in (*ends[:3], *ends[-3:])]
    splits = len(next(iter(by_table.values())))
    return (
        f"On {len(means)} tables with {splits} splits each the mean gain is "
        f"{gain([*means.values()])}. The three largest and the three smallest: "
        f"{', '.join(shown)}.\n"
    )


def table4(data: str) -> str:
    """Show Table 4 of the paper for a data set, with paired differences."""
    from experiments.deep.report import table_to_markdown

    return f"\n{table_to_markdown(_stored(f'table4_{data}'))}\n"


def pretrained(data: str) -> str:
    """Name the test AP of each seed after pretraining."""
    found = [f"{run['test_ap']:.4f}" for run in _stored(f"table4_{data}")["pretraining"]]
    return f"\nTest AP after pretraining: {', '.join(found)}.\n\n"
