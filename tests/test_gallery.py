"""Every example of the gallery runs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "gallery"
NEEDS = {
    "dask_cluster": "distributed",
    "lightning_module": "lightning",
    "out_of_core": "pyarrow",
    **dict.fromkeys(("compositional", "images", "multi_label"), "torch"),
}


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_the_example_runs(name: str, tmp_path: Path) -> None:
    needed = NEEDS.get(name, "matplotlib")
    if find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    environment = {
        **os.environ,
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(FOLDER / f"{name}.py")],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
