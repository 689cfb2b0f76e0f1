r"""Convergence rates, measured: how many rounds T a stationarity of ε takes.

    E[ 1/T Σₜ ‖∇F(wₜ)‖² ] ≤ ε²   after   T = O(1/εᵖ)   rounds

`CLAIMS` lists the theorems. Their constants are free: η and β of the shortest run are those with
the smallest F(w_T), on separate batches, and longer runs follow the orders. ∇F is exact, over all
pairs. The sum over t is estimated from one random round in each of 64 equal stretches.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from apmax.lbfgs import Objective
from apmax.linear.design import Design
from apmax.linear.full_batch import ap_objective
from apmax.linear.stochastic import StochasticRun
from apmax.methods import METHODS, SCHEDULES
from apmax.objective.surrogates import resolve
from apmax.validation import Floats, Mask
from experiments.datasets import load_paper_set
from experiments.linear.grid import PENALTY, LinearSetting, make_run
from experiments.output import markdown_table
from experiments.store import Store, Unit

GAMMA = 0.2
ETAS = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
BETAS = (0.9, 0.5, 0.1)
STRETCHES = 64
"""How many ‖∇F‖² are computed in a run."""


class Claim(NamedTuple):
    """A theorem: its method, its p, and its orders as powers of 1/T."""

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
    """Data set, lengths of the runs, and number of seeds."""

    data: str
    lengths: tuple[int, ...]
    seeds: int


FULL = Ladder("w6a", tuple(2**k for k in range(8, 16)), seeds=5)
QUICK = Ladder("mushrooms", tuple(2**k for k in range(6, 10)), seeds=3)

Rate = dict[str, Any]
"""Measurements for one claim; `squares` are 1/T Σ‖∇F‖² by length and seed."""
Interval = tuple[float | None, ...]
"""Exponent p and the two ends of its 95 % interval; None if infinite, where ε does not fall."""


def measure_rates(store: Store, ladder: Ladder = FULL, jobs: int = 2) -> list[Rate]:
    """Choose constants at the shortest length, run what is missing, fit p."""
    name, lengths, seeds = ladder
    tuning = {key: [Unit(_tune, (key, name, lengths[0]))] for key in CLAIMS}
    first = {key: tuned for key, (tuned,) in store.collect(tuning, jobs, "constants").items()}
    # The longest first, so that all processes end at about the same time.
    runs = {
        (key, length): [
            Unit(_stationarity, (key, name, length, lengths[0], *first[key], seed))
            for seed in range(seeds)
        ]
        for length in reversed(lengths)
        for key in CLAIMS
    }
    found = store.collect(runs, jobs, "runs")
    rates, half = [], len(lengths) // 2
    for key, claim in CLAIMS.items():
        squares = [found[key, length] for length in lengths]
        rates.append(
            {
                "run": key,
                "statement": claim.source,
                "theorem": claim.exponent,
                "eta": first[key][0],
                "beta": first[key][1],
                "squares": squares,
                "exponent": fit_exponent(lengths, squares),
                "exponent_of_longer_half": fit_exponent(lengths[half:], squares[half:]),
            }
        )
    return rates


def fit_exponent(lengths: Sequence[int], squares: list[list[float]]) -> Interval:
    """Fit p of log ε = a − log T / p; the bootstrap resamples runs within each length."""
    table = np.array(squares)
    rng = np.random.default_rng(0)
    drawn = rng.integers(table.shape[1], size=(2000, *table.shape))
    means = np.take_along_axis(table[None], drawn, axis=2).mean(axis=2)
    logs = np.log(np.array(lengths, dtype=np.float64))
    logs -= logs.mean()

    def fall(mean_square: Floats) -> Floats:
        """−d log ε / d log T = 1/p, which stays finite where ε hardly falls."""
        return np.asarray(-0.5 * np.log(mean_square) @ logs / (logs @ logs))

    low, high = np.quantile(fall(means), [0.025, 0.975])
    return tuple(float(1 / x) if x > 0 else None for x in (fall(table.mean(axis=1)), high, low))


def rates_to_markdown(rates: Sequence[Rate]) -> str:
    """Format the exponent of every method beside the theorem's."""

    def words(interval: Interval) -> str:
        return "{} ({} to {})".format(*("∞" if x is None else f"{x:.1f}" for x in interval))

    head = ["method", "statement", "theorem", "p, all T", "p, longer half"]
    rows = []
    for rate in rates:
        first, last = (float(np.sqrt(np.mean(rate["squares"][k]))) for k in (0, -1))
        claim = [CLAIMS[rate["run"]].title, rate["statement"], str(rate["theorem"])]
        fits = [words(rate["exponent"]), words(rate["exponent_of_longer_half"])]
        ends = [f"{first:.3g} → {last:.3g}", f"{rate['eta']:g}, {rate['beta']:g}"]
        rows.append([*claim, *fits, *ends])
    return markdown_table([*head, "ε, shortest → longest", "η, β at the shortest"], rows)


def _tune(key: str, name: str, length: int) -> list[float]:
    """Return η and β with the smallest mean F(w_T) over three runs of the shortest length."""
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
    """1/T Σ‖∇F‖² of one run; η and β are those of the shortest length."""
    claim, ratio = CLAIMS[key], shortest / length
    design, y, objective = _problem(name)
    eta, beta = eta * ratio**claim.eta_order, beta * ratio**claim.beta_order
    run = _start(claim, design, y, eta, beta, seed)
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
    data = load_paper_set(name)
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
    method = replace(METHODS[claim.method], schedule=SCHEDULES["constant"])
    setting = LinearSetting(eta, beta, GAMMA)
    run = make_run(method, design, y, setting, seed, sampling="independent")
    if claim.all_positives:
        few, everyone = run.draws, np.arange(run.positives.size)

        def draws(rounds: int) -> Any:
            """𝓑ₜ = 𝓓₊; their ranks are still estimated from batches of the usual size."""
            rows = np.broadcast_to(everyone, (rounds, everyone.size))
            return few(rounds)._replace(rows=np.ascontiguousarray(rows))

        run.draws = draws
    return run
