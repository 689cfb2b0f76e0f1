"""Read untrusted files in a process of its own, with limits of time and memory for each file.

``python -m tests.reliability.reader_process FOLDER JOBS`` prints a line of JSON for each job. A job
is a format with a range of numbers (damaged files are functions of their number), or the path of a
file with its limit in megabytes and, if it is no data file, the function that reads it. Such a
job can also have limits of its own: `cpu_seconds`, and `seconds` of wall-clock time. After
valid files have been read once, the process ends with exit code 66 if anything starts a command,
unpickles an object, loads a library or a module, executes code, opens a connection, or changes
files of other folders.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from pkgutil import resolve_name
from random import Random
from typing import Any

from apmax.app.files import MAX_EXPANSION
from tests.hang import SECONDS
from tests.reliability.formats import FORMATS

CPU_SECONDS, BYTES_PER_SECOND = 5.0, 20 << 20
"""Files of a few kilobytes take milliseconds, so this is a hang."""
LIMITS = {"megabytes", "cpu_seconds", "seconds"}
READER = "tests.reliability.formats:read_dataset"
MEMORY, MEMORY_PER_BYTE = 128 << 20, MAX_EXPANSION
FORBIDDEN = {
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty",
    "subprocess.Popen", "pickle.find_class", "socket.connect", "socket.bind", "shutil.rmtree",
    "ctypes.dlopen", "exec", "marshal.loads",
}  # fmt: skip
ONLY_IN_FOLDER = {
    "os.remove", "os.rename", "os.truncate", "os.mkdir", "os.rmdir", "os.link", "os.symlink",
    "os.chmod", "os.chown",
}  # fmt: skip
"""Forbidden elsewhere: a checkpoint is replaced, and removed after its fit."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"} | dict.fromkeys(
    ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"], "1"
)
"""Otherwise every thread reserves memory that it never uses."""


def run_jobs(folder: Path, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Start the process and return its answers; fail with the file that ended it early."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.reliability.reader_process", str(folder), json.dumps(jobs)],
        env={**os.environ, **ENVIRONMENT, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    limits = {-signal.SIGPROF: "CPU time limit", -signal.SIGALRM: "wall-clock limit"}
    reason = limits.get(done.returncode, done.stderr[-2000:])
    current = (folder / "current").read_text().strip() if done.returncode else ""
    assert done.returncode == 0, f"{current}: exit code {done.returncode}: {reason}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def damaged_file(name: str, number: int) -> bytes:
    """Return the damaged file of this format and number."""
    return FORMATS[name].damaged(Random(f"{name} {number}"))


def read_within_limits(
    read: Any,
    path: Path,
    megabytes: int | None = None,
    cpu_seconds: float = CPU_SECONDS,
    seconds: float = SECONDS,
) -> str:
    """Return "read …", or the class and message of the error."""
    from apmax.errors import ApmaxError

    size = path.stat().st_size
    memory = MEMORY + MEMORY_PER_BYTE * size if megabytes is None else megabytes << 20
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory, hard))
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds + size / BYTES_PER_SECOND)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return f"read {read(path)}"
    except ApmaxError as error:
        lines = "" if "\n" not in str(error) else "several lines: "
        return f"{lines}{type(error).__name__} {error}"
    except BaseException as error:
        return f"crash: {type(error).__name__}: {str(error)[:300]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(SECONDS)  # until the next file, or the end of the process
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def fuzz(name: str, numbers: range, folder: Path) -> dict[str, Any]:
    """Read damaged files; count those that were read and refused, and list the failures."""
    path = folder / f"input{FORMATS[name].suffix}"
    counts = {"read": 0, "refused": 0}
    failures: list[str] = []
    for number in numbers:
        path.write_bytes(damaged_file(name, number))
        (folder / "current").write_text(f"{name} {number}")
        answer = read_within_limits(FORMATS[name].read, path)
        if answer.startswith(("crash", "several")):
            failures.append(f"{name} {number}: {answer}")
        counts["read" if answer.startswith("read") else "refused"] += 1
    return {"format": name, **counts, "failures": failures[:20]}


def refuse_to_run_code(folder: Path) -> None:
    """End the process as soon as anything of `FORBIDDEN` happens."""
    inside, packages = os.path.join(folder, ""), {name.partition(".")[0] for name in sys.modules}

    def is_elsewhere(place: Any) -> bool:
        if isinstance(place, int):  # a mode or an open file
            return False
        return not os.path.join(os.fsdecode(place), "").startswith(inside)

    def of_import() -> bool:  # of a module of `packages`, at its first use
        return sys._getframe(2).f_code.co_filename.startswith("<frozen importlib")

    def hook(event: str, arguments: Any) -> None:
        if event in ("marshal.loads", "exec") and of_import():
            return
        foreign = event == "import" and arguments[0].partition(".")[0] not in packages
        changed = arguments if event in ONLY_IN_FOLDER else ()
        if event == "open" and arguments[2] & WRITES:
            changed = arguments[:1]
        if event in FORBIDDEN or foreign or any(map(is_elsewhere, changed)):
            print(f"code was run: {event} {arguments}"[:300], file=sys.stderr, flush=True)
            os._exit(66)

    sys.addaudithook(hook)


def main() -> None:
    """Run the jobs of the command line."""
    folder, jobs = Path(sys.argv[1]), json.loads(sys.argv[2])
    warnings.simplefilter("ignore")
    for limit in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(limit, signal.SIG_DFL)  # ends the process even in compiled code
    signal.alarm(SECONDS)
    for name, known in FORMATS.items():
        if any(
            job.get("format") == name or job.get("path", "").endswith(known.suffix) for job in jobs
        ):
            for content in known.valid():  # also loads modules and kernels, by pickle
                path = folder / f"valid{known.suffix}"
                path.write_bytes(content)
                known.read(path)
    readers = [resolve_name(job.get("reader", READER)) for job in jobs]
    refuse_to_run_code(folder)
    for job, reader in zip(jobs, readers, strict=True):
        if "format" in job:
            answer: Any = fuzz(job["format"], range(job["first"], job["end"]), folder)
        else:
            (folder / "current").write_text(job["path"])
            limits = {name: job[name] for name in LIMITS & job.keys()}
            answer = read_within_limits(reader, Path(job["path"]), **limits)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
