r"""What the theorems claim, measured: how many rounds T a stationarity of ε takes.

    E[ 1/T Σₜ ‖∇F(wₜ)‖² ] ≤ ε²   after   T = O(1/εᵖ)   rounds

=============  ================  =============  =  ==============================
run            statement         in a round     p  orders in T
=============  ================  =============  =  ==============================
MOAP-V1, all   Theorem 1         all positives  4  β, η ∝ T^(−1/2)
MOAP-V1        Theorem 2         B positives    5  β ∝ T^(−2/5), η ∝ T^(−3/5)
SOAP (SGD)     Qi et al. (2021)  B positives    5  β ∝ T^(−2/5), η ∝ T^(−3/5)
MOAP-V2        Theorem 3         B positives    4  β, η ∝ T^(−1/2)
ADAP (Adam)    Theorem 4         B positives    4  β, η ∝ T^(−1/2)
=============  ================  =============  =  ==============================

The orders are the theorems', with ε written in terms of T. Their constants are free: η and β at the
shortest run are those with the smallest F(w_T) there, on draws that are not used again, and longer
runs follow the orders. (By the smallest 1/T Σ‖∇F‖² it would be steps of 100 that throw w where σ is
flat: nearly stationary, and worse than w = 0.) ∇F is exact, over all pairs and with the penalty: it
is the gradient of what the methods minimise. The sum over t is taken at one random round of each of
equally long stretches, so its mean is that of the whole sum. g̃ and ∇g̃ come from independent draws.

With log ε = a − log T / p by least squares, the interval of p is that of a bootstrap over the runs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from apmax.app.data import load_paper_set
from apmax.linear.design import Design
from apmax.linear.full_batch import Objective, ap_objective
from apmax.linear.stochastic import StochasticRun
from apmax.methods import DELTA
from apmax.methods import METHODS
from experiments.protocol import BETA2, NEGATIVES, PENALTY, POSITIVES
from experiments.store import Advance, Store, Unit
from apmax.objective.surrogates import resolve
from apmax.validation import Floats, Mask

GAMMA = 0.2
ETAS = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
BETAS = (0.9, 0.5, 0.1)
STRETCHES = 64
"""How many ‖∇F‖² are taken in a run."""


class Claim(NamedTuple):
    """A theorem: what it is about, its p, and its orders as powers of 1/T."""

    method: str
    title: str
    source: str
    exponent: int
    beta_order: float
    eta_order: float
    all_positives: bool = False


CLAIMS = {
    "moap-v1-all": Claim("moap-v1", "MOAP-V1, all positives", "Theorem 1", 4, 1 / 2, 1 / 2, True),
    "moap-v1": Claim("moap-v1", "MOAP-V1", "Theorem 2", 5, 2 / 5, 3 / 5),
    "soap-sgd": Claim("soap-sgd", "SOAP (SGD)", "Qi et al. (2021)", 5, 2 / 5, 3 / 5),
    "moap-v2": Claim("moap-v2", "MOAP-V2", "Theorem 3", 4, 1 / 2, 1 / 2),
    "adap-adam": Claim("adap-adam", "ADAP (Adam)", "Theorem 4", 4, 1 / 2, 1 / 2),
}


class Ladder(NamedTuple):
    """Which data, how long, how often."""

    data: str
    lengths: tuple[int, ...]
    seeds: int


FULL = Ladder("w6a", tuple(2**k for k in range(8, 16)), seeds=5)
QUICK = Ladder("mushrooms", tuple(2**k for k in range(6, 10)), seeds=3)


class Fitted(NamedTuple):
    """p of log ε = a − log T / p, with the ends of its 95 % interval; infinite if ε never falls."""

    exponent: float
    low: float
    high: float


class Rate(NamedTuple):
    """One claim beside what was measured."""

    key: str
    eta: float
    beta: float
    lengths: tuple[int, ...]
    squares: list[list[float]]
    """1/T Σ‖∇F‖² of every run: a list of seeds for every length."""
    whole: Fitted
    upper: Fitted
    """Of the longer half of the runs, where the constants matter less."""


def measure_rates(
    store: Store, ladder: Ladder = FULL, *, jobs: int = 2, advance: Advance | None = None
) -> list[Rate]:
    """Choose constants at the shortest length, run what is missing, fit p."""
    shortest = ladder.lengths[0]
    tuning = [Unit(_tune, (key, ladder.data, shortest)) for key in CLAIMS]
    count = len(CLAIMS) * (1 + len(ladder.lengths) * ladder.seeds)
    first = {
        unit.arguments[0]: result
        for unit, result in store.gather(tuning, jobs=jobs, advance=advance, of=count)
    }
    # The longest first, so that no process waits for the last one.
    runs = [
        Unit(_stationarity, (key, ladder.data, length, shortest, *first[key], seed))
        for length in reversed(ladder.lengths)
        for key in CLAIMS
        for seed in range(ladder.seeds)
    ]
    done = len(tuning)
    squares: dict[tuple[str, int], dict[int, float]] = {}
    for unit, result in store.gather(runs, jobs=jobs, advance=advance, of=count, after=done):
        key, _, length, *_, seed = unit.arguments
        squares.setdefault((key, length), {})[seed] = result
    return [_rate(key, first[key], ladder, squares) for key in CLAIMS]


def _rate(
    key: str,
    first: list[float],
    ladder: Ladder,
    squares: dict[tuple[str, int], dict[int, float]],
) -> Rate:
    table = [
        [squares[key, length][seed] for seed in range(ladder.seeds)] for length in ladder.lengths
    ]
    half = len(ladder.lengths) // 2
    return Rate(
        key,
        eta=first[0],
        beta=first[1],
        lengths=ladder.lengths,
        squares=table,
        whole=fit_exponent(ladder.lengths, table),
        upper=fit_exponent(ladder.lengths[half:], table[half:]),
    )


def fit_exponent(
    lengths: tuple[int, ...], squares: list[list[float]], *, resamples: int = 2000
) -> Fitted:
    """p of log ε = a − log T / p; runs are drawn anew, within each length, for the interval."""
    table = np.array(squares)
    rng = np.random.default_rng(0)
    drawn = rng.integers(table.shape[1], size=(resamples, *table.shape))
    means = np.take_along_axis(table[None], drawn, axis=2).mean(axis=2)
    logs = np.log(np.array(lengths, dtype=np.float64))
    logs -= logs.mean()

    def fall(mean_square: Floats) -> Floats:
        """−d log ε / d log T = 1/p."""
        return np.asarray(-0.5 * np.log(mean_square) @ logs / (logs @ logs))

    # The interval belongs to 1/p, which stays finite where ε hardly falls.
    low, high = np.quantile(fall(means), [0.025, 0.975])
    return Fitted(
        *(_inverse(x) for x in (float(fall(table.mean(axis=1))), float(high), float(low)))
    )


def _inverse(fall: float) -> float:
    return 1 / fall if fall > 0 else float("inf")


def _tune(key: str, name: str, length: int) -> list[float]:
    """η and β with the smallest mean F(w_T) over three runs of the shortest length."""
    design, y, objective = _problem(name)

    def value_at(setting: tuple[float, float]) -> float:
        values = []
        for seed in range(1000, 1003):
            run = _start(CLAIMS[key], design, y, *setting, seed)
            run.advance(length)
            values.append(objective(run.w)[0] if np.isfinite(run.w).all() else np.inf)
        return float(np.mean(values))

    eta, beta = min(product(ETAS, BETAS), key=value_at)
    return [eta, beta]


def _stationarity(
    key: str, name: str, length: int, shortest: int, eta: float, beta: float, seed: int
) -> float:
    """1/T Σ‖∇F‖² of one run, η and β being those of the shortest length."""
    claim, ratio = CLAIMS[key], shortest / length
    return _mean_square(
        key, name, length, eta * ratio**claim.eta_order, beta * ratio**claim.beta_order, seed
    )


def _mean_square(key: str, name: str, length: int, eta: float, beta: float, seed: int) -> float:
    design, y, objective = _problem(name)
    run = _start(CLAIMS[key], design, y, eta, beta, seed)
    places = np.random.default_rng([seed, 64])
    edges = np.linspace(0, length, min(STRETCHES, length) + 1).astype(int)
    total = 0.0
    for begin, end in pairwise(edges.tolist()):
        at = int(places.integers(begin, end))  # w_{at + 1}: before its round
        if at > run.rounds:
            run.advance(at - run.rounds)
        gradient = objective(run.w)[1][:-1]
        total += float(gradient @ gradient) * (end - begin)
    return total / length


@lru_cache(maxsize=2)
def _problem(name: str) -> tuple[Design, Mask, Objective]:
    data = load_paper_set(name, seed=0)
    design = Design(data.X)
    objective = ap_objective(
        design,
        data.y,
        None,
        surrogate=resolve("squared_hinge"),
        gamma=GAMMA,
        penalty=PENALTY,
        anchor=np.zeros(design.parameters),
    )
    return design, data.y, objective


def _start(
    claim: Claim, design: Design, y: Mask, eta: float, beta: float, seed: int
) -> StochasticRun:
    rng = np.random.default_rng([seed, 2022])
    run = StochasticRun(
        replace(METHODS[claim.method], schedule="constant"),
        design,
        y,
        np.zeros(design.parameters),
        surrogate=resolve("squared_hinge"),
        gamma=GAMMA,
        penalty=PENALTY,
        anchor=None,
        fit_intercept=False,
        learning_rate=eta,
        beta0=beta,
        beta1=beta,
        beta2=BETA2,
        delta=DELTA,
        positives_per_batch=POSITIVES,
        negatives_per_batch=NEGATIVES,
        sampling="independent",
        rng=rng,
    )
    if claim.all_positives:
        few, everyone = run.draws, np.arange(run.positives.size)

        def draws(rounds: int) -> Any:
            """𝓑ₜ = 𝓓₊; their ranks are still estimated from batches of the usual size."""
            rows = np.broadcast_to(everyone, (rounds, everyone.size))
            return few(rounds)._replace(rows=np.ascontiguousarray(rows))

        run.draws = draws
    return run
