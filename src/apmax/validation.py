"""Input validation shared by the public functions.

Every function returns clean arrays and leaves its input unchanged.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apmax.errors import (
    FileError,
    LabelError,
    NonFiniteError,
    NoPositiveError,
    NotNumericError,
    ParameterError,
    ShapeError,
    WeightError,
)

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def check_scores(scores: ArrayLike, *, name: str = "scores") -> Floats:
    """Return one finite real number per example as a contiguous float64 vector."""
    raw = _as_vector(scores, name)
    example = "" if name == "sample_weight" else ", for example model.predict_proba(X)[:, 1]"
    if raw.dtype.kind not in "biuf":
        raise NotNumericError(
            f"`{name}` must be real numbers, got dtype {raw.dtype}: pass a float array{example}"
        )
    vector = kernel_view(np.ascontiguousarray(raw, dtype=np.float64))
    if raw.dtype.kind in "iu" and np.abs(vector).max() > 2.0**53:
        raise NotNumericError(
            f"`{name}` holds integers above 2⁵³, which doubles cannot represent: subtract a "
            "constant, or pass their ranks"
        )
    # A finite sum has finite terms; an infinite one may only have overflowed.
    with np.errstate(over="ignore", invalid="ignore"):
        finite_sum = math.isfinite(vector.sum())
    if not finite_sum and not np.isfinite(vector).all():
        bad = ~np.isfinite(vector)
        first = int(np.argmax(bad))
        raise NonFiniteError(
            f"`{name}` must be finite, got {vector[first]} at position {first} "
            f"({int(bad.sum())} of {vector.size} are NaN or infinite): drop or repair those rows"
        )
    return vector


def check_labels(
    y: ArrayLike, *, pos_label: Any = None, name: str = "y", remedy: str = "pass pos_label="
) -> Mask:
    """Return the mask of positives of labels in bool, {0, 1}, {-1, 1}, or with `pos_label`.

    `remedy` ends the messages about labels that do not say which class is positive.
    """
    raw = _as_vector(y, name)
    check_no_label_is_missing(raw, name)
    positive = plain_positives(raw) if pos_label is None else None
    if positive is None:
        positive = _positives_among(raw, pos_label, name, remedy)
    if not positive.any():
        wanted = 1 if pos_label is None else pos_label
        present = ", ".join(_shown(raw)[:5])
        raise NoPositiveError(
            f"`{name}` holds no positive example: no label equals {wanted!r} (labels are "
            f"{present}); check the labels or {remedy}"
        )
    return kernel_view(np.ascontiguousarray(positive, dtype=bool))


def kernel_view(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, or a view of a read-only one that Numba does not type as read-only.

    Read-only arrays have a type of their own, for which every kernel would compile again. Kernels
    never write to their inputs.
    """
    if array.flags.writeable:
        return array
    address, _ = array.__array_interface__["data"]
    return np.asarray(_Interface(array, {**array.__array_interface__, "data": (address, False)}))


class _Interface:
    def __init__(self, owner: NDArray[Any], interface: dict[str, Any]) -> None:
        self.owner = owner  # kept alive by the view
        self.__array_interface__ = interface


def check_same_length(**arrays: NDArray[Any]) -> None:
    """Check that all arrays have as many rows as the first."""
    (first, reference), *rest = arrays.items()
    for name, array in rest:
        if array.shape[0] != reference.shape[0]:
            raise ShapeError(
                f"`{first}` has {reference.shape[0]} elements and `{name}` has "
                f"{array.shape[0]}: pass one value per example in both"
            )


def check_weights(sample_weight: ArrayLike | None, positive: Mask) -> Floats | None:
    """Return non-negative weights with some weight on the positives; None stays None."""
    if sample_weight is None:
        return None
    weight = check_scores(sample_weight, name="sample_weight")
    check_same_length(y=positive, sample_weight=weight)
    if weight.min() < 0:
        first = int(np.argmax(weight < 0))
        raise WeightError(
            f"`sample_weight` must be ≥ 0, got {weight[first]} at position {first}: use 0 to leave "
            "an example out"
        )
    if not weight[positive].any():
        raise WeightError(
            "`sample_weight` is 0 for every positive example, so average precision is undefined: "
            "give at least one positive a positive weight"
        )
    largest, least = weight.max(), weight[weight > 0].min()
    if least < largest * 1e-100:
        raise WeightError(
            f"`sample_weight` ranges from {least:g} to {largest:g}, too wide for double precision: "
            "use 0 to leave examples out"
        )
    # Only ratios matter: scaling by a power of two is exact and keeps sums finite.
    _, exponent = np.frexp(largest)
    return np.ldexp(weight, -int(exponent))


def shares(weight: Floats | None, count: int) -> Floats:
    """Return weights that sum to 1; None gives equal weights."""
    return np.full(count, 1 / count) if weight is None else weight / weight.sum()


def check_real(
    value: float | None,
    name: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    why: str,
) -> float:
    """Return a finite number within its bounds; `why` completes the error message."""
    bounds = [f"> {above:g}"] if above is not None else []
    bounds += [f"≥ {at_least:g}"] if at_least is not None else []
    bounds += [f"≤ {at_most:g}"] if at_most is not None else []
    rule = " and ".join(["a finite number", *bounds])
    number = math.nan
    if isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_)):
        with contextlib.suppress(OverflowError):
            number = float(value)
    fits = (
        math.isfinite(number)
        and (above is None or number > above)
        and (at_least is None or number >= at_least)
        and (at_most is None or number <= at_most)
    )
    if not fits:
        raise ParameterError(f"`{name}` must be {rule}, got {value!r}: {why}")
    return number


