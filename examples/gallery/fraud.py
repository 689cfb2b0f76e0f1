"""
Fraud: which model ranks best?
==============================

A table of card payments with rare fraud: amounts with heavy tails, categories, missing values, and
an effect that only shows in combination (large amounts at night). `AutoAPClassifier` compares
models of increasing complexity on the same folds and keeps the one with the highest AP.
"""

# %%
# The data. Replace this by your own table; text columns and missing values need no preparation.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import PrecisionRecallDisplay
from sklearn.model_selection import train_test_split

from apmax import AutoAPClassifier

rng = np.random.default_rng(0)
n = 12_000
payments = pd.DataFrame(
    {
        "amount": rng.lognormal(3.5, 1.2, n).round(2),
        "hour": rng.integers(0, 24, n),
        "merchant": rng.choice(
            ["grocery", "fuel", "travel", "games", "jewellery"], n, p=[0.5, 0.2, 0.15, 0.1, 0.05]
        ),
        "days_since_last": rng.exponential(5, n).round(1),
        "age_of_account": rng.gamma(2, 400, n).round(),
    }
)
payments.loc[rng.random(n) < 0.1, "days_since_last"] = np.nan
night = (payments["hour"] < 6).to_numpy()
log_odds = (
    -6.2
    + 0.9 * (np.log(payments["amount"]) - 3.5) * (1 + 1.5 * night)
    + 1.2 * payments["merchant"].isin(["games", "jewellery"])
    + 1.5 * np.exp(-payments["age_of_account"] / 200)
    + 0.8 * payments["days_since_last"].isna()
)
fraud = rng.random(n) < 1 / (1 + np.exp(-log_odds.to_numpy()))
X, X_test, y, y_test = train_test_split(
    payments, fraud, test_size=0.4, stratify=fraud, random_state=0
)
print(f"{y.sum()} frauds among {y.size} payments ({y.mean():.1%})")

# %%
# One call compares the models by cross-validated average precision.
model = AutoAPClassifier().fit(X, y)
print(model.leaderboard_)

# %%
# On payments that no model has seen. A random order would have an AP of the share of frauds.
print(f"{model.best_}: AP {model.score(X_test, y_test):.3f} (random {y_test.mean():.3f})")
display = PrecisionRecallDisplay.from_estimator(model, X_test, y_test, name=model.best_)
display.ax_.axhline(y_test.mean(), linestyle=":", color="0.5")
display.ax_.set_title("Precision and recall on new payments")
plt.show()

# %%
# Who should be checked first? The team can look at the top 100 payments.
top = np.argsort(-model.predict_proba(X_test)[:, 1])[:100]
print(f"{y_test[top].sum()} of {y_test.sum()} frauds are among the top 100 payments")
