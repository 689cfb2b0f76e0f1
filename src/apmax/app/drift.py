"""How new data differ from the training data: unusable columns, and shifts of distributions.

A shift is measured by the population stability index, PSI = Σ (q − p) ln(q / p) over bins with
the shares p in training and q in the new data. Common limits are 0.1 (moderate) and 0.25 (large).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from apmax.app.features import (
    CATEGORY,
    DATE,
    MAX_LEVELS,
    MISSING,
    NUMBER,
    TablePreprocessor,
    means_missing,
    to_numbers,
    to_words,
)
from apmax.errors import ModelFileError
from apmax.validation import Floats

MOSTLY_NUMBERS = 0.5
"""Share of numbers among the values of a text column above which it is reported."""
MAX_NEW_CATEGORIES = 0.5
"""Share of new categories above which a column is reported."""
BINS, LEVELS = 10, 20
"""Largest number of bins of a number, and of categories of a column; the rest is one more bin."""
MAX_COLUMNS = 1000
"""Wider tables are profiled up to this column, so that model files stay small."""
SMALL, LARGE = 0.1, 0.25
"""Limits of the PSI between small, moderate and large shifts."""
NOISE_LEVEL = 0.99
"""Quantile of the PSI of two samples of one distribution, below which a shift counts as noise."""
SCORE = "predicted probability"
"""Name of the shift of the model's output."""


class DriftWarning(UserWarning):
    """New data differ from the training data of a model."""


def training_warnings(encoder: TablePreprocessor, frame: Any) -> list[str]:
    """Describe the columns of the training table that are not fully used."""
    frame = frame.rename(columns=str)
    found: list[str] = []
    for name, kind in encoder.kinds_.items():
        if kind != CATEGORY:
            found += _unreadable(encoder, name, frame[name].dropna())
            continue
        found += _mostly_numbers(name, frame[name].dropna())
        if not set(encoder.categories(name)[0]) - {MISSING}:
            found.append(
                f"{name!r} is text whose values hardly ever repeat; only whether it is missing "
                "is used"
            )
    found += [
        f"{name!r} is text whose values hardly ever repeat, and is not used"
        for name in encoder.unused_
    ]
    return found


def _mostly_numbers(name: str, known: Any) -> list[str]:
    """Describe text that would be a column of numbers without a few other values."""
    numbers = to_numbers(known)
    share = float(numbers.notna().mean()) if len(known) else 0.0
    if not MOSTLY_NUMBERS <= share < 1.0 or numbers.nunique() <= MAX_LEVELS:
        return []
    other = str(known[numbers.isna()].iloc[0])
    return [
        f"{name!r} is read as categories, although {share:.0%} of its values are numbers: if "
        f"others, such as {other!r}, mean that the number is missing, leave these cells empty"
    ]


def drift_warnings(encoder: TablePreprocessor, frame: Any) -> list[str]:
    """Describe the columns of new data that differ from the training table.

    Reported are columns that are empty but never were in training, values that are not numbers
    or dates as in training, and mostly new categories.
    """
    frame = frame.rename(columns=str)
    found: list[str] = []
    for name, kind in encoder.kinds_.items() if len(frame) else ():
        known = frame[name].dropna()
        if kind == NUMBER:
            known = known[encoder.read(name, known).notna() | ~means_missing(known)]
        if not len(known) and name in encoder.complete_:
            found.append(f"{name!r} is empty, but had values in every row in training")
        found += (_new_categories if kind == CATEGORY else _unreadable)(encoder, name, known)
    return found


def _unreadable(encoder: TablePreprocessor, name: str, known: Any) -> list[str]:
    bad = known[encoder.read(name, known).isna()]
    expected = "not a number"
    if encoder.kinds_[name] == DATE:
        expected = f"not dates like {encoder.date_formats_[name]}"
    return [_describe(name, bad, known, expected, "count as missing")] if len(bad) else []


def _new_categories(encoder: TablePreprocessor, name: str, known: Any) -> list[str]:
    kept, rare = encoder.categories(name)
    new = known[~encoder.read(name, known).isin([*kept, *rare])]
    if len(rare) > len(kept) or len(new) <= MAX_NEW_CATEGORIES * len(known):
        return []
    return [_describe(name, new, known, "new categories", "are ignored")]


def _describe(name: str, bad: Any, known: Any, problem: str, use: str) -> str:
    count = f"{len(bad):,} of {len(known):,} values are {problem}"
    return f"{name!r}: {count} (first {str(bad.iloc[0])[:40]!r}), and {use}"


class Shift(NamedTuple):
    """How far the distribution of one column moved."""

    column: str
    psi: float
    noise: float
    """PSI that two samples of these sizes, of one distribution, exceed in 1 % of the cases."""
    size: str
    """"small", "moderate" or "large"; small also if the PSI is within the noise."""


def profile(frame: Any, kinds: Mapping[str, str], probabilities: Floats) -> dict[str, Any]:
    """Return what `psi` needs to know of the training data, as plain data for a model file.

    Parameters
    ----------
    frame : DataFrame or matrix
        The training data; a matrix has no columns to profile.
    kinds : mapping of str to str
        "number", "category" or "date" for each column that the model uses. Dates are left out,
        because new data are later than the training data in any case.
    probabilities : ndarray
        Predicted probabilities of the training rows, best from cross-validation: those of rows
        that the model was fitted to are too extreme.

    Returns
    -------
    dict
        Number of rows, and the bins with their shares for each column and for the probabilities.
    """
    columns: dict[str, Any] = {}
    if hasattr(frame, "columns"):
        frame = frame.rename(columns=str)
        for name in [name for name, kind in kinds.items() if kind != DATE][:MAX_COLUMNS]:
            numeric = kinds[name] == NUMBER
            columns[name] = (_number_bins if numeric else _category_bins)(frame[name])
    p = np.asarray(probabilities, dtype=np.float64)
    return {"rows": int(p.size), "columns": columns, "probability": _bins(p)}


