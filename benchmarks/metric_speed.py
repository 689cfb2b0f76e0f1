"""Average precision beside scikit-learn's, on the same scores."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sklearn.metrics import average_precision_score

from apmax import average_precision
from benchmarks.timing import Line, medians, rare_positives


def lines() -> Iterator[Line]:
    for n, repeats in ((10**6, 5), (10**7, 3)):
        scores, y = rare_positives(n)
        ours, theirs = medians(
            repeats,
            partial(average_precision, y, scores),
            partial(average_precision_score, y, scores),
        )
        what = f"average_precision: scikit-learn / apmax, n = 10^{len(str(n)) - 1}"
        yield Line(what, theirs / ours, 4, at_least=True)
