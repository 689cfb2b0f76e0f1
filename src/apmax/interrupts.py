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
    presses = 0
    noticed = False
    """Whether a safe point has seen the first one."""


class _Hold(threading.local):
    """Of each thread, so that fits in several threads do not end each other's."""

    active = False


_hold = _Hold()


def interrupted() -> bool:
    """Return whether Ctrl-C was pressed in the current cooperative block, unless it is on hold."""
    found = _State.presses > 0 and not _hold.active
    _State.noticed |= found
    return found


def raise_if_interrupted() -> None:
    """Raise CooperativeInterrupt at a safe point if Ctrl-C was pressed; if twice, its base."""
    if interrupted():
        raise CooperativeInterrupt if _State.presses == 1 else KeyboardInterrupt


@contextmanager
def interrupts_before_errors() -> Iterator[None]:
    """Raise the interrupt in place of errors that follow it: it also stops worker processes."""
    try:
        yield
    except BaseException:
        raise_if_interrupted()
        raise


@contextmanager
def interrupt_on_hold() -> Iterator[None]:
    """Hide the first Ctrl-C until the end of the block, a short step that completes a result."""
    before = _hold.active
    try:
        _hold.active = True
        yield
    finally:
        _hold.active = before


@contextmanager
def cooperative_interrupts() -> Iterator[None]:
    """Turn the first Ctrl-C inside the block into a flag; see :func:`interrupted`.

    Outside the outermost block, an interrupt is a plain KeyboardInterrupt. If it came after the
    last safe point, the block completes and a warning is logged.

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
        _State.presses += 1
        if _State.presses > 1:
            signal.default_int_handler(signum, frame)
        logger.warning("stopping at the next safe point; press Ctrl-C again to stop at once")

    try:
        _State.active, _State.presses, _State.noticed = True, 0, False
        _hold.active = False
        signal.signal(signal.SIGINT, handle)
        yield
        if _State.presses and not _State.noticed:
            logger.warning(
                "Ctrl-C came after the last safe point: this fit is complete; press Ctrl-C again "
                "to stop what follows it"
            )
    except CooperativeInterrupt:
        raise KeyboardInterrupt from None  # of which Python itself ends with the signal
    finally:
        _State.active = False
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _State.presses = 0
