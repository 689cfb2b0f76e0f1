"""How new data differ from the training data: unusable columns, and shifts of distributions.

A shift is measured by the population stability index, PSI = Σ (q − p) ln(q / p) over bins with
the shares p in training and q in the new data. Common limits are 0.1 (moderate) and 0.25 (large).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from apmax.app.column_values import (
    CATEGORY,
    DATE,
    MAX_LEVELS,
    NUMBER,
    means_missing,
    to_numbers,
    to_words,
)
from apmax.app.features import TablePreprocessor
from apmax.errors import ModelFileError
from apmax.tabular.columns import MISSING
from apmax.validation import Floats, check_same_length, check_scores

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
FALSE_ALARMS = 0.01
"""Probability that any shift of two samples of one distribution exceeds its noise."""
MAX_NOTED, MAX_SHOWN = 5, 40
"""Shifts or categories that a note names, and characters of a value that it shows."""
MIN_EMPTY = 0.05
"""Least share of missing values in a column that is assumed when new rows are all missing."""
MIN_NEW = 0.5
"""Least share of new categories in a column that is assumed when those of new rows are all new."""
FEW_VALUES = 0.5
"""Share of distinct values up to which predicted probabilities are few."""
SCORE = "predicted probability"
"""Name of the shift of the model's output."""


class DriftWarning(UserWarning):
    """New data differ from the training data of a model.

    Issued by the predictions of a :class:`ModelPipeline`, once per column.
    """


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


class Difference(NamedTuple):
    """How a column of new data differs from the training table."""

    text: str
    lost: bool
    """Whether the column had values in training and has none, or none that the model knows."""


def differences(
    encoder: TablePreprocessor, frame: Any, known: Mapping[str, Any] | None = None
) -> list[Difference]:
    """Describe the columns of new data that differ from the training table.

    Reported are columns that are empty but hardly ever were in training, values that are not
    numbers or dates as in training, and mostly new categories. `known` is the `profile` of the
    training data, which tells how often a column was missing. A column of a single row, or one that
    was often missing in training, may be empty by chance and is not lost. Neither is a column whose
    categories are all new if these are few rows, or if training had categories that are rare.
    """
    encoder.check_columns(frame)
    frame = frame.rename(columns=str)
    found: list[Difference] = []
    for name, kind in encoder.kinds_.items() if len(frame) else ():
        values = frame[name].dropna()
        if kind == NUMBER:
            values = values[encoder.read(name, values).notna() | ~means_missing(values)]
        if not len(values):
            had = 1 - _missing_share(encoder, name, known)
            by_chance = max(1 - had, MIN_EMPTY) ** len(frame)
            if had == 1 or by_chance <= FALSE_ALARMS:
                rows = "every row" if had == 1 else f"{math.floor(1000 * had) / 10:g} % of the rows"
                text = f"{name!r} is empty, but had values in {rows} in training"
                found.append(Difference(text, by_chance <= FALSE_ALARMS))
        elif kind == CATEGORY:
            found += _new_categories(encoder, name, values)
        else:
            by_chance = MIN_EMPTY ** len(values)
            lost = by_chance <= FALSE_ALARMS and not encoder.read(name, values).notna().any()
            found += [Difference(text, lost) for text in _unreadable(encoder, name, values)]
    return found


def _missing_share(encoder: TablePreprocessor, name: str, known: Mapping[str, Any] | None) -> float:
    """Return the share of missing values of a column in training; 1 if it is not known."""
    if name in encoder.complete_:
        return 0.0
    stored = {} if known is None else known["columns"]
    return float(stored[name]["shares"][-1]) if name in stored else 1.0


def _unreadable(encoder: TablePreprocessor, name: str, known: Any) -> list[str]:
    bad = known[encoder.read(name, known).isna()]
    expected = "not a number"
    if encoder.kinds_[name] == DATE:
        expected = f"not dates like {encoder.date_formats_[name]}"
    return [_describe(name, bad, known, expected, "count as missing")] if len(bad) else []


