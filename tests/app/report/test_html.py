"""The page as a file: whole, safe, small, and with the numbers of the metrics."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.cases import full_report, make_history, make_scored

from apmax import average_precision, operating_point, precision_recall_curve
from apmax.errors import FileError
from apmax.app.report import Report, Scored, write_report
from apmax.app.report.html import render, safe_json

EVIL = "</script><script>alert(1)</script><!-- &amp; \u2028"


class Outline(HTMLParser):
    """Which elements a page has, and its text outside scripts and styles."""

    VOID = frozenset({"meta", "input", "path"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def slider_data(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def report_of(*results: Scored) -> Report:
    return Report("A test", results)


@pytest.fixture(scope="module")
def page() -> str:
    return render(full_report())


def test_every_element_is_closed_and_every_id_is_unique(page: str) -> None:
    outline = Outline(page)
    assert outline.open == []
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_page_loads_nothing(page: str) -> None:
    outline = Outline(page)
    loading = {"link", "img", "iframe", "object", "embed", "video", "audio", "base", "a"}
    assert not loading & {tag for tag, _ in outline.tags}
    assert not any({"src", "href", "onclick"} & set(attributes) for _, attributes in outline.tags)
    assert "@import" not in page
    assert "url(" not in page
    assert "://" not in page


def test_names_with_html_in_them_stay_text() -> None:
    result = make_scored(name=EVIL, history=make_history(), coefficients=[(EVIL, 1.0)])
    report = Report(EVIL, [result], None, {EVIL: EVIL}, EVIL)
    page = render(report)
    assert len(Outline(page).all("script")) == 2
    assert page.count("</script>") == 2
    assert "<!--" not in page
    assert slider_data(page)[0]["name"] == EVIL
    assert Outline(page).words.count("alert(1)") >= 6


def test_json_in_the_page_reads_back() -> None:
    value = {"a": [EVIL, 1.5, None], "é": "☃"}
    text = safe_json(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028") & set(text)
    with pytest.raises(ValueError, match="not JSON compliant"):
        safe_json(float("nan"))


def test_the_slider_holds_the_counts_of_the_metrics(page: str) -> None:
    for result, model in zip(full_report().results, slider_data(page), strict=True):
        curve = precision_recall_curve(result.y, result.scores)
        for k, threshold in enumerate(model["thresholds"]):
            at = np.searchsorted(curve.thresholds, float(threshold))
            assert model["true"][k] / model["all"][k] == curve.precision[at]
            assert model["true"][k] / model["positives"] == curve.recall[at]
            assert model["all"][k] == (result.scores >= float(threshold)).sum()


def test_the_jumps_of_the_slider_are_the_operating_points(page: str) -> None:
    (first, *_) = full_report().results
    model = slider_data(page)[0]
    at = model["wishes"][0]
    point = operating_point(first.y, first.scores, precision=0.5)
    assert model["true"][at] / model["positives"] == point.recall
    assert model["all"][at] / model["examples"] == point.alert_rate


def test_the_page_states_ap_and_prevalence(page: str) -> None:
    words = Outline(page).words
    for result in full_report().results:
        assert f"{average_precision(result.y, result.scores):.3f}" in words
    assert "600 examples, 60 of them positive (10.0\u202f%)" in words
    assert "where guessing gives 0.1." in words


def test_the_page_states_the_comparison_facts_and_command(page: str) -> None:
    words = Outline(page).words
    comparison = full_report().comparison
    assert comparison is not None
    for gain in comparison.differences():
        assert gain.sentence() in words
        assert f"{gain.wins} : {gain.losses}" in words
    assert "These are means of the folds' APs" in words
    assert "<u>odd</u>" in words
    assert "apmax report 'model <1>.apmax' test.csv" in words


def test_doubts_and_verdicts_stand_before_all_numbers() -> None:
    report = replace(full_report(), doubts=["'amount' is <b>empty</b>", "is it so?"])
    words = Outline(render(report)).words
    top = words[: words.index("Precision and recall")]
    assert "Take care: 'amount' is <b>empty</b>." in top
    assert "so?." not in top
    assert report.comparison is not None
    for gain in report.comparison.differences():
        assert gain.sentence() in top


def test_every_chart_has_words_and_every_table_a_caption(page: str) -> None:
    outline = Outline(page)
    charts = [svg for svg in outline.all("svg") if svg.get("aria-hidden") != "true"]
    assert len(charts) == 4  # curves, two histories, calibration
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in charts)
    assert len(outline.all("caption")) == len(outline.all("table"))
    assert all("scope" in cell for cell in outline.all("th"))
    labelled = {label["for"] for label in outline.all("label")}
    assert {"slider", "model"} <= labelled


def test_only_the_largest_weights_are_shown(page: str) -> None:
    words = Outline(page).words
    assert "the 20 largest of 30 weights" in words
    assert "feature 19" in words
    assert "feature 20" not in words


def test_sections_without_data_are_left_out() -> None:
    page = render(report_of(make_scored()))
    for name in ("comparison", "history", "weights", "facts", "repeat"):
        assert f'id="{name}"' not in page
    for name in ("curves", "wishes", "calibration"):
        assert f'id="{name}"' in page


def test_a_history_without_validation_has_no_line_for_it() -> None:
    result = make_scored(history=make_history(held_out=False))
    words = Outline(render(report_of(result))).words
    assert "training AP" in words
    assert "validation AP" not in words


@pytest.mark.parametrize(
    "result",
    [
        Scored("one positive", [0] * 50 + [1], np.arange(51.0)),
        Scored("one positive, at the bottom", [1] + [0] * 50, np.arange(51.0)),
        Scored("all tied", [1, 0, 0, 0], [0.3] * 4),
        Scored("only positives", [1, 1, 1], [0.1, 0.2, 0.3]),
        Scored("one example", [1], [0.0]),
        Scored("far apart", [0, 1, 0], [-1e300, 1e300, 1e-300]),
        Scored("one step", [0, 1], [0, 1], history=make_history(1)),
        Scored("no weight", [0, 1], [0, 1], coefficients=[("a", 0.0)]),
    ],
    ids=lambda result: result.name,
)
def test_unusual_results_still_make_a_page(result: Scored) -> None:
    page = render(report_of(result))
    assert Outline(page).open == []
    assert not re.search(r"\b(nan|inf)\b", page.split("<script>")[0])


def test_what_is_not_reachable_says_so() -> None:
    page = render(report_of(Scored("all tied", [1, 0, 0, 0], [0.3] * 4)))
    assert Outline(page).words.count("not reachable") == 4
    assert slider_data(page)[0]["wishes"] == [None] * 4


def test_the_same_report_gives_the_same_bytes(page: str) -> None:
    assert render(full_report()) == page


def test_the_file_is_the_page_and_folders_are_made(tmp_path: Path, page: str) -> None:
    path = write_report(full_report(), str(tmp_path / "new" / "report.html"))
    assert path.read_text(encoding="utf-8") == page
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def test_a_failed_write_leaves_the_old_page_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(FileError, match="no space left"):
        write_report(report_of(make_scored()), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_million_examples_make_a_small_page_quickly(tmp_path: Path) -> None:
    large = make_scored(1_000_000, digits=None)
    report = report_of(large, replace(large, name="reversed", scores=-large.scores))
    start = time.perf_counter()
    path = write_report(report, tmp_path / "report.html")
    assert time.perf_counter() - start < 10
    assert path.stat().st_size < 200_000


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it, of #rgb or #rrggbb."""
    digits = colour.removeprefix("#")
    wide = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    channels = np.array([int(wide[k : k + 2], 16) for k in (0, 2, 4)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_told_from_the_paper(page: str, scheme: int) -> None:
    root = re.findall(r":root \{(.*?)\}", page, re.S)[scheme]
    colours = dict(re.findall(r"--([\w-]+): (#\w+)", root))

    def contrast(first: str, second: str) -> float:
        low, high = sorted([luminance(colours[first]), luminance(colours[second])])
        return (high + 0.05) / (low + 0.05)

    for written in ("ink", "muted", "accent"):
        assert contrast(written, "paper") >= 4.5
    assert contrast("ink", "raised") >= 4.5
    assert contrast("on-accent", "accent") >= 4.5
    for series in range(7):
        assert contrast(f"s{series}", "paper") >= 3
