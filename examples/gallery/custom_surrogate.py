"""
Custom surrogate of the AP objective
====================================

AP counts a pair by the step function 1[x ≥ 0] of a difference of scores. Training replaces it by a
smooth surrogate ℓ(x). Any non-decreasing ℓ ≥ 0 with ℓ(0) > 0 works: two functions, its value and
its slope.
"""

# %%
# A cubed hinge, beside the two built-in surrogates.
import matplotlib.pyplot as plt
import numpy as np

from apmax import APClassifier, Surrogate, average_precision, surrogate_ap

cubed = Surrogate(
    "cubed_hinge",
    value=lambda x, gamma: np.maximum(x + gamma, 0.0) ** 3,
    slope=lambda x, gamma: 3.0 * np.maximum(x + gamma, 0.0) ** 2,
)
x = np.linspace(-0.5, 0.5, 400)
plt.plot(x, x >= 0, color="0.5", label="step: AP itself")
plt.plot(x, 1 / (1 + np.exp(-20 * x)), label="logistic, γ = 20")
plt.plot(x, np.maximum(x + 0.1, 0) ** 2 / 0.1**2, label="squared hinge, γ = 0.1, scaled")
plt.plot(x, cubed.value(x, 0.2) / 0.2**3, label="cubed hinge, γ = 0.2, scaled")
plt.ylim(-0.1, 4)
plt.xlabel("difference of scores")
plt.legend()
plt.show()

# %%
# It gives the exact objective over all pairs and its gradient, and it fits a linear model.
rng = np.random.default_rng(0)
y = rng.random(3_000) < 0.04
X = rng.normal(size=(3_000, 8)) + 0.8 * y[:, None] * (np.arange(8) < 3)
result = surrogate_ap(X[:, 0], y, surrogate=cubed, gamma=0.2)
print(f"surrogate AP of one feature: {result.value:.3f}")
train, test = slice(None, None, 2), slice(1, None, 2)
for surrogate, gamma in (("logistic", 20), ("squared_hinge", 0.1), (cubed, 0.2)):
    model = APClassifier(surrogate=surrogate, gamma=gamma).fit(X[train], y[train])
    ap = average_precision(y[test], model.decision_function(X[test]))
    name = surrogate if isinstance(surrogate, str) else surrogate.name
    print(f"{name:<14} AP on new rows {ap:.3f}")
