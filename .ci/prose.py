"""Check the project's vocabulary: words that the documentation avoids, with what to write instead.

proselint checks prose in general; this file is its project vocabulary. Pages, docstrings and
messages are searched; code in backticks and fenced blocks is not.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "api").glob("*.md")]
SOURCES = [*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
INSTEAD = {
    r"(?:is|are) told": "is reported, reports",
    r"says so": "warns, reports",
    r"says nothing": "does not show",
    r"tells of": "reports",
    r"(?:goes|gone|go) on(?: with)?": "continues, resumed",
    r"is looked for": "is searched",
    r"what is there": "name the thing",
    r"stands? beside": "is next to",
    r"of strangers|from a stranger": "untrusted",
    r"by the day": "by date",
    r"which nobody|nobody": "no user, no process",
    r"drop-in": "claim it only where it holds: say what is compatible",
    r"in order to": "to",
    r"utili[sz]e[sd]?": "use",
    r"leverages?": "use",
    r"simply|easily|obviously": "leave it out",
    r"blazing(?:ly)?|state[- ]of[- ]the[- ]art": "give the number",
    r"should not happen": "Internal error. Rerun with --debug and report it",
    r"hyper-parameters?": "hyperparameter",
    r"time-out": "timeout",
    r"check-point|check point": "checkpoint",
    r"hold-out|heldout": "held-out",
    r"base line": "baseline",
}


def found(path: Path) -> list[tuple[int, str]]:
    """Return the words of a file that the vocabulary replaces, and their lines."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        for code in (r"^ *```.*?^ *```", r"`[^`\n]*`", r"\]\([^)]*\)", r"^ {4,}.*?$"):
            text = re.sub(
                code,
                lambda one: "]" + "\n" * one[0].count("\n"),
                text,
                flags=re.DOTALL | re.MULTILINE,
            )
    paragraphs = re.sub(r"\n(?! *\n)", " ", text)  # of the same length
    return sorted(
        (text.count("\n", 0, one.start()) + 1, f"{one[0]!r}; instead: {instead}")
        for words, instead in INSTEAD.items()
        for one in re.finditer(
            rf"(?<![\w`])(?:{words.replace(' ', ' +')})(?![\w`])", paragraphs, re.IGNORECASE
        )
    )


if __name__ == "__main__":
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for path in sorted([*PAGES, *SOURCES])
        for line, fault in found(path)
    ]
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    sys.exit(bool(wrong))
