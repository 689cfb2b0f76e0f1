"""Choice of alpha by cross-validation on a sample in memory."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from apmax.binary_target import binary_target, warn_if_few
from apmax.blas_threads import one_blas_thread
from apmax.errors import LabelError, ParameterError
from apmax.interrupts import cooperative_interrupts, raise_if_interrupted
from apmax.lbfgs import minimise
from apmax.linear.base import TrainingSet
from apmax.linear.classifier import LOGISTIC_C
from apmax.linear.design import make_design
from apmax.linear.full_batch import ap_objective, fit_logistic, relative_penalty
from apmax.metrics import ap_of_scores
from apmax.objective.surrogates import LOGISTIC
from apmax.validation import Floats, check_count, check_gamma, check_real

ALPHAS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
logger = logging.getLogger("apmax")


class AlphaChoice(NamedTuple):
    """Cross-validated AP of each alpha; unpacks as (alpha, alphas, scores, standard errors)."""

    alpha: float
    """The alpha of the highest mean."""
    alphas: tuple[float, ...]
    """The alphas that were compared."""
    scores: Floats
    """Mean held-out AP of each alpha."""
    standard_errors: Floats
    """Standard error of the difference from the best alpha, over the folds."""


def choose_alpha(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    alphas: Sequence[float] = ALPHAS,
    cv: int = 5,
    gamma: float = 20.0,
    pos_label: Any = None,
    max_iter: int = 200,
    tol: float = 1e-4,
) -> AlphaChoice:
    """Choose alpha of :class:`apmax.APClassifier` on a sample.

    Folds are assigned by a hash of the row, so that equal rows are in the same fold and the
    assignment does not depend on the order of the rows. On each fold one path of fits starts from
    logistic regression and goes from the largest alpha to the smallest.

    Parameters
    ----------
    X, y, sample_weight
        A sample in memory, for example from :func:`sample_negatives`.
    alphas : sequence of float
        Candidates.
    cv : int, default=5
        Number of folds.
    gamma, pos_label, max_iter, tol
        As in :class:`apmax.APClassifier`.

    Returns
    -------
    AlphaChoice
        The best alpha, and the scores of all.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from apmax.scale import choose_alpha
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> choice = choose_alpha(X, y, alphas=(1, 0.1), cv=3)
    >>> choice.alpha in choice.alphas
    True
    """
    X = check_array(X, dtype=(np.float64, np.float32), order="C")
    target = binary_target(y, sample_weight, pos_label=pos_label, estimator="choose_alpha")
    why = "it is a candidate for the penalty"
    path = sorted({check_real(alpha, "alphas", at_least=0, why=why) for alpha in alphas})[::-1]
    if not path:
        raise ParameterError("`alphas` is empty: pass at least one candidate")
    check_count(cv, "cv", at_least=2, why="it is the number of folds")
    check_gamma(gamma)
    warn_if_few(target.positive, stacklevel=3)
    data = TrainingSet(X, target).without_zero_weights()
    fold = row_folds(data.X, cv)
    for k in range(cv):
        if not (data.positive[fold == k].any() and data.positive[fold != k].any()):
            raise LabelError(f"fold {k} of {cv} holds no positive: use fewer folds, cv={cv - 1}")
    scores = np.empty((cv, len(path)))
    with cooperative_interrupts(), one_blas_thread(X.size):
        for k in range(cv):
            train, test = data.rows(np.flatnonzero(fold != k)), data.rows(np.flatnonzero(fold == k))
            scores[k] = _scores_of_path(train, test, path, gamma, max_iter, tol)
            logger.info("fold %d of %d: AP %s", k + 1, cv, np.round(scores[k], 4))
    means = scores.mean(axis=0)
    best = int(np.argmax(means))
    errors = (scores - scores[:, [best]]).std(axis=0, ddof=1) / cv**0.5
    return AlphaChoice(path[best], tuple(path), means, errors)


def _scores_of_path(
    train: TrainingSet,
    test: TrainingSet,
    path: Sequence[float],
    gamma: float,
    max_iter: int,
    tol: float,
) -> list[float]:
    design = make_design(train.X, "deviation", train.weight)
    held_out = design.of(test.X)
    anchor = w = fit_logistic(
        design, train.positive, train.weight, C=LOGISTIC_C, total=train.total
    ).w
    found = []
    for alpha in path:
        raise_if_interrupted()
        objective = ap_objective(
            design,
            train.positive,
            train.weight,
            surrogate=LOGISTIC,
            gamma=gamma,
            penalty=relative_penalty(alpha, anchor),
            anchor=anchor,
        )
        w = minimise(objective, w, max_iter=max_iter, tol=tol).w
        found.append(ap_of_scores(test.positive, held_out.margins(w), test.weight))
    return found


def row_folds(X: NDArray[Any], folds: int) -> NDArray[np.intp]:
    """Return a fold for each row, by a hash of its features.

    The hash mixes the bits of each feature as splitmix64 does (Steele, Lea and Flood, 2014).
    """
    mixed = np.zeros(X.shape[0], np.uint64)
    for k in range(X.shape[1]):
        bits = (X[:, k].astype(np.float64) + 0.0).view(np.uint64)  # + 0.0: −0 equals 0
        mixed = _splitmix(mixed ^ bits)
    return np.asarray(mixed % np.uint64(folds), dtype=np.intp)


def _splitmix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
