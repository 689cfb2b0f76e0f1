"""The command line; one module per command.

This module stays small so that Ctrl-C is handled before anything slow is imported.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
interrupt_message = "stopped"
"""Printed on Ctrl-C; commands extend it with what they have already written."""


def main() -> None:
    """Run the `apmax` command."""
    signal.signal(signal.SIGINT, exit_on_interrupt)
    signal.signal(signal.SIGTERM, exit_on_interrupt)
    try:
        from apmax.app.cli.app import run

        run()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the exit code is decided


def exit_on_interrupt(number: int, frame: FrameType | None) -> None:
    """End the process with exit code 130, or 143 if it is terminated.

    Raising KeyboardInterrupt instead could end in a traceback: imports and compiled code turn it
    into other exceptions.
    """
    clean_ups = {"app.workers": "stop_workers", "atomic_files": "remove_unfinished_files"}
    for module, clean_up in clean_ups.items():
        loaded = sys.modules.get(f"apmax.{module}")
        if hasattr(loaded, clean_up):  # not while the module is being imported
            getattr(loaded, clean_up)()
    show_cursor = "\x1b[?25h" if os.isatty(2) else ""  # a progress bar hides it
    os.write(2, f"{show_cursor}{interrupt_message}\n".encode())
    os._exit(128 + number)
