"""The report: its numbers against independent computations, and its page."""

from __future__ import annotations

import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    log_loss,
    roc_auc_score,
)
from sklearn.metrics import precision_recall_curve as sklearn_curve

from apmax import average_precision, operating_point
from apmax.app.report import (
    Report,
    ScoredModel,
    plot_precision_recall,
    write_report,
    write_tables,
)
from apmax.app.report.effects import panels
from apmax.app.report.measures import (
    TARGET_PRECISIONS,
    bootstrap_band,
    constant_quality,
    count_alerts,
    deciles,
    operating_points,
    quality,
    top_rows,
)
from apmax.app.report.page import number, probability, render, share
from apmax.app.report.provenance import provenance
from apmax.errors import InputError, ParameterError
from apmax.tabular.effects import CategoryEffect
from tests.app.cases import HOSTILE, full_report, make_scored


@pytest.mark.parametrize("digits", [0, 1, None])
def test_alerts_equal_scikit_learn_at_every_threshold(digits: int | None) -> None:
    result = make_scored(300, digits=digits)
    alerts = count_alerts(result)
    precision, recall, thresholds = sklearn_curve(result.y, result.probabilities)
    np.testing.assert_allclose(alerts.precision, precision[:-1])
    np.testing.assert_allclose(alerts.recall, recall[:-1])
    np.testing.assert_array_equal(alerts.thresholds, thresholds)


def test_a_thinned_curve_is_exact_and_keeps_its_area() -> None:
    result = make_scored(50_000, digits=None)
    alerts = count_alerts(result)
    assert 200 <= alerts.thresholds.size <= 402
    for k in range(0, alerts.thresholds.size, 7):
        reached = result.probabilities >= alerts.thresholds[k]
        assert alerts.total[k] == reached.sum()
        assert alerts.true[k] == result.y[reached].sum()
    area = -np.diff(alerts.recall, append=0.0) @ alerts.precision
    assert area == pytest.approx(average_precision(result.y, result.probabilities), abs=0.005)


def test_a_printed_threshold_selects_the_same_rows() -> None:
    for result in (make_scored(2000, digits=4), make_scored(300, digits=None)):
        alerts = count_alerts(result)
        for label, total in zip(alerts.labels, alerts.total, strict=True):
            assert (result.probabilities >= float(label)).sum() == total


def test_operating_points_are_those_of_the_metrics() -> None:
    result = make_scored(50_000, digits=None)
    points = operating_points(result)
    assert tuple(points) == TARGET_PRECISIONS
    assert points[0.5] == operating_point(result.y, result.probabilities, precision=0.5)
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
    assert band.ap == average_precision(result.y, result.probabilities)
    rng = np.random.default_rng(0)
    positives, negatives = np.flatnonzero(result.y), np.flatnonzero(~result.y)
    drawn = []
    for _ in range(400):
        parts = [rng.choice(rows, rows.size) for rows in (positives, negatives)]
        rows = np.concatenate(parts)
        drawn.append(average_precision_score(result.y[rows], result.probabilities[rows]))
    expected = np.quantile(drawn, [0.025, 0.975])
    assert [band.ap_low, band.ap_high] == pytest.approx(expected, abs=0.02)


def test_metrics_equal_scikit_learn_and_scipy() -> None:
    result = make_scored(3000)
    found, y, p = quality(result), result.y, result.probabilities
    assert found.ap == pytest.approx(average_precision_score(y, p))
    assert found.roc_auc == pytest.approx(roc_auc_score(y, p))
    assert found.ks == pytest.approx(ks_2samp(p[y], p[~y]).statistic)
    assert found.brier == pytest.approx(brier_score_loss(y, p))
    assert found.log_loss == pytest.approx(log_loss(y, p))
    constant = quality(ScoredModel("constant", y, np.full(y.size, y.mean())))
    assert constant_quality(y.mean()) == pytest.approx(constant)


