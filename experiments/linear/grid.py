r"""The paper's protocol for linear models ("Optimizing Linear Models", Configurations).

Scores σ(wᵀx) of features in [0, 1], λ = 1e-4, T = 500, five repeats; η and β₀ = β₁ from the
paper's sets, chosen by training AP; 1/√t for MOAP and ADAP, constants for the other methods.

docs/paper.md lists what the paper does not state and what these choices change.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import normalize

from apmax.errors import ParameterError
from apmax.linear.design import Design
from apmax.linear.stochastic import StochasticRun
from apmax.methods import DELTA, METHODS, Method, check_beta
from apmax.metrics import average_precision
from apmax.objective.surrogates import resolve
from apmax.validation import Floats, Mask, check_gamma, check_real
from experiments.datasets import SETS, PaperSet, load_paper_set

ROUNDS, REPEATS, PENALTY = 500, 5, 1e-4
POSITIVES = NEGATIVES = 20
BETA2 = 0.1
ETAS = (20.0, 10.0, 1.0, 0.1, 0.01)
BETAS = (0.9, 0.5, 0.1)
GAMMAS = {
    "squared_hinge": (0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
    "logistic": (20.0, 10.0, 5.0, 2.0, 1.0),
}
"""From the narrowest margin to the widest."""
SAME_AP = 1e-4
"""Training APs that differ by less count as equal."""
DATA = tuple(SETS)
SPLIT_AT_RANDOM = tuple(name for name, recipe in SETS.items() if recipe.rate is not None)
PAPER_METHODS = ("moap-v2", "adap-adam", "soap-sgd", "soap-adam", "smoothap")
MORE_METHODS = ("moap-v1", "adap-adagrad", "adap-amsgrad", "adap-adabound", "soap-amsgrad", "sox")
Key = tuple[str, str]
"""A method and a data set."""


class LinearSetting(NamedTuple):
    """The tuned parameters."""

    eta: float
    beta: float
    gamma: float

    @property
    def spelled(self) -> str:
        """η,β,γ as the command line accepts them."""
        return ",".join(f"{value:g}" for value in self)

    @classmethod
    def read(cls, spelled: str, method: str) -> LinearSetting:
        """Parse and check η,β,γ."""
        if method not in METHODS:
            raise ParameterError(f"`setting` = {spelled!r}: {method} has none; leave it out")
        try:
            eta, beta, gamma = map(float, spelled.split(","))
        except ValueError:
            raise ParameterError(
                f"`setting` must be three numbers η,β,γ such as 0.1,0.5,0.05, got {spelled!r}"
            ) from None
        check_real(eta, "η of setting", above=0, why="it is the step size")
        return cls(eta, check_beta(beta, "β of setting"), check_gamma(gamma))


def settings_of(method: Method) -> list[LinearSetting]:
    """Return the grid of a method; β is fixed where there is neither a tracker nor momentum."""
    uses_beta = method.tracker.remembers or method.direction.momentum
    betas = BETAS if uses_beta else BETAS[:1]
    return [LinearSetting(*one) for one in product(ETAS, betas, GAMMAS[method.surrogate])]


def best_setting(method: Method, train_aps: Floats) -> LinearSetting:
    """Return the setting with the highest training AP; of equals the widest margin, then η."""
    widths, grid = GAMMAS[method.surrogate], settings_of(method)
    equals = np.flatnonzero(train_aps >= train_aps.max() - SAME_AP).tolist()
    return grid[max(equals, key=lambda k: (widths.index(grid[k].gamma), -grid[k].eta, -k))]


def load(name: str, repeat: int) -> PaperSet:
    """Load the data of one repeat; sets that the paper splits at random are split again."""
    return _load(name, repeat if name in SPLIT_AT_RANDOM else 0)


@lru_cache(maxsize=1)  # work is ordered by data set
def _load(name: str, seed: int) -> PaperSet:
    data = load_paper_set(name, seed)
    return data._replace(X=normalize(data.X), X_test=normalize(data.X_test))


def make_run(
    method: Method, design: Design, y: Mask, setting: LinearSetting, seed: int, sampling: str
) -> StochasticRun:
    """Prepare a run from w = 0 without intercept; `seed` is the seed of its batches."""
    return StochasticRun(
        method,
        design,
        y,
        np.zeros(design.parameters),
        surrogate=resolve(method.surrogate),
        gamma=setting.gamma,
        penalty=PENALTY,
        fit_intercept=False,
        learning_rate=setting.eta,
        beta0=setting.beta,
        beta1=setting.beta,
        beta2=BETA2,
        delta=DELTA,
        positives_per_batch=min(POSITIVES, int(y.sum())),
        negatives_per_batch=NEGATIVES,
        sampling=sampling,
        rng=np.random.default_rng([seed, 2022]),
    )


def start(data: PaperSet, method: str, setting: LinearSetting, repeat: int) -> StochasticRun:
    """Prepare the run of one repeat."""
    run = make_run(METHODS[method], Design(data.X), data.y, setting, repeat, "shared")
    run.memory.written_at[:] = 0  # U₁ = 0 counts as written: rows have no first estimate
    return run


def train(data: PaperSet, method: str, setting: LinearSetting, repeat: int) -> Floats:
    """Return the weights after all rounds."""
    run = start(data, method, setting, repeat)
    run.advance(ROUNDS)
    return run.w[:-1]


def ap_of(X: Any, y: Mask, w: Floats) -> float:
    """AP of the margins, which σ would not reorder; 0 if weights are not finite."""
    return average_precision(y, np.asarray(X @ w)) if np.isfinite(w).all() else 0.0
