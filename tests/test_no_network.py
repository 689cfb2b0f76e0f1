"""Nothing of apmax talks to the network unless it is asked to download."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.app.loans import made_loans
from tests.hang import SECONDS

ROOT = Path(__file__).parents[1]

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


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM], ids=["TCP", "UDP"])
def test_the_tests_themselves_cannot_reach_the_network(kind: socket.SocketKind) -> None:
    address = ("192.0.2.1", 80)
    with socket.socket(socket.AF_INET, kind) as one:
        for reach in (
            lambda: one.connect(address),
            lambda: one.connect_ex(address),
            lambda: one.sendto(b"a word", address),
            lambda: one.sendmsg([b"a word"], [], 0, address),
        ):
            with pytest.raises(RuntimeError, match="loopback"):
                reach()


@pytest.mark.parametrize("host", ["192.0.2.1", "example.org", b"example.org"])
@pytest.mark.parametrize("look_up", [lambda host: socket.getaddrinfo(host, 80),
                                     lambda host: socket.create_connection((host, 80)),
                                     socket.gethostbyname])  # fmt: skip
def test_the_tests_themselves_cannot_look_up_other_hosts(
    host: str | bytes, look_up: Callable[[Any], object]
) -> None:
    with pytest.raises(RuntimeError, match="loopback"):
        look_up(host)


def test_the_tests_can_reach_this_machine() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as ours,
    ):
        client.sendall(b"a word")
        assert ours.recv(6) == b"a word"


Guarded = Callable[..., tuple[int, list[str], list[str]]]
GUARD = """
import os, sys
from pathlib import Path
from tests.loopback import refuse_others

own = Path({folder!r}) / str(os.getpid())
own.with_suffix(".loaded").write_text(" ".join(sys.orig_argv))
refuse_others(own.with_suffix(".refused").write_text)
"""
TORCH_STEP = """
import torch
from apmax.torch import APLoss

y = torch.arange(40) % 4 == 0
network = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(network.parameters(), 0.1)
APLoss(y, from_logits=True)(network(torch.randn(40, 3)).squeeze(1), torch.arange(40)).backward()
optimizer.step()
"""


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    """Run Python, guarded like its child processes; return its exit code and what they noted."""
    (tmp_path / "sitecustomize.py").write_text(GUARD.format(folder=str(tmp_path)))
    before = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    path = os.pathsep.join([str(tmp_path), str(ROOT), *before])

    def run(*arguments: str) -> tuple[int, list[str], list[str]]:
        environment = {**os.environ, "PYTHONPATH": path}
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, check=False, timeout=SECONDS)
        loaded, refused = (
            [file.read_text() for file in tmp_path.glob(f"*.{kind}")]
            for kind in ("loaded", "refused")
        )
        return done.returncode, loaded, refused

    return run


def test_training_with_two_processes_opens_no_connection(tmp_path: Path, guarded: Guarded) -> None:
    made_loans(300, 0).to_csv(tmp_path / "loans.csv", index=False)
    train = ("train", "loans.csv", "--target", "last", "--model", "linear", "--jobs", "2")
    code, loaded, refused = guarded("-m", "apmax", *train)
    assert (code, refused) == (0, [])
    assert sum("popen_loky" in command for command in loaded) >= 2, loaded


def test_a_training_step_of_torch_opens_no_connection(
    guarded: Guarded,
) -> None:
    code, loaded, refused = guarded("-c", TORCH_STEP)
    assert (code, refused) == (0, [])
    assert len(loaded) >= 1


def test_connections_of_child_processes_are_noted(
    guarded: Guarded,
) -> None:
    connect = "import socket; socket.create_connection(('192.0.2.1', 80))"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {connect!r}])"
    code, loaded, refused = guarded("-c", child)
    assert (code, len(loaded), len(refused)) == (0, 2, 1)
