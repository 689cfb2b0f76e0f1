"""The parts of the page, each from its part of the report to HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from apmax.app.report.alerts import Alerts, count_alerts, operating_points
from apmax.app.report.bootstrap import RESAMPLES, Band, bootstrap_band
from apmax.app.report.calibration import Reliability, reliability
from apmax.app.report.chart import Axis, Chart, swatch
from apmax.app.report.comparison import Comparison, Difference
from apmax.app.report.markup import figure, grid, head_row, legend, table, whole
from apmax.app.report.results import Report, Scored
from apmax.app.report.wording import ap, count, per_thousand, share, signed, spread, text
from apmax.metrics import OperatingPoint

PERCENT_TICKS = [(k / 100, f"{k} %") for k in (0, 25, 50, 75, 100)]
FEW_POSITIVES = 20
"""Below this, resampling the positives shows too little of what others could have been."""
SHARES = [0, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1]


@dataclass(frozen=True, eq=False)
class Drawn:
    """A model with the numbers that several sections show."""

    result: Scored
    alerts: Alerts
    points: Mapping[float, OperatingPoint | None]
    band: Band
    series: int

    @property
    def label(self) -> str:
        """The model's line and name, as HTML."""
        return f'<span class="model">{swatch(self.series)}{text(self.result.name)}</span>'


def measure(result: Scored, series: int) -> Drawn:
    """Everything about one model that takes a pass over its examples."""
    points = operating_points(result)
    keep = tuple(point.threshold for point in points.values() if point is not None)
    return Drawn(result, count_alerts(result, keep), points, bootstrap_band(result), series)


def lead(models: Sequence[Drawn]) -> str:
    """The first sentence: how many examples, and the best AP beside guessing."""
    y = models[0].result.y
    best = max(models, key=lambda model: model.band.ap)
    who = f" by {text(best.result.name)}" if len(models) > 1 else ""
    return (
        f"{count(y.size)} examples, {count(y.sum())} of them positive ({share(y.mean())}). "
        f"Average precision <strong>{ap(best.band.ap)}</strong>{who}, where guessing gives "
        f"{y.mean():.3g}."
    )


def first_of_all(report: Report) -> str:
    """Doubts about the data, and what the folds say: what must not be missed."""
    sentences = [doubt if doubt.endswith("?") else f"{doubt}." for doubt in report.doubts]
    doubts = "".join(f'<p class="doubt">Take care: {text(one)}</p>' for one in sentences)
    gains = [] if report.comparison is None else report.comparison.differences()
    verdicts = "".join(f'<p class="verdict">{text(gain.sentence())}</p>' for gain in gains)
    return doubts + verdicts


def summary(models: Sequence[Drawn]) -> str:
    """AP of every model, which is also the legend of the curves."""
    rows = "".join(
        f'<tr><th scope="row">{model.label}</th><td><strong>{ap(model.band.ap)}</strong></td>'
        f"<td>{ap(model.band.ap_low)} {whole(f'– {ap(model.band.ap_high)}')}</td>"
        f"<td>×{model.band.ap / model.result.prevalence:.3g}</td></tr>"
        for model in models
    )
    head = head_row("Model", "AP", "95 % interval", "over guessing")
    return table("Average precision (AP) on these examples", head, rows)


def curves(models: Sequence[Drawn]) -> str:
    """Precision against recall, with bands and the baseline; the script adds the marker."""
    prevalence = models[0].result.prevalence
    chart = Chart(
        Axis("recall: share of positives found", 0, 1, PERCENT_TICKS),
        Axis("precision: share of alerts that are right", 0, 1, PERCENT_TICKS),
    )
    drawn = [chart.rule((0, prevalence), (1, prevalence))]
    drawn += [chart.band(m.band.recall, m.band.low, m.band.high, m.series) for m in models]
    for model in models:
        falling = slice(None, None, -1)  # from the highest threshold, where recall starts
        recall, precision = model.alerts.recall[falling], model.alerts.precision[falling]
        drawn.append(chart.steps(recall, precision, model.series))
    half = np.searchsorted(models[0].band.recall, 0.5)
    at_half = "; ".join(f"{m.result.name} {share(m.band.precision[half])}" for m in models)
    alternative = (
        f"Precision-recall curves. Precision at 50 % recall: {at_half}; guessing has "
        f"{share(prevalence)} everywhere. The tables give the numbers."
    )
    overlay = (
        f'<span class="baseline" style="bottom:{100 * prevalence:.4g}%" aria-hidden="true">'
        f"guessing {share(prevalence)}</span>"
        '<span id="marker" class="marker" aria-hidden="true" hidden></span>'
    )
    m = models[0].alerts.positives
    few = f" With {m} positives only, they are too narrow." if m < FEW_POSITIVES else ""
    note = (
        f"Shaded: 95 % bands of {RESAMPLES} stratified bootstrap resamples.{few} An alert is a "
        "score ≥ the threshold; the area below a curve is its AP."
    )
    return figure(chart.html(drawn, alternative, overlay), note)


def wishes(models: Sequence[Drawn]) -> str:
    """The best threshold for each precision that people ask for."""
    return grid(_wishes_of(model) for model in models)


