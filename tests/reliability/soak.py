"""How long the tests of `make soak` take: APMAX_SOAK_MINUTES, 60 by default, scales them all."""

from __future__ import annotations

import os

MINUTES = float(os.environ.get("APMAX_SOAK_MINUTES", "60"))


def scaled(count: int) -> int:
    """Return how much of a full run of an hour to do; at least one."""
    return max(1, round(count * min(1.0, MINUTES / 60)))
