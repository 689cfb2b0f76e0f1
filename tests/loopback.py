"""Connections of a Python process, refused unless they stay on this machine.

``connect`` of a name that was not looked up first asks the system for its address, and is refused
then. Code in other languages is not watched.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

HERE = (None, "", "localhost", "::1", socket.gethostname())
NAMED = ("socket.getaddrinfo", "socket.gethostbyname")
ADDRESSED = ("socket.connect", "socket.sendto", "socket.sendmsg")


def host_of(event: str, arguments: tuple[Any, ...]) -> Any:
    """Return the host that an event reaches or looks up; None is this machine."""
    host = arguments[0] if event in NAMED else None
    if event in ADDRESSED and isinstance(arguments[1], tuple):  # or a path, of a Unix socket
        host = arguments[1][0]
    return host.decode() if isinstance(host, bytes) else host


def is_here(host: Any) -> bool:
    """Whether it is a name or an address of this machine."""
    with suppress(ValueError):
        return host in HERE or ip_address(str(host)).is_loopback
    return False


def asks_for_own_address(event: str) -> bool:
    """Whether Dask asks the system for its address: it connects by UDP, which sends nothing."""
    caller = sys._getframe(2).f_globals.get("__name__")
    return event == "socket.connect" and caller == "distributed.utils"


def refuse_others(note: Callable[[str], object] = lambda message: None) -> None:
    """Raise RuntimeError, as long as this process lives, where it would leave this machine."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in NAMED and event not in ADDRESSED:
            return
        host = host_of(event, arguments)
        if is_here(host) or asks_for_own_address(event):
            return
        message = f"{event} of {host!r}: only loopback is allowed"
        note(message)
        raise RuntimeError(message)

    sys.addaudithook(hook)
