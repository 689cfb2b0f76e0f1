r"""APClassifier: a linear classifier trained for average precision."""

from __future__ import annotations

import os
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_features

from apmax.errors import ParameterError
from apmax.linear.base import LinearAPModel, TrainingSet
from apmax.linear.checkpoint import Checkpoint, identity_of, open_checkpoint
from apmax.linear.design import Design, make_design
from apmax.linear.full_batch import fit_logistic
from apmax.linear.history import History, watch
from apmax.linear.settings import FULL_BATCH, Settings, settings_of
from apmax.linear.solvers import Fit, run_full_batch, run_stochastic
from apmax.validation import Floats

LOGISTIC_C = 1.0
"""C of the logistic regression that anchors a single fit."""


class APClassifier(LinearAPModel):
    r"""Linear classifier that maximises (a surrogate of) average precision.

    The default solver, L-BFGS on the exact objective over all pairs, minimises

    .. math:: -\widehat{AP}(w) + \alpha \, \|w - w_{LR}\|^2 / \|w_{LR}\|^2

    from :math:`w_{LR}`, a logistic regression: with a large alpha it is logistic regression,
    with a small one it follows average precision alone. The stochastic solvers are the rows
    of :data:`apmax.methods.METHODS`, on scores σ(w·x + b) with the penalty
    :math:`\alpha\|w\|^2`. Their defaults are measured, not always the paper's.

    Features are scaled inside (centred and to unit deviation, or to unit maximum if X is
    sparse), without a copy of X, and the scale is folded into `coef_` and `intercept_`. At the
    end a one-dimensional logistic fit (Platt) is folded in too, so that `decision_function` is
    a log-odds and `predict_proba` a probability; the ranking is untouched.

    Parameters
    ----------
    solver : "auto" (= "lbfgs"), "lbfgs", or a method by name, e.g. "adap-adam".
    surrogate : "logistic", which None is, or the paper's "squared_hinge".
    gamma : margin or slope of the surrogate, in units of the score σ(w·x + b); None is 0.1 for
        "squared_hinge", and for "logistic" 20 with "lbfgs" and 40 with the others.
    alpha : strength of the penalty, ≥ 0; None is 1 with an anchor and 1e-5 without.
    anchor : "logistic" penalises the distance to a logistic regression, None the distance
        to 0; "auto" is "logistic" for "lbfgs" and None for the others.
    max_iter : iterations of L-BFGS, or rounds; None takes the solver's default.
    tol : L-BFGS stops when no entry of the gradient is larger, or when an iteration gains less
        than 1e-9 of the objective.
    batch_size : examples per round. This and the parameters down to `fit_intercept` are read
        by the stochastic solvers only, and `tol` by "lbfgs" only.
    positive_rate : share of positives in a batch.
    learning_rate : η, its first value where the schedule decreases it; None: the solver's, for
        its schedule.
    beta0, beta1, beta2 : weights of the NEW value in U, the momentum and the second moment.
        torch's betas are one minus these.
    delta : added to the root of the second moment.
    schedule : of η and the betas: "constant", "inverse_sqrt", or "linear", under which η falls
        evenly to nothing over `max_iter` rounds and the betas stay; None is "linear" for methods
        that are constant in the paper, and "inverse_sqrt" for those that have that.
    sampling : "shared" uses one batch for values and slopes, "independent" one for each.
    fit_intercept : whether stochastic scores σ(w·x + b) have a b. AP does not depend on
        it, and `intercept_` always comes from Platt's fit.
    early_stopping : hold out `validation_fraction` of the data, keep the point with the best
        AP there, and stop when `n_iter_no_change` records in a row have not improved it. A rate
        that falls over `max_iter` rounds is then cut off where it stops.
    warm_start : start from the last fit's coefficients, with the first learning rate again.
    random_state : of the draws and of the validation split.
    checkpoint : a folder in which a stochastic fit keeps its state, about once a second. The
        same fit on the same data, started again after it was stopped or killed, goes on from
        there and ends with the same bits; once it has ended, it returns at once. One fit at a
        time: not for the folds of a cross-validation. See docs/reliability.md.
    verbose : show progress on a terminal.

    Attributes
    ----------
    coef_ : (1, n_features) and intercept_ : (1,), log-odds of ``classes_[1]``.
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn.
    n_iter_ : iterations or rounds done.
    history_ : dict of arrays: step, seconds, surrogate_ap, train_ap, validation_ap,
        gradient_norm.
    status_ : whether the fit converged, with a message; of a stochastic one, that it did its
        rounds and did not diverge.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from apmax import APClassifier, average_precision
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = APClassifier().fit(X[::2], y[::2])
    >>> round(average_precision(y[1::2], model.decision_function(X[1::2])), 3)
    0.992
    """

    _last_w: Floats

    def __init__(
        self,
        solver: str = "auto",
        *,
        surrogate: str | None = None,
        gamma: float | None = None,
        alpha: float | None = None,
        anchor: str | None = "auto",
        max_iter: int | None = None,
        tol: float = 1e-4,
        batch_size: int = 128,
        positive_rate: float = 0.25,
        learning_rate: float | None = None,
        beta0: float = 0.9,
        beta1: float = 0.1,
        beta2: float = 0.01,
        delta: float = 1e-8,
        schedule: str | None = None,
        sampling: str = "shared",
        fit_intercept: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        random_state: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.solver = solver
        self.surrogate = surrogate
        self.gamma = gamma
        self.alpha = alpha
        self.anchor = anchor
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.positive_rate = positive_rate
        self.learning_rate = learning_rate
        self.beta0 = beta0
        self.beta1 = beta1
        self.beta2 = beta2
        self.delta = delta
        self.schedule = schedule
        self.sampling = sampling
        self.fit_intercept = fit_intercept
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> APClassifier:
        """Fit to X (dense or sparse) and two classes y; return self."""
        settings = settings_of(self)
        self._check_warm_start(X)
        data = self._checked(X, y, sample_weight).seen()
        rng = _generator(self.random_state)
        with self._open_checkpoint(settings, data, rng) as checkpoint:
            whole = make_design(
                data.X, "maximum" if sp.issparse(data.X) else "deviation", data.weight
            )
            train, held_out = self._split(data, rng)
            design = whole.of(train.X)
            history = History(
                train=watch(train, whole),
                validation=held_out and watch(held_out, whole),
                patience=self.n_iter_no_change if self.early_stopping else None,
                verbose=self.verbose,
                on_progress=self.on_progress,
                steps=settings.max_iter,
            )
            no_anchor = np.zeros(design.parameters)
            anchor = self._anchor(design, train) if settings.anchored else no_anchor
            start = self._start(design, anchor)
            run = run_full_batch if settings.solver == FULL_BATCH else run_stochastic
            outcome = run(
                Fit(
                    model=self,
                    settings=settings,
                    design=design,
                    train=train,
                    anchor=anchor,
                    start=start,
                    history=history,
                    rng=rng,
                    checkpoint=checkpoint,
                )
            )
        history.close()
        w = history.best if self.early_stopping and history.best is not None else outcome.w
        self._set_coefficients(whole, w, data)
        self._last_w = design.unscaled(w)  # without Platt's scale, for a warm start
        self.n_iter_ = max(1, outcome.iterations)
        self.history_ = history.columns()
        self.status_ = outcome.status
        self._warn(data)
        return self

    def _open_checkpoint(
        self, settings: Settings, data: TrainingSet, rng: np.random.Generator
    ) -> AbstractContextManager[Checkpoint | None]:
        if self.checkpoint is None:
            return nullcontext()
        warm = self._last_w if self._goes_on else None
        return open_checkpoint(self.checkpoint, identity_of(self, settings, data, rng, warm))

    def _split(
        self, data: TrainingSet, rng: np.random.Generator
    ) -> tuple[TrainingSet, TrainingSet | None]:
        if not self.early_stopping:
            return data, None
        parts: list[list[Any]] = [[], []]
        for rows in (np.flatnonzero(data.positive), np.flatnonzero(~data.positive)):
            if rows.size < 2:
                raise ParameterError(
                    "`early_stopping` = True needs two examples of each class, one to hold out: "
                    "use early_stopping=False"
                )
            share = round(self.validation_fraction * rows.size)
            count = min(max(1, share), rows.size - 1)  # one of each class on both sides
            held_out, train = np.split(rng.permutation(rows), [count])
            parts[0].append(train)
            parts[1].append(held_out)
        train, held_out = (np.sort(np.concatenate(part)) for part in parts)
        return data.rows(train), data.rows(held_out)

    @property
    def _goes_on(self) -> bool:
        return self.warm_start and hasattr(self, "_last_w")

    def _check_warm_start(self, X: Any) -> None:
        """Refuse other features before anything changes."""
        if not self._goes_on:
            return
        try:
            features = _num_features(X)
        except TypeError:  # no table: the check of X will say so
            return
        if features != self._last_w.size - 1:
            raise ParameterError(
                f"`warm_start` = True: the last fit had {self._last_w.size - 1} features and X has "
                f"{features}; use warm_start=False for other features"
            )

    def _start(self, design: Design, anchor: Floats) -> Floats:
        """The last fit's weights if there are any to go on from, or else the anchor."""
        return design.scaled(self._last_w) if self._goes_on else anchor

    def _anchor(self, design: Design, train: TrainingSet) -> Floats:
        """Logistic regression with C = 1 on the scaled features."""
        return fit_logistic(design, train.positive, train.weight, C=LOGISTIC_C, total=train.total).w

    def _warn(self, data: TrainingSet) -> None:
        if data.positive.sum() == 1:
            message = "one positive example only: its rank is all that can be learnt"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)
        if not self.status_.converged:
            warnings.warn(f"{self.status_.message}", ConvergenceWarning, stacklevel=3)


def _generator(random_state: Any) -> np.random.Generator:
    """A generator of our own; None is fresh entropy and leaves NumPy's global state alone."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    random = check_random_state(random_state)
    return np.random.default_rng(random.randint(2**32, size=4, dtype=np.uint64))
