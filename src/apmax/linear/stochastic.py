"""The compiled loop as a run that can be paused and read after any number of rounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from apmax.errors import BackendError
from apmax.linear.design import Design
from apmax.methods import BOUNDS, LOG_OF_ZERO, PAIRS, Method
from apmax.objective._pair_sums import NO_WEIGHTS
from apmax.objective.omega import Omega
from apmax.objective.surrogates import LOGISTIC, SQUARED_HINGE, Surrogate
from apmax.registry import Registry
from apmax.validation import Floats, Mask, kernel_view

RowIndices = NDArray[np.int64]
SAMPLING = Registry("sampling", {"shared": True, "independent": False})
"""Whether one batch serves as rows, for g̃ and for ∇g̃; the theorems assume three."""
BACK_END = "the compiled linear solver (StochasticAPClassifier)"
_SECOND_MOMENT = {"none": 0, "moving": 1, "running": 2}
_BOUND = {"none": 0, "largest": 1, "clipped": 2}


class StochasticRun:
    """One run of a method on σ(Xw + b), starting at `w`, in chunks of rounds.

    Draws come from `rng`, or from `draws(rounds)` where a test chooses them.
    """

    def __init__(
        self,
        method: Method,
        design: Design,
        positive: Mask,
        w: Floats,
        *,
        weight: Floats | None = None,
        surrogate: Surrogate,
        gamma: float,
        penalty: float,
        fit_intercept: bool,
        learning_rate: float,
        beta0: float,
        beta1: float,
        beta2: float,
        delta: float,
        positives_per_batch: int,
        negatives_per_batch: int,
        sampling: str,
        rng: np.random.Generator,
        fade_over: int | None = None,
        draws: Callable[[int], Any] | None = None,
    ) -> None:
        from apmax.linear._rounds import NEVER, Memory

        check_method(method)
        self.method = method
        self.first_values = (learning_rate, beta0, beta1)
        self.fade_over = fade_over
        self.rng = rng
        self.shared = SAMPLING.choose(sampling)
        self.batch = (positives_per_batch, negatives_per_batch)
        self.draws = draws or self._draw
        self.positives = np.flatnonzero(positive)
        self.negatives = np.flatnonzero(~positive)
        self.weights = (NO_WEIGHTS, NO_WEIGHTS)
        if weight is not None:
            weight = weight / weight[positive].mean()
            self.weights = (weight[self.positives], weight[self.negatives])
        self.features = _features(design)
        self.custom = _custom_functions(surrogate)
        self.rules = _rules(
            method,
            surrogate,
            gamma,
            omega=self._omega(surrogate, gamma) if method.projected else Omega(),
            beta2=beta2,
            delta=delta,
            penalty=penalty,
            intercept=fit_intercept,
        )
        size, m = design.parameters, self.positives.size
        self.memory = Memory(
            w=np.array(w, dtype=np.float64),
            m=np.zeros(size),
            average=np.zeros(size),
            v=np.zeros(size),
            u=np.zeros((m, 2)),
            written_at=np.full(m, NEVER),
        )
        self.rounds = 0
        self._decays = np.zeros((1, 2))
        self.gradient_norm = np.nan

    @property
    def w(self) -> Floats:
        """Return the current parameters."""
        return self.memory.w

    @property
    def log_decay(self) -> Floats:
        """Return Σ log(1 − β₀) up to each round as two doubles; one row if it is not needed."""
        return self._decays[: self.rounds + 1]

    def advance(self, rounds: int) -> None:
        """Run more rounds."""
        from apmax.linear._rounds import Steps, run_rounds

        times = np.arange(self.rounds + 1, self.rounds + rounds + 1)
        steady = np.ones(rounds)
        eta, beta0, beta1 = (
            self.method.schedule.at(first, times) * steady for first in self.first_values
        )
        if self.fade_over is not None:
            eta *= np.maximum(self.fade_over - times + 1, 0) / self.fade_over
        steps = Steps(self.rounds, eta, beta0, beta1, self._log_decay_through(beta0))
        gradient = run_rounds(
            self.features,
            self.positives,
            self.negatives,
            self.weights,
            self.draws(rounds),
            steps,
            self.rules,
            *self.custom,
            self.memory,
        )
        self.gradient_norm = float(np.linalg.norm(gradient))
        self.rounds += rounds

    def _log_decay_through(self, beta0: Floats) -> Floats:
        """Return the sums up to now and after each of the next rounds; the table grows."""
        if not self.method.tracker.decays:
            return self._decays
        now, end = self.rounds + 1, self.rounds + 1 + beta0.size
        if end > self._decays.shape[0]:
            grown = np.empty((max(end, 2 * now), 2))
            grown[:now] = self.log_decay
            self._decays = grown
        logs = np.full(beta0.size, LOG_OF_ZERO)
        np.log1p(-beta0, out=logs, where=beta0 < 1)
        so_far = self._decays[now - 1].astype(np.longdouble).sum()
        total = so_far + np.cumsum(logs, dtype=np.longdouble)
        self._decays[now:end, 0] = high = total.astype(np.float64)
        self._decays[now:end, 1] = (total - high).astype(np.float64)
        return self._decays[:end]

    def _draw(self, rounds: int) -> Any:
        from apmax.linear._rounds import Draws, draw_distinct

        def distinct(population: int, size: int) -> RowIndices:
            out = np.empty((rounds, size), dtype=np.int64)
            draw_distinct(self.rng.random((rounds, size)), population, out)
            return out

        def both() -> tuple[RowIndices, RowIndices]:
            return (
                distinct(self.positives.size, self.batch[0]),
                distinct(self.negatives.size, self.batch[1]),
            )

        rows, negatives = both()
        if self.shared:
            return Draws(True, rows, rows, negatives, rows, negatives)
        return Draws(False, rows, *both(), *both())

    def _omega(self, surrogate: Surrogate, gamma: float) -> Omega:
        """Return Ω; for weighted examples, C and M times the least and the mean weight."""
        m, n = int(self.positives.size), int(self.positives.size + self.negatives.size)
        omega = Omega.of(surrogate, gamma, m=m, n=n)
        plus, minus = self.weights
        if not plus.size:
            return omega
        mean = float(plus.sum() + minus.sum()) / n
        least = float(plus[plus > 0].min())
        return omega._replace(bottom2=omega.bottom2 * least, top2=omega.top2 * mean)


def check_method(method: Method) -> None:
    """Raise BackendError if the compiled loop cannot run the method."""
    if method.tracker.needs_previous:
        raise BackendError(
            f"method {method.name!r} cannot run in {BACK_END}: its tracker "
            f"{method.tracker.name!r} needs estimates at the previous parameters; use "
            "apmax.torch.CompositionalLoss"
        )


def _features(design: Design) -> Any:
    from apmax.linear._rounds import Features

    X: Any = design.X
    none = np.empty(0, dtype=X.dtype)
    centre = design.centre if design.centre.any() else np.empty(0)
    if sp.issparse(X):
        data, indices, indptr = (kernel_view(part) for part in (X.data, X.indices, X.indptr))
        return Features(none.reshape(0, 0), data, indices, indptr, design.scale, centre)
    no_index = np.empty(0, dtype=np.int32)
    return Features(kernel_view(X), none, no_index, no_index, design.scale, centre)


def _rules(
    method: Method,
    surrogate: Surrogate,
    gamma: float,
    *,
    omega: Omega,
    beta2: float,
    delta: float,
    penalty: float,
    intercept: bool,
) -> Any:
    from apmax.linear._rounds import Rules
    from apmax.objective import _batch

    kinds = {LOGISTIC: _batch.LOGISTIC, SQUARED_HINGE: _batch.SQUARED_HINGE}
    lower, upper = BOUNDS
    return Rules(
        kind=kinds.get(surrogate, _batch.CUSTOM),
        gamma=gamma,
        own=surrogate.lower_bound(gamma),
        population=PAIRS[method.pairs],
        remembers=method.tracker.remembers,
        decays=method.tracker.decays,
        normalised=method.tracker.normalised,
        omega=omega,
        momentum=method.direction.momentum,
        average=_SECOND_MOMENT[method.direction.second_moment],
        bound=_BOUND[method.direction.bound],
        lower_v=1 / upper**2,
        upper_v=1 / lower**2,
        beta2=beta2,
        delta=delta,
        penalty=penalty,
        intercept=intercept,
    )


def _unused(x: float, gamma: float) -> float:
    return x


@lru_cache(maxsize=32)
def _custom_functions(surrogate: Surrogate) -> tuple[Any, Any]:
    """Compile ℓ and ℓ′ of a custom surrogate for single numbers; placeholders for built-ins.

    All are first-class functions of one type, so the loop itself is compiled only once.
    """
    from numba import cfunc, njit, types
    from numba.core.errors import NumbaError

    signature = types.float64(types.float64, types.float64)
    if surrogate in (LOGISTIC, SQUARED_HINGE):
        unused = cfunc(signature)(_unused)
        return unused, unused

    def compiled(function: Callable[..., Any]) -> Any:
        inner = njit(function)

        def of_number(x: float, gamma: float) -> Any:
            return inner(x, gamma)

        def of_array(x: float, gamma: float) -> Any:
            return inner(np.array([x]), gamma)[0]

        try:
            return cfunc(signature)(of_number)
        except NumbaError:  # written for arrays only, for example with np.where
            return cfunc(signature)(of_array)

    try:
        return compiled(surrogate.value), compiled(surrogate.slope)
    except (NumbaError, NotImplementedError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise BackendError(
            f"surrogate {surrogate.name!r} cannot run in {BACK_END}: Numba cannot compile it "
            f"({reason}); write value and slope in NumPy arithmetic, or use APClassifier"
        ) from None
