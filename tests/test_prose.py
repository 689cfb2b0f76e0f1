"""The check of the vocabulary finds words wherever they stand, but not in code."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOUND = runpy.run_path(str(Path(__file__).resolve().parents[1] / ".ci" / "prose.py"))["found"]


def lines(folder: Path, text: str, name: str = "page.md") -> list[int]:
    """Return the lines of words that the vocabulary replaces."""
    (folder / name).write_text(text)
    return [line for line, _ in FOUND(folder / name)]


@pytest.mark.parametrize(
    "text",
    ["A warning says so.", "Nobody.", "(obviously it is)", '"Simply" run it', "[simply](run.md)"],
)
@pytest.mark.parametrize("name", ["page.md", "module.py"])
def test_words_are_found_beside_punctuation(tmp_path: Path, text: str, name: str) -> None:
    assert lines(tmp_path, f"First.\n\n{text}\n", name) == [3]


def test_words_are_found_on_several_lines_of_a_paragraph(tmp_path: Path) -> None:
    assert lines(tmp_path, "a\nin order\nto do") == [2]
    assert lines(tmp_path, "    a\n    in order\n    to do", "module.py") == [2]
    assert lines(tmp_path, "a\nin order\n\nto do") == []


@pytest.mark.parametrize(
    "text",
    [
        "the option `simply`",
        "it is `x` told",
        "```\nobviously\n```",
        "in order\n```\nx = 1\n```\nto do",
        "    easily",
        "[a page](obviously.md)",
        "unsimply",
    ],
)
def test_code_is_not_searched(tmp_path: Path, text: str) -> None:
    assert lines(tmp_path, text) == []
