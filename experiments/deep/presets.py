r"""The paper's protocol for networks ("Training Deep Neural Networks"), as data.

Pretrain with cross-entropy and Adam; reset the last layer; train with a method for AP, or continue
with cross-entropy for as long; test the epoch with the highest validation AP. Scores are σ(logit).
An epoch is ⌊n/B⌋ steps for every method.

The paper does not state the number of epochs, the batch, the augmentation, which classes are
positive, Adam's betas, the schedule, the weight decay after pretraining or SmoothAP's τ. Here, AP
methods use batches with a quarter of positives; all use random crops and flips and the channel
means of CIFAR-10; the upper half of the class numbers is positive; betas are torch's (β₁ = 0.1 and
β′ = 0.001 in the paper's notation); rates are constant. Settings are chosen on the first seed after
a part of the epochs, β₀ after η and γ.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from apmax.registry import Registry

TITLES = Registry(
    "methods",
    {
        "adap": "ADAP",
        "soap": "SOAP (Adam)",
        "smoothap": "SmoothAP",
        "cross-entropy": "cross-entropy, continued",
        "cross-entropy-resampled": "cross-entropy, continued on the batches of AP",
        "adap-logistic": "ADAP with the logistic surrogate, not in the paper",
    },
)
PUBLISHED = Registry(
    "data",
    {
        "cifar10": {
            "adap": (0.7667, 0.0015), "soap": (0.7629, 0.0014), "smoothap": (0.7365, 0.0088),
        },
        "cifar100": {
            "adap": (0.6371, 0.0041), "soap": (0.6251, 0.0053), "smoothap": (0.6071, 0.0064),
        },
    },
)  # fmt: skip
"""The paper's Table 4: mean and standard deviation of five runs."""


class DeepSetting(NamedTuple):
    """The tuned parameters: η, the margin or slope γ (τ for SmoothAP), β₀."""

    lr: float
    gamma: float | None = None
    beta0: float | None = None

    @property
    def words(self) -> str:
        """Short form, also used in folder names."""
        named = zip(("lr", "gamma", "beta"), self, strict=True)
        return "-".join(f"{name}{value:g}" for name, value in named if value is not None)


@dataclass(frozen=True)
class Preset:
    """Size of the experiment and the settings to try."""

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
    chosen: tuple[tuple[str, DeepSetting], ...] = ()
    """Settings that were tuned on CIFAR-10 before; used unless ``--tune`` is given."""

    def settings_of(self, method: str) -> list[DeepSetting]:
        """Return the settings to try first; other β₀ follow with the best of them."""
        if method == "smoothap":
            return [DeepSetting(*one) for one in product(self.rates, self.temperatures)]
        if method.startswith("cross-entropy"):
            return [DeepSetting(rate) for rate in self.rates]
        gammas = self.slopes if method == "adap-logistic" else self.gammas
        return [DeepSetting(*one) for one in product(self.rates, gammas, self.beta0s[:1])]


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
                ("adap", DeepSetting(1e-4, 1.0, 0.001)),
                ("soap", DeepSetting(1e-4, 0.5, 0.9)),
                ("smoothap", DeepSetting(1e-4, 0.1)),
                ("cross-entropy-resampled", DeepSetting(1e-4)),
                ("adap-logistic", DeepSetting(1e-4, 10.0, 0.001)),  # η and β₀ as for ADAP
            ),
        ),
    },
)
