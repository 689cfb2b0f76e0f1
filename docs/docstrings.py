"""Docstrings are reStructuredText; this extension of the API reference turns them into Markdown."""

from __future__ import annotations

import re
from textwrap import dedent
from typing import Any

from griffe import Extension
from latex2mathml.converter import convert

ROLE = re.compile(r":(?:attr|class|exc|func|meth|mod):`~?([^`]+)`")
TABLE = re.compile(
    r"^=+(?:  +=+)+\n(?:.+\n)+?=+(?:  +=+)+(?:\n(?:.+\n)+?=+(?:  +=+)+)?$", re.MULTILINE
)
MATH = re.compile(r"^( *)\.\. math:: (.+(?:\n\1 +.+)*)", re.MULTILINE)


class Docstrings(Extension):
    """Replaces roles by code, simple tables by Markdown, and equations by MathML."""

    def on_object(self, *, obj: Any, **arguments: Any) -> None:
        """Convert the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            text = TABLE.sub(_table, MATH.sub(_equation, obj.docstring.value))
            obj.docstring.value = ROLE.sub(lambda role: f"`{role[1].split('.')[-1]}`", text)


def _equation(found: re.Match[str]) -> str:
    formula = " ".join(dedent(found[2]).split())
    return f"{found[1]}<div>{convert(formula, display='block')}</div>"


def _table(found: re.Match[str]) -> str:
    """Return a table in Markdown; one without a header has an empty one."""
    lines = found[0].split("\n")
    starts = [rule.start() for rule in re.finditer("=+", lines[0])]
    parts = [
        [
            line[a:b].strip().replace("|", "\\|")
            for a, b in zip(starts, [*starts[1:], None], strict=True)
        ]
        for line in lines
        if not line.startswith("=")
    ]
    with_header = sum(line.startswith("=") for line in lines) > 2
    header, *rows = parts if with_header else [[""] * len(starts), *parts]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(starts), *rows])
