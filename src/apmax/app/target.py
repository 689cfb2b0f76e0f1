"""Choose the target column and the positive label."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax.errors import LabelError, NoPositiveError, ParameterError, UnknownNameError
from apmax.validation import Mask

MAX_LISTED = 10
"""Labels or columns listed in a message."""


class Labels(NamedTuple):
    """The mask of positives, the two labels, and the number of rows per label."""

    y: Mask
    positive: Any
    negative: Any
    counts: dict[Any, int]


def find_column(names: list[str], given: str | int | bool, *, option: str = "--target") -> str:
    """Return the name of the column given by name, as "last", or by number from 1."""
    if isinstance(given, str):
        if given in names and f"{given} (2)" in names:
            raise ParameterError(
                f"{option} = {given!r} is the name of more than one column: give its number, from "
                f"1 to {len(names)}"
            )
        if given in names:
            return given
        if given == "last":
            return names[-1]
    if str(given).lstrip("+-").isdecimal():
        if 1 <= int(given) <= len(names):
            return names[int(given) - 1]
        raise ParameterError(
            f"{option} = {given} is not a column: columns are counted from 1 to {len(names)}"
        )
    folded = {name.casefold(): name for name in reversed(names)}
    near = difflib.get_close_matches(str(given).casefold(), folded, n=1, cutoff=0.5)
    hint = f"did you mean {folded[near[0]]!r}? " if near else ""
    raise UnknownNameError(
        f'{option} = {given!r} is not a column: {hint}choose "last", a number from 1 to '
        f"{len(names)}, or one of {listed(map(repr, names))}"
    )


def listed(items: Iterable[str]) -> str:
    """Join the first items, and add the number of further ones."""
    every = list(items)
    more = f" and {len(every) - MAX_LISTED} more" if len(every) > MAX_LISTED else ""
    return ", ".join(every[:MAX_LISTED]) + more


def two_classes(
    values: NDArray[Any],
    positive: Any,
    name: str,
    *,
    against_rest: bool = False,
    trained_on: tuple[str, str] | None = None,
) -> Labels:
    """Turn a column of labels into a mask of positives; None means the rarer label.

    There must be one other label, or with `against_rest` any number. Messages use `name`, and the
    labels that a model was trained on.
    """
    import pandas as pd

    missing = pd.isna(values)
    if missing.any():
        raise LabelError(
            f"{name} is missing in {int(missing.sum())} of {values.size} rows, first in row "
            f"{int(np.argmax(missing)) + 1}: drop these rows with --drop-unlabelled, or fill in "
            "their labels"
        )
    try:
        counts = _count(values)
    except TypeError:
        raise LabelError(
            f"{name} contains lists or records instead of labels: is it the right column?"
        ) from None
    if not against_rest:
        _check_spelling(counts, name)
    if trained_on is not None:
        _check_known(counts, positive, name, against_rest, trained_on)
    if len(counts) < 2 or (len(counts) > 2 and not against_rest):
        rest = " To find one value among all others, use --positive VALUE --rest"
        raise LabelError(
            f"{name} has {len(counts)} value{'s' * (len(counts) != 1)}, a classifier needs two: "
            f"{_describe(counts)}. Is it the right column?{rest if len(counts) > 2 else ''}"
        )
    # Of equally frequent labels, the one that sorts last: 1 rather than 0, "yes" rather than "no".
    rarer = min(reversed(counts), key=lambda label: counts[label])
    chosen = rarer if positive is None else _choose(counts, positive, name)
    other = next(label for label in counts if label != chosen)
    if against_rest:
        alike = [label for label in counts if same_label(label, chosen) and label != chosen]
        if alike:
            raise LabelError(
                f"{name} has {chosen!r} and {', '.join(map(repr, alike))}, which would count as "
                "negative: use one spelling for the positive label"
            )
        other = f"not {chosen}"
    return Labels(np.asarray(values == chosen, dtype=bool), chosen, other, counts)


def same_label(one: Any, other: Any) -> bool:
    """Tell whether two labels are spellings of one: case, blanks and a final full stop aside."""
    return _normalize(one) == _normalize(other)


def _normalize(label: Any) -> str:
    """Return the common form of all spellings of a label; 1, 1.0, +1 and True are one."""
    text = str(label).strip().rstrip(".").casefold()
    text = {"true": "1", "false": "0"}.get(text, text)
    try:
        return str(float(text))
    except ValueError:
        return text


def _check_spelling(counts: dict[Any, int], name: str) -> None:
    """Raise LabelError for more than two labels that are spellings of two."""
    spellings: dict[str, list[Any]] = {}
    for label in counts:
        spellings.setdefault(_normalize(label), []).append(label)
    if len(counts) <= 2 or len(spellings) != 2:
        return
    several = [labels for labels in spellings.values() if len(labels) > 1]
    cases = {str(label).casefold() for labels in several for label in labels}
    how = "case" if len(cases) == len(several) else "spelling"
    listing = ", ".join(" and ".join(map(repr, labels)) for labels in several)
    raise LabelError(f"{name}: {listing} differ only in {how}: use one spelling")


def _check_known(
    counts: dict[Any, int],
    positive: Any,
    name: str,
    against_rest: bool,
    trained_on: tuple[str, str],
) -> None:
    """Raise LabelError unless labels of new data can be compared with those of a model."""
    found, others = any(same_label(label, positive) for label in counts), len(counts) > 2
    if len(counts) < 2:
        advice = "use rows of both labels, or `apmax predict`, which needs none"
    elif others and not against_rest:
        label = "" if found else "--positive VALUE "
        advice = f"add {label}--rest to count all other labels as negative, or remove these rows"
    elif not found:
        advice = f"name the label that means {trained_on[0]!r} here with --positive"
    else:
        return
    raise LabelError(
        f"{name} has {_describe(counts)}, and the model was trained to tell {trained_on[0]!r} from "
        f"{trained_on[1]!r}: {advice}"
    )


def _describe(counts: dict[Any, int]) -> str:
    return listed(f"{label!r} ({count})" for label, count in counts.items())


def _count(values: NDArray[Any]) -> dict[Any, int]:
    """Count the labels, in rising order; as text if numbers and text are mixed."""
    counts = Counter(values.tolist())
    try:
        return dict(sorted(counts.items()))
    except TypeError:
        return dict(sorted(counts.items(), key=lambda item: str(item[0])))


def _choose(counts: dict[Any, int], positive: Any, name: str) -> Any:
    """Return the label that equals `positive`, or else the only one spelled like it."""
    exact = [label for label in counts if str(label) == str(positive)]
    found = exact or [label for label in counts if same_label(label, positive)]
    if len(found) == 1:
        return found[0]
    if found:
        raise LabelError(
            f"{name} has the labels {', '.join(map(repr, found))}, and it is not clear which one "
            f"{positive!r} means: spell it as in the file"
        )
    near = difflib.get_close_matches(str(positive), map(str, counts), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise NoPositiveError(
        f"--positive = {positive!r} is not a value of {name}: {hint}it has {_describe(counts)}"
    )
