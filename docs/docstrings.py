"""Docstrings are reStructuredText; this extension of the API reference turns them into Markdown."""

from __future__ import annotations

import re
from textwrap import dedent
from typing import Any

from griffe import Extension
from latex2mathml.converter import convert

ROLE = re.compile(r":(?:attr|class|exc|func|meth|mod):`~?([^`]+)`")
MATH = re.compile(r"^( *)\.\. math:: (.+(?:\n\1 +.+)*)", re.MULTILINE)


class Docstrings(Extension):
    """Replaces roles by code, and equations by MathML, which browsers render themselves."""

    def on_object(self, *, obj: Any, **arguments: Any) -> None:
        """Convert the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            text = MATH.sub(_equation, obj.docstring.value)
            obj.docstring.value = ROLE.sub(lambda role: f"`{role[1].split('.')[-1]}`", text)


def _equation(found: re.Match[str]) -> str:
    formula = " ".join(dedent(found[2]).split())
    return f"{found[1]}<div>{convert(formula, display='block')}</div>"
