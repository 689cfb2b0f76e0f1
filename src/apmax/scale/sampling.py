"""Samples that fit into memory: all positives and weighted negatives.

Positives are rare and informative, negatives are many and alike. With enough of them, a fit to all
positives and weighted negatives is nearly as good as one to all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apmax.binary_target import binary_target
from apmax.errors import FileFormatError, LabelError
from apmax.memory import rows_for_training
from apmax.scale.arrow_errors import DAMAGED, file_errors
from apmax.scale.files import LabelCodes, Paths, RawFiles, as_numbers
from apmax.validation import Floats, check_count, check_real

MOST_POSITIVE = 0.5
"""Largest share of positives in a sample whose size is limited."""
NEGATIVES_PER_POSITIVE, LEAST_NEGATIVES = 10, 200_000
MOST_HYPERGEOMETRIC = 10**9
"""Limit of NumPy's hypergeometric distribution."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of files with weights that represent all rows."""

    table: Any
    """Columns of features, a `pyarrow.Table`; ``table.to_pandas()`` makes a DataFrame."""
    y: NDArray[Any]
    """Labels."""
    sample_weight: Floats
    """How many rows each row stands for, times its weight."""
    rows: int
    """Number of rows of the files."""

    @property
    def X(self) -> Floats:
        """Features as one array; all columns must be numbers."""
        columns = [as_numbers(self.table, name) for name in self.table.column_names]
        return np.ascontiguousarray(np.column_stack(columns), dtype=np.float64)


def sample_negatives(
    files: Paths,
    target: str,
    *,
    per_positive: float | None = None,
    rows: int | str | None = None,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
    pos_label: Any = None,
    random_state: int = 0,
) -> Sample:
    r"""Read all positives and a random sample of the negatives from files.

    Each class keeps its total weight, so that fits to the sample estimate the objective of all
    rows and probabilities stay calibrated. Columns may be of any type.

    Parameters
    ----------
    files : path, glob pattern, folder, or list of paths
        Parquet, Feather (Arrow) or CSV files with the same columns.
    target : str
        Column of labels.
    per_positive : float, optional
        Negatives per positive. The default is as many as `rows` allows; without `rows` it is 10,
        and at least 200,000 negatives in all.
    rows : int or "memory", optional
        Most rows of the sample. If positives are more than half of it, they are sampled, too.
        "memory" is what training of :class:`apmax.AutoAPClassifier` has memory for: half of the
        memory, or the amount in the environment variable ``APMAX_MEMORY``, such as ``8GB``.
    columns : list of str, optional
        Columns of features; the default is all others.
    sample_weight : str, optional
        Column of non-negative weights.
    pos_label : optional
        The positive class; the default is the last in sorted order.
    random_state : int, default=0
        Seed.

    Returns
    -------
    Sample
        With attributes `table`, `X`, `y`, `sample_weight` and `rows`.

    Notes
    -----
    The files are read twice; the first pass reads labels only. Integers of CSV files are read as
    float64. A sample is enough if negatives near the top of the ranking are many in it. With fewer
    than 5,000 positives, prefer a fit to all rows.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from apmax.scale import sample_negatives
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "rows.csv"
    >>> rows = "".join(f"{k},{int(k >= 98)}\n" for k in range(100))
    >>> _ = path.write_text("amount,fraud\n" + rows)
    >>> sample = sample_negatives(path, "fraud", per_positive=3)
    >>> len(sample.y), sample.y.sum().item(), round(sample.sample_weight.sum())
    (8, 2, 100)
    >>> folder.cleanup()
    """
    source = RawFiles(files, target, columns, sample_weight)
    return sample_of(
        source,
        per_positive=per_positive,
        rows=rows,
        pos_label=pos_label,
        random_state=random_state,
        stacklevel=3,
    )


