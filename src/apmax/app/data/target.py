"""Which column is the target, and which of its two values is positive."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apmax.errors import LabelError, NoPositiveError, ParameterError, UnknownNameError
from apmax.validation import Mask

SHOWN = 10
"""Labels listed in a message before it says how many more there are."""


class Labels(NamedTuple):
    """The mask of positives, what both values were called, and how often each value is there."""

    y: Mask
    positive: Any
    negative: Any
    counts: dict[Any, int]


def find_column(names: list[str], target: str | int) -> str:
    """The name of the target: a name, "last", or a number counted from 1 (also as text)."""
    if isinstance(target, str):
        if f"{target} (2)" in names and target in names:
            raise ParameterError(
                f"`target` = {target!r} is the name of more than one column: say which by its "
                f"number, from 1 to {len(names)}"
            )
        if target in names:
            return target
        if target == "last":
            return names[-1]
        if target.lstrip("-").isdecimal():
            target = int(target)
    if isinstance(target, (int, np.integer)) and not isinstance(target, bool):
        if 1 <= target <= len(names):
            return names[int(target) - 1]
        raise ParameterError(
            f"`target` = {target} is no column: they are counted from 1 to {len(names)}; give a "
            'name, a number or "last"'
        )
    near = difflib.get_close_matches(str(target), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    raise UnknownNameError(
        f'`target` = {target!r} is no column: {hint}choose "last", a number from 1 to '
        f"{len(names)}, or one of {', '.join(map(repr, names[:SHOWN]))}{more}"
    )


def two_classes(
    values: NDArray[Any], positive: Any, name: str, *, against_rest: bool = False
) -> Labels:
    """Labels as a mask; the positive value is `positive`, or the rarer one if that is None.

    There must be two values, unless the positive one stands `against_rest`, whatever that is.
    """
    missing = _missing(values)
    if missing.any():
        raise LabelError(
            f"{name} is missing in {int(missing.sum())} of {values.size} rows, first in row "
            f"{int(np.argmax(missing)) + 1}: drop these rows, or fill in their labels"
        )
    try:
        counts = _counted(values)
    except TypeError:
        raise LabelError(
            f"{name} holds lists or records, which are no labels: is it the right column?"
        ) from None
    if len(counts) < 2 or (len(counts) > 2 and not against_rest):
        rest = " If so, find one of them among all others: --positive VALUE --rest"
        raise LabelError(
            f"{name} holds {len(counts)} value{'s' * (len(counts) != 1)}, and a classifier needs "
            f"two: {listed(counts)}; is it the right column?{rest if len(counts) > 2 else ''}"
        )
    # Of equally many, the one that sorts last: 1 rather than 0, "yes" rather than "no".
    rarer = min(reversed(counts), key=lambda label: counts[label])
    chosen = rarer if positive is None else _choose(counts, positive, name)
    other = next(label for label in counts if label != chosen)
    if against_rest:
        _check_spelled_once(counts, chosen, name)
        other = rest_of(chosen)
    return Labels(np.asarray(values == chosen, dtype=bool), chosen, other, counts)


def check_positive_given(positive: Any, against_rest: bool) -> None:
    """Before a file is read: of many values, which is the one?"""
    if against_rest and positive is None:
        raise ParameterError(
            "--rest (`against_rest`) finds one value among all others: say which with --positive "
            "VALUE (`positive`)"
        )


def rest_of(positive: Any) -> str:
    """What all other values are called together."""
    return f"not {positive}"


def same_label(one: Any, other: Any) -> bool:
    """Whether two labels are one, spelled a bit otherwise.

    Case, blanks and a full stop at the end do not tell labels apart: a test file may have
    ">50K." where the training file has ">50K", or 1 where that has True.
    """
    return spelled(one) == spelled(other)


def _missing(values: NDArray[Any]) -> Mask:
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values), dtype=bool)
    if values.dtype.kind == "O":  # a table's column: None, NaN or pandas.NA
        # Only a missing value is unequal to itself, or will not say.
        return np.array([one is None or (one == one) is not True for one in values], bool)  # noqa: PLR0124
    return np.zeros(values.size, bool)


def _counted(values: NDArray[Any]) -> dict[Any, int]:
    """Each label with its count, sorted."""
    try:
        labels, counts = np.unique(values, return_counts=True)
        return dict(zip(labels.tolist(), counts.tolist(), strict=True))
    except TypeError:  # numbers and text in one column
        found: dict[Any, int] = {}
        for value in values.tolist():
            found[value] = found.get(value, 0) + 1
        return dict(sorted(found.items(), key=lambda item: str(item[0])))


def _choose(counts: dict[Any, int], positive: Any, name: str) -> Any:
    """The label that equals `positive`, or else is written or spelled like it."""
    for same in (_equal, _written_alike, same_label):
        found = [label for label in counts if same(label, positive)]
        if len(found) == 1:
            return found[0]
        if found:
            raise LabelError(
                f"{name} has the labels {', '.join(map(repr, found))}, and which of them is "
                f"{positive!r} is not clear; spell it as the file does, with --positive"
            )
    near = difflib.get_close_matches(str(positive), map(str, counts), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise NoPositiveError(
        f"`positive` = {positive!r} is no value of {name}: {hint}it has {listed(counts)}"
    )


def _check_spelled_once(counts: dict[Any, int], chosen: Any, name: str) -> None:
    """All others are negative, so none of them may be the positive one in other letters."""
    alike = [label for label in counts if same_label(label, chosen) and label != chosen]
    if alike:
        raise LabelError(
            f"{name} has {chosen!r} and {', '.join(map(repr, alike))}, which would count as the "
            "rest: spell them as one, or tell them apart by more than case, blanks and a full stop"
        )


def listed(counts: Mapping[Any, int]) -> str:
    """The first labels with how often they are there, and how many more there are."""
    told = [f"{label!r} ({count})" for label, count in list(counts.items())[:SHOWN]]
    more = f" and {len(counts) - SHOWN} more" if len(counts) > SHOWN else ""
    return ", ".join(told) + more


def _equal(label: Any, positive: Any) -> bool:
    return bool(type(label) is type(positive) and label == positive)


def _written_alike(label: Any, positive: Any) -> bool:
    return str(label) == str(positive)


def spelled(label: Any) -> str:
    """What is the same of all ways to write a label."""
    text = str(label).strip().rstrip(".").casefold()
    text = {"true": "1", "false": "0"}.get(text, text)
    try:
        return str(float(text))  # 1, 1.0, +1 and True are one label
    except ValueError:
        return text
