"""Scripts run by torchrun, whose log files are in a folder of their own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

TWO_PROCESSES = Path(__file__).parents[1] / "examples" / "torch" / "two_processes.py"
DYING_RANKS = Path(__file__).parent / "torch" / "dying_ranks.py"


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of processes that put temporary files into a folder."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "TMPDIR": str(folder),
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # restarts need it: pytorch issue 135712
    }


def torchrun(script: Path, *arguments: object, processes: int = 2, restarts: int = 0) -> list[str]:
    """Return a command."""
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone",
        f"--nproc-per-node={processes}", f"--max-restarts={restarts}", "--monitor-interval=0.1",
        str(script), *map(str, arguments),
    ]  # fmt: skip
