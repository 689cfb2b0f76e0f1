"""The digest that is stored with measured figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability import soak

MODULE = '''"""A docstring."""

LIMIT = 3
"""Its meaning."""


def double(x: int) -> int:
    """Double."""
    return 2 * x  # fast
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("Double.", "Return twice x.", True),
        ("  # fast", "", True),
        ("Its meaning.", "The largest x.", True),
        ("LIMIT = 3", "LIMIT = 4", False),
        ("2 * x", "x + x", False),
    ],
)
def test_the_digest_depends_on_code_and_not_on_its_documentation(
    old: str, new: str, same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "ROOT", tmp_path)
    module = tmp_path / "src" / "module.py"
    module.parent.mkdir()
    module.write_text(MODULE)
    before = soak.digest_of_code()
    assert old in MODULE
    module.write_text(MODULE.replace(old, new))
    assert (soak.digest_of_code() == before) == same


def test_the_digest_depends_on_names_and_contents_of_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "ROOT", tmp_path)
    style = tmp_path / "src" / "report.css"
    style.parent.mkdir()
    digests = set()
    for name, content in (("report.css", "a"), ("report.css", "b"), ("page.css", "b")):
        for path in style.parent.iterdir():
            path.unlink()
        style.with_name(name).write_text(content)
        digests.add(soak.digest_of_code())
    assert len(digests) == 3
