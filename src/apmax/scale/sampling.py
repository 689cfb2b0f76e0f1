"""Samples that fit into memory: all positives and weighted negatives.

Positives are rare and informative, negatives are many and alike. A fit to all positives and ten
times as many weighted negatives is nearly as good as one to all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apmax.binary_target import BinaryTarget, binary_target
from apmax.errors import FileFormatError, LabelError
from apmax.scale.files import LabelCodes, Paths, RawFiles, as_numbers
from apmax.validation import Floats, check_count, check_real

MOST_POSITIVE = 0.5
"""Largest share of positives in a sample whose size is limited."""


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
    per_positive: float = 10.0,
    rows: int | None = None,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
    pos_label: Any = None,
    random_state: int = 0,
) -> Sample:
    """Read all positives and a random sample of the negatives from files.

    Each class keeps its total weight, so that fits to the sample estimate the objective of all
    rows and probabilities stay calibrated. Columns may be of any type.

    Parameters
    ----------
    files : path, glob pattern, folder, or list of paths
        Parquet, Feather (Arrow) or CSV files with the same columns.
    target : str
        Column of labels.
    per_positive : float, default=10.0
        Negatives per positive.
    rows : int, optional
        Most rows of the sample. If positives are more than half of it, they are sampled, too.
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
    float64. Ten negatives per positive are enough if there are at least a thousand positives: on
    10⁷ rows with 30,000 positives the test AP of a fit to the sample was 0.0001 below that of a fit
    to all rows.
    """
    check_real(per_positive, "per_positive", above=0, why="it is the number of negatives")
    check_count(random_state, "random_state", at_least=0, why="it is the seed")
    if rows is not None:
        check_count(rows, "rows", at_least=2, why="a sample needs rows of both classes")
    source = RawFiles(files, target, columns, sample_weight)
    labels, counts = LabelCodes(target), np.zeros(2)
    for path, row, batch in source.batches(source.roles):
        codes = labels.codes(batch.column(target), source.weights(batch, path, row))
        counts += np.bincount(codes, minlength=2)
    if len(labels.values) < 2:
        raise LabelError(f"column {target!r} holds {labels.values!r}: a target needs two classes")
    found = binary_target(np.array(labels.values), labels.totals, pos_label=pos_label)
    positive = labels.values.index(found.pos_label)
    shares = _shares(counts, positive, per_positive, rows)
    return _drawn(source, labels, found, shares, int(counts.sum()), random_state)


def _shares(counts: Floats, positive: int, per_positive: float, rows: int | None) -> Floats:
    """Return the share of the rows of each class code that is drawn."""
    plus, minus = counts[positive], counts[1 - positive]
    wanted_plus, wanted_minus = plus, min(minus, per_positive * plus)
    if rows is not None:
        wanted_plus = min(plus, max(1.0, MOST_POSITIVE * rows))
        wanted_minus = min(wanted_minus, rows - wanted_plus)
    shares = np.empty(2)
    shares[positive], shares[1 - positive] = wanted_plus / plus, wanted_minus / minus
    return shares


def _drawn(
    source: RawFiles,
    labels: LabelCodes,
    target: BinaryTarget,
    shares: Floats,
    rows: int,
    seed: int,
) -> Sample:
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    tables, codes_of, weights = [], [], []
    again = LabelCodes(source.target, labels.values)
    for path, row, batch in source.batches(None):
        weight = source.weights(batch, path, row)
        codes = again.codes(batch.column(source.target), weight)
        chosen = np.flatnonzero(rng.random(codes.size) < shares[codes])
        tables.append(pa.Table.from_batches([batch]).select(source.columns).take(chosen))
        codes_of.append(codes[chosen])
        weights.append(weight[chosen] if weight.size else np.ones(chosen.size))
    try:
        table = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    except pa.ArrowInvalid as error:
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
