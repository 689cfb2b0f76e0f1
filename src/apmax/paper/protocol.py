r"""The paper's protocol for linear models ("Optimizing Linear Models", Configurations).

σ(wᵀx) scores of features in [0, 1], λ = 1e-4, T = 500, five repeats; η and β₀ = β₁ from the
paper's sets, chosen by training AP; 1/√t for MOAP and ADAP, constants for the rest.

What the paper leaves open, fixed once for all methods: a batch holds 20 positives and 20
negatives; β′ = 0.1 (of 0.001, 0.01, 0.1 and 0.5 the best or nearly so by training AP of ADAP on
ijcnn1, w8a and phishing); δ = 1e-8; w starts at 0. γ (SmoothAP: 1/τ) is tuned on training AP
with the rest. Sets that the paper splits at random are split anew for every repeat.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from apmax.linear.design import Design
from apmax.linear.stochastic import StochasticRun
from apmax.method.directions import DELTA
from apmax.method.table import METHODS, Method
from apmax.metrics import average_precision
from apmax.problem.surrogates import resolve
from apmax.validation import Floats, Mask

ROUNDS, REPEATS, PENALTY = 500, 5, 1e-4
POSITIVES = NEGATIVES = 20
BETA2 = 0.1
ETAS = (20.0, 10.0, 1.0, 0.1, 0.01)
BETAS = (0.9, 0.5, 0.1)
GAMMAS = {"squared_hinge": (0.05, 0.1, 0.2, 0.5, 1.0), "logistic": (1.0, 2.0, 5.0, 10.0, 20.0)}
DATA = ("mushrooms", "phishing", "w6a", "a9a", "w8a", "ijcnn1")
PAPER_METHODS = ("moap-v2", "adap-adam", "soap-sgd", "soap-adam", "smoothap")
FURTHER_METHODS = (
    "moap-v1",
    "adap-adagrad",
    "adap-amsgrad",
    "adap-adabound",
    "soap-amsgrad",
    "sox",
)


class Setting(NamedTuple):
    """What is tuned."""

    eta: float
    beta: float
    gamma: float


class Outcome(NamedTuple):
    """AP after the last round."""

    train_ap: float
    test_ap: float


def settings_of(method: Method) -> list[Setting]:
    """The grid of a method; β does nothing where there is neither a memory nor momentum."""
    without_beta = method.tracker == "none" and method.direction == "plain"
    betas = BETAS[:1] if without_beta else BETAS
    return [Setting(*one) for one in product(ETAS, betas, GAMMAS[method.surrogate])]


def start(data: Any, method: str, setting: Setting, repeat: int) -> StochasticRun:
    """A run at its first round; `repeat` is the seed of its draws."""
    row = METHODS[method]
    return StochasticRun(
        row,
        Design(data.X),
        data.y,
        np.zeros(data.X.shape[1] + 1),
        surrogate=resolve(row.surrogate),
        gamma=setting.gamma,
        penalty=PENALTY,
        anchor=None,
        fit_intercept=False,
        learning_rate=setting.eta,
        beta0=setting.beta,
        beta1=setting.beta,
        beta2=BETA2,
        delta=DELTA,
        positives_per_batch=min(POSITIVES, int(data.y.sum())),
        negatives_per_batch=NEGATIVES,
        sampling="shared",
        rng=np.random.default_rng([repeat, 2022]),
    )


def run(data: Any, method: str, setting: Setting, repeat: int) -> Outcome:
    """All rounds; AP 0 if the weights are not finite any more."""
    one = start(data, method, setting, repeat)
    one.advance(ROUNDS)
    w = one.w[:-1]
    if not np.isfinite(w).all():
        return Outcome(0.0, 0.0)
    return Outcome(ap_of(data.X, data.y, w), ap_of(data.X_test, data.y_test, w))


def ap_of(X: Any, y: Mask, w: Floats) -> float:
    """AP of the scores; σ keeps their order, so the margins will do."""
    return average_precision(y, np.asarray(X @ w))