def _new_categories(encoder: TablePreprocessor, name: str, known: Any) -> list[Difference]:
    kept, rare = encoder.categories(name)
    new = known[~encoder.read(name, known).isin([*kept, *rare])]
    if len(rare) > len(kept) or len(new) <= MAX_NEW_CATEGORIES * len(known):
        return []
    trained = [repr(word[:MAX_SHOWN]) for word in kept if word != MISSING]
    more = ", …" if len(trained) > MAX_NOTED else ""
    had = f"; training had {', '.join(trained[:MAX_NOTED])}{more}" if trained else ""
    few = MIN_NEW ** len(new) > FALSE_ALARMS
    if len(new) < len(known) or few or rare - {MISSING}:
        text = _describe(name, new, known, "new categories", "are ignored", had)
        return [Difference(text, False)]
    first = repr(str(new.iloc[0])[:MAX_SHOWN])
    text = f"none of the {len(new):,} values occurred in training (first {first}{had})"
    return [Difference(f"{name!r}: {text}", True)]


def _describe(name: str, bad: Any, known: Any, problem: str, use: str, had: str = "") -> str:
    count = f"{len(bad):,} of {len(known):,} values are {problem}"
    return f"{name!r}: {count} (first {str(bad.iloc[0])[:MAX_SHOWN]!r}{had}), and {use}"


class Shift(NamedTuple):
    """How far the distribution of one column moved; :func:`psi` returns it."""

    column: str
    """The column, or "predicted probability"."""
    psi: float
    """Population stability index; 0 if nothing changed."""
    noise: float
    """The PSI of all columns of two samples of one distribution is below it in 99 % of cases."""
    size: str
    """"small", "moderate" or "large"; small also if the PSI is within the noise."""


def profile(frame: Any, kinds: Mapping[str, str], probabilities: Floats) -> dict[str, Any]:
    """Return what `psi` needs to know of the training data.

    Parameters
    ----------
    frame : DataFrame or matrix
        The training data; of a matrix only the probabilities are described.
    kinds : mapping of str to str
        "number" or "category" for each column. Columns of kind "date" are left out, because new
        data are later than the training data in any case.
    probabilities : array-like of shape (n,)
        Predicted probabilities of the rows, best from cross-validation: those of rows that the
        model was fitted to are too extreme, unless many rows share one probability.

    Returns
    -------
    dict
        The number of rows, and bins with their shares, as plain data for a JSON file.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from apmax.app.drift import profile
    >>> frame = pd.DataFrame({"city": ["Rome", "Rome", "Oslo", None]})
    >>> known = profile(frame, {"city": "category"}, np.array([0.1, 0.1, 0.2, 0.4]))
    >>> known["columns"]["city"]  # the last two shares are of other categories and missing
    {'levels': ['Rome', 'Oslo'], 'shares': [0.5, 0.25, 0.0, 0.25]}
    """
    columns: dict[str, Any] = {}
    if hasattr(frame, "columns"):
        frame = frame.rename(columns=str)
        for name in [name for name, kind in kinds.items() if kind != DATE][:MAX_COLUMNS]:
            columns[name] = (
                _bins(to_numbers(frame[name]).to_numpy())
                if kinds[name] == NUMBER
                else _category_bins(to_words(frame[name]))
            )
    p = check_scores(probabilities, name="probabilities")
    return {"rows": int(p.size), "columns": columns, "probability": _bins(p)}


def has_few_values(probabilities: Floats) -> bool:
    """Tell whether rows share their predicted probabilities, as in tables of a few codes.

    Cross-validation gives such rows several probabilities, slightly apart, and edges of bins
    between them would report a shift even of the training rows. Then a profile needs the
    probabilities of the model itself, which are not extreme, because each is of several rows.
    """
    return bool(np.unique(probabilities).size <= FEW_VALUES * np.size(probabilities))


