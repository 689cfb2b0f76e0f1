r"""Stochastic methods as frozen records: tracker × direction × schedule.

The paper is Wang, Yang, Zhang and Yang, AISTATS 2022, https://arxiv.org/abs/2107.01173.

A :class:`Method` is the single specification that both runtimes read: the compiled loop behind
:class:`apmax.StochasticAPClassifier` and the losses and optimizers of :mod:`apmax.torch`. Its
fields are the switches of Algorithms 1-3 of the paper, so a new combination of switches runs
in both without new code.

Trackers (g̃ is the estimate of a row's inner values, Π the projection on Ω)

=========================  ==========================================  =====================
name                       rows in the batch                           other rows
=========================  ==========================================  =====================
``none``                   U_i = g̃_i                                   not kept
``moving_average``         U_i ← Π[(1−β₀) U_i + β₀ g̃_i]                unchanged
``randomized_coordinate``  U_i ← Π[(1−β₀) U_i + β₀ (m/B) g̃_i]          U_i ← Π[(1−β₀) U_i]
``elapsed_average``        U_i ← Π[φ U_i + (1−φ) g̃_i]                  unchanged
``msvr``                   moving average + θ (g̃_i − g̃′_i)             unchanged
=========================  ==========================================  =====================

φ is the product of 1 − β₀ over the rounds since U_i was last updated. A row that is rarely seen
thus gives more weight to its new estimate, and U follows the model equally fast for any m/B.

Directions (what the learning rate η multiplies; Algorithm 3 of the paper)

==============  ==================================================================
``plain``       ∇̃_t
``momentum``    h_{t+1} = (1−β₁) h_t + β₁ ∇̃_t
``adam``        h_{t+1} / (√v_{t+1} + δ), v_{t+1} = (1−β′) v_t + β′ ∇̃_t²
``adagrad``     the same with v_{t+1} = 1/(t+1) Σ_{r ≤ t} ∇̃_r²
``amsgrad``     Adam with the largest v so far
``adabound``    Adam with v clipped to [1/c_u², 1/c_l²]
==============  ==================================================================

Symbols: h is the momentum, the paper's bold m; m is the number of positives and B that of the
batch. β₀ is ``beta0``, β₁ is ``beta1``, β′ is ``beta2`` and δ is ``delta``; c_l = 0.1 and
c_u = 1000 are fixed. Betas weigh the NEW value, as in the paper; torch's betas are one minus ours.

Differs from the paper: a row of U starts at its first estimate instead of a free U₁, and U and
g are means over the n examples instead of sums. ``elapsed_average`` is not part of the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from apmax.errors import ParameterError
from apmax.objective.surrogates import resolve
from apmax.registry import Registry
from apmax.validation import check_real

DELTA = 1e-8
"""δ, added to the root of the second moment."""
BOUNDS = (0.1, 1e3)
"""(c_l, c_u) of AdaBound."""
LOG_OF_ZERO = -800.0
"""log(1 − β₀) at β₀ = 1: finite, so that differences are defined, and exp of it is 0."""


@dataclass(frozen=True)
class Tracker:
    """How U, the tracked inner values of all positives, follows new estimates.

    The fields are the switches that the back ends read. `TRACKERS` has the built-in ones.

    Examples
    --------
    >>> from apmax.methods import TRACKERS
    >>> TRACKERS["moving_average"].remembers
    True
    """

    name: str
    """Name in messages."""
    remembers: bool = True
    """Whether rows of U are kept between rounds."""
    decays: bool = False
    """Whether rows outside the batch decay by 1 − β₀ and estimates are scaled by m/B."""
    normalised: bool = False
    """Whether the decay lowers the weight of the old value in the average (`elapsed_average`)
    instead of the value itself (`randomized_coordinate`)."""
    needs_previous: bool = False
    """Whether the estimate at the previous parameters is needed (MSVR)."""


@dataclass(frozen=True)
class Direction:
    """How a gradient estimate becomes a step.

    `DIRECTIONS` has the built-in ones.

    Examples
    --------
    >>> from apmax.methods import DIRECTIONS
    >>> from dataclasses import replace
    >>> replace(DIRECTIONS["amsgrad"], name="clipped", bound="clipped")
    Direction(name='clipped', momentum=True, second_moment='moving', bound='clipped')
    """

    name: str
    """Name in messages."""
    momentum: bool = True
    """Whether the step follows a moving average of the gradients."""
    second_moment: Literal["none", "moving", "running"] = "none"
    """Average of the squared gradients: "none"; "moving", exponential; or "running", the mean of
    all rounds."""
    bound: Literal["none", "largest", "clipped"] = "none"
    """Bound on the second moment: "none"; "largest", its largest value so far; or "clipped", to
    [1/c_u², 1/c_l²]."""

    def __post_init__(self) -> None:
        """Refuse switches that no back end has."""
        moments, bounds = ("none", "moving", "running"), ("none", "largest", "clipped")
        Registry("second_moment", dict.fromkeys(moments)).choose(self.second_moment)
        Registry("bound", dict.fromkeys(bounds)).choose(self.bound)


@dataclass(frozen=True)
class Schedule:
    """How η, β₀ and β₁ change with the round t = 1, 2, …; β′ is constant.

    `SCHEDULES` has the built-in ones.

    Examples
    --------
    >>> from apmax.methods import Schedule
    >>> Schedule("inverse_cbrt", power=1 / 3).at(0.8, 8)
    0.4
    """

    name: str
    """Name in messages."""
    power: float = 0.0
    """A first value c becomes c / t**power."""
    fades: bool = False
    """Whether η also falls linearly to zero over a known number of rounds."""

    def at(self, first: float, t: Any) -> Any:
        """Return the value of η, β₀ or β₁ at a round.

        Parameters
        ----------
        first : float
            The value at round 1.
        t : int or array of int
            The round, or several.
        """
        if self.power == 0:
            return first
        if self.power == 0.5:
            return first / (math.sqrt(t) if isinstance(t, int) else np.sqrt(t))
        return first / t**self.power


_TRACKERS = (
    Tracker("none", remembers=False),
    Tracker("moving_average"),
    Tracker("randomized_coordinate", decays=True),
    Tracker("elapsed_average", decays=True, normalised=True),
    Tracker("msvr", needs_previous=True),
)
_DIRECTIONS = (
    Direction("plain", momentum=False),
    Direction("momentum"),
    Direction("adam", second_moment="moving"),
    Direction("adagrad", second_moment="running"),
    Direction("amsgrad", second_moment="moving", bound="largest"),
    Direction("adabound", second_moment="moving", bound="clipped"),
)
_SCHEDULES = (Schedule("constant"), Schedule("inverse_sqrt", 0.5), Schedule("linear", fades=True))

TRACKERS = Registry("tracker", {one.name: one for one in _TRACKERS})
"""The trackers by their names; see the first table."""
DIRECTIONS = Registry("direction", {one.name: one for one in _DIRECTIONS})
"""The directions by their names; see the second table."""
SCHEDULES = Registry("schedule", {one.name: one for one in _SCHEDULES})
"""The schedules by their names: "constant", "inverse_sqrt" and "linear"."""
PAIRS = Registry("pairs", {"population": True, "batch": False})
"""Whether pair sums are unbiased for all data."""
FIRST_VISITS = Registry("first_visit", {"estimate": False, "zero": True})
"""Whether a row of U counts as seen, at 0, before its first estimate."""


@dataclass(frozen=True)
class Method:
    """One stochastic method. ``dataclasses.replace`` makes a variant, :func:`register` names it.

    Parameters
    ----------
    name : str
        Name used by ``StochasticAPClassifier(method=…)`` and ``apmax.torch.from_table``.
    title : str
        Name shown to people.
    tracker : Tracker or str
        How U is estimated; a string is looked up in `TRACKERS`.
    direction : Direction or str
        How the gradient estimates become a step; a string is looked up in `DIRECTIONS`.
    schedule : Schedule or str
        How step size and decay change; a string is looked up in `SCHEDULES`.
    projected : bool
        Whether U is projected on Ω.
    surrogate : str
        The paper's surrogate for this method.
    pairs : {"population", "batch"}
        "population" weights each class of a batch by its own sampling rate, so that the pair
        sums are unbiased for the whole data set; "batch" treats the batch as the data set.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from apmax.methods import METHODS
    >>> steady = replace(METHODS["adap-adam"], name="steady-adap", tracker="moving_average")
    >>> steady.tracker.decays
    False
    """

    name: str
    title: str
    tracker: Tracker
    direction: Direction
    schedule: Schedule
    projected: bool = False
    surrogate: str = "squared_hinge"
    pairs: Literal["population", "batch"] = "population"

    def __post_init__(self) -> None:
        """Look up names, and refuse combinations that have no meaning."""
        for name, registry, kind in (
            ("tracker", TRACKERS, Tracker),
            ("direction", DIRECTIONS, Direction),
            ("schedule", SCHEDULES, Schedule),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind):
                object.__setattr__(self, name, registry.choose(value))
        resolve(self.surrogate)
        PAIRS.choose(self.pairs)
        if self.projected and self.pairs == "batch":
            raise ParameterError(
                f"method {self.name!r} projects U on Ω, which bounds means over all data, but its "
                'pairs are those of a batch: use pairs="population" or projected=False'
            )


# fmt: off
_MOVING, _RANDOMIZED = "moving_average", "randomized_coordinate"
_TABLE: tuple[tuple[Any, ...], ...] = (
    # name          title              tracker      direction   schedule        projected
    ("soap-sgd",     "SOAP (SGD)",      _MOVING,     "plain",    "constant",     False),
    ("soap-adam",    "SOAP (Adam)",     _MOVING,     "adam",     "constant",     False),
    ("soap-amsgrad", "SOAP (AMSGrad)",  _MOVING,     "amsgrad",  "constant",     False),
    ("moap-v1",      "MOAP-V1",         _MOVING,     "momentum", "inverse_sqrt", True),
    ("moap-v2",      "MOAP-V2",         _RANDOMIZED, "momentum", "inverse_sqrt", True),
    ("adap-adam",    "ADAP (Adam)",     _RANDOMIZED, "adam",     "inverse_sqrt", True),
    ("adap-adagrad", "ADAP (AdaGrad)",  _RANDOMIZED, "adagrad",  "inverse_sqrt", True),
    ("adap-amsgrad", "ADAP (AMSGrad)",  _RANDOMIZED, "amsgrad",  "inverse_sqrt", True),
    ("adap-adabound","ADAP (AdaBound)", _RANDOMIZED, "adabound", "inverse_sqrt", True),
    ("sox",          "SOX",             _MOVING,     "momentum", "constant",     False),
    ("bsgd",         "BSGD",            "none",      "plain",    "constant",     False),
    ("smoothap",     "SmoothAP",        "none",      "plain",    "constant",     False,
     "logistic", "batch"),
)
# fmt: on

METHODS: Registry[Method] = Registry("method", {row[0]: Method(*row) for row in _TABLE})
"""The methods by their names, and those that :func:`register` adds."""


def register(method: Method) -> Method:
    """Make `method` available by its name wherever a method can be named.

    Parameters
    ----------
    method : Method
        Its name must be new.

    Returns
    -------
    Method
        The same method.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from apmax import StochasticAPClassifier, methods
    >>> slow = replace(methods.METHODS["soap-sgd"], name="slow-soap", schedule="inverse_sqrt")
    >>> _ = methods.register(slow)
    >>> model = StochasticAPClassifier("slow-soap")
    """
    return METHODS.add(method.name, method)


def resolve_method(method: str | Method) -> Method:
    """Return the method of that name, or the one given."""
    return method if isinstance(method, Method) else METHODS.choose(method)


def check_beta(beta: float, name: str) -> float:
    """Check a weight of the new value, in (0, 1]."""
    why = "it is the weight of the new value (one minus torch's beta); 1 forgets the past"
    return check_real(beta, name, above=0, at_most=1, why=why)


def log_decay(beta0: float) -> float:
    """log(1 − β₀), finite also at β₀ = 1."""
    return math.log1p(-beta0) if beta0 < 1 else LOG_OF_ZERO


def add_exactly(high: float, low: float, term: float) -> tuple[float, float]:
    """(high + low) + term as a sum of two doubles, the second below the first's last digit.

    Σ log(1 − β₀) is kept this way: after 10⁶ rounds a single double has lost ten digits.
    """
    total = high + term
    back = total - high
    low += (high - (total - back)) + (term - back)  # Knuth's TwoSum
    rounded = total + low
    return rounded, low - (rounded - total)
