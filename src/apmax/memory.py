"""How much memory there is, and how much of it a fit may use."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from apmax.errors import ParameterError

SHARE = 0.5
"""Share of the memory that training may take."""
VARIABLE = "APMAX_MEMORY"
"""Environment variable that replaces this share by an amount, such as 8GB."""
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
BYTES_PER_BYTE = 20
"""Memory that training of models of tables takes per byte of a table of doubles.

Forests do not count: the size of a tree is bounded. docs/benchmarks.md has the measurements.
"""
BYTES_PER_ROW = 6000
"""Memory per row, for pairs of columns of additive models."""
LEAST_ROWS = 1000
ROOT_GROUPS = [
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
]
"""Limit of a container, in the versions 2 and 1 of control groups."""


def memory_of_machine() -> int | None:
    """Return the bytes of memory of the machine or container; None if unknown."""
    found = []
    with suppress(AttributeError, ValueError, OSError):  # on Windows
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for group in ROOT_GROUPS:
        with suppress(ValueError, OSError):  # "max" if there is no limit
            found.append(int(group.read_text()))
    return min(found, default=None)


def memory_for_training() -> int | None:
    """Return the bytes that training may use: `APMAX_MEMORY`, or half of the memory."""
    given = os.environ.get(VARIABLE)
    if given is None:
        machine = memory_of_machine()
        return None if machine is None else int(SHARE * machine)
    parts = re.fullmatch(r"\s*([\d.]+)\s*([KMGT]?)i?B?\s*", given, re.IGNORECASE)
    with suppress(ValueError):
        if parts is not None and (amount := float(parts[1]) * UNITS[parts[2].upper()]) >= 1:
            return int(amount)
    raise ParameterError(
        f"the environment variable {VARIABLE} = {given!r} is not an amount of memory: write it as "
        "8GB or 500MB"
    )


def rows_for_training(columns: int, bytes_per_row: float = 0.0) -> int | None:
    """Return how many rows of a table training has memory for; None if unknown.

    Parameters
    ----------
    columns : int
        Number of columns.
    bytes_per_row : float, optional
        Size of a row in the file, which matters for text.
    """
    memory = memory_for_training()
    if memory is None:
        return None
    of_row = BYTES_PER_BYTE * max(8 * columns, bytes_per_row) + BYTES_PER_ROW
    return max(LEAST_ROWS, int(memory / of_row))
