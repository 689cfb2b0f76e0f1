"""Every method of the paper as one row: a new method is a new row, not a new loop.

The table itself stands below, in ``_ROWS``. SOX and BSGD are not the paper's: the first came
after it, the second is the naive mini-batch that it improves on.
"""

from __future__ import annotations

from dataclasses import dataclass

from apmax.errors import ParameterError
from apmax.method.directions import DIRECTIONS
from apmax.method.estimates import PAIRS, Scorer, StochasticProblem
from apmax.method.schedules import SCHEDULES
from apmax.method.trackers import TRACKERS, Rows
from apmax.problem.surrogates import resolve
from apmax.registry import Registry


@dataclass(frozen=True)
class Method:
    """One row. ``dataclasses.replace`` makes a variant, :func:`register` a new row."""

    name: str
    title: str
    tracker: str
    direction: str
    schedule: str
    """Of η, β₀ and β₁; β′ is constant."""
    projected: bool
    """Whether U is kept in Ω."""
    surrogate: str = "squared_hinge"
    pairs: str = "population"
    """What a mini-batch stands for; see :mod:`apmax.method.estimates`."""

    def __post_init__(self) -> None:
        """Every entry is known, or the error says which one is meant."""
        resolve(self.surrogate)
        TRACKERS.choose(self.tracker)
        DIRECTIONS.choose(self.direction)
        SCHEDULES.choose(self.schedule)
        PAIRS.choose(self.pairs)
        if self.projected and self.pairs == "batch":
            raise ParameterError(
                f"the method {self.name!r} projects ranks of a batch on Ω, which bounds means over "
                'all data: use pairs="population" or projected=False'
            )


METHODS: Registry[Method] = Registry("method")


def register(method: Method) -> Method:
    """Make `method` known by its name everywhere a method can be named."""
    return METHODS.add(method.name, method)


def resolve_method(method: str | Method) -> Method:
    """The method of that name, or the one given."""
    return method if isinstance(method, Method) else METHODS.choose(method)


def problem_for(
    method: str | Method,
    scorer: Scorer,
    positives: Rows,
    negatives: Rows,
    *,
    gamma: float,
    penalty: float = 0.0,
    spread: float = 1.0,
) -> StochasticProblem:
    """The problem as this method sees it: its surrogate, and its meaning of a mini-batch."""
    row = resolve_method(method)
    return StochasticProblem(
        scorer,
        positives,
        negatives,
        resolve(row.surrogate),
        gamma,
        penalty=penalty,
        pairs=row.pairs,
        spread=spread,
    )


# fmt: off
_ROWS = (
    # name          title              tracker                  direction   schedule      projected
    ("soap-sgd",     "SOAP (SGD)",      "moving_average",        "plain",    "constant",   False),
    ("soap-adam",    "SOAP (Adam)",     "moving_average",        "adam",     "constant",   False),
    ("soap-amsgrad", "SOAP (AMSGrad)",  "moving_average",        "amsgrad",  "constant",   False),
    ("moap-v1",      "MOAP-V1",         "moving_average",        "momentum", "inverse_sqrt", True),
    ("moap-v2",      "MOAP-V2",         "randomized_coordinate", "momentum", "inverse_sqrt", True),
    ("adap-adam",    "ADAP (Adam)",     "randomized_coordinate", "adam",     "inverse_sqrt", True),
    ("adap-adagrad", "ADAP (AdaGrad)",  "randomized_coordinate", "adagrad",  "inverse_sqrt", True),
    ("adap-amsgrad", "ADAP (AMSGrad)",  "randomized_coordinate", "amsgrad",  "inverse_sqrt", True),
    ("adap-adabound","ADAP (AdaBound)", "randomized_coordinate", "adabound", "inverse_sqrt", True),
    ("bsgd",         "BSGD",            "none",                  "plain",    "constant",   False),
    ("sox",          "SOX",             "moving_average",        "momentum", "constant",   False),
    ("smoothap",     "SmoothAP",        "none",                  "plain",    "constant",   False,
     "logistic", "batch"),
)
# fmt: on

for _row in _ROWS:
    register(Method(*_row))
