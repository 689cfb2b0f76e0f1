"""Many rows, many columns and many labels are fitted in bounded memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hang import SECONDS
from tests.reliability.soak import record, scaled

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

ROWS = """
import sys
from apmax import APClassifier
folder = sys.argv[1]
model = APClassifier().fit_files(f"{folder}/*.parquet", "y", cache=folder)
assert abs(model.coef_[0, 0] / model.coef_[0, 1] - 1) < 0.05, model.coef_
"""

FILES = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
folder, parts = sys.argv[1], int(sys.argv[2])
for part in range(parts):
    X = np.random.default_rng(part).normal(size=(10**6, 10)).astype(np.float32)
    columns = {f"x{i}": column for i, column in enumerate(X.T)}
    columns["y"] = X[:, 0] + X[:, 1] > 3
    pq.write_table(pa.table(columns), f"{folder}/{part}.parquet", row_group_size=10**5)
"""

COLUMNS = """
import numpy as np
from apmax import AdditiveAPClassifier, APClassifierCV, average_precision
rng = np.random.default_rng(0)
X, factor = rng.normal(size=(1500, 10_000)), rng.normal(size=1500)
X[:, :1000] += 0.3 * factor[:, None]
y = factor > 1.3
for model in (APClassifierCV(), AdditiveAPClassifier()):
    scores = model.fit(X[:1000], y[:1000]).decision_function(X[1000:])
    assert average_precision(y[1000:], scores) > 0.8, model
"""

LABELS = """
from itertools import islice
import numpy as np, torch
from apmax.torch import ADAP, APLoss, MultiLabelBatchSampler
torch.manual_seed(0)
rng = np.random.default_rng(0)
X = torch.as_tensor(rng.normal(size=(20_000, 32)), dtype=torch.float32)
labels = (X @ torch.as_tensor(rng.normal(size=(32, 5_000)), dtype=torch.float32) > 14).numpy()
network, loss = torch.nn.Linear(32, 5_000), APLoss(labels, from_logits=True)
optimizer = ADAP(network.parameters(), lr=0.01)
for batch in islice(MultiLabelBatchSampler(labels, batch_size=64), 100):
    index = torch.as_tensor(batch)
    loss(network(X[index]), index).backward()
    optimizer.step()
    optimizer.zero_grad()
assert all(parameter.isfinite().all() for parameter in network.parameters())
"""


PEAK = """
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


def peak_memory(code: str, *arguments: str) -> float:
    """Run code in a process of its own and return its largest resident memory in MB.

    The system's `ru_maxrss` would include this process, of which it is a fork. These fits take
    minutes.
    """
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code + PEAK, *arguments],
        env={**os.environ, **one_thread},
        stdout=subprocess.PIPE,
        check=True,
        timeout=6 * SECONDS,
    )
    return float(done.stdout.split()[-1]) / 1024


def test_ten_million_rows_of_files_need_less_than_a_gigabyte(tmp_path: Path) -> None:
    parts = scaled(10)
    peak_memory(FILES, str(tmp_path), str(parts))
    memory = peak_memory(ROWS, str(tmp_path))
    assert memory < 1000
    record("`fit_files` needs less than 1 GB", f"{parts * 10**6:,} × 10 numbers: {memory:.0f} MB")


def test_ten_thousand_columns_need_less_than_three_gigabytes() -> None:
    memory = peak_memory(COLUMNS)
    assert memory < 3000
    record(
        "linear and additive models fit thousands of columns in less than 3 GB",
        f"1,000 × 10,000 numbers: {memory:.0f} MB",
    )


def test_five_thousand_labels_need_less_than_three_gigabytes() -> None:
    memory = peak_memory(LABELS)
    assert memory < 3000
    record(
        "APLoss trains thousands of labels in less than 3 GB",
        f"20,000 examples, 5,000 labels, 100 batches: {memory:.0f} MB",
    )
