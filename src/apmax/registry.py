"""A table of named entries that users can extend."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

from apmax.errors import ParameterError, UnknownNameError

T = TypeVar("T")


class Registry(dict[str, T]):
    """A dict that suggests the closest name on a miss and never overwrites an entry."""

    def __init__(self, argument: str, entries: Mapping[str, T] | None = None) -> None:
        super().__init__(entries or {})
        self.argument = argument

    def choose(self, name: str) -> T:
        """Return the entry of that name, or raise UnknownNameError with a suggestion."""
        if isinstance(name, str) and name in self:
            return self[name]
        near = difflib.get_close_matches(str(name), self, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UnknownNameError(
            f"unknown `{self.argument}` = {name!r}: {hint}choose from "
            + ", ".join(map(repr, sorted(self)))
        )

    def add(self, name: str, entry: T) -> T:
        """Add `entry` under a new name."""
        if name in self:
            raise ParameterError(
                f"`{self.argument}` = {name!r} is already registered: choose another name"
            )
        self[name] = entry
        return entry
