"""Tables of the documentation about networks, made from the stored results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from benchmarks.pages import gain, markdown, minus, results_of, wrapped

BASELINE = "cross-entropy-resampled"
ERRORS_OF_THREE = 4.3
"""Standard errors of a 95 % interval from three values: t with two degrees of freedom."""
PRECISIONS = ("float32", "bfloat16")
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


def network_quality() -> str:
    """Show gains of APLoss over cross-entropy, on training rows held out and on test sets."""
    stored = results_of("surrogate_quality")
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
    found = results_of("surrogate_quality")[rows][kind][recipe]
    return markdown([*found], [[minus(f"{value:+.4f}") for value in found.values()]])


def tracker_gradients() -> str:
    """Show size, cosine and AP by tracker and by m/B."""
    stored = results_of("tracker_gradients")
    rows = [
        [name, *(f"{size:.2f}, {cosine:.2f}, {ap:.3f}" for size, cosine, ap in of_ratio.values())]
        for name, of_ratio in stored.items()
    ]
    ratios = [f"m/B = {ratio}" for ratio in next(iter(stored.values()))]
    return markdown(["tracker, β₀", *ratios], rows)


def libauc_and_entropy() -> str:
    """Say how long LibAUC's step of the MLP takes, relative to that of cross-entropy."""
    measured = {line["what"]: line["measured"] for line in results_of("torch_speed")}
    first, second = (
        measured[f"LibAUC's APLoss + SOAP / ours, MLP 300-256-1, batch {batch}"]
        * measured[f"APLoss + ADAP / BCE + Adam, MLP 300-256-1, batch {batch}"]
        for batch in (64, 256)
    )
    return (
        f"On the MLP, LibAUC's step takes {first:.2f} and {second:.2f} times as long as BCE + Adam "
        "(batch 64 and 256), so a loss and an optimizer as fast as these miss that target as well."
    )


def step_cost() -> str:
    """Say how long a training step takes, relative to cross-entropy, and with more positives."""
    measured = {line["what"]: line["measured"] for line in results_of("torch_speed")}
    kinds = {
        "a linear model of 300 features": "nn.Linear(300, 1)",
        "an MLP with 256 units": "MLP 300-256-1",
        "ResNets on 32 × 32 pixels": "ResNet",
    }
    parts = []
    for name, kind in kinds.items():
        pattern = re.compile(rf"APLoss \+ ADAP / BCE \+ Adam, (a small )?{re.escape(kind)}")
        found = [value for what, value in measured.items() if pattern.match(what)]
        times = sorted({f"{value:.2f}" for value in (min(found), max(found))})
        parts.append(f"{' to '.join(times)} times for {name}")
    growth = measured["time of a step with 10^7 positives / with 10^3"]
    return wrapped(
        "CPU time of a step with `APLoss` and `ADAP`, relative to one with cross-entropy and Adam "
        f"(one thread, batches of 64 and 256): {', '.join(parts)}. With 10⁷ positives instead of "
        f"10³ a step takes {growth:.2f} times as long."
    )


def table4(data: str) -> str:
    """Show Table 4 of the paper for a data set, with paired differences."""
    from experiments.deep.report import table_to_markdown

    table = results_of(f"table4_{data}")
    pretrained = ", ".join(f"{run['test_ap']:.4f}" for run in table["pretraining"])
    return (
        f"\nTest AP after pretraining: {pretrained}.\n\n{_named(table_to_markdown(table))}\n"
        f"{_against_entropy(table)}\n"
    )


def table4_in_words() -> str:
    """Say which methods are above continued cross-entropy, for both data sets."""
    parts: list[str] = []
    names_of, reached, seeds = _names(), False, set[int]()
    for data, title in (("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")):
        table = results_of(f"table4_{data}")
        above = _compared(table)["above"]
        start = {run["seed"]: run["test_ap"] for run in table["pretraining"]}
        baseline = next(row for row in table["rows"] if row["method"] == BASELINE)
        seeds |= {len(baseline["seeds"])}
        entropy = dict(zip(baseline["seeds"], baseline["test_aps"], strict=True))
        named, gained = [], []
        for row in (row for row in table["rows"] if names_of[row["method"]] in above):
            aps = dict(zip(row["seeds"], row["test_aps"], strict=True))
            gains = np.array([ap - entropy[seed] for seed, ap in aps.items()])
            reached |= gains.mean() > ERRORS_OF_THREE * gains.std(ddof=1) / np.sqrt(gains.size)
            over, before = gain([*gains]), gain([ap - start[seed] for seed, ap in aps.items()])
            named.append(names_of[row["method"]])
            gained.append(f" ({over}; {before} over the network before AP training)")
        some = f"only {' and '.join(named)}" if named else "no method"
        full = "exceeded the test AP of continued cross-entropy by more than two standard errors"
        parts.append(f"On {title}, {some} {'did' if parts else full}{', '.join(gained)}.")
    if seeds != {3}:
        raise ValueError(f"this text is about three seeds, and the results have {seeds}")
    return wrapped(
        f"{' '.join(parts)} With three seeds, a 95 % interval needs "
        f"{ERRORS_OF_THREE} standard errors, which "
        f"{'some gains exceed' if reached else 'no gain reaches'}. Of the training set 2 % is "
        "positive, of the test set half. The methods for AP reset the last layer; the default "
        "`APLoss`, continued from the present weights, was not measured on images.".replace(
            "**", ""
        )
    )