def comparison_table(comparison: Comparison) -> str:
    """AP over folds, paired differences to the first row, and what follows from them."""
    gains = {gain.model: gain for gain in comparison.differences()}
    rows = ""
    for row in comparison.rows:
        rows += f'<tr><th scope="row"><span class="name">{text(row.model)}</span></th>'
        rows += f"<td>{ap(row.mean)} {whole(spread(row.std))}</td>"
        rows += _against_baseline(gains.get(row.model)) + "</tr>"
    head = head_row("Model", "AP, mean ± std", "difference ± std. error", "won : lost")
    caption = f"Average precision over {comparison.folds} folds"
    error = (
        "Standard errors are corrected for the training data that folds share (Nadeau and Bengio)."
        if comparison.test_fraction is not None
        else "Folds share training data, so these standard errors are too small rather than too "
        "large."
    )
    pooled = (
        "These are means of the folds' APs; at the top of the page the examples are ranked all "
        "together, which gives other numbers. To tell models apart, these are the ones."
    )
    return f'{table(caption, head, rows)}<p class="note">{pooled} {error}</p>'


def calibration(models: Sequence[Drawn]) -> str:
    """Reliability of every model in one chart, with the bins in a table for each."""
    bins = [reliability(model.result) for model in models]
    most = max(float(max(b.predicted.max(), b.high.max())) for b in bins)
    high = min((s for s in SHARES if s >= most), default=1.0)
    ticks = _square_root_ticks(high)
    chart = Chart(
        Axis("mean probability given, square-root scale", 0, high, ticks, np.sqrt),
        Axis("share that is positive", 0, high, ticks, np.sqrt),
    )
    drawn = [chart.rule((0, 0), (high, high))]
    for model, found in zip(models, bins, strict=True):
        drawn.append(chart.whiskers(found.predicted, found.low, found.high, model.series))
        drawn.append(chart.line(found.predicted, found.observed, model.series))
        drawn.append(chart.dots(found.predicted, found.observed, model.series))
    last = "; ".join(
        f"{m.result.name} gives {share(b.predicted[-1])} and {share(b.observed[-1])} are positive"
        for m, b in zip(models, bins, strict=True)
    )
    alternative = f"Reliability. In the bin of highest probability, {last}. Tables follow."
    note = (
        "On the line, probabilities are what they say. Each dot is a tenth of the examples, ties "
        f"together, with Wilson's 95 % interval. Scores are {_how_read(models)}."
    )
    key = legend(model.label for model in models) if len(models) > 1 else ""
    tables = grid(_bins_of(m, b) for m, b in zip(models, bins, strict=True))
    details = f"<details><summary>The bins in numbers</summary>{tables}</details>"
    side = f'<div class="side">{key}<p class="note">{text(note)}</p>{details}</div>'
    return f'<div class="explorer">{figure(chart.html(drawn, alternative), "")}{side}</div>'


def facts_list(facts: Mapping[str, str]) -> str:
    """What to know about the data."""
    rows = "".join(f"<div><dt>{text(k)}</dt><dd>{text(v)}</dd></div>" for k, v in facts.items())
    return f'<dl class="facts">{rows}</dl>'


def _against_baseline(gain: Difference | None) -> str:
    if gain is None:
        return "<td>baseline</td><td>–</td>"
    return (
        f"<td>{signed(gain.mean)} {whole(spread(gain.standard_error))}</td>"
        f"<td>{whole(f'{gain.wins} : {gain.losses}')}</td>"
    )


def _how_read(models: Sequence[Drawn]) -> str:
    odds = [model.result.name for model in models if model.result.scale == "log-odds"]
    if not odds:
        return "probabilities"
    formula = "read as log-odds, 1 / (1 + exp(−score))"
    return formula if len(odds) == len(models) else f"{formula}, for {', '.join(odds)}"


def _square_root_ticks(high: float) -> list[tuple[float, str]]:
    """Shares from 0 to `high` that leave room for each other's labels on a phone."""
    kept = [0.0, high]
    for one in sorted((s for s in SHARES if s < high), reverse=True):
        if min(abs(np.sqrt(one / high) - np.sqrt(other / high)) for other in kept) > 0.125:
            kept.append(one)
    return [(one, f"{100 * one:g} %") for one in sorted(kept)]


def _wishes_of(model: Drawn) -> str:
    rows = ""
    for wish, point in model.points.items():
        rows += f'<tr><th scope="row">{100 * wish:g} %</th>'
        if point is None:
            rows += '<td colspan="3" class="unreachable">not reachable</td></tr>'
            continue
        shown = model.alerts.shown[model.alerts.index_of(point.threshold)]
        rows += f"<td>{text(shown)}</td><td>{share(point.recall)}</td>"
        rows += f"<td>{per_thousand(point.alert_rate)}</td></tr>"
    head = head_row("Precision", "threshold", "recall", "alerts per 1,000")
    return table(model.label, head, rows)


def _bins_of(model: Drawn, bins: Reliability) -> str:
    rows = "".join(
        f'<tr><th scope="row">{share(predicted)}</th><td>{share(observed)}</td>'
        f"<td>{count(positives)}</td><td>{count(examples)}</td></tr>"
        for predicted, observed, positives, examples in zip(
            bins.predicted, bins.observed, bins.positives, bins.examples, strict=True
        )
    )
    return table(model.label, head_row("Given", "positive", "positives", "examples"), rows)
