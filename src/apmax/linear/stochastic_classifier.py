"""StochasticAPClassifier: linear classifiers trained by the stochastic methods of the paper."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.utils import check_random_state

from apmax.binary_classifier import unchanged_on_error
from apmax.blas_threads import one_blas_thread
from apmax.errors import ParameterError
from apmax.interrupts import cooperative_interrupts, interrupted
from apmax.linear.base import LinearAPModel, TrainingSet
from apmax.linear.design import Design, make_design
from apmax.linear.history import EvaluationSet, History
from apmax.linear.result import FitResult
from apmax.linear.stochastic import SAMPLING, StochasticRun, check_method
from apmax.methods import SCHEDULES, Method, Schedule, check_beta, resolve_method
from apmax.objective.exact import evaluate
from apmax.objective.surrogates import Surrogate, resolve, resolve_with_gamma
from apmax.validation import Floats, check_count, check_real, check_switch

ROUNDS_PER_CHUNK = 500
"""Rounds between two checks for Ctrl-C."""
PASSES_PER_RECORD = 3
"""Passes over the data between two records of the history, each of which costs less than one."""
LARGEST_WEIGHT = 1e100
"""Weights of scaled features beyond this have diverged."""
STOCHASTIC_GAMMA = {"logistic": 40.0}
"""Defaults of gamma that differ from the full-batch ones; see docs/benchmarks.md."""
LEARNING_RATES = {"none": (0.4, 5.0), "moving": (0.02, 0.1), "running": (0.02, 0.05)}
"""Default η by second moment: for constant and linear schedules, and for 1/√t."""


class StochasticSettings(NamedTuple):
    """Validated parameters of a stochastic fit."""

    method: Method
    surrogate: Surrogate
    gamma: float
    learning_rate: float


class StochasticAPClassifier(LinearAPModel):
    r"""Linear classifier trained by a stochastic method: SOAP, MOAP, ADAP, SmoothAP, SOX.

    Minimises :math:`-\widehat{AP}(w) + \alpha\|w\|^2` over scores σ(w·x + b) from mini-batches, in
    a compiled loop whose cost per round does not depend on the number of examples.
    :class:`APClassifierCV` usually ranks better; use this class to study the methods, and for data
    that fit into memory but are slow to pass over. Defaults are tuned and differ from the paper's
    (surrogate, schedule, rates).

    Parameters
    ----------
    method : str or Method, default="soap-adam"
        A name in :data:`apmax.methods.METHODS` (for example "adap-adam", "moap-v2"), or your own.
    surrogate : str or Surrogate, default="logistic"
        "logistic", the paper's "squared_hinge", or your own.
    gamma : float, optional
        Slope or margin of the surrogate in units of the score. The default is 40 for "logistic"
        and 0.1 for "squared_hinge".
    alpha : float, default=1e-5
        Strength of the penalty α‖w‖².
    max_iter : int, default=4000
        Number of rounds.
    batch_size : int, default=128
        Examples per round.
    positive_rate : float, default=0.25
        Share of positives in a batch.
    learning_rate : float, optional
        First value of η. The default depends on the method and the schedule.
    beta0 : float, default=0.9
        Weight of the NEW value in U.
    beta1 : float, default=0.1
        Weight of the NEW gradient in the momentum; torch's beta is one minus this.
    beta2 : float, default=0.01
        Weight of the NEW squared gradient in the second moment; torch's beta is one minus this.
    delta : float, default=1e-8
        Added to the root of the second moment.
    schedule : {"constant", "inverse_sqrt", "linear"} or Schedule, optional
        Schedule of η and the betas; under "linear", η falls to zero over `max_iter` rounds and the
        betas stay. The default is "inverse_sqrt" for methods that use it in the paper and "linear"
        for the others.
    sampling : {"shared", "independent"}, default="shared"
        Whether one batch serves for values and slopes, or one for each.
    early_stopping : bool, default=False
        Whether to hold out `validation_fraction` of the data and keep the point with the best AP
        there.
    validation_fraction : float, default=0.1
        Share of the data held out by `early_stopping`.
    n_iter_no_change : int, default=10
        Records (every 500 rounds) without improvement after which to stop early.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the batches and of the validation split.
    pos_label : optional
        The positive class. The default is the last class in sorted order, with a warning if that
        is the more frequent one.

    Attributes
    ----------
    coef_, intercept_, classes_, pos_label_, n_features_in_, feature_names_in_
        As in :class:`APClassifier`.
    log_odds_limits_, log_odds_curve_, n_iter_, history_, result_
        As in :class:`APClassifier`.

    See Also
    --------
    APClassifier : Fits the exact objective by L-BFGS.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from apmax import StochasticAPClassifier, average_precision
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = StochasticAPClassifier("soap-adam", random_state=0).fit(X[::2], y[::2])
    >>> average_precision(y[1::2], model.decision_function(X[1::2])) > 0.98
    True
    """

    def __init__(
        self,
        method: str | Method = "soap-adam",
        *,
        surrogate: str | Surrogate = "logistic",
        gamma: float | None = None,
        alpha: float = 1e-5,
        max_iter: int = 4000,
        batch_size: int = 128,
        positive_rate: float = 0.25,
        learning_rate: float | None = None,
        beta0: float = 0.9,
        beta1: float = 0.1,
        beta2: float = 0.01,
        delta: float = 1e-8,
        schedule: str | Schedule | None = None,
        sampling: str = "shared",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.method = method
        self.surrogate = surrogate
        self.gamma = gamma
        self.alpha = alpha
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.positive_rate = positive_rate
        self.learning_rate = learning_rate
        self.beta0 = beta0
        self.beta1 = beta1
        self.beta2 = beta2
        self.delta = delta
        self.schedule = schedule
        self.sampling = sampling
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.pos_label = pos_label

    @unchanged_on_error
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> StochasticAPClassifier:
        """Fit the model.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`APClassifier.fit`.

        Returns
        -------
        StochasticAPClassifier
            The fitted estimator.
        """
        settings = self._settings()
        data = self._checked(X, y, sample_weight).without_zero_weights()
        rng = _generator(self.random_state)
        with cooperative_interrupts(), one_blas_thread(np.prod(data.X.shape)):
            scaling = "maximum" if sp.issparse(data.X) else "deviation"
            whole = make_design(data.X, scaling, data.weight)
            train, held_out = self._split(data, rng)
            history = History(
                EvaluationSet.of(train, whole),
                held_out and EvaluationSet.of(held_out, whole),
                patience=self.n_iter_no_change if self.early_stopping else None,
                on_progress=self.on_progress,
                steps=self.max_iter,
            )
            design = whole.of(train.X)
            run = self._run(settings, design, train, rng)
            fit = _StochasticFit(run, settings, design, train, history, self.max_iter)
            w, result = fit.run_all()
            if self.early_stopping and history.best is not None:
                w = history.best
            self._finish(whole, w, data, history.columns(), result)
        return self

    def _run(
        self,
        settings: StochasticSettings,
        design: Design,
        train: TrainingSet,
        rng: np.random.Generator,
    ) -> StochasticRun:
        positives, negatives = self._batch(train)
        return StochasticRun(
            settings.method,
            design,
            train.positive,
            np.zeros(design.parameters),
            weight=train.weight,
            surrogate=settings.surrogate,
            gamma=settings.gamma,
            penalty=self.alpha,
            fit_intercept=True,
            learning_rate=settings.learning_rate,
            beta0=self.beta0,
            beta1=self.beta1,
            beta2=self.beta2,
            delta=self.delta,
            positives_per_batch=positives,
            negatives_per_batch=negatives,
            sampling=self.sampling,
            rng=rng,
            fade_over=self.max_iter if settings.method.schedule.fades else None,
        )

    def _batch(self, train: TrainingSet) -> tuple[int, int]:
        """Return the positives and negatives per batch, no more than there are of each."""
        positives = int(train.positive.sum())
        wanted = min(max(2, round(self.batch_size * self.positive_rate)), self.batch_size - 1)
        negatives = train.positive.size - positives
        return min(wanted, positives), min(self.batch_size - wanted, negatives)

    def _split(
        self, data: TrainingSet, rng: np.random.Generator
    ) -> tuple[TrainingSet, TrainingSet | None]:
        """Hold out examples of both classes for early stopping."""
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
            count = min(max(1, share), rows.size - 1)
            held_out, train = np.split(rng.permutation(rows), [count])
            parts[0].append(train)
            parts[1].append(held_out)
        train, held_out = (np.sort(np.concatenate(part)) for part in parts)
        return data.rows(train), data.rows(held_out)

    def _settings(self) -> StochasticSettings:
        """Validate the parameters before any state changes."""
        method = resolve_method(self.method)
        check_method(method)
        gamma = self.gamma
        if gamma is None:
            gamma = STOCHASTIC_GAMMA.get(resolve(self.surrogate).name)
        surrogate, gamma = resolve_with_gamma(self.surrogate, gamma)
        schedule = method.schedule
        if self.schedule is not None:
            given = self.schedule
            schedule = given if isinstance(given, Schedule) else SCHEDULES.choose(given)
        elif schedule.name == "constant":
            schedule = SCHEDULES["linear"]
        rate = LEARNING_RATES[method.direction.second_moment][1 if schedule.power else 0]
        if self.learning_rate is not None:
            why = "it is the size of a step"
            rate = check_real(self.learning_rate, "learning_rate", above=0, why=why)
        check_real(self.alpha, "alpha", at_least=0, why="0 means no penalty")
        check_real(self.delta, "delta", above=0, why="it keeps adaptive steps finite")
        for name in ("beta0", "beta1", "beta2"):
            check_beta(getattr(self, name), name)
        why = "it is the share of positives in a batch; try 0.25"
        check_real(self.positive_rate, "positive_rate", above=0, at_most=1, why=why)
        why = "it is the share of the data that is held out; try 0.1"
        check_real(self.validation_fraction, "validation_fraction", above=0, at_most=0.9, why=why)
        check_count(self.n_iter_no_change, "n_iter_no_change", why="it is how long to wait")
        check_count(self.batch_size, "batch_size", at_least=3, why="it holds both classes")
        check_count(self.max_iter, "max_iter", why="it is the number of rounds")
        check_switch(self.early_stopping, "early_stopping")
        SAMPLING.choose(self.sampling)
        return StochasticSettings(replace(method, schedule=schedule), surrogate, gamma, rate)


class _StochasticFit(NamedTuple):
    """The rounds of one fit, recorded, watched for divergence and Ctrl-C."""

    run: StochasticRun
    settings: StochasticSettings
    design: Design
    train: TrainingSet
    history: History
    max_iter: int

    def run_all(self) -> tuple[Floats, FitResult]:
        """Run all rounds and return the weights and how it ended."""
        run = self.run
        self._record()
        kept = run.w.copy()
        while run.rounds < self.max_iter:
            run.advance(min(ROUNDS_PER_CHUNK, self.max_iter - run.rounds))
            if not np.abs(run.w).max() < LARGEST_WEIGHT:  # also true for NaN
                return kept, self._diverged()
            kept = run.w.copy()
            if run.rounds % self._rounds_per_record and run.rounds < self.max_iter:
                self.history.progress(run.rounds)
            elif self._record():
                message = "stopped early: validation AP no longer improves"
                return kept, FitResult(True, False, message, run.rounds)
            if interrupted():
                message = "interrupted: kept the last rounds"
                return kept, FitResult(False, True, message, run.rounds)
        if self._is_worse():
            return kept, self._diverged()
        return kept, FitResult(True, False, f"completed {run.rounds} rounds", run.rounds)

    @property
    def _rounds_per_record(self) -> int:
        """Return one chunk with early stopping, otherwise a few passes over the data."""
        if self.history.validation is not None:
            return ROUNDS_PER_CHUNK
        passes = PASSES_PER_RECORD * self.train.positive.size / sum(self.run.batch)
        return ROUNDS_PER_CHUNK * max(1, math.ceil(passes / ROUNDS_PER_CHUNK))

    def _record(self) -> bool:
        """Add the current state to the history; return whether to stop early."""
        run, positive, weight = self.run, self.train.positive, self.train.weight
        margins = self.design.margins(run.w)
        if run.w.any():
            surrogate, gamma = self.settings.surrogate, self.settings.gamma
            value, _ = evaluate(expit(margins), positive, weight, surrogate, gamma)
        else:  # all pairs are equal: every precision is the share of positives
            value = float(np.average(positive, weights=weight))
        return self.history.record(run.rounds, run.w.copy(), value, run.gradient_norm, margins)

    def _is_worse(self) -> bool:
        """Return whether the result is no better than w = 0."""
        first, last = self.history.rows[0], self.history.rows[-1]
        if not self.run.w[:-1].any():
            return False
        if self.history.validation is not None:
            return bool(self.history.best_ap <= first.validation_ap)
        return bool(last.surrogate_ap <= first.surrogate_ap)

    def _diverged(self) -> FitResult:
        message = (
            f"diverged: after {self.run.rounds} rounds it is no better than at the start; lower "
            f"learning_rate (now {self.settings.learning_rate:g})"
        )
        return FitResult(False, False, message, self.run.rounds)


def _generator(random_state: Any) -> np.random.Generator:
    """Return a generator; None takes fresh entropy and leaves NumPy's global state alone."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    random = check_random_state(random_state)
    return np.random.default_rng(random.randint(2**32, size=4, dtype=np.uint64))
