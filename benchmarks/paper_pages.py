"""Tables of the documentation about the paper's linear experiments, made from stored results."""

from __future__ import annotations

from typing import Any

from benchmarks.pages import item, minus, results_of
from experiments.linear.figures import APPENDIX_DATA, APPENDIX_METHODS
from experiments.linear.rates import CLAIMS, rates_to_markdown
from experiments.linear.table3 import cells_to_markdown, title_of

NEAR = 0.01
"""A cell agrees with the paper if it is at most this much below its number."""


def table3() -> str:
    """Show Table 3 of the paper and the chosen settings."""
    return f"\n{cells_to_markdown(results_of('table3'))}\n"


def table3_in_words() -> str:
    """Compare the cells with the paper's, and stochastic rows with the full batch."""
    cells = results_of("table3")
    published = [cell for cell in cells if cell["published"] is not None]
    below = [cell for cell in published if cell["difference"] < -NEAR]
    listed = ", ".join(
        f"{title_of(one['method'])} on {one['data']} ({one['difference']:+.3f})" for one in below
    )
    above = [cell for cell in published if cell["difference"] > NEAR]
    lines = [
        f"In {len(published) - len(below)} of {len(published)} cells our AP is at most {NEAR} "
        f"below the paper's; in {len(above)} it is more than {NEAR} above. "
        + (f"Further below: {minus(listed)}." if below else ""),
        _ahead(cells, "adap-adam", "moap-v2"),
        _ahead(cells, "adap-adam", "soap-adam"),
        _ahead(cells, "full-batch", "adap-adam"),
        _ahead(cells, "apmax-cv", "logistic-cv"),
    ]
    return "".join(map(item, lines))


def _ahead(cells: list[dict[str, Any]], first: str, second: str) -> str:
    """Say on which data sets one row is ahead of another, and how far apart they are."""
    of = {(cell["method"], cell["data"]): cell for cell in cells}
    names = [name for method, name in of if method == first]
    found = {name: of[first, name]["mean"] - of[second, name]["mean"] for name in names}
    spread = {name: max(of[one, name]["std"] for one in (first, second)) for name in names}
    repeated = [name for name in names if spread[name] > 0]  # the others are single runs
    clear = sum(found[name] > spread[name] for name in repeated)
    up = sum(value > 0 for value in found.values())
    low, high = min(found, key=lambda k: found[k]), max(found, key=lambda k: found[k])
    sets = "sets" if len(repeated) == len(names) else "sets with repeats"
    return minus(
        f"{title_of(first)} has a higher mean than {title_of(second)} on {up} of {len(found)} "
        f"sets: from {found[low]:+.3f} ({low}) to {found[high]:+.3f} ({high}). The gain exceeds "
        f"the larger standard deviation on {clear} of {len(repeated)} {sets}."
    )


def appendix() -> str:
    """Show the methods and data sets of the paper's appendix."""
    cells = [
        cell
        for cell in results_of("table3")
        if cell["method"] in APPENDIX_METHODS and cell["data"] in APPENDIX_DATA
    ]
    table, *_ = cells_to_markdown(cells).partition("\n\n")
    return f"\n{table}\n\n"


def rates() -> str:
    """Show measured exponents beside those of the theorems, and say which agree."""
    found = results_of("rates")["rates"]
    lines = []
    for key, where in (
        ("exponent", "over all T"),
        ("exponent_of_longer_half", "over the longer half"),
    ):
        agree = [CLAIMS[rate["run"]].title for rate in found if _contains(rate[key], rate)]
        text = f"The interval {where} contains the theorem's p for"
        lines.append(f"{text}: {'; '.join(agree) or 'no method'}.")
    for rate in found:
        intervals = [rate[key] for key in ("exponent", "exponent_of_longer_half")]
        if not any(_contains(interval, rate) for interval in intervals):
            side = "above" if intervals[1][1] > rate["theorem"] else "below"
            lines.append(
                f"Neither interval of {CLAIMS[rate['run']].title} contains it; both are {side}."
            )
    lines.append(
        "The theorems are upper bounds: a smaller p agrees with them. A larger p says that these "
        "runs do not show the theorem's rate."
    )
    return f"\n{rates_to_markdown(found)}\n" + "".join(map(item, lines)) + "\n"


def _contains(interval: list[float | None], rate: dict[str, Any]) -> bool:
    """Say whether an interval contains the exponent of the theorem; None is infinity."""
    _, low, high = (float("inf") if end is None else end for end in interval)
    return bool(low <= rate["theorem"] <= high)
