"""Cooperative Ctrl-C: SIGINT sets a flag that loops check between iterations."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_flag = threading.Event()


def interrupted() -> bool:
    """Tell whether Ctrl-C was pressed inside the current block."""
    return _flag.is_set()


@contextmanager
def cooperative_interrupts() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into a flag; the second raises KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield _flag
        return

    def set_flag(number: int, frame: FrameType | None) -> None:
        if _flag.is_set():
            raise KeyboardInterrupt
        _flag.set()

    _flag.clear()
    previous = signal.signal(signal.SIGINT, set_flag)
    try:
        yield _flag
    finally:
        signal.signal(signal.SIGINT, previous)
