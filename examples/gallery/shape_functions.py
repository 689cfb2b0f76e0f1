"""
Additive model: plot and explain it
===================================

`AdditiveAPClassifier` is a sum of one smooth function per column. Its functions can be plotted, and
each prediction is a sum of contributions.
"""

# %%
# Breast cancer data of scikit-learn; malignant tumours are the positives.
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from apmax import AdditiveAPClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, malignant = X.filter(like="mean"), y == 0
X, X_test, malignant, y_test = train_test_split(X, malignant, stratify=malignant, random_state=0)
model = AdditiveAPClassifier(interactions=0).fit(X, malignant)
print(f"AP on new rows: {model.score(X_test, y_test):.3f}")

# %%
# The function of each column: its contribution to the log-odds. `model.plot_effects()` returns a
# figure of them with the density of the data.
figure, panels = plt.subplots(2, 3, figsize=(9, 5), sharey=True, layout="constrained")
for panel, (name, function) in zip(panels.flat, model.shape_functions_.items(), strict=False):
    panel.plot(function.grid, function.effect)
    panel.axhline(0, color="0.7", linewidth=0.8)
    panel.set_title(name)
panels[0, 0].set_ylabel("log-odds")
plt.show()

# %%
# Why does this row have a high probability? Contributions sum to the log-odds.
probability = model.predict_proba(X_test)[:, 1]
row = X_test.iloc[[probability.argmax()]]
contributions = model.explain(row).T.squeeze().sort_values(key=abs, ascending=False)
print(contributions.head(6).round(2).to_string())

# %%
# The same as a bar chart.
strongest = contributions.drop("(intercept)").head(6)[::-1]
strongest.plot.barh(title=f"Reasons of a row with probability {probability.max():.3f}")
plt.xlabel("contribution to the log-odds")
plt.show()
