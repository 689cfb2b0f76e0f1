"""Where a report comes from: data, date and versions, so that it can be reproduced."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from apmax._version import __version__
from apmax.app.files import digest

PACKAGES = ("numpy", "scikit-learn", "lightgbm")


def provenance(data: Path) -> dict[str, str]:
    """Return the SHA-256 digest of a data file, the date, and the versions that matter."""
    facts = {"data": data.name}
    if (found := digest(data)) is not None:
        facts["SHA-256 of the data"] = found
    facts["date"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    facts["versions"] = ", ".join([f"apmax {__version__}", *_installed()])
    return facts


def _installed() -> list[str]:
    found = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return found
