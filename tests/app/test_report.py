"""The report: its numbers against independent computations, and its page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import average_precision_score
from sklearn.metrics import precision_recall_curve as sklearn_curve

from apmax import average_precision, operating_point
from apmax.app.report import Report, ScoredModel, plot_precision_recall, write_report
from apmax.app.report.measures import (
    TARGET_PRECISIONS,
    bootstrap_band,
    count_alerts,
    operating_points,
    reliability,
)
from apmax.app.report.page import render
from apmax.errors import InputError
from tests.app.cases import HOSTILE, full_report, make_scored


@pytest.mark.parametrize("digits", [0, 1, None])
def test_alerts_equal_scikit_learn_at_every_threshold(digits: int | None) -> None:
    result = make_scored(300, digits=digits)
    alerts = count_alerts(result)
    precision, recall, thresholds = sklearn_curve(result.y, result.scores)
    np.testing.assert_allclose(alerts.precision, precision[:-1])
    np.testing.assert_allclose(alerts.recall, recall[:-1])
    np.testing.assert_array_equal(alerts.thresholds, thresholds)


def test_a_thinned_curve_is_exact_and_keeps_its_area() -> None:
    result = make_scored(50_000, digits=None)
    alerts = count_alerts(result)
    assert 200 <= alerts.thresholds.size <= 402
    for k in range(0, alerts.thresholds.size, 7):
        reached = result.scores >= alerts.thresholds[k]
        assert alerts.total[k] == reached.sum()
        assert alerts.true[k] == result.y[reached].sum()
    area = -np.diff(alerts.recall, append=0.0) @ alerts.precision
    assert area == pytest.approx(average_precision(result.y, result.scores), abs=0.005)


def test_a_printed_threshold_selects_the_same_rows() -> None:
    for result in (make_scored(2000, digits=4), make_scored(300, digits=None)):
        alerts = count_alerts(result)
        for label, total in zip(alerts.labels, alerts.total, strict=True):
            assert (result.scores >= float(label)).sum() == total


def test_operating_points_are_those_of_the_metrics() -> None:
    result = make_scored(50_000, digits=None)
    points = operating_points(result)
    assert tuple(points) == TARGET_PRECISIONS
    assert points[0.5] == operating_point(result.y, result.scores, precision=0.5)
    kept = points[0.5].threshold
    assert kept in count_alerts(result, (kept,)).thresholds
    unreachable = operating_points(ScoredModel("m", [0, 1, 0, 0], [0.9, 0.5, 0.2, 0.1]))
    assert unreachable[0.5] is not None
    assert unreachable[0.95] is None


@pytest.mark.parametrize("digits", [1, None])
def test_the_bootstrap_band_contains_the_curve_and_resembles_plain_resampling(
    digits: int | None,
) -> None:
    result = make_scored(1500, digits=digits)
    band = bootstrap_band(result, resamples=400)
    assert (band.low <= band.precision).all()
    assert (band.precision <= band.high).all()
    assert band.ap == average_precision(result.y, result.scores)
    rng = np.random.default_rng(0)
    positives, negatives = np.flatnonzero(result.y), np.flatnonzero(~result.y)
    drawn = []
    for _ in range(400):
        parts = [rng.choice(rows, rows.size) for rows in (positives, negatives)]
        rows = np.concatenate(parts)
        drawn.append(average_precision_score(result.y[rows], result.scores[rows]))
    expected = np.quantile(drawn, [0.025, 0.975])
    assert [band.ap_low, band.ap_high] == pytest.approx(expected, abs=0.02)


def test_calibration_bins_equal_scikit_learn() -> None:
    result = make_scored(2000, digits=None)
    bins = reliability(result)
    observed, predicted = calibration_curve(
        result.y, result.probabilities, n_bins=10, strategy="quantile"
    )
    np.testing.assert_allclose(bins.observed, observed)
    np.testing.assert_allclose(bins.predicted, predicted)
    assert (bins.low <= bins.observed).all()
    assert (bins.observed <= bins.high).all()
    assert bins.rows.sum() == 2000


class Page(HTMLParser):
    """Collects tags, ids, and text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.words = ""
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.inside = tag
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_data(self, data: str) -> None:
        if self.inside not in ("script", "style"):
            self.words += data


def test_the_page_contains_all_sections_and_warnings_come_first() -> None:
    text = render(full_report())
    page = Page(text)
    sections = re.findall(r'<section aria-labelledby="(\w+)-title"', text)
    expected = ["curves", "thresholds", "leaderboard", "calibration", "weights", "facts", "command"]
    assert sections == expected
    assert text.index("Warning: ") < text.index("Precision and recall")
    assert "Warning: is it the same unit?</p>" in text
    assert "is better than logistic regression" in page.words
    for needed in ("Average precision", "95 %", "alerts per 1,000", "feature 0"):
        assert needed in page.words
    assert "feature 25" not in page.words  # only the largest weights
    assert len(set(page.ids)) == len(page.ids)


def test_names_from_the_data_cannot_inject_markup() -> None:
    text = render(full_report())
    page = Page(text)
    assert page.tags.count("script") == 2
    assert not {"b", "i", "u"} & set(page.tags)
    assert HOSTILE.replace("\u2028", "") in page.words.replace("\u2028", "")
    assert "default-src 'none'" in text
    assert not re.search(r'(src|href)="(?!#)', text.replace("xmlns:xlink", ""))


def test_the_slider_data_match_the_counts() -> None:
    report = full_report()
    found = re.search(r'id="data">(.*?)</script>', render(report), flags=re.S)
    assert found is not None
    models = json.loads(found.group(1))
    assert [model["name"] for model in models] == [result.name for result in report.results]
    for model, result in zip(models, report.results, strict=True):
        assert model["positives"] == result.y.sum()
        k = model["start"]
        alert = result.scores >= float(model["thresholds"][k])
        assert (model["true"][k], model["all"][k]) == (result.y[alert].sum(), alert.sum())


@pytest.mark.parametrize(
    "result",
    [
        ScoredModel("tied", [1, 0, 0, 0], [0.3] * 4),
        ScoredModel("one positive", [0, 1, 0], [-5.0, 3.0, 2.0]),
        ScoredModel("all positive", [1, 1], [0.5, 0.7]),
        ScoredModel("huge", [0, 1], [-1e300, 1e300]),
    ],
    ids=lambda result: result.name,
)
def test_extreme_results_are_rendered(result: ScoredModel) -> None:
    assert "nan" not in Page(render(Report("Extreme", [result]))).words.lower()


def test_reports_are_written_into_new_folders_and_are_reproducible(tmp_path: Path) -> None:
    file = write_report(full_report(), tmp_path / "a" / "report.html")
    assert file.read_text(encoding="utf-8") == render(full_report())


def test_the_legend_gives_the_ap_of_each_curve() -> None:
    results = full_report().results
    axes = plot_precision_recall(results)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[0].startswith("logistic regression, AP 0.")
    area = average_precision(results[0].y, results[0].scores)
    assert labels[0].endswith(f"{area:.3f}")


def test_unusable_results_are_refused() -> None:
    for y, scores in (([0, 1], [0.5, np.nan]), ([0, 1, 1], [0.5, 0.1]), ([0, 0], [0.5, 0.1])):
        with pytest.raises(InputError):
            ScoredModel("m", y, scores)
