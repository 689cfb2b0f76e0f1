"""Damaged files against the readers, many thousands, in a process that may die.

``python -m tests.reliability.fuzzing FORMATS FIRST COUNTS FOLDER`` (lists with commas) reads that
many inputs and prints what became of each format's as a line of JSON. Each input is a function of
its format and number. The process has an alarm that kills it when one input takes too long, and a
limit on its memory that the size of the input sets; the input in work is named on disk, so that
the parent can say which it was.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import warnings
from pathlib import Path
from random import Random
from typing import Any

from tests.reliability.formats import FORMATS

SECONDS = 2.0
"""Longer is a hang; the inputs have a few thousand bytes."""
MEMORY, MEMORY_PER_BYTE = 96 << 20, 1000
"""Bytes beyond what the process had, for any input and for each byte of it."""


def input_of(name: str, number: int) -> bytes:
    """The content of a format's input of this number."""
    return FORMATS[name].make(Random(f"{name} {number}"))


class Watch:
    """Alarm and memory limit around one input at a time."""

    def __init__(self) -> None:
        self.statm = os.open("/proc/self/statm", os.O_RDONLY)
        self.hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # kills, even inside native code

    def limit(self, size: int, memory: int = MEMORY) -> None:
        pages = int(os.pread(self.statm, 100, 0).split()[0])
        allowed = pages * resource.getpagesize() + memory + MEMORY_PER_BYTE * size
        resource.setrlimit(resource.RLIMIT_AS, (allowed, self.hard))
        signal.setitimer(signal.ITIMER_REAL, SECONDS)

    def lift(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (self.hard, self.hard))


def _status(field: str) -> int:
    """A figure of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) << 10


def outcome_of(name: str, path: Path) -> tuple[str, str]:
    """What happened ("read", "refused", or what must not happen) and the error's words."""
    from apmax.errors import ApmaxError

    try:
        FORMATS[name].read(path)
    except MemoryError as error:
        return "memory", repr(error)
    except ApmaxError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, MemoryError):
                return "memory", repr(cause)
            cause = cause.__cause__ or cause.__context__
        return ("refused", "") if "\n" not in str(error) else ("several lines", str(error)[:300])
    except BaseException as error:
        return "crash", f"{type(error).__name__}: {str(error)[:300]}"
    return "read", ""


def run(name: str, first: int, count: int, folder: Path) -> dict[str, Any]:
    """Read the inputs and count; stops early after 20 failures."""
    counts: dict[str, int] = {}
    failures: list[str] = []
    slowest, slowest_at = 0.0, first
    path = folder / f"input{FORMATS[name].suffix}"
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmHWM")
    watch = Watch()
    at_work = os.open(folder / "number", os.O_CREAT | os.O_WRONLY)
    for number in range(first, first + count):
        content = input_of(name, number)
        path.write_bytes(content)
        os.pwrite(at_work, f"{name} {number}".ljust(30).encode(), 0)
        start = time.perf_counter()
        watch.limit(len(content))
        outcome, words = outcome_of(name, path)
        watch.lift()
        seconds = time.perf_counter() - start
        if seconds > slowest:
            slowest, slowest_at = seconds, number
        counts[outcome] = counts.get(outcome, 0) + 1
        if outcome not in ("read", "refused"):
            failures.append(f"{name} {number}: {outcome}: {words}")
            if len(failures) >= 20:
                break
    return {
        "inputs": sum(counts.values()),
        "counts": counts,
        "failures": failures,
        "slowest": slowest,
        "slowest_at": slowest_at,
        "memory": _status("VmHWM") - before,
    }


def refuse_to_run_code() -> None:
    """From now on whatever starts a process or opens a connection ends this process."""

    def hook(event: str, arguments: Any) -> None:
        if event in FORBIDDEN:
            print(f"code was run: {event} {arguments}", file=sys.stderr, flush=True)
            os._exit(66)

    sys.addaudithook(hook)


FORBIDDEN = {
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty",
    "subprocess.Popen", "pickle.find_class", "socket.connect", "socket.bind", "shutil.rmtree",
    "os.remove", "os.rename",
}  # fmt: skip


def main() -> None:
    """Run the arguments' batch and print its figures."""
    names, first, counts, folder = sys.argv[1:]
    warnings.simplefilter("ignore")
    for name in names.split(","):  # before the hook, since warming up may unpickle compiled code
        FORMATS[name].warm_up(Path(folder))
    refuse_to_run_code()
    for name, count in zip(names.split(","), counts.split(","), strict=True):
        print(json.dumps({"name": name, **run(name, int(first), int(count), Path(folder))}))


if __name__ == "__main__":
    main()
