"""The documentation site in Chromium: pages fit the screen, and load nothing from other hosts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import apmax
from tests.browser import DESKTOP, PHONE, needs_chromium, open_browser, resize
from tests.hang import SECONDS

pytest.importorskip("mkdocs", reason="mkdocs is not installed")
ROOT = Path(__file__).parents[1]
pytestmark = needs_chromium


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)],
        check=True,
        timeout=SECONDS,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    pages = [path.parent.relative_to(folder).as_posix() for path in folder.rglob("index.html")]
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", sorted(pages)
    server.shutdown()
    server.server_close()


def test_pages_fit_both_screens_and_log_nothing(
    site: tuple[str, list[str]], tmp_path: Path
) -> None:
    address, pages = site
    assert len(pages) > 30
    wide, logged, foreign = [], [], []
    with open_browser(tmp_path) as browser:
        for page in pages:
            resize(browser, DESKTOP)
            browser.get(f"{address}/{page}/")
            for size in (DESKTOP, PHONE):
                resize(browser, size)
                script = "const d = document.documentElement; return d.scrollWidth - d.clientWidth"
                wide += [(page, size)] if browser.execute_script(script) > 1 else []
            logged += [entry["message"] for entry in browser.get_log("browser")]
            script = "return performance.getEntriesByType('resource').map(one => one.name)"
            foreign += [u for u in browser.execute_script(script) if not u.startswith(address)]
    assert (wide, logged, foreign) == ([], [], [])


def test_every_page_has_search_dark_mode_copy_buttons_and_the_version(
    site: tuple[str, list[str]], tmp_path: Path
) -> None:
    address, _ = site
    with open_browser(tmp_path) as browser:
        resize(browser, DESKTOP)
        browser.get(f"{address}/quickstart/")
        found = {
            name: browser.execute_script(f"return document.querySelectorAll('{selector}').length")
            for name, selector in {
                "search": "[data-md-component=search]",
                "colour schemes": "[data-md-component=palette] input",
                "copy buttons": "pre > .md-code__nav, .highlight .md-clipboard",
            }.items()
        }
        assert found["search"] == 1
        assert found["colour schemes"] == 2
        assert found["copy buttons"] >= 5
        footer = browser.execute_script("return document.querySelector('footer').textContent")
        assert f"apmax {apmax.__version__}" in footer
