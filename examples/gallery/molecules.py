"""
Molecules: sparse fingerprints and new scaffolds
================================================

Screening libraries have thousands of binary features, few active molecules, and families
(scaffolds) of similar molecules. A model is useful if it finds actives with scaffolds that it has
not seen, so all molecules of a scaffold belong to one side of every split. The fingerprints here
are simulated; `examples/torch/molecules.py` uses the HIV data of MoleculeNet.
"""

# %%
# 8,000 molecules of 2,000 scaffolds with 512 bits, as a sparse matrix.
import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import PrecisionRecallDisplay
from sklearn.model_selection import GroupShuffleSplit, StratifiedGroupKFold
from sklearn.preprocessing import MaxAbsScaler

from apmax import APClassifierCV, average_precision

rng = np.random.default_rng(0)
molecules, bits, scaffolds = 8_000, 512, 2_000
scaffold = rng.integers(0, scaffolds, molecules)
common = rng.random((scaffolds, bits)) < 0.03
present = common[scaffold] ^ (rng.random((molecules, bits)) < 0.02)
binds = present[:, :20].sum(axis=1)  # groups that bind to the target
blocks = present[:, 20:30].any(axis=1)  # groups that prevent it, whatever else is there
log_odds = 1.8 * np.minimum(binds, 3) - 4.0 * blocks + present[:, 30:60] @ rng.normal(0, 1, 30) - 6
active = rng.random(molecules) < 1 / (1 + np.exp(-log_odds))
X = sp.csr_matrix(present, dtype=np.float64)
train, test = next(GroupShuffleSplit(1, test_size=0.4, random_state=0).split(X, active, scaffold))
print(f"{active[train].sum()} actives among {train.size} molecules ({active[train].mean():.1%})")

# %%
# Logistic regression and AP training, both tuned by AP on scaffolds that are held out.
folds = list(
    StratifiedGroupKFold(5, shuffle=True, random_state=0).split(
        X[train], active[train], scaffold[train]
    )
)
scaled = MaxAbsScaler().fit_transform(X)
logistic = LogisticRegressionCV(
    cv=folds,
    scoring="average_precision",
    max_iter=2000,
    l1_ratios=(0.0,),
    use_legacy_attributes=False,
).fit(scaled[train], active[train])
model = APClassifierCV().fit(X[train], active[train], groups=scaffold[train])
scores = {
    "logistic regression": logistic.decision_function(scaled[test]),
    "APClassifierCV": model.decision_function(X[test]),
}
axes = plt.gca()
for name, values in scores.items():
    PrecisionRecallDisplay.from_predictions(active[test], values, name=name, ax=axes)
    print(f"{name:<20} AP {average_precision(active[test], values):.3f}")
axes.set_title("Molecules with new scaffolds")
plt.show()

# %%
# How many of the 100 molecules that we would test are active?
for name, values in scores.items():
    print(f"{name:<20} {active[test][np.argsort(-values)[:100]].sum()} of the top 100")
