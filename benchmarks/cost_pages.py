"""Tables of the documentation about time and memory, made from the stored results."""

from __future__ import annotations

import re
from typing import Any

from apmax.memory import BYTES_PER_BYTE, BYTES_PER_ROW, SHARE
from benchmarks.command_line import RUNS
from benchmarks.pages import markdown, results_of, wrapped
from benchmarks.scale_pages import trained
from benchmarks.timing import RESULTS

SPARSE = "sparse"
PROCESSES, FORESTS = 0.7e9, 3e9
"""Bytes of memory that do not depend on the number of rows: processes, and forests at most."""
MEMORIES, WIDTH = (8e9, 16e9, 64e9), 20
"""Sizes of machines, and the columns of the tables for which rows are counted."""
MODELS = {"additive": "`AdditiveAPClassifier`", "auto": "`AutoAPClassifier`"}


def table_sizes() -> str:
    """Show CPU time and memory of models of tables by the number of rows."""
    rows = []
    for one in _tables():
        budget = "" if one["budget"] is None else f"(time_budget={one['budget']:g})"
        rows.append(
            [
                f"{one['rows']:,}",
                MODELS[one["model"]][:-1] + budget + "`",
                f"{one.get('rows_used', one['rows']):,}",
                f"{one['cpu']:.0f} s",
                f"{one['peak_bytes'] / 1e9:.1f} GB",
                f"{one['test_ap']:.3f}",
            ]
        )
    header = ["rows", "model", "rows trained on", "CPU time", "peak memory", "test AP"]
    return markdown(header, rows)


def table_size_facts() -> str:
    """Describe the tables of the fits by size."""
    found = _tables()
    share = found[-1]["positives"] / found[-1]["rows"]
    *sizes, largest = (
        f"{size / 1e6:.0f}" for size in dict.fromkeys(one["table_bytes"] for one in found)
    )
    return wrapped(
        f"One thread, a synthetic table of {found[0]['columns']} columns (numbers, categories, "
        f"missing values; {', '.join(sizes)} and {largest} MB) with {share:.1%} positives. Peak "
        "memory is that of the process, "
        f"imports and table included. {_about_budgets(found)}"
    )


def wide_sparse() -> str:
    """Say what a fit to wide sparse data costs."""
    (one,) = (one for one in results_of("table_size") if one["model"] == SPARSE)
    return wrapped(
        f"`APClassifierCV` on synthetic word counts, {one['rows']:,} rows × {one['columns']:,} "
        f"columns with {one['entries'] / one['rows']:.0f} entries per row and "
        f"{one['positives']:,} positives, took {one['cpu']:.0f} s of CPU time on one thread and "
        f"{one['peak_bytes'] / 1e9:.1f} GB at its peak, imports included. The test AP is "
        f"{one['test_ap']:.3f}; random scores have {one['positives'] / one['rows']:.3f}."
    )


def _tables() -> list[dict[str, Any]]:
    return [one for one in results_of("table_size") if one["model"] != SPARSE]


def _about_budgets(found: list[dict[str, Any]]) -> str:
    limited = [one for one in found if one["budget"] is not None]
    if not limited:
        return ""
    load = max(one["load"] for one in limited)
    return (
        "A time budget counts elapsed seconds; if it does not suffice for all rows, negatives are "
        f"sampled. That fit shared two cores with other programs (load average {load})."
    )


def memory_bound() -> str:
    """State the bound on the memory of fits to tables, and how it compares with measurements."""
    used = [
        one["peak_bytes"] / _bound(one["rows_used"] if "rows_used" in one else one["rows"],
                                   one["table_bytes"], one["model"] == "auto")
        for one in _tables()
    ]  # fmt: skip
    used += [
        1e9 * one["peak_gb"]
        / _bound(one["rows"], 8 * one["rows"] * run.columns, "additive" not in run.command)
        for run, one in trained()
    ]  # fmt: skip
    full = max(one["rows"] for one in _tables() if one["model"] == "auto" and one["budget"] is None)
    return wrapped(
        f"Plan for {PROCESSES / 1e9:.1f} GB, plus {BYTES_PER_ROW / 1e3:.0f} KB per row, plus "
        f"{BYTES_PER_BYTE} times the size of the table (8 bytes per number), plus "
        f"{FORESTS / 1e9:.0f} GB for the forests of `AutoAPClassifier`. {len(used)} measured "
        f"peaks, with one or two processes, are {min(used):.0%} to {max(used):.0%} of this. The "
        f"largest fit of `AutoAPClassifier` without a time limit among them has {full:,} rows."
    )


