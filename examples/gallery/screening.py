"""
Screening: few false alarms at a high recall
============================================

A screening test must find nearly all cases; the fewer healthy people are called back, the better.
The threshold is chosen on validation data, and its precision and recall are then checked on data
that took no part in the choice.
"""

# %%
# Breast cancer data of scikit-learn, with fewer malignant tumours than there are.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import precision_recall_curve
from sklearn.model_selection import train_test_split

from apmax import APClassifierCV, operating_point

X, y = load_breast_cancer(return_X_y=True)
malignant = y == 0
rng = np.random.default_rng(0)
kept = np.flatnonzero(~malignant | (rng.random(y.size) < 0.4))
X, malignant = X[kept][:, [1, 4, 8]], malignant[kept]  # texture, smoothness, symmetry
parts = train_test_split(X, malignant, test_size=0.6, stratify=malignant, random_state=0)
X_train, X_other, y_train, y_other = parts
parts = train_test_split(X_other, y_other, test_size=0.5, stratify=y_other, random_state=0)
X_valid, X_test, y_valid, y_test = parts
print(f"{y_train.sum()} cases in training, {y_valid.sum()} in validation, {y_test.sum()} in test")

# %%
# With so few cases every number is uncertain, and the estimator warns about it.
model = APClassifierCV(cv=4).fit(X_train, y_train)
valid = model.predict_proba(X_valid)[:, 1]
point = operating_point(y_valid, valid, recall=0.9)
print(
    f"threshold {point.threshold:.3f}: {point.alert_rate:.1%} called back, precision "
    f"{point.precision:.0%}, recall {point.recall:.0%} on validation data"
)

# %%
# What to expect in use: the same threshold on the test data.
test = model.predict_proba(X_test)[:, 1]
called = test >= point.threshold
precision, recall = y_test[called].mean(), called[y_test].mean()
print(f"test data: {called.mean():.1%} called back, precision {precision:.0%}, recall {recall:.0%}")
for name, labels, scores in (("validation", y_valid, valid), ("test", y_test, test)):
    curve = precision_recall_curve(labels, scores)
    plt.step(curve[1], curve[0], where="post", label=name)
plt.plot(point.recall, point.precision, "o", color="C0")
plt.plot(recall, precision, "o", color="C1")
plt.xlabel("recall")
plt.ylabel("precision")
plt.title("One threshold on two samples")
plt.legend()
plt.show()