@pytest.mark.parametrize("digits", [1, None])
def test_the_top_rows_are_those_of_a_sorted_table(digits: int | None) -> None:
    result = make_scored(1000, digits=digits)
    rng = np.random.default_rng(0)
    counts = []
    for _ in range(400):  # tied rows come in any order
        order = np.lexsort((rng.random(1000), -result.probabilities))
        counts.append([result.y[order[:rows]].sum() for rows in (10, 20, 50, 100)])
    found = top_rows(result)
    assert [top.rows for top in found] == [10, 20, 50, 100]
    expected = np.mean(counts, axis=0)
    precision = [top.precision for top in found]
    np.testing.assert_allclose(precision, expected / [10, 20, 50, 100], atol=0.02)
    np.testing.assert_allclose([top.lift for top in found], np.array(precision) / 0.1)
    np.testing.assert_allclose([top.recall for top in found], expected / 100, atol=0.01)


def test_deciles_add_up() -> None:
    result = make_scored(1005, digits=1)
    parts = deciles(result)
    assert sum(part.rows for part in parts) == 1005
    assert sum(part.positives for part in parts) == pytest.approx(result.y.sum())
    assert parts[-1].gain == pytest.approx(1)
    assert parts[-1].cumulative_lift == pytest.approx(1)
    np.testing.assert_allclose(np.diff([part.gain for part in parts]) >= -1e-12, True)
    first = parts[0]
    assert first.lift == pytest.approx(first.positives / first.rows / result.prevalence)
    assert len(deciles(ScoredModel("m", [1, 0, 0], [0.5, 0.4, 0.3]))) == 3


def test_a_weight_of_two_equals_the_row_twice() -> None:
    result = make_scored(1000)
    times = np.random.default_rng(0).integers(0, 3, 1000)
    times[-1] += 20 - times.sum() % 20  # deciles and top rows end between rows
    weighted = ScoredModel("a", result.y, result.probabilities, times.astype(float))
    repeated = ScoredModel("a", result.y.repeat(times), result.probabilities.repeat(times))
    assert weighted.prevalence == pytest.approx(repeated.prevalence)
    assert quality(weighted) == pytest.approx(quality(repeated))
    first, second = count_alerts(weighted), count_alerts(repeated)
    for name in ("thresholds", "true", "total", "positives", "rows"):
        np.testing.assert_allclose(getattr(first, name), getattr(second, name))
    for target, point in operating_points(weighted).items():
        assert point == pytest.approx(operating_points(repeated)[target])
    np.testing.assert_allclose(deciles(weighted), deciles(repeated))
    shares = (0.05, 0.1)
    np.testing.assert_allclose(top_rows(weighted, shares), top_rows(repeated, shares))
    assert "by sample weights" in Page(render(Report("Weighted", [weighted]))).words


def test_the_weighted_band_resembles_plain_resampling() -> None:
    plain, rng = make_scored(2000, digits=None), np.random.default_rng(0)
    weight = rng.exponential(size=2000)
    result = ScoredModel("a", plain.y, plain.probabilities, weight)
    band = bootstrap_band(result, resamples=400)
    drawn = []
    for _ in range(400):
        rows = np.concatenate(
            [rng.choice(np.flatnonzero(of), of.sum()) for of in (result.y, ~result.y)]
        )
        drawn.append(
            average_precision_score(
                result.y[rows], result.probabilities[rows], sample_weight=weight[rows]
            )
        )
    expected = np.quantile(drawn, [0.025, 0.975])
    assert [band.ap_low, band.ap_high] == pytest.approx(expected, abs=0.025)


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


def slider_data(text: str) -> Any:
    """Return what the script of a page reads."""
    found = re.search(r'id="data">(.*?)</script>', text, flags=re.S)
    assert found is not None
    return json.loads(found.group(1))


