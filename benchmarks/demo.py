"""What `apmax train` prints for the data of the demo, for the documentation.

``python -m benchmarks.demo`` writes it to ``docs/results/demo.txt``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from apmax.app.cli.demo import DATA, TARGET
from benchmarks.timing import RESULTS

START = "from apmax.app.cli import main; main()"
OPTIONS = ("--out", "wilt.apmax", "--jobs", "1")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", START, "train", str(DATA), "--target", TARGET, *OPTIONS],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=os.environ | {"COLUMNS": "120"},
        )
    print(done.stdout)
    (RESULTS / "demo.txt").write_text(done.stdout, encoding="utf-8")


if __name__ == "__main__":
    main()
