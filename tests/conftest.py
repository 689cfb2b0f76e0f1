"""Shared by all tests: hypothesis without time limits (a first call compiles), and no network."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from hypothesis import settings

from tests.loopback import refuse_others

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

refuse_others()  # also in fixtures of modules, and while tests are imported


def pytest_report_header() -> str:
    """Say which tests are left out, and why."""
    left_out = ", ".join(collect_ignore_glob) or "none"
    why = "because they need signals, limits or /proc of another system"
    return f"tests left out {why}: {left_out}"
