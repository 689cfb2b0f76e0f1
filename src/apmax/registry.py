"""A table of named things that users can extend, with the error for a name it lacks."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

from apmax.errors import ParameterError, UnknownNameError

T = TypeVar("T")


class Registry(dict[str, T]):
    """A dict whose :meth:`choose` suggests the nearest name and whose :meth:`add` is safe."""

    def __init__(self, argument: str, entries: Mapping[str, T] | None = None) -> None:
        super().__init__(entries or {})
        self.argument = argument

    def choose(self, name: str) -> T:
        """The entry of that name; UnknownNameError with a suggestion if there is none."""
        if isinstance(name, str) and name in self:
            return self[name]
        near = difflib.get_close_matches(str(name), self, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UnknownNameError(
            f"`{self.argument}` = {name!r} is not known: {hint}choose from "
            + ", ".join(map(repr, sorted(self)))
        )

    def add(self, name: str, entry: T) -> T:
        """Make `entry` known by `name`, which must be new."""
        if name in self:
            raise ParameterError(
                f"`{self.argument}` = {name!r} exists already: choose another name"
            )
        self[name] = entry
        return entry
