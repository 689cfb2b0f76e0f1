"""What is wrong with a line of LIBSVM text, in words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from apmax.errors import FileFormatError


class Place(NamedTuple):
    """A position in a file, with the line around it."""

    file: Path
    line: int
    text: bytes
    offset: int

    @property
    def token(self) -> str:
        """What stands here, up to a blank, a comment or the end of the line."""
        rest = self.text[self.offset :]
        found = re.match(rb"[^ \t\r#]*", rest)
        return (found.group() if found else rest).decode("utf-8", "replace")

    def __str__(self) -> str:
        column = len(self.text[: self.offset].decode("utf-8", "replace")) + 1
        return f"{self.file}, line {self.line}, column {column}"


def explain(status: int, place: Place, features: int | None) -> FileFormatError:
    """The error for a status of the kernel."""
    from apmax._compile import libsvm_text as kernel

    if status == kernel.BAD_VALUE:
        return _bad_value(place)
    if status == kernel.BAD_INDEX:
        return _bad_index(place, features)
    if status == kernel.REPEATED:
        return _repeated(place)
    if status == kernel.BAD_FEATURE and re.match(r"-\d+:", place.token):
        return _error(place, "a negative index", "they count from 1")
    expected = {
        kernel.BAD_LABEL: "a label, which is one finite number",
        kernel.BAD_QUERY: "index:value, or qid: with a whole number",
        kernel.BAD_FEATURE: "index:value, like 3:0.5",
    }
    return _expected(place, expected[status])


def explain_infinite(place: Place) -> FileFormatError:
    """The error for a number that is too large for a double."""
    return _error(place, "a number too large for a double", "rescale the column")


def _bad_value(place: Place) -> FileFormatError:
    if re.fullmatch(r"[+-]?(inf|infinity|nan)", place.token.lower()):
        return _error(
            place, "a value that is not finite", "leave the feature out, or put a number in"
        )
    return _expected(place, "a finite number after the colon")


def _bad_index(place: Place, features: int | None) -> FileFormatError:
    index = int(place.token.partition(":")[0][:400])
    if index == 0:
        return _error(
            place, "index 0", "indices count from 1; add 1 to all of them if they began at 0"
        )
    if features is not None:
        return _error(place, f"an index above features={features}", "give a larger number, or None")
    return _error(
        place, "an index above 2⁴⁰", "a model has a weight for each; number the features from 1"
    )


def _repeated(place: Place) -> FileFormatError:
    """Point at the second of two equal indices; in an unsorted row, the kernel cannot."""
    seen = set()
    for found in re.finditer(rb"(\d+):\S*", place.text.partition(b"#")[0]):
        index = int(found.group(1))
        if index in seen:
            there = place._replace(offset=found.start())
            return _error(there, "an index for the second time", "a row has one value for each")
        seen.add(index)
    return _error(place, "an index twice", "a row has one value for each")


def _expected(place: Place, expected: str) -> FileFormatError:
    found = repr(_shortened(place.token)) if place.token else "nothing"
    return FileFormatError(f"{place}: found {found}, expected {expected}")


def _error(place: Place, what: str, remedy: str) -> FileFormatError:
    return FileFormatError(f"{place}: {_shortened(place.token)!r} has {what}: {remedy}")


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
