"""Train a model on a file's data, and score it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from apmax.app.data.files import Dataset
from apmax.app.pipeline.drift import unused_in_training
from apmax.app.pipeline.encoder import TableEncoder
from apmax.app.pipeline.model import Model
from apmax.errors import ParameterError
from apmax.linear.classifier import APClassifier
from apmax.linear.classifier_cv import APClassifierCV
from apmax.linear.settings import FULL_BATCH
from apmax.methods import METHODS
from apmax.registry import Registry
from apmax.validation import Floats

CROSS_VALIDATED, FOLDS = "cv", 5
MOST_LISTED = 100
"""Labels of the rest that a model keeps; more are numbers rather than names."""
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Trained:
    """A model and the estimator that it came from."""

    model: Model
    estimator: Any
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    """What of the training data is not used: a sentence each."""

    @property
    def history(self) -> dict[str, Floats] | None:
        """AP against steps, if the solver keeps it."""
        return getattr(self.estimator, "history_", None)

    @property
    def status(self) -> str:
        """How the fit ended."""
        return str(self.estimator.status_)

    def with_facts(self, facts: dict[str, Any]) -> Trained:
        """The same with more to say of the model."""
        return replace(self, model=replace(self.model, facts={**self.model.facts, **facts}))


def make_estimator(
    solver: str = CROSS_VALIDATED,
    *,
    seed: int = 0,
    fewest: int = FOLDS,
    checkpoint: Path | None = None,
) -> Any:
    """APClassifierCV for "cv", or else APClassifier with that solver.

    `fewest` is the size of the rarer class: with one there are no folds.
    `checkpoint` is a folder for a stochastic solver's state.
    """
    Registry("solver", dict.fromkeys((CROSS_VALIDATED, FULL_BATCH, *METHODS))).choose(solver)
    if checkpoint is not None and solver == CROSS_VALIDATED:
        raise ParameterError(
            f"`checkpoint` is for the stochastic solvers, and solver = {solver!r} is none: leave "
            "it out, or choose one, e.g. soap-adam"
        )
    if solver == CROSS_VALIDATED and fewest > 1:
        return APClassifierCV()
    if solver == CROSS_VALIDATED:
        return APClassifier()
    stochastic = solver != FULL_BATCH
    return APClassifier(
        solver,
        random_state=seed,
        early_stopping=stochastic,
        n_iter_no_change=20,
        checkpoint=checkpoint,
    )


def train(
    dataset: Dataset,
    *,
    solver: str = CROSS_VALIDATED,
    seed: int = 0,
    checkpoint: Path | None = None,
    on_progress: Any = None,
) -> Trained:
    """Encode the data, fit, and put both into a model that can be stored.

    Ctrl-C keeps the best that there is: the last steps of a solver, or in the middle of a
    cross-validation the single fit that came before it.
    """
    if dataset.y is None:
        raise ParameterError("the data have no target: say which column it is")
    encoder = TableEncoder.fit(dataset.X) if hasattr(dataset.X, "columns") else None
    X = dataset.X if encoder is None else encoder.transform(dataset.X)
    fewest = int(min(dataset.y.sum(), (~dataset.y).sum()))
    estimator = make_estimator(solver, seed=seed, fewest=fewest, checkpoint=checkpoint)
    estimator.on_progress = on_progress
    best: Any = None
    interrupted = False
    try:
        if isinstance(estimator, APClassifierCV):
            best = APClassifier().fit(X, dataset.y)
            interrupted = "interrupted" in str(best.status_)
        if not interrupted:
            best = estimator.fit(X, dataset.y)
            interrupted = "interrupted" in str(best.status_)
    except KeyboardInterrupt:
        if best is None:
            raise
        interrupted = True
    model = Model(
        coef=best.coef_[0],
        intercept=float(best.intercept_[0]),
        positive=str(dataset.positive_label),
        negative=str(dataset.negative_label),
        target=dataset.target,
        encoder=encoder,
        facts={
            "rows": int(dataset.y.size),
            "positives": int(dataset.y.sum()),
            "features": int(X.shape[1]),
            "solver": solver,
            "status": str(best.status_),
        },
        rest=_rest_of(dataset),
    )
    notes = [] if encoder is None else unused_in_training(encoder, dataset.X)
    return Trained(model, best, interrupted, tuple(notes))


def _rest_of(dataset: Dataset) -> list[str] | None:
    if not dataset.against_rest:
        return None
    others = [str(label) for label in dataset.counts if label != dataset.positive_label]
    return others if len(others) <= MOST_LISTED else []


def hold_out(dataset: Dataset, *, seed: int = 0, share: float = 0.2) -> tuple[Dataset, Dataset]:
    """A part to learn from and a part to test on, with the same share of positives."""
    if dataset.y is None:
        raise ParameterError("the data have no target: say which column it is")
    rng = np.random.default_rng(seed)
    learn, test = [], []
    for rows in (np.flatnonzero(dataset.y), np.flatnonzero(~dataset.y)):
        if rows.size < 2:
            raise ParameterError(
                "there is one row of a class, none to hold out: give --test data with both classes"
            )
        shuffled = rng.permutation(rows)
        count = min(max(1, round(share * rows.size)), rows.size - 1)
        test.append(shuffled[:count])
        learn.append(shuffled[count:])
    parts = (dataset.rows(np.sort(np.concatenate(part))) for part in (learn, test))
    return next(parts), next(parts)


def strongest_features(model: Model, X: Any, count: int = 20) -> list[tuple[str, float]]:
    """Features that move the log-odds most, each with what one standard deviation of it does.

    A weight alone says little: that of a rare category may be large and hardly ever count.
    """
    features = sp.csr_matrix(model.features(X))
    mean = np.asarray(features.mean(axis=0)).ravel()
    square = np.asarray(features.multiply(features).mean(axis=0)).ravel()
    effect = model.coef * np.sqrt(np.maximum(square - mean**2, 0.0))
    names = model.feature_names()
    order = np.argsort(-np.abs(effect), kind="stable")[:count]
    return [(names[k], float(effect[k])) for k in order]