def _names() -> dict[str, str]:
    """Return one name for each method of Table 4."""
    from experiments.deep.presets import HEAD, TITLES

    return TITLES | {BASELINE: "continued cross-entropy", HEAD: "`ExactAPHead` after it"}


def _named(tables: str) -> str:
    """Give methods the same names in both tables of Table 4."""
    from experiments.deep.presets import TITLES

    names = _names()
    for method, title in TITLES.items():
        tables = tables.replace(f"| {title} |", f"| {names[method]} |")
        for other in TITLES:
            tables = tables.replace(
                f"| {method} − {other} |", f"| {names[method]} − {names[other]} |"
            )
    return tables


def _compared(table: dict[str, Any]) -> dict[str, list[str]]:
    """Return the methods above, below and near continued cross-entropy."""
    names = _names()
    found: dict[str, list[str]] = {"above": [], "below": [], "neither": []}
    for one in table["differences"]:
        if one["baseline"] == BASELINE:
            error = one["error"] if one["error"] is not None else one["errors"][0]
            side = "above" if one["mean"] > 0 else "below"
            clear = abs(one["mean"]) > 2 * error
            found[side if clear else "neither"].append(names[one["method"]])
    return found


def _against_entropy(table: dict[str, Any]) -> str:
    """Say which methods of Table 4 differ from continued cross-entropy."""
    titles = _names()
    seeds = set.intersection(*({*row["seeds"]} for row in table["rows"]))
    means = {
        row["method"]: np.mean(
            [ap for seed, ap in zip(row["seeds"], row["test_aps"], strict=True) if seed in seeds]
        )
        for row in table["rows"]
    }
    found = _compared(table)
    lines = [f"- {side}: {', '.join(names)}" for side, names in found.items() if names]
    order = sorted(means, key=lambda method: -means[method])
    published = {row["method"]: row["published"] for row in table["rows"] if row["published"]}
    here = [titles[method] for method in order if method in published]
    paper = [titles[method] for method in sorted(published, key=lambda one: -published[one][0])]
    return (
        "Above or below continued cross-entropy by more than two standard errors over seeds:"
        "\n\n" + "\n".join(lines) + "\n\n"
    ) + wrapped(
        f"The highest mean over seeds {', '.join(map(str, sorted(seeds)))} is that of "
        f"{titles[order[0]]}. The order of the paper's methods is {', '.join(here)}; in the paper "
        f"it is {', '.join(paper)}."
    )


def tracker_summary() -> str:
    """Say how far each tracker is behind the best one at some m/B."""
    found = results_of("tracker_gradients")
    ratios = next(iter(found.values()))

    def behind(name: str, place: int) -> float:
        best = {ratio: max(one[ratio][place] for one in found.values()) for ratio in ratios}
        return float(max(best[ratio] - found[name][ratio][place] for ratio in ratios))

    default = next(name for name in found if "the default" in name)
    others = [name for name in found if name != default]
    cosine, ap = (min(behind(name, place) for name in others) for place in (1, 2))
    return wrapped(
        f"At its worst m/B the default is {behind(default, 1):.2f} behind the best cosine and "
        f"{behind(default, 2):.3f} behind the best AP. For the other trackers this is at least "
        f"{cosine:.2f} and {ap:.3f}."
    )


def network_step() -> str:
    """Show the time of a training step on a CPU, relative to torch's defaults."""
    found = results_of("network_step")
    rows = [
        [layout, *(f"{found[f'{kind}, {layout}']:.2f}" for kind in PRECISIONS)]
        for layout in ("channels first", "channels last")
    ]
    return markdown(["", "float32", "bfloat16 autocast"], rows)
