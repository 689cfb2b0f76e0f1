"""Code of the documentation without prompts runs, with data of the names that it uses."""

from __future__ import annotations

import os
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


def test_commands_of_the_quickstart_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("loans", "valid", "test", "new")):
        made_loans(600, seed).reset_index(names="customer").to_csv(f"{name}.csv", index=False)
    lines = [
        line.split("#")[0].strip()
        for text in blocks(ROOT / "docs" / "quickstart.md", "sh")
        for line in text.splitlines()
    ]
    commands = [line for line in lines if line.startswith("apmax ") and line != "apmax demo"]
    assert len(commands) == 4
    for command in commands:
        text = command.replace("--precision 0.8", "--precision 0.3")  # reachable on these loans
        more = " --model additive" if " train " in text else ""
        run(*shlex.split(text + more)[1:])
    assert {"loans.apmax", "alerts.csv", "loans.html"} <= set(os.listdir())
