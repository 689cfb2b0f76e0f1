"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apmax.errors import ParameterError, UnknownNameError

if TYPE_CHECKING:
    from apmax.app.io import Dataset
    from apmax.app.model import Model

Data = Annotated[
    Path,
    typer.Argument(help="CSV, TSV, Parquet, Feather, LIBSVM or NPZ file; text also .gz .bz2 .xz."),
]
Target = Annotated[
    str | None,
    typer.Option(help='Column to predict: name, number from 1, or "last". Not for LIBSVM and NPZ.'),
]
Positive = Annotated[str | None, typer.Option(help="Label to find. Default: the rarer one.")]
Rest = Annotated[bool, typer.Option("--rest", help="Treat all other labels as negative.")]
ModelFile = Annotated[Path, typer.Argument(help="Model file written by `apmax train`.")]
ReportFile = Annotated[Path | None, typer.Option("--report", help="Write an HTML report here.")]
Seed = Annotated[int, typer.Option(help="Random seed for batches and the train/test split.")]


def load_training_data(data: Path, target: str | None, positive: str | None, rest: bool) -> Dataset:
    """Load a file whose labels must be known."""
    from apmax.app.io import load

    dataset = load(data, target=target, positive=positive, against_rest=rest)
    if dataset.y is not None:
        return dataset
    if not dataset.is_table:
        raise ParameterError(f"{data} has no labels: store them with X, as the array y")
    names = list(dataset.X.columns)
    listed = ", ".join([*names[:8], *(["…"] if len(names) > 8 else [])])
    raise ParameterError(
        f"which column is the target? Use --target NAME ({listed}), --target last or a number"
    )


def load_labelled_data(
    model: Model, data: Path, target: str | None, positive: str | None, rest: bool
) -> Dataset:
    """Load a file to evaluate a model on, with the model's target and labels by default."""
    from apmax.app.io import load
    from apmax.app.target import same_label

    wanted, column = positive or model.positive, target or model.target
    try:
        dataset = load(
            data,
            target=column,
            positive=wanted,
            against_rest=rest or model.against_rest,
            text=model.text_columns(),
        )
    except UnknownNameError:
        if target is not None:
            raise
        raise ParameterError(
            f"{data} has no column {column!r}, the target of the model: name the column of the "
            "labels with --target, or use `apmax predict` for data without labels"
        ) from None
    dataset.labels()
    found = [label for label in dataset.counts if same_label(label, model.positive)]
    if found and not same_label(wanted, model.positive):
        raise ParameterError(
            f"`--positive` = {positive!r} is not what the model was trained for: it finds "
            f"{found[0]!r}"
        )
    return dataset