def check_count(value: int, name: str, *, at_least: int = 1, why: str) -> int:
    """Return an integer no smaller than `at_least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < at_least:
        raise ParameterError(f"`{name}` must be an integer ≥ {at_least}, got {value!r}: {why}")
    return int(value)


def check_switch(value: bool, name: str) -> bool:
    """Return a bool; text is refused, since bool("no") is True."""
    if not isinstance(value, (bool, int, np.bool_, np.integer)) or value not in (0, 1):
        raise ParameterError(f"`{name}` must be True or False, got {value!r}")
    return bool(value)


def check_gamma(gamma: float) -> float:
    """Return γ > 0."""
    return check_real(
        gamma,
        "gamma",
        above=0,
        at_least=1e-150,
        at_most=1e150,
        why="it is the margin of the squared hinge or the slope of the logistic surrogate; "
        "start with 0.1 for squared_hinge and 20 to 40 for logistic on scores in [0, 1]",
    )


def check_path(path: str | os.PathLike[str]) -> Path:
    """Return the path if it names a regular file, or raise FileError."""
    file = Path(os.path.expanduser(path))
    try:
        exists, folder, regular = file.exists(), file.is_dir(), file.is_file()
    except (OSError, ValueError) as error:
        raise FileError(f"{str(path)!r} is not a valid path: {error}") from None
    if not exists:
        raise FileError(f"{file}: no such file; check the path, relative to {Path.cwd()}")
    if folder:
        raise FileError(f"{file} is a folder: give the path of one file")
    if not regular:
        raise FileError(f"{file} is not a regular file (a pipe or a device): save it as a file")
    return file


def _as_vector(values: ArrayLike, name: str) -> NDArray[Any]:
    array = _as_array(values, name)
    if array.dtype.kind == "O":  # nullable and mixed columns arrive as objects
        array = _numbers_or_objects(array)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ShapeError(
            f"`{name}` must be one-dimensional, got shape {array.shape}: pass one value per "
            "example, for example predict_proba(X)[:, 1]"
        )
    if array.size == 0:
        raise ShapeError(f"`{name}` is empty: pass one value per example")
    return array


def _as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # ragged, or a tensor with history
        raise ShapeError(
            f"`{name}` cannot be converted to an array ({error}): pass a flat list or a NumPy "
            "array; for a tensor, tensor.detach().cpu().numpy()"
        ) from None


def _numbers_or_objects(array: NDArray[Any]) -> NDArray[Any]:
    try:
        inferred = np.array(array.tolist())
    except ValueError:  # ragged
        return array
    return inferred if inferred.dtype.kind in "biuf" else array


def plain_positives(raw: NDArray[Any]) -> Mask | None:
    """Return the positives of bool, {0, 1} and {-1, 1} labels; None for any others."""
    if raw.dtype.kind == "b":
        return raw
    if raw.dtype.kind not in "iuf":
        return None
    positive = np.asarray(raw == 1, dtype=bool)
    negatives_zero = np.count_nonzero(raw == 0)
    rest = raw.size - np.count_nonzero(positive) - negatives_zero
    if rest == 0:
        return positive
    if negatives_zero == 0 and np.count_nonzero(raw == -1) == rest:
        return positive
    return None


def check_no_label_is_missing(raw: NDArray[Any], name: str) -> None:
    """Refuse labels that are NaN, None or otherwise missing."""
    if raw.dtype.kind == "f":
        missing = np.isnan(raw)
    elif raw.dtype.kind == "O":  # None, NaN, and what is neither equal to itself nor not
        missing = np.array([_is_missing(one) for one in raw])
    else:
        return
    if missing.any():
        raise LabelError(
            f"`{name}` has {int(missing.sum())} missing labels (NaN or None), the first at "
            f"position {int(np.argmax(missing))}: drop these rows"
        )


def _is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN, NaT or otherwise not equal to itself."""
    try:
        return label is None or not bool(label == label)  # noqa: PLR0124
    except (TypeError, ValueError):  # pandas.NA
        return True


def _shown(raw: NDArray[Any]) -> list[str]:
    """Return the distinct labels as text."""
    try:
        classes = np.unique(raw).tolist()
    except TypeError:
        classes = sorted(set(raw.tolist()), key=str)
    return [repr(one) for one in classes]


def _positives_among(raw: NDArray[Any], pos_label: Any, name: str, remedy: str) -> Mask:
    """Return the positives by `pos_label`, or raise if that is not possible."""
    classes = _shown(raw)
    shown = ", ".join(classes[:5]) + (", …" if len(classes) > 5 else "")
    if len(classes) > 2:
        raise LabelError(
            f"`{name}` holds {len(classes)} classes ({shown}), but average precision needs two: if "
            "these are scores, swap the arguments; otherwise pass y == label"
        )
    if pos_label is None:
        raise LabelError(
            f"`{name}` holds {shown}, which does not say which class is positive: {remedy}"
        )
    if np.ndim(pos_label) != 0:
        raise LabelError(f"`pos_label` must be one label, got {pos_label!r}: one of {shown}")
    return np.asarray(raw == pos_label, dtype=bool)
