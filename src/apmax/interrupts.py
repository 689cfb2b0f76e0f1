"""Cooperative Ctrl-C: the first one sets a flag that loops check between iterations.

A KeyboardInterrupt raised inside compiled code surfaces as a SystemError and loses the work done
so far. Within :func:`cooperative_interrupts`, Ctrl-C therefore only sets a flag; a second Ctrl-C
raises KeyboardInterrupt as usual. Blocks can be nested: the outermost one owns the handler.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger("apmax")


class CooperativeInterrupt(KeyboardInterrupt):
    """The first Ctrl-C, at a safe point: what is complete can be kept."""


class _State:
    active = False
    requested = False
    held = False


def interrupted() -> bool:
    """Return whether Ctrl-C was pressed in the current cooperative block, unless it is on hold."""
    return _State.requested and not _State.held


def raise_if_interrupted() -> None:
    """Raise CooperativeInterrupt at a safe point if Ctrl-C was pressed."""
    if interrupted():
        raise CooperativeInterrupt


@contextmanager
def interrupt_on_hold() -> Iterator[None]:
    """Hide the first Ctrl-C until the end of the block, a short step that completes a result."""
    before, _State.held = _State.held, True
    try:
        yield
    finally:
        _State.held = before


@contextmanager
def cooperative_interrupts() -> Iterator[None]:
    """Turn the first Ctrl-C inside the block into a flag; see :func:`interrupted`.

    Outside the outermost block, an interrupt is a plain KeyboardInterrupt.

    Only the main thread receives signals, and only Python's default handler is replaced: in other
    threads, and under an application's own handler, the block changes nothing.
    """
    replaceable = (
        not _State.active
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not replaceable:
        yield
        return

    def handle(signum: int, frame: Any) -> None:
        if _State.requested:
            signal.default_int_handler(signum, frame)
        _State.requested = True
        logger.warning("stopping at the next safe point; press Ctrl-C again to stop at once")

    try:
        _State.active, _State.requested = True, False
        signal.signal(signal.SIGINT, handle)
        yield
    except CooperativeInterrupt:
        raise KeyboardInterrupt from None  # of which Python itself ends with the signal
    finally:
        _State.active = False
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _State.requested = False