def test_the_page_contains_all_sections_and_the_winner_comes_first() -> None:
    text = render(full_report())
    page = Page(text)
    sections = re.findall(r'<section[^>]* aria-labelledby="(\w+)-title"', text)
    expected = ["winner", "leaderboard", "curves", "points", "deciles", "metrics"]
    assert sections == [*expected, "calibration", "effects", "drift", "facts"]
    targets = re.findall(r'href="#(\w+)"', text)
    assert set(targets) - set(page.ids) == set()
    assert text.index("Warning: ") < text.index("Chosen model") < text.index("Leaderboard")
    assert "Warning: is it the same unit?</li>" in text
    assert "Use the additive model <u>now</u>." in page.words
    assert re.search(r"additive\s+Use", page.words)
    for needed in ("Average precision", "95 %", "alerts per 1,000", "feature 0", "ROC AUC", "PSI"):
        assert needed in page.words
    assert "feature 25" not in page.words  # only the largest weights
    assert "13 less important categories are not shown" in page.words
    assert "Less important effects: 3" in page.words
    assert len(set(page.ids)) == len(page.ids)


def test_parts_without_content_are_left_out() -> None:
    text = render(Report("One", [make_scored()]))
    for absent in ("leaderboard", "effects", "drift", "facts"):
        assert f'id="{absent}"' not in text
        assert f'href="#{absent}"' not in text
    assert "95 % interval" in Page(text).words  # of AP, in place of a standard error


def test_the_winner_is_the_chosen_model_of_the_leaderboard() -> None:
    report = full_report()
    assert report.winner.name == report.standing.model == "additive"
    assert Report("One", [make_scored()]).standing is None


@pytest.mark.parametrize("digits", [2, None])
def test_the_stored_threshold_comes_first(digits: int | None) -> None:
    scored = make_scored(digits=digits)
    text = render(Report("Stored", [scored], threshold=0.3))
    alerts = scored.probabilities >= 0.3
    assert "At the stored threshold" in text
    assert f"{100 * scored.y[alerts].mean():.1f}\u202f%</dd>" in text
    data = slider_data(text)
    model, start = data["models"][0], data["start"]
    assert model["thresholds"][start] == "0.3"
    assert (model["all"][start], model["true"][start]) == (alerts.sum(), scored.y[alerts].sum())
    unreached = render(Report("Too high", [scored], threshold=1.0))
    assert "At 80 % recall" in unreached
    assert slider_data(unreached)["start"] is None


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
    data = slider_data(render(report))
    models = data["models"]
    assert models[data["best"]]["name"] == "additive"
    assert [model["name"] for model in models] == [result.name for result in report.results]
    for model, result in zip(models, report.results, strict=True):
        assert model["positives"] == result.y.sum()
        for k in range(0, len(model["thresholds"]), 5):
            alert = result.probabilities >= float(model["thresholds"][k])
            assert (model["true"][k], model["all"][k]) == (result.y[alert].sum(), alert.sum())


