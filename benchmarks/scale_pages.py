"""Tables of the documentation about data larger than memory, made from the stored results.

The results are written by ``benchmarks.scale``, ``benchmarks.scale_samples``,
``benchmarks.scale_additive`` and ``benchmarks.command_line``.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from apmax import APClassifier
from apmax.scale.cluster import FAN_IN
from apmax.scale.sums import ONE_PASS_FEATURES
from benchmarks.command_line import RUNS, Run
from benchmarks.pages import gain, markdown, results_of, wrapped
from benchmarks.scale import FEATURES
from benchmarks.scale_samples import ROWS
from benchmarks.timing import RESULTS

TABLES = {"cover": "cover", "celeba_bald": "CelebA, bald", "synthetic": "synthetic"}
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def summaries() -> str:
    """Say how large summaries are and how long merging takes."""
    found = results_of("scale_summaries")
    sizes = _listed([f"{_bytes(one['bytes'])} for {one['features']:,} features" for one in found])
    merging = _listed([f"{one['merging_ms']:.0f}" for one in found])
    few, many = results_of("scale_samples")["interval"]
    counts = " and ".join(power_of_ten(one["positives"]) for one in (few, many))
    return wrapped(
        f"Summaries: {sizes}. Merging those of 100 workers takes {merging} ms of CPU time, shared "
        "by the workers. The metric's interval from a histogram is "
        f"{few['width']:.1e} and {many['width']:.1e} wide with {counts} positives "
        "(`python -m benchmarks.scale_samples`).".replace("e-05", "e-5")
    )


def traffic() -> str:
    """Say what the workers of a cluster exchange."""
    small, *_, large = results_of("scale_summaries")
    return wrapped(
        "Traffic of a cluster: in each pass, every partition is reduced to a summary, which has "
        f"{_bytes(small['bytes'])} for {small['features']} features and {_bytes(large['bytes'])} "
        f"for {large['features']:,}, whatever the number of rows. A task merges the summaries of "
        f"up to {FAN_IN} neighbouring partitions, and then of such groups; summaries that lie on "
        "the worker of this task are not sent. At most about one summary per partition is sent: "
        f"with 100 partitions {_bytes(100 * small['bytes'])} for {small['features']} "
        f"features, and {_bytes(100 * large['bytes'])} for {large['features']:,}. Only the value "
        "and the gradient reach the client. If X is sparse or has more than "
        f"{ONE_PASS_FEATURES:,} features, an evaluation takes two passes, which send 12 KB and "
        "one gradient per partition."
    )


def samples() -> str:
    """Compare linear models of samples of negatives with those of all rows."""
    rows = []
    for one in results_of("scale_samples")["samples"]:
        lines = [("all", [one["all_rows"]])]
        lines += [(f"{found['negatives']:,}", found["test_ap"]) for found in one["samples"]]
        rows += [
            [f"{one['positives']:,}", negatives, ", ".join(f"{ap:.4f}" for ap in found)]
            for negatives, found in lines
        ]
    about = (
        "**Samples of negatives.** `python -m benchmarks.scale_samples`: test AP of `APClassifier` "
        f"on {power_of_ten(ROWS)} synthetic rows × {FEATURES}, with all positives and weighted "
        "random negatives, three samples each."
    )
    return wrapped(about) + markdown(["positives", "negatives", "test AP"], rows)


def samples_in_words() -> str:
    """Say what samples of negatives cost with few positives, in two experiments."""
    many, few = results_of("scale_samples")["samples"]

    def ap(one: dict[str, Any], at: int) -> str:
        return f"{np.mean(one['samples'][at]['test_ap']):.3f}"

    other = re.search(
        r"with ([\d,]+) positives, alpha ([\d.]+),.*?per positive ([\d.]+).*"
        r"200,000 negatives ([\d.]+).*all rows ([\d.]+\d)",
        " ".join((RESULTS / "attempts.md").read_text("utf-8").split("**Samples of neg")[1].split()),
    )
    assert other is not None
    count, alpha, ten, default, everything = other.groups()
    return wrapped(
        f"With {few['positives']:,} positives, the test AP was {ap(few, 0)} with ten negatives per "
        f"positive, {ap(few, 1)} with 200,000 negatives (the default), and {few['all_rows']:.3f} "
        "with all rows ([samples of negatives](benchmarks.md#data-larger-than-memory)). In "
        f"[another experiment](benchmarks.md#what-was-tried-on-training-data) with {count} "
        f"positives it was {ten}, {default} and {everything}. That experiment has other data and "
        f"alpha = {alpha} instead of the default {APClassifier().alpha:g}, so compare numbers "
        f"within each experiment only. With {many['positives']:,} positives the test AP of the "
        f"first experiment was {ap(many, 1)} with 200,000 negatives and "
        f"{many['all_rows']:.3f} with all rows."
    )


def additive_samples() -> str:
    """Compare additive models with coefficients of a sample and of all rows."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for one in results_of("scale_additive"):
        groups.setdefault((one["table"], one["sample"]), []).append(one)
    rows = []
    for (table, sample), found in groups.items():
        ap, ap_of_all = ([one[name] for one in found] for name in ("ap_sample", "ap_all_rows"))
        gains = [b - a for a, b in zip(ap, ap_of_all, strict=True)]
        per_million = [1e6 * one["cpu_all_rows"] / one["rows"] for one in found]
        rows.append(
            [
                f"{TABLES[table]}, {found[0]['rows']:,} × {found[0]['columns']}",
                f"{np.mean([one['positives'] for one in found]):,.0f}",
                f"{sample:,}",
                f"{np.mean(ap):.4f}",
                f"{np.mean(ap_of_all):.4f}",
                gain(gains),
                f"{np.median(per_million):.0f} s",
            ]
        )
    header = ["table", "positives", "rows of the sample", "AP, sample", "AP, all rows", "gain"]
    return markdown([*header, "CPU time of the refit per 10⁶ rows"], rows)


