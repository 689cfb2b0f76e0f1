"""The process that reads hostile files fails if reading one runs code, hangs or takes memory."""

from __future__ import annotations

import ctypes
import importlib
import marshal
import os
import pickle
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hang import SECONDS
from tests.reliability.reader_process import run_jobs


def loop(path: Path) -> None:
    while path:
        pass


def sleep(path: Path) -> None:
    time.sleep(2 * SECONDS)


def allocate(path: Path) -> int:
    return len(bytes(300 << 20))


RUNS_CODE: dict[str, Callable[[Path], Any]] = {
    "a command": lambda _: subprocess.run(["true"], check=False),
    "a command of the shell": lambda _: os.system("true"),
    "a pickle": lambda _: pickle.loads(b"cos\ngetpid\n(tR."),
    "compiled code": lambda _: marshal.loads(marshal.dumps(1)),
    "source code": lambda _: exec("1"),
    "a module": lambda _: importlib.import_module("antigravity"),
    "a library": lambda _: ctypes.CDLL(None),
    "a connection": lambda _: socket.create_connection(("127.0.0.1", 9)),
    "a file": lambda path: (path.parents[1] / "written").write_text(""),
    "a folder": lambda path: (path.parents[1] / "made").mkdir(),
    "a link": lambda path: (path.parents[1] / "link").symlink_to(path),
    "a file moved away": lambda path: path.rename(path.parents[1] / "moved"),
    "another mode": lambda path: path.parents[1].chmod(0o700),
}


def run_code(path: Path) -> Any:
    """Do what the file names."""
    return RUNS_CODE[path.read_text()](path)


def answer(folder: Path, reader: str, content: str = "", **limits: float) -> Any:
    """Return what the process says of a reader of this module."""
    inner = folder / "inner"
    inner.mkdir()
    (inner / "input").write_text(content)
    order = {"path": str(inner / "input"), "megabytes": 100, "reader": f"{__name__}:{reader}"}
    return run_jobs(inner, [order | limits])[0]


@pytest.mark.parametrize("name", RUNS_CODE)
def test_the_process_ends_before_code_is_run(name: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="exit code 66: code was run"):
        answer(tmp_path, "run_code", name)
    assert [one.name for one in tmp_path.iterdir()] == ["inner"]


def test_a_hang_ends_the_process(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="CPU time limit"):
        answer(tmp_path, "loop", cpu_seconds=0.2)


def test_a_reader_that_blocks_without_cpu_time_ends_the_process(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="wall-clock limit"):
        answer(tmp_path, "sleep", seconds=0.2)


def test_memory_beyond_the_limit_is_a_crash(tmp_path: Path) -> None:
    assert str(answer(tmp_path, "allocate")).startswith("crash: MemoryError")