@pytest.mark.parametrize(
    "result",
    [
        ScoredModel("tied", [1, 0, 0, 0], [0.3] * 4),
        ScoredModel("one positive", [0, 1, 0], [0.01, 0.9, 0.8]),
        ScoredModel("one row", [1], [0.5]),
        ScoredModel("all positive", [1, 1], [0.5, 0.7]),
        ScoredModel("certain", [0, 1], [0.0, 1.0]),
        ScoredModel("tiny", [0, 1, 0], [1e-300, 1e-299, 0.0]),
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
    assert labels[0].startswith("logistic, AP 0.")
    area = average_precision(results[0].y, results[0].probabilities)
    assert labels[0].endswith(f"{area:.3f}")


def test_unusable_results_are_refused() -> None:
    for y, p in (([0, 1], [0.5, np.nan]), ([0, 1, 1], [0.5, 0.1]), ([0, 0], [0.5, 0.1])):
        with pytest.raises(InputError):
            ScoredModel("m", y, p)
    with pytest.raises(InputError, match=r"between -3 and 2: they must be in \[0, 1\]"):
        ScoredModel("m", [0, 1], [-3.0, 2.0])
    with pytest.raises(ParameterError, match="at least one scored model"):
        Report("Nothing", [])


def test_tables_are_exported(tmp_path: Path) -> None:
    report = full_report()
    files = {
        file.stem: pd.read_csv(file) for file in write_tables(report, tmp_path / "new" / "csv")
    }
    assert set(files) == {
        *("leaderboard", "metrics", "operating_points", "top_rows", "deciles", "calibration"),
        *("effects", "coefficients", "drift"),
    }
    board = files["leaderboard"]
    assert board["model"].tolist() == [one.model for one in report.leaderboard]
    np.testing.assert_allclose(board["ap"], [one.ap for one in report.leaderboard])
    best = files["metrics"].set_index("model").loc["additive"]
    assert best["ap"] == pytest.approx(quality(report.winner).ap)
    assert files["deciles"].groupby("model")["positives"].sum().tolist() == pytest.approx([60] * 3)
    assert files["calibration"].groupby("model")["rows"].sum().tolist() == [600] * 3
    effects = files["effects"].groupby("effect").size()
    assert (effects["age"], effects[HOSTILE]) == (51, 25)
    assert files["drift"]["size"].tolist() == ["large", "small"]
    single = write_tables(Report("One", [make_scored()]), tmp_path / "single")
    assert "drift" not in [file.stem for file in single]


def test_provenance_identifies_the_data(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a,b\n")
    facts = provenance(file)
    assert facts["data"] == "rows.csv"
    assert facts["SHA-256 of the data"] == hashlib.sha256(b"a,b\n").hexdigest()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", facts["date"])
    assert facts["versions"].startswith("apmax ")
    assert "SHA-256 of the data" not in provenance(tmp_path / "stdin")


def test_numbers_are_formatted_for_people() -> None:
    assert [share(0), share(0.5), share(0.00123)] == ["0.0\u202f%", "50.0\u202f%", "0.12\u202f%"]
    assert [number(-0.0001, 3, "+"), number(0.25, 2, "+")] == ["0.000", "+0.25"]
    assert [number(-1.5, 1), number(float("nan"))] == ["−1.5", "–"]
    shown = [probability(p) for p in (0.0, 1e-9, 0.0123, 0.9996)]
    assert shown == ["0", "< 0.0001", "0.012", "0.9996"]


def test_categories_that_no_training_row_has_are_not_shown() -> None:
    density = np.array([0.598, 0.4, 0.002, 0.0])
    effect = CategoryEffect("city", 0, ["a", "b", "c", "(other)"], np.arange(4.0), density)
    ((panel,), _) = panels([effect])
    assert [bar.name for bar in panel.bars] == ["c (<1%)", "b (40%)", "a (60%)"]
    assert panel.hidden == 0


def test_operating_points_show_the_precision_that_is_reached() -> None:
    result = make_scored(digits=None)
    page = render(Report("t", [result]))
    section = page[page.index('id="points"') : page.index('id="deciles"')]
    for point in operating_points(result).values():
        if point is not None:
            assert f"<td>{share(point.precision)}</td><td>{share(point.recall)}</td>" in section
    assert operating_points(result)[0.5] is not None


def test_the_slider_of_costs_begins_at_the_stored_ratio() -> None:
    plain = slider_data(render(Report("One", [make_scored()])))
    assert plain["cost"] is None
    for ratio in (20, 33.5, 0.5):
        data = slider_data(render(Report("One", [make_scored()], cost_ratio=ratio)))
        assert data["costs"][data["cost"]] == ratio
        assert data["costs"] == sorted({*plain["costs"], ratio})
    with pytest.raises(ParameterError, match="cost_ratio"):
        Report("One", [make_scored()], cost_ratio=float("inf"))