def psi(profile: Mapping[str, Any], frame: Any, probabilities: Floats) -> list[Shift]:
    """Return the shift of the predicted probabilities and of each column, the largest first.

    Columns of the profile that the data do not have are skipped.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    rows = profile["rows"]
    found = []
    if hasattr(frame, "columns"):
        frame = frame.rename(columns=str)
        for name, stored in profile["columns"].items():
            if name in frame.columns:
                numeric = "edges" in stored
                values = (to_numbers if numeric else to_words)(frame[name])
                counts = _counts(stored, values.to_numpy())
                found.append(_shift(name, np.array(stored["shares"]), rows, counts))
    found.sort(key=lambda shift: -shift.psi)
    score = profile["probability"]
    return [_shift(SCORE, np.array(score["shares"]), rows, _counts(score, p)), *found]


def checked_profile(stored: Any) -> dict[str, Any]:
    """Return the profile of a model file; ModelFileError if it is not one."""
    try:
        columns = stored["columns"]
        sound = stored.keys() == {"rows", "columns", "probability"} and type(columns) is dict
        sound = sound and len(columns) <= MAX_COLUMNS
        sound = sound and type(stored["rows"]) is int and 0 < stored["rows"] < 1 << 53
        sound = sound and "edges" in stored["probability"]
        sound = sound and all(map(_is_sound, [*columns.values(), stored["probability"]]))
    except (TypeError, KeyError, AttributeError, ValueError):
        sound = False
    if not sound:
        raise ModelFileError("the profile of the training data is not one that apmax writes")
    return dict(stored)


def _is_sound(bins: dict[str, Any]) -> bool:
    shares = bins["shares"]
    if "edges" in bins:
        names = bins["edges"]
        named = all(type(edge) is float and math.isfinite(edge) for edge in names)
        named = named and names == sorted(set(names)) and len(names) < BINS
    else:
        names = bins["levels"]
        named = len(set(names)) == len(names) <= LEVELS
        named = named and all(type(name) is str for name in names)
    possible = all(type(share) is float and 0 <= share <= 1 for share in shares)
    return named and possible and len(shares) == len(names) + 2 and abs(sum(shares) - 1) < 1e-6


def _number_bins(values: Any) -> dict[str, Any]:
    return _bins(to_numbers(values).to_numpy())


def _bins(values: Floats) -> dict[str, Any]:
    """Cut at the deciles; a value that is two deciles has a bin of its own."""
    known = values[~np.isnan(values)]
    edges: Floats = np.empty(0)
    if known.size:
        deciles = np.quantile(known, np.arange(1, BINS) / BINS, method="inverted_cdf")
        edges, times = np.unique(deciles, return_counts=True)
        below = np.nextafter(edges[times > 1], -np.inf)
        edges = np.union1d(edges, below[below >= known.min()])
        edges = edges[edges < known.max()]  # above the last edge there is something
    bins = {"edges": edges.tolist()}
    return {**bins, "shares": _shares(_counts(bins, values))}


def _category_bins(values: Any) -> dict[str, Any]:
    words = to_words(values)
    bins = {"levels": [str(word) for word in words.value_counts().index[:LEVELS]]}
    return {**bins, "shares": _shares(_counts(bins, words.to_numpy()))}


def _counts(bins: Mapping[str, Any], values: Any) -> Floats:
    """Return the number of values in each bin; missing values are the last one."""
    if "edges" in bins:
        missing = np.isnan(values)
        place = np.searchsorted(bins["edges"], values, side="left")  # a bin has its upper edge
        place[missing] = len(bins["edges"]) + 1
        return np.bincount(place, minlength=len(bins["edges"]) + 2).astype(np.float64)
    known = {word: k for k, word in enumerate(bins["levels"])}
    rest, missing = len(known), len(known) + 1
    place = np.array(
        [missing if word is None else known.get(word, rest) for word in values], dtype=np.int64
    )
    return np.bincount(place, minlength=len(known) + 2).astype(np.float64)


def _shares(counts: Floats) -> list[float]:
    return [float(share) for share in counts / max(counts.sum(), 1.0)]


def _shift(name: str, expected: Floats, rows: int, counts: Floats) -> Shift:
    """Compare the shares; half a row is added to each bin, so that none is empty."""
    used = (expected > 0) | (counts > 0)
    p, q = expected[used] * rows + 0.5, counts[used] + 0.5
    p, q = p / p.sum(), q / q.sum()
    index = float(np.sum((q - p) * np.log(q / p)))
    # For two samples of one distribution, PSI / (1/rows + 1/new rows) is nearly χ².
    noise = 0.0
    if used.sum() > 1:
        noise = float(chi2.ppf(NOISE_LEVEL, used.sum() - 1)) * (1 / rows + 1 / counts.sum())
    size = "small" if index < max(SMALL, noise) else "moderate" if index <= LARGE else "large"
    return Shift(name, index, noise, size)
