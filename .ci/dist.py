"""Build the source archive and the wheel, check them, and run the quickstarts with the wheel.

The wheel is installed into empty environments: alone, and with its extras.

Writes a list of components (SBOM, CycloneDX) and the licences of all dependencies, those of the
extras included, to dist/components. Prints the installed size of the core without extras and the
CPU times of ``import apmax`` and of the first import of an estimator; ``--store`` stores them in
``docs/results/release.json``.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
LIBRARY = """
from sklearn.datasets import load_breast_cancer
from apmax import APClassifierCV, AutoAPClassifier
X, y = load_breast_cancer(return_X_y=True)
for model in (APClassifierCV(), AutoAPClassifier(["logistic", "additive", "boosting-5x100"], cv=3)):
    assert model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.98
"""
FILES = """
import dask.array as da
from distributed import Client
from sklearn.datasets import load_breast_cancer
from apmax import APClassifier
from apmax.dask import DaskAPClassifier
if __name__ == "__main__":
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X.columns = [f"c{k}" for k in range(X.shape[1])]
    X.assign(benign=y).to_parquet("table.parquet")
    model = APClassifier().fit_files("*.parquet", "benign")
    arrays = da.from_array(X.to_numpy(), chunks=(200, 30)), da.from_array(y.to_numpy(), chunks=200)
    with Client(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0"):
        local = DaskAPClassifier().fit(*arrays).to_local()
    for fitted in (model, local):
        assert fitted.score(X.to_numpy(), y) > 0.98
"""
LOANS = """
import runpy, sys
made_loans = runpy.run_path(sys.argv[1] + "/tests/app/loans.py")["made_loans"]
for seed, name in enumerate(("loans", "valid", "test", "new")):
    loans = made_loans(600, seed).reset_index(names="customer")
    loans.to_csv(name + ".csv", index=False)
"""
IMPORT = """
import time
import numpy
start = time.process_time()
import apmax
imported = time.process_time()
from apmax import APClassifierCV
print(imported - start, time.process_time() - start)
"""
NAMES = """
from importlib.metadata import distributions
print(*(one.metadata["Name"] for one in distributions()), sep="\\n")
"""


def run(*command: object, **options: object) -> str:
    """Run a command and return what it prints."""
    print("dist:", " ".join(str(part).partition("\n")[0] for part in command), flush=True)
    done = subprocess.run(
        [str(part) for part in command], text=True, capture_output=True, check=False, **options
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def installed(folder: Path, *requirements: str) -> Path:
    """Create an environment with the wheel and return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "-q", "install")
    run(*pip, "--constraint", ROOT / "constraints.txt", *requirements)
    return python


def size(folder: Path) -> int:
    """Return the bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def faults_of_components(names: set[str], bom: str, licences: str) -> list[str]:
    """Compare the SBOM and the table of licences with the names of installed packages."""
    rows = [[cell.strip() for cell in row.split("|")[1:]] for row in licences.splitlines()[2:]]
    listed = {
        "SBOM": {component["name"] for component in json.loads(bom).get("components", [])},
        "licences": {row[0] for row in rows},
    }
    return [
        *(f"{where}: {one} is missing" for where in listed for one in names - listed[where]),
        *(f"{where}: {one} is not installed" for where in listed for one in listed[where] - names),
        *(f"licences: that of {row[0]} is unknown" for row in rows if row[2] == "UNKNOWN"),
    ]


def write_components(wheel: Path, python: Path) -> None:
    """Write the components of an environment and their licences, and check that none is missing."""
    folder = DIST / "components"
    folder.mkdir()
    bom = folder / f"{wheel.stem}.cdx.json"
    tool = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible")
    run(*tool, "--output-file", bom, python)
    tool = (sys.executable, "-m", "piplicenses", "--python", python, "--format", "markdown")
    licences = run(*tool, "--with-urls", "--with-system")
    (folder / "LICENCES.md").write_text(licences)
    names = set(run(python, "-I", "-c", NAMES).splitlines())
    if faults := faults_of_components(names, bom.read_text(), licences):
        sys.exit("\n".join(sorted(faults)))


def terminal_commands() -> list[list[str]]:
    """Return the commands of the quickstart, with a precision that `LOANS` reach."""
    text = (ROOT / "docs" / "quickstart.md").read_text("utf-8")
    lines = re.findall(r"^ +(apmax (?!demo).*)$", text, re.MULTILINE)
    commands = [shlex.split(line.replace("--precision 0.8", "--precision 0.3")) for line in lines]
    assert len(commands) == 4, commands
    return commands


def main() -> None:
    """Build, check, try and store."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST, ROOT)
    wheel = next(DIST.glob("*.whl"))
    run(sys.executable, "-m", "twine", "check", "--strict", *DIST.glob("apmax-*"))
    run(sys.executable, "-m", "check_wheel_contents", wheel)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        core = installed(folder / "core", str(wheel))
        run(core, "-c", LIBRARY, cwd=folder)
        packages = next((folder / "core" / "lib").glob("python*")) / "site-packages"
        own = size(packages / "apmax")
        every = size(packages) - size(packages / "pip") - size(packages / "setuptools")
        times = [map(float, run(core, "-c", IMPORT, cwd=folder).split()) for _ in range(5)]
        package, estimator = map(min, zip(*times, strict=True))
        app = installed(folder / "app", f"{wheel}[app,trees,excel,dask]")
        run(app.parent / "apmax", "demo", "--out", folder / "demo", cwd=folder)
        assert (folder / "demo" / "report.html").stat().st_size > 10_000
        (folder / "files.py").write_text(FILES)
        run(app, "files.py", cwd=folder)
        pip = (app, "-m", "pip", "--disable-pip-version-check", "-q", "install")
        run(*pip, "--constraint", ROOT / "constraints.txt", f"{wheel}[torch]")
        write_components(wheel, app)
        run(app, "-m", "doctest", ROOT / "README.md", ROOT / "docs" / "quickstart.md", cwd=folder)
        run(app, "-c", LOANS, ROOT, cwd=folder)
        for command in terminal_commands():
            run(app.parent / command[0], *command[1:], cwd=folder)
    facts = {
        "wheel_bytes": wheel.stat().st_size,
        "installed_bytes": own,
        "installed_bytes_with_dependencies": every,
        "import_seconds": round(package, 4),
        "estimator_import_seconds": round(estimator, 4),
    }
    if "--store" in sys.argv:
        stored = ROOT / "docs" / "results" / "release.json"
        stored.write_text(json.dumps(facts, indent=1) + "\n")
    for path in (path for path in sorted(DIST.rglob("*")) if path.is_file()):
        print(hashlib.sha256(path.read_bytes()).hexdigest(), path.relative_to(ROOT))
    print(
        f"{wheel.name}: {wheel.stat().st_size / 1e3:.0f} kB; installed {own / 1e6:.1f} MB, with "
        f"dependencies {every / 1e6:.0f} MB; CPU time after NumPy: import apmax "
        f"{1000 * package:.1f} ms, from apmax import APClassifierCV {estimator:.2f} s"
    )


if __name__ == "__main__":
    main()
