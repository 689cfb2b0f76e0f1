"""Shared by all tests: hypothesis without time limits (a first call compiles), and no network."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

BESIDE_THE_CLONE = Path(__file__).parents[2] / "shared" / "data"
if BESIDE_THE_CLONE.is_dir():
    os.environ.setdefault("APMAX_DATA", str(BESIDE_THE_CLONE))

NEED_POSIX = [
    "app/cli/test_interrupts.py", "app/test_files.py", "app/test_workers.py",
    "reliability/test_full_disk.py", "reliability/test_kill*.py", "scale/test_files.py",
    "scale/test_killed_workers.py", "scale/test_checkpoint.py", "test_atomic_files.py",
    "torch/test_processes.py",
]  # fmt: skip
NEED_LINUX = [
    "reliability/test_damaged_files.py", "reliability/test_reader_process.py",
    "reliability/test_workbook_attacks.py",
]  # fmt: skip
collect_ignore_glob: list[str] = []
if sys.platform == "win32":
    collect_ignore_glob += NEED_POSIX
if sys.platform != "linux":
    collect_ignore_glob += NEED_LINUX

# A shell without job control starts background commands with Ctrl-C ignored; tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("apmax", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("apmax")

HERE = ("localhost", "::1")


def pytest_report_header() -> str:
    """Say which tests are left out, and why."""
    left_out = ", ".join(collect_ignore_glob) or "none"
    why = "because they need signals, limits or /proc of another system"
    return f"tests left out {why}: {left_out}"


def _only_here(connect: Callable[..., Any]) -> Callable[..., Any]:
    def checked(self: socket.socket, address: Any) -> Any:
        if self.type == socket.SOCK_DGRAM:  # sends nothing; Dask asks the system for its address so
            return connect(self, address)
        host = address[0] if isinstance(address, tuple) else "localhost"  # a path, of a Unix socket
        if host not in HERE and not str(host).startswith("127."):
            raise RuntimeError(f"a test connects to {address!r}: only loopback is allowed")
        return connect(self, address)

    return checked


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse any connection but to this machine."""
    monkeypatch.setattr(socket.socket, "connect", _only_here(socket.socket.connect))
    monkeypatch.setattr(socket.socket, "connect_ex", _only_here(socket.socket.connect_ex))
