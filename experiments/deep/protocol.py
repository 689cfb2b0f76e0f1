r"""The paper's protocol for networks ("Training Deep Neural Networks"), as data.

Pretrain with cross-entropy and Adam; draw the last layer anew; train with a method for AP, or go
on with cross-entropy for as long; take the epoch with the highest validation AP. Scores are
σ(logit). An epoch is ⌊n/B⌋ steps for every method.

What the paper leaves open, and is ours: the epochs; the batch (a quarter of positives for AP, a
shuffled pass for cross-entropy, and a row that shows cross-entropy the batches of AP); random crops
and flips, and CIFAR-10's channel means, for both sets; the upper half of the class numbers as
positives; Adam's betas (torch's, which are β₁ = 0.1 and β′ = 0.001 in the paper's sense); constant
rates; the weight decay of pretraining for what follows; SmoothAP's τ. Settings are chosen on the
first seed after a part of the epochs, β₀ after η and γ: 20 of the paper's 90 combinations.

The laptop's few epochs want larger rates than the paper's, and pretraining on batches with
positives: two such epochs give a test AP of 0.715, two shuffled ones 0.604.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from apmax.registry import Registry

METHODS = (
    *("adap", "soap", "smoothap", "cross-entropy", "cross-entropy-resampled"),
    "adap-logistic",
)
"""The paper's, cross-entropy on the batches of AP, and ADAP with the surrogate of `APLoss`."""
TITLES = {
    "adap": "ADAP",
    "soap": "SOAP (Adam)",
    "smoothap": "SmoothAP",
    "cross-entropy": "cross-entropy, continued",
    "cross-entropy-resampled": "cross-entropy, continued on the batches of AP",
    "adap-logistic": "ADAP with the logistic surrogate, not of the paper",
}
PUBLISHED = {
    "cifar10": {"adap": (0.7667, 0.0015), "soap": (0.7629, 0.0014), "smoothap": (0.7365, 0.0088)},
    "cifar100": {"adap": (0.6371, 0.0041), "soap": (0.6251, 0.0053), "smoothap": (0.6071, 0.0064)},
}
"""The paper's Table 4: mean and deviation of five runs."""


class Setting(NamedTuple):
    """What is tuned: η, the margin or slope γ (SmoothAP: τ), β₀."""

    lr: float
    gamma: float | None = None
    beta0: float | None = None

    @property
    def words(self) -> str:
        """For a person, and for the name of a folder."""
        parts = [f"lr{self.lr:g}"]
        parts += [] if self.gamma is None else [f"gamma{self.gamma:g}"]
        parts += [] if self.beta0 is None else [f"beta{self.beta0:g}"]
        return "-".join(parts)


@dataclass(frozen=True)
class Preset:
    """How long, how large, and which settings are tried."""

    network: str
    pretraining: str
    pretraining_epochs: int
    pretraining_rates: tuple[float, ...]
    weight_decays: tuple[float, ...]
    epochs: int
    tuning_epochs: int
    rates: tuple[float, ...]
    gammas: tuple[float, ...]
    slopes: tuple[float, ...]
    temperatures: tuple[float, ...]
    beta0s: tuple[float, ...]
    seeds: int
    batch_size: int = 64
    positives_per_batch: int = 16
    watched: float = 1.0
    """Share of the training images whose AP is computed after each epoch."""
    chosen: tuple[tuple[str, Setting], ...] = ()
    """What an earlier choice on CIFAR-10 came to, to be used unless it is made again."""

    def settings_of(self, method: str) -> list[Setting]:
        """What is tried for a method at first; other β₀ follow with the best of these."""
        if method in ("adap", "soap", "adap-logistic"):
            gammas = self.slopes if method == "adap-logistic" else self.gammas
            pairs = product(self.rates, gammas)
            return [Setting(rate, gamma, self.beta0s[0]) for rate, gamma in pairs]
        if method == "smoothap":
            return [Setting(*one) for one in product(self.rates, self.temperatures)]
        return [Setting(rate) for rate in self.rates]

    def pretraining_settings(self) -> list[tuple[Setting, float]]:
        """Rates and weight decays."""
        pairs = product(self.pretraining_rates, self.weight_decays)
        return [(Setting(rate), decay) for rate, decay in pairs]


PRESETS: Registry[Preset] = Registry(
    "preset",
    {
        "paper": Preset(
            network="resnet18",
            pretraining="cross-entropy",
            pretraining_epochs=100,
            pretraining_rates=(1e-6, 1e-5, 1e-4),
            weight_decays=(1e-6, 1e-5, 1e-4),
            epochs=100,
            tuning_epochs=20,
            rates=(1e-6, 1e-5, 1e-4),
            gammas=(0.5, 1.0, 2.0, 5.0, 10.0),
            slopes=(5.0, 10.0, 20.0, 40.0),
            temperatures=(0.01, 0.1, 0.5, 1.0),
            beta0s=(0.9, 0.001, 0.1, 0.5, 0.99, 0.999),
            seeds=5,
        ),
        "laptop": Preset(
            network="resnet20",
            pretraining="cross-entropy-resampled",
            pretraining_epochs=4,
            pretraining_rates=(1e-3,),
            weight_decays=(1e-4,),
            epochs=3,
            tuning_epochs=1,
            rates=(1e-4, 1e-3),
            gammas=(0.5, 1.0),
            slopes=(5.0, 10.0, 20.0),
            temperatures=(0.1, 1.0),
            beta0s=(0.9, 0.1, 0.001),
            seeds=3,
            watched=0.25,
            chosen=(
                ("adap", Setting(1e-4, 1.0, 0.001)),
                ("soap", Setting(1e-4, 0.5, 0.9)),
                ("smoothap", Setting(1e-4, 0.1)),
                ("cross-entropy-resampled", Setting(1e-4)),
                ("adap-logistic", Setting(1e-4, 10.0, 0.001)),  # η and β₀ as for ADAP
            ),
        ),
    },
)
