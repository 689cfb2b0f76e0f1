"""A table whose log-odds are |x| and an effect of a category, and noise columns."""

from __future__ import annotations

import numpy as np
import pandas as pd

from apmax import AdditiveAPClassifier

RNG = np.random.default_rng(0)
N = 1200
DISTANCE = RNG.normal(size=N)
COLOUR = RNG.choice(["red", "green", "blue"], N)
AGE = np.where(RNG.random(N) < 0.1, np.nan, RNG.integers(18, 60, N))
OF_COLOUR = {"red": 1.5, "green": 0.0, "blue": -1.5}
LOG_ODDS = 2.5 * np.abs(DISTANCE) + np.array([OF_COLOUR[one] for one in COLOUR]) - 4.5
LOG_ODDS = LOG_ODDS + np.where(np.isnan(AGE), 1.5, 0.0)
Y = RNG.random(N) < 1 / (1 + np.exp(-LOG_ODDS))
X = pd.DataFrame({"distance": DISTANCE, "colour": COLOUR, "age": AGE})
TRAIN, TEST = np.arange(N) < 800, np.arange(N) >= 800
PLAIN = AdditiveAPClassifier(interactions=0, cv=2)