def _bound(rows: float, table_bytes: float, forests: bool) -> float:
    own = BYTES_PER_ROW * rows + BYTES_PER_BYTE * table_bytes
    return PROCESSES + own + FORESTS * forests


def rows_by_memory() -> str:
    """Show how many rows fit into machines of some sizes by the bound."""
    of_row = BYTES_PER_ROW + BYTES_PER_BYTE * 8 * WIDTH
    rows = [
        [
            f"{memory / 1e9:.0f} GB",
            _rounded_down((memory - PROCESSES - FORESTS) / of_row),
            _rounded_down((memory - PROCESSES) / of_row),
            _rounded_down(SHARE * memory / of_row),
        ]
        for memory in MEMORIES
    ]  # fmt: skip
    header = ["memory", "`AutoAPClassifier.fit`", "`AdditiveAPClassifier.fit`"]
    return markdown([*header, "sample of `fit_files` and `apmax train`"], rows)


def _rounded_down(rows: float) -> str:
    unit = 10 ** (len(str(int(rows))) - 2)
    return f"{int(rows) // unit * unit:,}"


def single_runs() -> str:
    """Show elapsed time and memory of single commands."""
    stored = results_of("command_line")
    rows = [
        [
            f"{RUNS[name].what}, {RUNS[name].rows:,} rows",
            f"{one['seconds']:.0f} s",
            f"{one['peak_gb']:.1f} GB",
            f"{one['load']:.1f}",
        ]
        for name, one in stored.items()
        if not name.startswith("memory: ")
    ]
    return markdown(["what", "elapsed", "memory", "load average at the start"], rows)


def prediction_times() -> str:
    """Show the time of predictions of one row and of many."""
    found = results_of("prediction_time")
    names = {"hgb": "HistGradientBoosting, defaults"}
    rows = [
        [names.get(name, f"`{name}`"), f"{1000 * one:.0f} ms", f"{many:.2f} s"]
        for name, (one, many) in found["seconds"].items()
    ]
    return markdown(["model", "one row", f"{found['rows']:,} rows"], rows)


def time_budgets() -> str:
    """Show the seconds that fits take for each time budget, and the rows they use."""
    found = results_of("time_budget")
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


def demo(columns: int, rows: int | None = None) -> str:
    """Show what `apmax train` prints for the data of the demo, without the times.

    `columns` is the number of columns after the name; `rows` shows the first models and the last.
    """
    lines = (RESULTS / "demo.txt").read_text(encoding="utf-8").splitlines()
    rule = next(k for k, line in enumerate(lines) if "──" in line)
    end = next(k for k in range(rule, len(lines)) if not lines[k].strip())
    board = [re.split(r"  +", line.strip()) for line in (lines[rule - 1], *lines[rule + 1 : end])]
    widths = [max(len(row[k]) for row in board) for k in range(columns + 1)]
    table = []
    for row in board:
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1 : columns + 1], widths[1:])]
        table.append("   ".join(cells) + ("   ←" if row[-1] == "←" else ""))
    table.insert(1, "─" * len(table[0]))
    if rows is not None:
        shown = [*table[: rows + 2], "…", table[-1]]
    else:
        shown = [lines[0], *table, *filter(None, map(str.strip, lines[end:]))]
    return "\n".join(["", "```text", *shown, "```", "", ""])


def reliability() -> str:
    """Show what ``make soak`` has measured."""
    tests = RESULTS.parents[1] / "tests"
    paths = {path.name: path.relative_to(tests.parent) for path in tests.rglob("test_*.py")}
    rows = [
        [
            promise,
            f"`{paths.get(one['test'], one['test'])}`",
            one["figure"],
            one["date"],
            f"`{one['code']}`" if "code" in one else "",
        ]
        for promise, one in results_of("reliability").items()
    ]
    return markdown(["promise", "test", "figure", "date", "code"], rows)
