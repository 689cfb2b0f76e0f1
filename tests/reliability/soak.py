"""How long the tests of `make soak` take, and where their figures are stored.

APMAX_SOAK_MINUTES, 60 by default, scales all of them. `python -m tests.reliability.soak` prints the
digest that is stored with the figures.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apmax.atomic_files import write_file

FULL = 60
MINUTES = float(os.environ.get("APMAX_SOAK_MINUTES", FULL))
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "reliability.json"


def scaled(count: int) -> int:
    """Return how much of a full run of an hour to do; at least one."""
    return max(1, round(count * min(1.0, MINUTES / FULL)))


def record(promise: str, figure: str) -> None:
    """Store what the running test measured for the table of docs/reliability.md.

    Shortened runs print it instead.
    """
    if MINUTES < FULL:
        print(f"{promise}: {figure}")
        return
    test = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0].rpartition("/")[2]
    store(promise, test, figure)


def digest_of_code() -> str:
    """Return a digest of all files in src, without docstrings and comments of Python files."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*")):
        if path.is_dir() or "__pycache__" in path.parts or ".egg-info" in str(path):
            continue
        digest.update(path.relative_to(ROOT).as_posix().encode())
        content = path.read_bytes()
        digest.update(_code_of(content).encode() if path.suffix == ".py" else content)
    return digest.hexdigest()[:10]


def _code_of(source: bytes) -> str:
    """Return the syntax tree of a module without its docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [part for part in node.body if not _is_docstring(part)]
    return ast.dump(tree)


def _is_docstring(node: ast.stmt) -> bool:
    """Whether it is a docstring of a module, a class, a function or an attribute."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def store(promise: str, test: str, figure: str) -> None:
    """Store a line of the table."""
    if digest_of_code() != CODE:
        raise RuntimeError("the code in src has changed since the measurement began")
    today = datetime.now(UTC).date().isoformat()
    with _stored() as rows:
        rows[promise] = {"test": test, "figure": figure, "date": today, "code": CODE}


def remove(promise: str) -> None:
    """Remove a line of the table."""
    with _stored() as rows:
        rows.pop(promise, None)


@contextmanager
def _stored() -> Iterator[dict[str, Any]]:
    """Yield the table, and store it afterwards; tests of other processes do so, too."""
    import fcntl  # not on Windows, where `make soak` does not run

    folder = os.open(RESULTS.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        rows = json.loads(RESULTS.read_text("utf-8"))
        yield rows
        text = json.dumps(dict(sorted(rows.items())), indent=1, ensure_ascii=False) + "\n"
        write_file(RESULTS, text.encode())
    finally:
        os.close(folder)


CODE = digest_of_code()

if __name__ == "__main__":
    print(CODE)
