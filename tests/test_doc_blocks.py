"""Code of the documentation without prompts runs, with data of the names that it uses."""

from __future__ import annotations

import re
import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.app.loans import made_loans, run

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("typer", reason="the command line is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("distributed", reason="Dask is not installed")

da = pytest.importorskip("dask.array", reason="Dask is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

from apmax.torch import APLoss, PositiveNegativeBatchSampler  # noqa: E402
from tests.dask_clusters import client_of, of_threads  # noqa: E402

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS = {
    '"scheduler:8786"': "cluster",
    "s3://bucket/transactions/": "transactions/",
}
"""What stands for addresses that do not exist."""
pytestmark = pytest.mark.filterwarnings("ignore")


def blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks of a page that have no prompts, also those inside tabs."""
    found = re.findall(
        rf"^( *)```{language}\n(.*?)^\1```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    texts = [re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, text in found]
    return [text for text in texts if ">>>" not in text]


PYTHON = [(page, text) for page in PAGES for text in blocks(page, "python")]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The variables, files and folders that the blocks use."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 2))
    y = X[:, 0] + rng.normal(size=1200) > 1.6
    columns = {"amount": X[:, 0], "age": X[:, 1]}
    targets = {"data": ("fraud", y), "transactions": ("status", np.where(y, "fraud", "ok"))}
    for folder, (label, target) in targets.items():
        Path(folder).mkdir()
        pq.write_table(pa.table(columns | {label: target}), f"{folder}/part.parquet")
    loans = made_loans(600, 0)
    loans.to_csv("loans.csv", index=False)
    features, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    net = torch.nn.Linear(2, 1)
    sampler = PositiveNegativeBatchSampler(labels, batch_size=64, positives_per_batch=16)
    return {
        "frame": loans.drop(columns="defaulted"),
        "X_valid": loans.drop(columns="defaulted"),
        "y_valid": loans["defaulted"] == "yes",
        "features_valid": torch.randn(600, 2),
        "features_new": torch.randn(100, 2),
        "X_train": pd.DataFrame(columns),
        "y_train": y,
        "X": da.from_array(X, chunks=(600, 2)),
        "y": da.from_array(y, chunks=600),
        "labels": labels,
        "dataset": torch.utils.data.TensorDataset(features, labels),
        "DataLoader": torch.utils.data.DataLoader,
        "net": net,
        "loss": APLoss(labels),
        "sampler": sampler,
        "optimizer": torch.optim.Adam(net.parameters()),
    }


@pytest.mark.parametrize(
    ("page", "text"), PYTHON, ids=[f"{page.stem}-{k}" for k, (page, _) in enumerate(PYTHON)]
)
def test_python_blocks_run(page: Path, text: str, names: dict[str, Any]) -> None:
    if "loans.apmax" in text:
        run(*shlex.split("train loans.csv --target defaulted --model additive --out loans.apmax"))
    for address, here in OTHERS.items():
        text = text.replace(address, here)
    with ExitStack() as stack:
        if "dask" in text:
            names["cluster"] = stack.enter_context(of_threads(1))
            stack.enter_context(client_of(names["cluster"]))
            # Clients that are closed in another order leave a scheduler in Dask's configuration.
            stack.callback(lambda: "client" in names and names["client"].close())
        exec(compile(text, page.name, "exec"), names)


COMMANDS = {
    "quickstart.md": 4,
    "cli.md": 4,
    "thresholds.md": 2,
    "should-i-use-this.md": 1,
    "scale.md": 1,
}
"""The commands of each page, except ``apmax demo`` and patterns such as ``apmax train DATA``."""
EASIER = {
    "--precision 0.8": "--precision 0.3",  # which these loans reach
    "data.csv --target column": "loans.csv --target defaulted --folds 2",
    "transactions.csv --target status": "loans.csv --target defaulted",
}


def commands(page: Path) -> list[str]:
    """Return the lines of a page that start with ``apmax``."""
    lines = [line.split("#")[0].strip() for line in page.read_text("utf-8").splitlines()]
    return [
        line
        for line in lines
        if re.match(r"apmax [a-z]+ [a-z]", line) and re.search(r"\.csv|\.apmax", line)
    ]


def test_pages_with_commands_are_run() -> None:
    found = {page.name: len(commands(page)) for page in PAGES if page.name != "README.md"}
    assert {name: count for name, count in found.items() if count} == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = ("loans", "valid", "test", "new", "loans-2023", "loans-2024", "new-loans")
    for seed, file in enumerate(files):
        made_loans(600, seed).reset_index(names="customer").to_csv(f"{file}.csv", index=False)
    lines = commands(ROOT / "docs" / name)
    if " train " not in lines[0]:
        trained = "apmax train loans.csv --target defaulted --id customer --out loans.apmax"
        lines = [trained, *lines]
    for command in lines:
        text = command
        for old, new in EASIER.items():
            text = text.replace(old, new)
        more = " --model additive" if " train " in text else ""
        run(*shlex.split(text + more)[1:])
        for option in ("--out", "--report"):
            if option in text:
                assert Path(text.split(option)[1].split()[0]).stat().st_size > 100


RUN_ELSEWHERE = {
    ("README.md", "sh"): 1,  # tests/app/cli/test_app.py
    ("cli.md", "text"): 1,  # cog
    ("quickstart.md", "text"): 1,  # cog
    ("tabular.md", "text"): 1,  # tests/test_docs.py
}
NOT_RUN = {
    ("README.md", "sh"): 2,  # git, pip, make
    ("index.md", "sh"): 1,  # the same
    ("quickstart.md", "sh"): 5,  # the same, and apmax demo, which has a test of its own
    ("torch.md", "sh"): 1,  # pip
    ("torch.md", "py"): 1,  # several processes: examples/torch/two_processes.py does it
    ("deep.md", "sh"): 1,  # hours of training; tests/experiments/deep runs it on small images
    ("coming-from-libauc.md", "py"): 1,  # code for LibAUC
    ("CONTRIBUTING.md", "text"): 1,  # a diagram
}
"""Fenced blocks that no test of this file runs, by page and language."""


def test_every_fenced_block_is_run_or_listed() -> None:
    fenced: dict[tuple[str, str], int] = {}
    for page in (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"):
        for language in re.findall(r"^ *```([a-z]+)", page.read_text("utf-8"), re.MULTILINE):
            fenced[page.name, language] = fenced.get((page.name, language), 0) + 1
    run_here = {(name, "sh"): 1 for name in COMMANDS if (name, "sh") in fenced}
    for key, count in fenced.items():
        if key[1] != "python":  # those with prompts are run by tests/test_docs.py
            listed = run_here.get(key, 0) + RUN_ELSEWHERE.get(key, 0) + NOT_RUN.get(key, 0)
            assert count == listed, key
