r"""The paper's protocol for networks ("Training Deep Neural Networks"), as data.

Pretrain with cross-entropy and Adam; reset the last layer; train with a method for AP, or continue
with cross-entropy for as long; test the epoch with the highest validation AP. docs/deep.md lists
what the paper leaves open.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from apmax.registry import Registry

HEAD, CONTINUED = "exact-head", "cross-entropy-resampled"
"""ExactAPHead fits the last layer of the network that CONTINUED has trained."""


class DeepSetting(NamedTuple):
    """The tuned parameters: η, the margin or slope γ (τ for SmoothAP), β₀."""

    lr: float | None = None
    gamma: float | None = None
    beta0: float | None = None

    @property
    def words(self) -> str:
        """Short form, also used in folder names."""
        named = zip(("lr", "gamma", "beta"), self, strict=True)
        known = (f"{name}{value:g}" for name, value in named if value is not None)
        return "-".join(known) or "default"


@dataclass(frozen=True)
class Preset:
    """Size of the experiment and the settings to try."""

    network: str
    pretraining: str
    pretraining_epochs: int
    pretraining_rates: Sequence[float]
    weight_decays: Sequence[float]
    epochs: int
    tuning_epochs: int
    rates: Sequence[float]
    momentum_rates: Sequence[float]
    gammas: Sequence[float]
    slopes: Sequence[float]
    temperatures: Sequence[float]
    beta0s: Sequence[float]
    seeds: int
    batch_size: int = 64
    positives_per_batch: int = 16
    watched: float = 1.0
    """Share of the training images whose AP is computed after each epoch."""
    chosen: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Settings that were tuned on CIFAR-10; used for both sets unless ``--tune`` is given."""

    def settings_of(self, method: str) -> list[DeepSetting]:
        """Return the settings to try first; other β₀ follow with the best of them."""
        if method == HEAD:
            return [DeepSetting()]  # ExactAPHead chooses its α by cross-validation
        if method == "smoothap":
            return [DeepSetting(*one) for one in product(self.rates, self.temperatures)]
        if method.startswith("cross-entropy"):
            return [DeepSetting(rate) for rate in self.rates]
        gammas = self.slopes if method == "adap-logistic" else self.gammas
        rates = self.momentum_rates if method == "moap" else self.rates
        return [DeepSetting(*one) for one in product(rates, gammas, self.beta0s[:1])]


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def _preset(name: str) -> Preset:
    fields = _TABLES["presets"][name]
    base = _TABLES["presets"].get(fields.get("based_on"), {})
    return Preset(**{key: value for key, value in {**base, **fields}.items() if key != "based_on"})


TITLES: Registry[str] = Registry("methods", _TABLES["titles"])
PUBLISHED: Registry[dict[str, Any]] = Registry("data", _TABLES["published"])
PRESETS = Registry("preset", {name: _preset(name) for name in _TABLES["presets"]})
