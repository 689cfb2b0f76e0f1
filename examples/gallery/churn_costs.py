"""
Churn: a threshold from costs
=============================

A call to a customer costs 5, a lost customer 100, and a call keeps four of ten customers who would
leave. Whom should the team call? The answer is a threshold on the probability, so probabilities
must be calibrated and the threshold must be checked on data that the model has not seen.
"""

# %%
# Customers with several contracts: all rows of one customer stay on one side of every split.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.calibration import CalibrationDisplay
from sklearn.model_selection import GroupShuffleSplit

from apmax import AdditiveAPClassifier

CALL, LOSS, KEPT = 5.0, 100.0, 0.4

rng = np.random.default_rng(0)
n = 8_000
customer = rng.integers(0, 5_000, n)
contracts = pd.DataFrame(
    {
        "months": rng.exponential(30, n).round(),
        "calls_to_support": rng.poisson(1.2, n),
        "monthly_fee": rng.gamma(6, 8, n).round(2),
        "plan": rng.choice(["basic", "family", "business"], n, p=[0.6, 0.3, 0.1]),
        "last_login_days": rng.exponential(12, n).round(),
    }
)
log_odds = (
    -3.6
    + 1.4 * (contracts["calls_to_support"] >= 4)
    + 0.9 * np.exp(-contracts["months"] / 12)
    + 0.03 * contracts["last_login_days"]
    + 0.6 * (contracts["plan"] == "basic")
    + rng.normal(0, 0.5, 5_000)[customer]
)
left = rng.random(n) < 1 / (1 + np.exp(-log_odds.to_numpy()))
train, test = next(
    GroupShuffleSplit(1, test_size=0.4, random_state=0).split(contracts, left, customer)
)
X, y, X_test, y_test = contracts.iloc[train], left[train], contracts.iloc[test], left[test]
model = AdditiveAPClassifier().fit(X, y, groups=customer[train])
probability = model.predict_proba(X_test)[:, 1]
print(f"AP {model.score(X_test, y_test):.3f}, share of churn {y_test.mean():.3f}")

# %%
# Can the probabilities be used? Bins should lie near the diagonal.
display = CalibrationDisplay.from_predictions(
    y_test, probability, n_bins=8, strategy="quantile", name="additive"
)
display.ax_.set(xlim=(0, 0.3), ylim=(0, 0.3))
plt.show()

# %%
# A call pays off if the expected gain, probability × kept × loss, exceeds its cost.
break_even = CALL / (KEPT * LOSS)


def profit(threshold: float) -> float:
    """Return the gain of calling everyone at or above a threshold, compared with no calls."""
    called = probability >= threshold
    return float(KEPT * LOSS * (called & y_test).sum() - CALL * called.sum())


thresholds = np.linspace(0.01, 0.6, 120)
plt.plot(thresholds, [profit(one) for one in thresholds])
plt.axvline(break_even, linestyle=":", color="0.4", label=f"break-even at {break_even:.3f}")
plt.xlabel("threshold")
plt.ylabel("profit on the test rows")
plt.legend()
plt.show()
print(f"profit at the break-even probability: {profit(break_even):.0f}")
print(f"profit at 0.5: {profit(0.5):.0f}; calling everyone: {profit(0.0):.0f}")