def additive_cost() -> str:
    """Say what the fit of coefficients to all rows costs."""
    first, larger, copied, streamed = results_of("scale_additive_cost")
    ratio = streamed["cpu"] / copied["cpu"]
    return wrapped(
        f"`python -m benchmarks.scale_additive --cost`: with {first['functions']} basis functions "
        f"of {first['columns']} columns and ten pairs, the refit takes {first['cpu']:.0f} s of CPU "
        f"time for {power_of_ten(first['rows'])} rows and {larger['cpu']:.0f} s for "
        f"{power_of_ten(larger['rows'])}. The peak memory of the process, with imports and a "
        f"sample of {first['sample']:,} rows, is {first['peak_mb']:,} MB and "
        f"{larger['peak_mb']:,} MB. "
        f"`cache=False` takes {ratio:.1f} times as long on {power_of_ten(copied['rows'])} rows. "
        f"{_load(first, larger, copied, streamed)}"
    )


def train_memory() -> str:
    """Show the peak memory of `apmax train`."""
    rows = []
    for run, found in trained():
        size = f"{found['rows']:,}"
        if found["rows"] < run.rows and "Parquet of" in run.what:
            size += f" of {power_of_ten(run.rows)}"
        options = [f"`{one}`" for one in ("--model additive", "--minutes 3") if one in run.command]
        options += [f"`APMAX_MEMORY={run.memory}`"] * bool(run.memory)
        own = 1e6 * (found["peak_gb"] - 0.7) / found["rows"]
        table = 8e-6 * found["rows"] * run.columns
        rows.append(
            [
                run.what, f"{size} × {run.columns}", f"{table:.0f} MB", ", ".join(options),
                f"{found['peak_gb']:.1f} GB", f"{own:.1f} KB",
            ]
        )  # fmt: skip
    header = ["file", "rows × columns", "size", "options", "peak", "per row, without 0.7 GB"]
    return markdown(header, rows)


def trained() -> list[tuple[Run, dict[str, Any]]]:
    """Return the runs of `apmax train` whose memory was measured."""
    stored = results_of("command_line")
    return [(RUNS[name], one) for name, one in stored.items() if name.startswith("memory: ")]


def capacity() -> str:
    """Show the CPU time of fits from files, measured and extrapolated."""
    measured = results_of("scale_files_cpu")
    passes = max(one["passes"] for one in measured)
    rows, per_row = [], 0.0
    for one in measured:
        copy = 4 * one["rows"] * FEATURES
        read = f"{_bytes(passes * copy)}" + (", from the page cache" if copy < 2e9 else "")
        times = f"{one['cpu_seconds']:.0f} s"
        rows.append([power_of_ten(one["rows"]), _bytes(copy), read, times, "measured"])
        per_row = one["cpu_seconds"] / one["rows"]
    for count, machines in ((10**8, "one machine"), (10**9, "one machine, or 10 workers")):
        volume = passes * 120 * count
        rows.append(
            [
                power_of_ten(count),
                _bytes(120 * count),
                f"{_bytes(volume)}: {volume / 2e9 / 60:.0f} min at 2 GB/s",
                f"about {per_row * count / 60:.0f} min",
                f"extrapolated: {machines}, with a fast disk",
            ]
        )
    huge, hours = 10**10, per_row * 10**10 / 3600
    rows.append(
        [
            power_of_ten(huge),
            _bytes(120 * huge),
            "in memory of the cluster",
            f"about {hours:.0f} h",
            f"extrapolated: 100 workers, at least {hours * 60 / 100:.0f} min each",
        ]
    )
    header = ["rows × 30", "flat copy", f"read in {passes} passes", "CPU time", "basis"]
    return markdown(header, rows)


def power_of_ten(count: float) -> str:
    """Return 2·10⁶ for 2,000,000."""
    digits, exponent = f"{count:.1e}".split("e")
    power = f"10{str(int(exponent)).translate(SUPERSCRIPTS)}"
    return power if float(digits) == 1 else f"{float(digits):g}·{power}"


def _bytes(size: float) -> str:
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= factor:
            number = size / factor
            return f"{number:.0f} {unit}" if number >= 20 else f"{number:.3g} {unit}"
    return f"{size / 1e3:.0f} KB"


def _listed(items: list[str]) -> str:
    return ", ".join(items[:-1]) + f" and {items[-1]}"


def _load(*lines: dict[str, Any]) -> str:
    loads = [one["load"] for one in lines]
    return f"Load average: {min(loads)}–{max(loads)} on two cores."
