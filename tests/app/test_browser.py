"""The report in Chromium: sliders, keyboard, accessibility, narrow screens and dark mode."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from apmax import operating_point
from apmax.app.report import Report, ScoredModel, write_report
from tests.app.cases import full_report, make_scored
from tests.browser import DESKTOP, PHONE, needs_chromium, open_browser, resize

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

pytestmark = needs_chromium
AXE = Path(__file__).parents[2] / ".browser" / "axe.min.js"
DARK = [{"name": "prefers-color-scheme", "value": "dark"}]
EVERY_VIEW = [
    pytest.param(size, scheme, id=f"{size[0]}-{scheme}")
    for size in (DESKTOP, PHONE)
    for scheme in ("light", "dark")
]

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with open_browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    tied = Report("Nothing to choose", [ScoredModel("tied", [1, 0, 0, 0], [0.3] * 4)])
    reports = {"full": full_report(), "one": Report("One", [make_scored()]), "tied": tied}
    reports["stored"] = Report("Stored", [make_scored()], threshold=0.3, cost_ratio=33.5)
    return {name: write_report(one, folder / f"{name}.html") for name, one in reports.items()}


@pytest.fixture
def open_page(browser: Any, pages: dict[str, Path]) -> Open:
    def go(name: str = "full", size: tuple[int, int] = DESKTOP, **media: str) -> Any:
        resize(browser, size)
        features = [{"name": k.replace("_", "-"), "value": v} for k, v in media.items()]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get(pages[name].as_uri())
        return browser

    return go


def words(browser: Any, name: str) -> str:
    return str(browser.find_element(By.ID, name).text)


def number(browser: Any, name: str) -> float:
    return float(words(browser, name).replace("%", "").replace(",", "").split()[0])


def errors_in(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser")]


def assert_numbers_are_right(browser: Any, result: ScoredModel) -> None:
    """Everything beside the slider, worked out again from the threshold that it shows."""
    threshold = float(words(browser, "threshold"))
    alert = result.probabilities >= threshold
    cells = {
        "tp": (alert & result.y).sum(),
        "fp": (alert & ~result.y).sum(),
        "fn": (~alert & result.y).sum(),
        "tn": (~alert & ~result.y).sum(),
    }
    assert {name: number(browser, name) for name in cells} == cells
    assert number(browser, "precision") == pytest.approx(100 * result.y[alert].mean(), abs=0.051)
    assert number(browser, "recall") == pytest.approx(100 * alert[result.y].mean(), abs=0.051)
    assert number(browser, "rate") == pytest.approx(1000 * alert.mean(), rel=0.05, abs=0.51)
    cost = cells["fp"] + number(browser, "ratio") * cells["fn"]
    assert number(browser, "expected") == pytest.approx(1000 * cost / alert.size, abs=0.51)
    assert words(browser, "option") == (
        f"apmax predict MODEL DATA --threshold {words(browser, 'threshold')}"
    )


@pytest.mark.parametrize("name", ["full", "one", "tied"])
def test_the_console_stays_empty(open_page: Open, name: str) -> None:
    assert errors_in(open_page(name)) == []


def test_the_slider_is_moved_by_keyboard_and_the_numbers_follow(open_page: Open) -> None:
    browser = open_page()
    result = full_report().winner
    slider = browser.find_element(By.ID, "slider")
    assert_numbers_are_right(browser, result)
    seen = {words(browser, "threshold")}
    for keys in (Keys.ARROW_RIGHT * 3, Keys.ARROW_LEFT, Keys.PAGE_UP, Keys.HOME, Keys.END):
        slider.send_keys(keys)
        assert_numbers_are_right(browser, result)
        seen.add(words(browser, "threshold"))
    assert len(seen) == 6
    slider.send_keys(Keys.HOME)
    assert number(browser, "recall") == 100
    assert number(browser, "rate") == 1000


def test_the_slider_starts_at_the_stored_threshold(open_page: Open) -> None:
    browser = open_page("stored")
    assert number(browser, "threshold") == 0.3
    alerts = make_scored().probabilities >= 0.3
    assert number(browser, "tp") + number(browser, "fp") == alerts.sum()
    assert words(browser, "ratio") == "34 false alarms"


def test_the_cost_slider_goes_to_the_cheapest_threshold(open_page: Open) -> None:
    browser = open_page("one")
    result = make_scored()
    cost, seen = browser.find_element(By.ID, "cost"), []
    for keys in (Keys.HOME, Keys.PAGE_UP, Keys.ARROW_RIGHT, Keys.END):
        cost.send_keys(keys)
        ratio = number(browser, "ratio")
        p, y = result.probabilities, result.y
        costs = {t: ((p >= t) & ~y).sum() + ratio * ((p < t) & y).sum() for t in np.unique(p)}
        expected = "no alert at all is cheapest"
        if min(costs.values()) < ratio * y.sum():
            expected = "this is the cheapest threshold"
        assert words(browser, "cheapest") == expected
        assert number(browser, "expected") == pytest.approx(
            1000 * min(costs.values()) / y.size, abs=0.51
        )
        assert_numbers_are_right(browser, result)
        seen.append(number(browser, "recall"))
    assert seen == sorted(seen)
    assert seen[0] < seen[-1]
    browser.find_element(By.ID, "slider").send_keys(Keys.END)
    assert "more per 1,000 rows than at" in words(browser, "cheapest")


def test_another_model_is_chosen_with_its_curve(open_page: Open) -> None:
    browser = open_page()
    shown = "return [...document.querySelectorAll('#curves svg .on')].map(e => e.id)"
    assert set(browser.execute_script(shown)) == {"pr-line-1", "pr-band-1"}
    Select(browser.find_element(By.ID, "model")).select_by_index(2)
    assert set(browser.execute_script(shown)) == {"pr-line-2", "pr-band-2"}
    assert_numbers_are_right(browser, full_report().results[2])


def test_the_marker_stands_on_the_curve(open_page: Open) -> None:
    browser = open_page(prefers_reduced_motion="reduce")
    browser.find_element(By.ID, "slider").send_keys(Keys.ARROW_RIGHT * 5)
    at = browser.execute_script(
        "const m = document.getElementById('marker').getBoundingClientRect();"
        "const p = document.querySelector('#curves .plot').getBoundingClientRect();"
        "return [(m.left + m.width / 2 - p.left) / p.width,"
        "        (p.bottom - m.top - m.height / 2) / p.height]"
    )
    shown = [number(browser, "recall") / 100, number(browser, "precision") / 100]
    assert at == pytest.approx(shown, abs=0.003)


def test_a_target_precision_is_one_key_away(open_page: Open) -> None:
    browser = open_page("one")
    result = make_scored()
    browser.find_element(By.CSS_SELECTOR, "[data-target='0']").send_keys(Keys.ENTER)
    point = operating_point(result.y, result.probabilities, precision=0.5)
    assert number(browser, "recall") == pytest.approx(100 * point.recall, abs=0.051)
    assert_numbers_are_right(browser, result)


def test_a_click_on_the_chart_moves_to_that_recall(open_page: Open) -> None:
    browser = open_page("one")
    plot = browser.find_element(By.CSS_SELECTOR, "#curves .plot")
    plot.click()  # in the middle
    assert number(browser, "recall") == pytest.approx(50, abs=2)
    assert_numbers_are_right(browser, make_scored())


def test_one_threshold_leaves_nothing_to_slide(open_page: Open) -> None:
    browser = open_page("tied")
    assert not browser.find_element(By.ID, "slider").is_enabled()
    assert not browser.find_element(By.ID, "model").is_displayed()
    targets = browser.find_elements(By.CSS_SELECTOR, "[data-target]")
    assert [target.is_enabled() for target in targets] == [False] * 4


def test_without_scripts_the_page_still_tells_its_numbers(open_page: Open, browser: Any) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        open_page("one")
        assert not browser.find_element(By.ID, "panel").is_displayed()
        assert "alerts per 1,000" in browser.find_element(By.ID, "points").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize(("size", "scheme"), EVERY_VIEW)
def test_a_screenshot_shows_a_page(open_page: Open, size: tuple[int, int], scheme: str) -> None:
    browser = open_page(size=size, prefers_color_scheme=scheme)
    picture = imread(io.BytesIO(browser.get_screenshot_as_png()))[..., :3]
    assert picture.shape[:2] == size[::-1]
    corner = picture[2, 2].mean()
    assert corner < 0.2 if scheme == "dark" else corner > 0.9
    drawn = np.abs(picture - picture[2, 2]).max(axis=2) > 0.3
    assert 0.005 < drawn.mean() < 0.5
    assert np.unique((picture * 255).round().reshape(-1, 3), axis=0).shape[0] > 50


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (make browser)")
@pytest.mark.parametrize(("size", "scheme"), EVERY_VIEW)
def test_axe_finds_no_violation(open_page: Open, size: tuple[int, int], scheme: str) -> None:
    browser = open_page(size=size, prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
    for details in browser.find_elements(By.TAG_NAME, "summary"):
        details.click()
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    found = browser.execute_async_script("axe.run().then(arguments[0])")
    assert len(found["passes"]) > 20
    problems = [(one["impact"], one["id"], one["nodes"][0]["html"]) for one in found["violations"]]
    assert problems == []


@pytest.mark.parametrize("name", ["full", "one", "tied"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_scrolls_in_one_direction(
    open_page: Open, name: str, size: tuple[int, int]
) -> None:
    browser = open_page(name, size=size)
    page = browser.find_element(By.TAG_NAME, "html")
    assert page.get_property("scrollWidth") == page.get_property("clientWidth")


def test_every_control_is_reached_by_keyboard(open_page: Open) -> None:
    browser = open_page(size=PHONE)
    reached = []
    for _ in range(60):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        active = browser.switch_to.active_element
        reached.append(active.get_attribute("id") or active.get_attribute("class"))
    assert reached[0] == "skip"
    assert {"model", "slider", "cost", "scroll"} <= set(reached)


def test_a_printed_page_is_light_and_has_its_tables_and_no_controls(open_page: Open) -> None:
    browser = open_page(prefers_color_scheme="dark")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": DARK})
    try:
        assert not browser.find_element(By.ID, "panel").is_displayed()
        assert browser.find_element(By.ID, "points").is_displayed()
        page = browser.find_element(By.TAG_NAME, "body")
        assert page.value_of_css_property("background-color") == "rgba(252, 252, 250, 1)"
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
