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
    ap = {(cell["method"], cell["data"]): cell["mean"] for cell in cells}
    found = {name: ap[first, name] - ap[second, name] for method, name in ap if method == first}
    up = sum(value > 0 for value in found.values())
    low, high = min(found, key=lambda k: found[k]), max(found, key=lambda k: found[k])
    return minus(
        f"{title_of(first)} is ahead of {title_of(second)} on {up} of {len(found)} sets: from "
        f"{found[low]:+.3f} ({low}) to {found[high]:+.3f} ({high})."
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
    return f"\n{rates_to_markdown(found)}\n" + "".join(map(item, lines)) + "\n"


def _contains(interval: list[float | None], rate: dict[str, Any]) -> bool:
    """Say whether an interval contains the exponent of the theorem; None is infinity."""
    _, low, high = (float("inf") if end is None else end for end in interval)
    return bool(low <= rate["theorem"] <= high)
