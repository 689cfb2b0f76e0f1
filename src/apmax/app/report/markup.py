"""The pieces of HTML that several sections share."""

from __future__ import annotations

from collections.abc import Iterable

from apmax.app.report.wording import text


def table(caption: str, head: str, rows: str) -> str:
    """A table that scrolls by itself where it is wider than the screen; all parts are HTML."""
    return (
        f'<div class="scroll"><table><caption>{caption}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def head_row(*labels: str) -> str:
    """Column headings, from plain text."""
    return "".join(f'<th scope="col">{text(label)}</th>' for label in labels)


def whole(words: str) -> str:
    """Plain text that is never broken into lines."""
    return f'<span class="whole">{text(words)}</span>'


def figure(chart: str, note: str) -> str:
    """A chart, as HTML, and a note below it, as plain text."""
    return f"<figure>{chart}<figcaption>{text(note)}</figcaption></figure>"


def grid(parts: Iterable[str]) -> str:
    """Side by side where there is room, below each other where there is not."""
    return f'<div class="grid">{"".join(parts)}</div>'


def legend(labels: Iterable[str]) -> str:
    """What each line stands for."""
    return f'<p class="legend">{"".join(labels)}</p>'


def section(name: str, title: str, body: str) -> str:
    """A part of the page under a heading; nothing if there is nothing to show."""
    if not body:
        return ""
    return (
        f'<section aria-labelledby="{name}-title" id="{name}">'
        f'<h2 id="{name}-title">{text(title)}</h2>{body}</section>'
    )
