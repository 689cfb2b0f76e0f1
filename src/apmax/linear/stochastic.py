"""The fused loop as a run that can be stopped and read after any number of rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from apmax.errors import ParameterError
from apmax.linear.design import Design
from apmax.methods import BOUNDS, LOG_OF_ZERO, Method
from apmax.registry import Registry
from apmax.objective.outer import Box
from apmax.objective._pair_sums import ALL_ONES
from apmax.objective.surrogates import LOGISTIC, SQUARED_HINGE, Surrogate
from apmax.validation import Floats, Mask

SAMPLING = Registry("sampling", {"shared": True, "independent": False})
Rows = NDArray[np.int64]

# How the loop's numbers spell the names of the table.
_TRACKER = {"none": 0, "moving_average": 1, "randomized_coordinate": 2}
_DIRECTION = {  # momentum, average of squares, what is used of it
    "plain": (False, 0, 0),
    "momentum": (True, 0, 0),
    "adam": (True, 1, 0),
    "adagrad": (True, 2, 0),
    "amsgrad": (True, 1, 1),
    "adabound": (True, 1, 2),
}
CARRIED = ("w", "m", "average", "v", "u", "written_at")
"""What of its memory a run changes."""


class StochasticRun:
    """One run of a row of the table on σ(Xw + b), from `w` on, in chunks of rounds.

    Draws come from `rng`, or from `draws(rounds)` where a test wants to choose them.
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
        anchor: Floats | None,
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

        self.method = method
        self.first_values = (learning_rate, beta0, beta1)
        self.fade_over = fade_over
        self.rng = rng
        self.shared = SAMPLING.choose(sampling)
        self.batch = (positives_per_batch, negatives_per_batch)
        self.draws = draws or self._draw
        self.positives = np.flatnonzero(positive)
        self.negatives = np.flatnonzero(~positive)
        self.weights = (ALL_ONES, ALL_ONES)
        if weight is not None:
            weight = weight / weight[positive].mean()
            self.weights = (weight[self.positives], weight[self.negatives])
        self.features = _features(design)
        self.rules = _rules(
            method, surrogate, gamma, self._box(surrogate, gamma), beta2, delta, penalty,
            fit_intercept,
        )  # fmt: skip
        size, m = design.parameters, self.positives.size
        self.memory = Memory(
            w=np.array(w, dtype=np.float64),
            anchor=np.zeros(size) if anchor is None else anchor,
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
        """The parameters now."""
        return self.memory.w

    @property
    def log_decay(self) -> Floats:
        """Σ log(1 − β₀) up to each round, as two doubles; one row if the method needs none."""
        return self._decays[: self.rounds + 1]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that the rounds so far have left behind, but for the generator and two numbers."""
        carried = {name: getattr(self.memory, name) for name in CARRIED}
        return {**carried, "log_decay": self.log_decay}

    def restore(
        self, arrays: dict[str, NDArray[Any]], *, rounds: int, gradient_norm: float
    ) -> None:
        """Go back to where :meth:`arrays` was called, after so many rounds."""
        decays = rounds + 1 if self._decays_are_read else 1
        expected = {**self.arrays(), "log_decay": np.empty((decays, 2))}
        for name, own in expected.items():
            if arrays[name].shape != own.shape or arrays[name].dtype != own.dtype:
                raise ValueError(f"{name} has the shape {arrays[name].shape}, not {own.shape}")
        written_at = arrays["written_at"]
        # Checked, since compiled code would follow a wrong round out of the table.
        if written_at.size and not -1 <= written_at.min() <= written_at.max() <= rounds:
            raise ValueError("a row of U was written in a round that has not been")
        for name in CARRIED:
            getattr(self.memory, name)[...] = arrays[name]
        self._decays = arrays["log_decay"]
        self.rounds, self.gradient_norm = rounds, gradient_norm

    def advance(self, rounds: int) -> None:
        """Run some more rounds."""
        from apmax.linear._rounds import Steps, run_rounds

        times = np.arange(self.rounds + 1, self.rounds + rounds + 1)
        steady = np.ones(rounds)
        eta, beta0, beta1 = (self.method.schedule.at(first, times) * steady for first in self.first_values)
        if self.fade_over is not None:
            eta *= np.maximum(self.fade_over - times + 1, 0) / self.fade_over
        steps = Steps(self.rounds, eta, beta0, beta1, self._log_decay_through(beta0))
        self.gradient_norm = run_rounds(
            self.features,
            self.positives,
            self.negatives,
            self.weights,
            self.draws(rounds),
            steps,
            self.rules,
            self.memory,
        )
        self.rounds += rounds

    @property
    def _decays_are_read(self) -> bool:
        return self.method.tracker.decays

    def _log_decay_through(self, beta0: Floats) -> Floats:
        """The sums up to now and after each of the next rounds; the table doubles when full."""
        if not self._decays_are_read:
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

        def distinct(population: int, size: int) -> Rows:
            out = np.empty((rounds, size), dtype=np.int64)
            draw_distinct(self.rng.random((rounds, size)), population, out)
            return out

        def both() -> tuple[Rows, Rows]:
            return (
                distinct(self.positives.size, self.batch[0]),
                distinct(self.negatives.size, self.batch[1]),
            )

        rows, negatives = both()
        if self.shared:
            return Draws(True, rows, rows, negatives, rows, negatives)
        return Draws(False, rows, *both(), *both())

    def _box(self, surrogate: Surrogate, gamma: float) -> Box:
        """Ω for weighted examples: the bounds C and M times the least and the mean weight."""
        m, n = int(self.positives.size), int(self.positives.size + self.negatives.size)
        box = Box.of(surrogate, gamma, m=m, n=n)
        plus, minus = self.weights
        if not plus.size:
            return box
        mean = float(plus.sum() + minus.sum()) / n
        least = float(plus[plus > 0].min())
        return Box(top1=box.top1, bottom2=box.bottom2 * least, top2=box.top2 * mean)


def _features(design: Design) -> Any:
    from apmax.linear._rounds import Features

    X: Any = design.X
    none = np.empty(0, dtype=X.dtype)
    centre = design.centre if design.centre.any() else np.empty(0)
    if sp.issparse(X):
        return Features(none.reshape(0, 0), X.data, X.indices, X.indptr, design.scale, centre)
    no_index = np.empty(0, dtype=np.int32)
    return Features(X, none, no_index, no_index, design.scale, centre)


def _rules(
    method: Method,
    surrogate: Surrogate,
    gamma: float,
    box: Box,
    beta2: float,
    delta: float,
    penalty: float,
    intercept: bool,
) -> Any:
    from apmax.linear._rounds import Rules
    from apmax.objective._tracking import NO_EDGES, Edges

    if surrogate not in (SQUARED_HINGE, LOGISTIC):
        _not_compiled("surrogate", surrogate.name)
    if method.tracker.name not in _TRACKER:
        _not_compiled("tracker", method.tracker)
    if method.direction.name not in _DIRECTION:
        _not_compiled("direction", method.direction)
    momentum, average, used = _DIRECTION[method.direction.name]
    lower, upper = BOUNDS
    return Rules(
        hinge=surrogate == SQUARED_HINGE,
        gamma=gamma,
        population=method.pairs == "population",
        tracker=_TRACKER[method.tracker.name],
        edges=Edges(0.0, box.top1, box.bottom2, box.top2) if method.projected else NO_EDGES,
        momentum=momentum,
        average=average,
        used=used,
        lower_v=1 / upper**2,
        upper_v=1 / lower**2,
        beta2=beta2,
        delta=delta,
        penalty=penalty,
        intercept=intercept,
    )


def _not_compiled(entry: str, name: str) -> None:
    raise ParameterError(
        f"`{entry}` = {name!r} has no compiled form: apmax.method.loop.descend runs it in NumPy"
    )