def psi(profile: Mapping[str, Any], frame: Any, probabilities: Floats) -> list[Shift]:
    """Return the shift of the predicted probabilities and of each column, the largest first.

    Parameters
    ----------
    profile : mapping
        What :func:`profile` returned for the training data.
    frame : DataFrame or matrix
        New rows. Columns of the profile that they do not have are skipped.
    probabilities : array-like of shape (n,)
        Predicted probabilities of the new rows.

    Returns
    -------
    list of Shift
        That of the predicted probabilities, then those of the columns, the largest first.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from apmax.app.drift import profile, psi
    >>> rng = np.random.default_rng(0)
    >>> frame, p = pd.DataFrame({"amount": rng.normal(size=1000)}), rng.random(1000)
    >>> known = profile(frame, {"amount": "number"}, p)
    >>> for shift in psi(known, frame + 1, p):
    ...     print(f"{shift.column}: {shift.psi:.2f}, {shift.size}")
    predicted probability: 0.00, small
    amount: 0.99, large
    """
    p = check_scores(probabilities, name="probabilities")
    check_same_length(probabilities=p, frame=frame)
    counts = [(SCORE, profile["probability"], _counts(profile["probability"], p))]
    if hasattr(frame, "columns"):
        frame = frame.rename(columns=str)
        for name, stored in profile["columns"].items():
            if name in frame.columns:
                values = (to_numbers if "edges" in stored else to_words)(frame[name])
                counts.append((name, stored, _counts(stored, values)))
    level = 1 - FALSE_ALARMS / len(counts)
    score, *found = (
        _shift(name, np.array(stored["shares"]), profile["rows"], new, level)
        for name, stored, new in counts
    )
    return [score, *sorted(found, key=lambda shift: -shift.psi)]


def shift_note(shifts: Sequence[Shift]) -> str:
    """Name the moderate and large shifts, the largest first; "" if there are none."""
    notable = sorted((one for one in shifts if one.size != "small"), key=lambda one: -one.psi)
    if not notable:
        return ""
    named = [
        f"{one.column if one.column == SCORE else repr(one.column)} (PSI {one.psi:.2f}, {one.size})"
        for one in notable[:MAX_NOTED]
    ]
    more = f" and {len(notable) - MAX_NOTED} more" if len(notable) > MAX_NOTED else ""
    return f"shift since training: {', '.join(named)}{more}"


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
    if bins.keys() not in ({"edges", "shares"}, {"levels", "shares"}):
        return False
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


def _category_bins(words: Any) -> dict[str, Any]:
    bins = {"levels": [str(word) for word in words.value_counts().index[:LEVELS]]}
    return {**bins, "shares": _shares(_counts(bins, words))}


def _counts(bins: Mapping[str, Any], values: Any) -> Floats:
    """Return the number of values in each bin; missing values are the last one."""
    if "edges" in bins:
        values = np.asarray(values)
        missing = np.isnan(values)
        place = np.searchsorted(bins["edges"], values, side="left")  # a bin has its upper edge
        place[missing] = len(bins["edges"]) + 1
        return np.bincount(place, minlength=len(bins["edges"]) + 2).astype(np.float64)
    places = {word: k for k, word in enumerate(bins["levels"])}
    place = np.where(values.isna(), len(places) + 1, values.map(places).fillna(len(places)))
    return np.bincount(place.astype(np.int64), minlength=len(places) + 2).astype(np.float64)


def _shares(counts: Floats) -> list[float]:
    return [float(share) for share in counts / max(counts.sum(), 1.0)]


def _shift(name: str, expected: Floats, rows: int, counts: Floats, level: float) -> Shift:
    """Compare the shares; half a row is added to each bin, so that none is empty."""
    used = (expected > 0) | (counts > 0)
    p, q = expected[used] * rows + 0.5, counts[used] + 0.5
    p, q = p / p.sum(), q / q.sum()
    index = float(np.sum((q - p) * np.log(q / p)))
    # For two samples of one distribution, PSI / (1/rows + 1/new rows) is nearly χ².
    noise = 0.0
    if used.sum() > 1:
        noise = float(chi2.ppf(level, used.sum() - 1)) * (1 / rows + 1 / counts.sum())
    size = "small" if index < max(SMALL, noise) else "moderate" if index <= LARGE else "large"
    return Shift(name, index, noise, size)
