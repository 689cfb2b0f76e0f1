"""An example whose ranks SIGKILL themselves: ``dying_ranks.py EXAMPLE FOLDER STEPS PLAN``.

PLAN is JSON: for each start, the rank that dies and after how many steps of this start.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from pathlib import Path


def main() -> None:
    example, folder = runpy.run_path(sys.argv[1]), Path(sys.argv[2])
    steps, plan = int(sys.argv[3]), json.loads(sys.argv[4])
    start, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
    dying, left = plan[start] if start < len(plan) else (None, 0)

    def after_step(step: int) -> None:
        nonlocal left
        left -= 1
        if rank == dying and left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    train = example["train"]
    train.__globals__["after_step"] = after_step
    train.__defaults__ = (steps,)
    example["main"](folder)
    if rank == 0:
        (folder / "restarts").write_text(str(start))


if __name__ == "__main__":
    main()