def sample_of(
    source: RawFiles,
    *,
    per_positive: float | None = None,
    rows: int | str | None = None,
    pos_label: Any = None,
    random_state: int = 0,
    stacklevel: int = 2,
) -> Sample:
    """Return a sample of files; :func:`sample_negatives` describes it.

    `stacklevel` is that of the user's code, for the warning of a frequent positive class.
    """
    if per_positive is not None:
        check_real(per_positive, "per_positive", above=0, why="it is the number of negatives")
    check_count(random_state, "random_state", at_least=0, why="it is the seed")
    most = None
    if rows is not None and rows != "memory":
        why = "a sample needs rows of both classes; or 'memory'"
        most = check_count(rows, "rows", at_least=2, why=why)  # type: ignore[arg-type]
    if rows == "memory":
        most = rows_for_training(len(source.columns))
    labels, counts = LabelCodes(source.target), np.zeros(2)
    for path, row, batch in source.batches(source.roles):
        codes = labels.codes(batch.column(source.target), source.weights(batch, path, row))
        counts += np.bincount(codes, minlength=2)
    if len(labels.values) < 2:
        raise LabelError(
            f"column {source.target!r} holds {labels.values!r}: a target needs two classes"
        )
    found = binary_target(
        np.array(labels.values), labels.totals, pos_label=pos_label, stacklevel=stacklevel + 1
    )
    positive = labels.values.index(found.pos_label)
    minus = np.inf if per_positive is None else per_positive * counts[positive]
    if per_positive is None and most is None:
        minus = max(NEGATIVES_PER_POSITIVE * counts[positive], LEAST_NEGATIVES)
    sizes = sizes_of_classes(counts, positive, minus, most)
    draw = ClassDraw(counts, sizes, random_state)
    return _drawn(source, labels, draw, int(counts.sum()))


def sizes_of_classes(of_classes: Floats, positive: int, minus: float, rows: int | None) -> Floats:
    """Return how many rows of each class code are drawn.

    Parameters
    ----------
    of_classes : ndarray of shape (2,)
        Number of rows of each class.
    positive : int
        Code of the positive class.
    minus : float
        Most negatives.
    rows : int, optional
        Most rows.
    """
    sizes = of_classes.copy()
    sizes[1 - positive] = min(of_classes[1 - positive], max(1.0, np.floor(minus)))
    if rows is not None:
        sizes[positive] = min(of_classes[positive], max(1, int(MOST_POSITIVE * rows)))
        sizes[1 - positive] = min(sizes[1 - positive], rows - sizes[positive])
    return sizes


class ClassDraw:
    """A random sample of given size from each class, drawn while the rows are read.

    Parameters
    ----------
    of_classes, sizes : ndarray of shape (2,)
        Numbers of rows that will be read, and that are to be drawn.
    seed : int
        Seed.
    """

    def __init__(self, of_classes: Floats, sizes: Floats, seed: int) -> None:
        self.left, self.wanted = of_classes.astype(np.int64), sizes.astype(np.int64)
        self.rng = np.random.default_rng(seed)

    def rows(self, codes: NDArray[Any]) -> NDArray[np.intp]:
        """Return which of the next rows are drawn, by their class codes."""
        drawn = []
        for code in range(2):
            members = np.flatnonzero(codes == code)
            left, wanted = int(self.left[code]), int(self.wanted[code])
            if left < MOST_HYPERGEOMETRIC:
                count = int(self.rng.hypergeometric(wanted, left - wanted, members.size))
            else:  # few of so many
                count = min(wanted, int(self.rng.binomial(members.size, wanted / left)))
            drawn.append(self.rng.choice(members, count, replace=False))
            self.left[code] -= members.size
            self.wanted[code] -= count
        return np.sort(np.concatenate(drawn))


def _drawn(source: RawFiles, labels: LabelCodes, draw: ClassDraw, rows: int) -> Sample:
    import pyarrow as pa

    tables, codes_of, weights = [], [], []
    again = LabelCodes(source.target, labels.values)
    for path, row, batch in source.batches(None):
        weight = source.weights(batch, path, row)
        codes = again.codes(batch.column(source.target), weight)
        chosen = draw.rows(codes)
        with file_errors(path, DAMAGED):
            tables.append(pa.Table.from_batches([batch]).select(source.columns).take(chosen))
        codes_of.append(codes[chosen])
        weights.append(weight[chosen] if weight.size else np.ones(chosen.size))
    try:
        table = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    except pa.ArrowException as error:
        raise FileFormatError(f"columns differ between files ({error}): convert them") from None
    codes, weight = np.concatenate(codes_of), np.concatenate(weights)
    for code, total in enumerate(labels.totals):
        of_class = codes == code
        if not weight[of_class].any():
            raise LabelError(
                f"the sample holds no weight of class {labels.values[code]!r}: increase rows or "
                "per_positive"
            )
        weight[of_class] *= total / weight[of_class].sum()
    return Sample(table, np.array(labels.values)[codes], weight, rows)
