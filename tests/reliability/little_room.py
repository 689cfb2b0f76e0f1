"""Read files in a process with a limit of time and memory for each.

``python -m tests.reliability.little_room '[["what", "path", megabytes], …]'`` prints a line of
JSON for each file: what was read, or how it was refused. The alarm kills the process.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from pathlib import Path

from tests.reliability.formats import CSV, LIBSVM, parquet_seeds
from tests.reliability.fuzzing import Watch

SECONDS, BYTES_PER_SECOND = 2.0, 50 << 20
"""Of this process, so that a busy machine does not count; pandas reads 100 MB in a second."""


def main() -> None:
    """Answer the orders."""
    from apmax.app.data import load
    from apmax.errors import ApmaxError

    with tempfile.TemporaryDirectory() as folder:
        warm = {"a.csv": CSV, "a.svm": LIBSVM, "a.parquet": parquet_seeds()[0]}
        for name, content in warm.items():
            Path(folder, name).write_bytes(content)
            load(Path(folder, name))
    watch = Watch()
    for what, path, megabytes in json.loads(sys.argv[1]):
        watch.limit(0, memory=megabytes << 20)
        signal.setitimer(signal.ITIMER_REAL, 60)
        allowed = SECONDS + Path(path).stat().st_size / BYTES_PER_SECOND
        signal.setitimer(signal.ITIMER_PROF, allowed)
        try:
            answer = f"read {load(path).X.shape}"
        except MemoryError as error:
            answer = f"out of memory: {error}"
        except ApmaxError as error:
            answer = f"{type(error).__name__} {error}"
            if isinstance(error.__cause__, MemoryError):
                answer = f"out of memory: {error}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        watch.lift()
        print(json.dumps([what, answer]), flush=True)


if __name__ == "__main__":
    main()
