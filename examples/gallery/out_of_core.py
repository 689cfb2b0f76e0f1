"""
Data larger than memory
=======================

`fit_files` fits a linear model to Parquet files in blocks, with memory that does not depend on the
number of rows. With thousands of positives, a weighted sample of the negatives is as good.
"""

# %%
# Ten files with 400,000 rows together, written for this example.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from apmax import APClassifier, average_precision
from apmax.scale import sample_negatives

temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)
names = [f"x{k}" for k in range(10)]


def block(seed: int, rows: int = 40_000) -> tuple[np.ndarray, np.ndarray]:
    """Return features and rare positives."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 10))
    log_odds = 1.2 * X[:, 0] + np.maximum(X[:, 1], 0) * 1.5 + 0.3 * X[:, 2] - 6
    return X, rng.random(rows) < 1 / (1 + np.exp(-log_odds))


for seed in range(10):
    X, y = block(seed)
    columns = {name: X[:, k] for k, name in enumerate(names)} | {"fraud": y}
    pq.write_table(pa.table(columns), folder / f"part-{seed}.parquet")
files = str(folder / "*.parquet")
X_test, y_test = block(99, 100_000)

# %%
# All rows, out of core. Progress goes to the logger `apmax`; `checkpoint=` makes the fit resumable.
everything = APClassifier().fit_files(files, "fraud")
print(f"all rows: {everything.n_iter_} iterations")

# %%
# Samples with 1 to 30 negatives for each positive, weighted to stand for all of them.
ratios, found = (1, 3, 10, 30), []
for ratio in ratios:
    sample = sample_negatives(files, "fraud", per_positive=ratio)
    model = APClassifier().fit(sample.X, sample.y, sample.sample_weight)
    found.append(average_precision(y_test, model.decision_function(X_test)))
    print(f"{ratio:>2} negatives per positive: {len(sample.y):>6} rows, test AP {found[-1]:.4f}")
exact = average_precision(y_test, everything.decision_function(X_test))
print(f"all rows: test AP {exact:.4f}")
plt.semilogx(ratios, found, marker="o", label="weighted sample")
plt.axhline(exact, linestyle=":", color="0.4", label="all rows, out of core")
plt.xlabel("negatives per positive")
plt.ylabel("test AP")
plt.legend()
plt.show()
temporary.cleanup()
