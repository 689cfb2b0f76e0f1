"""Every example of the gallery runs and shows its figures."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.hang import SECONDS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "gallery"
NEEDS = {
    "dask_cluster": "distributed",
    "lightning_module": "lightning",
    "out_of_core": "pyarrow",
    **dict.fromkeys(("compositional", "images", "multi_label"), "torch"),
}


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_the_example_runs_and_shows_its_figures(name: str, tmp_path: Path) -> None:
    needed = NEEDS.get(name, "matplotlib")
    if find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    environment = {
        **os.environ,
        "MPLBACKEND": "module://tests.figure_list",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(FOLDER / f"{name}.py")],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    figures = (tmp_path / "figures").read_text().splitlines()
    assert len(figures) >= (FOLDER / f"{name}.py").read_text("utf-8").count("plt.show()") >= 1
    assert "0 axes with data" not in figures
