"""Nothing of apmax talks to the network unless it is asked to download."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

EVERY_MODULE = """
import pkgutil, socket, sys

def refuse(*arguments, **options):
    raise SystemExit(f"a connection: {arguments}")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
import apmax

for module in pkgutil.walk_packages(apmax.__path__, "apmax."):
    if module.name != "apmax.__main__":
        __import__(module.name)
        print(module.name)
"""


def test_importing_every_module_opens_no_connection() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERY_MODULE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {"apmax.app.io", "apmax.torch.optim"} <= set(done.stdout.split())


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("example.org", 443)], ids=["IP", "name"])
def test_the_tests_themselves_cannot_reach_the_network(address: tuple[str, int]) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one,
        pytest.raises(RuntimeError, match="loopback"),
    ):
        one.connect(address)


def test_the_tests_can_reach_this_machine() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as ours,
    ):
        client.sendall(b"a word")
        assert ours.recv(6) == b"a word"
