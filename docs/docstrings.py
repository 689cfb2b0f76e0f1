"""Docstrings are reStructuredText; this extension of the API reference turns them into Markdown."""

from __future__ import annotations

import ast
import re
from textwrap import dedent
from typing import Any

from griffe import Extension
from latex2mathml.converter import convert

ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`~?([^`]+)`")
TABLE = re.compile(
    r"^=+(?:  +=+)+\n(?:.+\n)+?=+(?:  +=+)+(?:\n(?:.+\n)+?=+(?:  +=+)+)?$", re.MULTILINE
)
MATH = re.compile(r"^( *)\.\. math:: (.+(?:\n\1 +.+)*)", re.MULTILINE)
INLINE_MATH = re.compile(r":math:`([^`]+)`")
LITERAL = re.compile(r"::$", re.MULTILINE)
SEE_ALSO = re.compile(r"^(See Also\n-+\n)((?:.+\n?)+)", re.MULTILINE)
SECTION = re.compile(r"^(Parameters\n-+\n)((?:(?!\w[^\n]*\n---).*\n?)*)", re.MULTILINE)
GROUP = re.compile(r"^(\w+(?:, \w+)+)( :.*)?\n((?: +.*\n?|\n(?= ))+)", re.MULTILINE)
TYPE = re.compile(r"^(\w+ : )(.+?)((?:, (?:default|optional)\b.*)?)$", re.MULTILINE)
COMMA = re.compile(r",(?: or)? (?![^(]*\))")  # outside parentheses
DEFAULTS = re.compile(r", default=.* and .*")
HIDDEN_TYPES = re.compile(r"Any|Unpack\[.*\]")


class Docstrings(Extension):
    """Replaces roles by code, simple tables by Markdown, and equations by MathML.

    Parameters that share an entry get one each, and defaults that are constants show their values.
    """

    def on_object(self, *, obj: Any, **arguments: Any) -> None:
        """Convert the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            text = TABLE.sub(_table, MATH.sub(_equation, obj.docstring.value))
            text = INLINE_MATH.sub(lambda math: convert(math[1]), text)
            text = SEE_ALSO.sub(_list, LITERAL.sub(_without_mark, text))
            text = SECTION.sub(
                lambda part: part[1] + TYPE.sub(_alternatives, GROUP.sub(_split, part[2])), text
            )
            text = text.replace("array-like", "array\u2011like")  # not a difference
            obj.docstring.value = ROLE.sub(lambda role: f"`{_short(role[1])}`", text)

    def on_package(self, *, pkg: Any, **arguments: Any) -> None:
        """Show the values of constants as defaults, and no types that say nothing."""
        for function in _functions(pkg):
            for parameter in function.parameters:
                if HIDDEN_TYPES.fullmatch(str(parameter.annotation)):
                    parameter.annotation = None
                name = str(parameter.default)
                if name.isupper():
                    parameter.default = _value(function.module, name)


def _functions(holder: Any) -> list[Any]:
    """Return all functions and methods of a module or class."""
    own = [one for one in holder.members.values() if not one.is_alias]
    inner = [found for one in own if one.is_module or one.is_class for found in _functions(one)]
    return [one for one in own if one.is_function] + inner


def _value(module: Any, name: str) -> str:
    """Return the value of a module's constant, or its name if that is not a literal."""
    found = module.members.get(name)
    if found is not None and found.is_alias:
        found = module.package.modules_collection.get_member(found.target_path)
    try:
        ast.literal_eval(str(found.value))
    except (AttributeError, ValueError, SyntaxError):
        return name
    return str(found.value)


def _short(name: str) -> str:
    """Return the last part of a dotted name, and its class if it is a method."""
    *owner, last = name.split(".")
    return f"{owner[-1]}.{last}" if owner and owner[-1][:1].isupper() else last


def _without_mark(found: re.Match[str]) -> str:
    """End a line before an indented block with one colon; a line of two colons becomes empty."""
    before = found.string[: found.start()]
    return "" if before.endswith("\n") else ":"


def _list(found: re.Match[str]) -> str:
    entries = re.sub(r"^(\S+) : ", r"- `\1`: ", found[2], flags=re.MULTILINE)
    return found[1] + re.sub(r"^    +(?=\S)", "  ", entries, flags=re.MULTILINE)


def _alternatives(found: re.Match[str]) -> str:
    """Separate the types of a parameter by "or": lists would be shown as tuples."""
    return found[1] + COMMA.sub(" or ", re.sub(r"[{}]", "", found[2])) + found[3]


def _split(found: re.Match[str]) -> str:
    """Return an entry for each of the parameters that share one."""
    kind = DEFAULTS.sub("", found[2] or "")
    text = found[3] if found[3].endswith("\n") else f"{found[3]}\n"
    return "".join(f"{name}{kind}\n{text}" for name in found[1].split(", "))


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
