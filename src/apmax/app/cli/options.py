"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apmax.errors import ParameterError

if TYPE_CHECKING:
    from apmax.app.data.files import Dataset

Data = Annotated[Path, typer.Argument(help="LIBSVM, CSV, TSV, Parquet or NPZ; also .gz .bz2 .xz")]
Target = Annotated[
    str | None,
    typer.Option(help='Column to predict: a name, a number from 1, or "last". LIBSVM has its own.'),
]
Positive = Annotated[
    str | None, typer.Option(help="Value of the target to find; the rarer one if not given.")
]
Rest = Annotated[
    bool, typer.Option("--rest", help="Find --positive among all other values of the target.")
]
ModelFile = Annotated[Path, typer.Argument(help="A model that `apmax train` wrote.")]
ReportFile = Annotated[
    Path | None, typer.Option("--report", help="Write a self-contained HTML report here.")
]
Seed = Annotated[int, typer.Option(help="Of the draws and of the held-out part.")]


def check_target(dataset: Dataset) -> None:
    """A table needs --target; say which columns there are."""
    if dataset.y is not None:
        return
    if dataset.names is None:
        raise ParameterError(f"{dataset.source} holds no labels: store them with X, as the array y")
    some = list(map(str, dataset.names))[:8]
    names = ", ".join([*some, "…"] if len(dataset.names) > len(some) else some)
    raise ParameterError(
        f"which column is the target? Use --target NAME (here: {names}), --target last or a number"
    )
