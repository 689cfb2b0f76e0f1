"""Arguments and options that several commands share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from apmax.app.cli.console import Console
from apmax.app.cli.inputs import Columns, Labels, Reading
from apmax.errors import ParameterError, UnknownNameError

if TYPE_CHECKING:  # slow imports are left to the command
    from apmax.app.io import Dataset
    from apmax.app.leaks import Finding
    from apmax.app.model import Model
    from apmax.validation import Floats

Data = Annotated[
    Path,
    typer.Argument(
        help="CSV, TSV, JSON lines, Excel, Parquet, Feather, LIBSVM or NPZ file; - is stdin."
    ),
]
ModelFile = Annotated[Path, typer.Argument(help="Model file written by `apmax train`.")]
ReportFile = Annotated[Path | None, typer.Option("--report", help="Write an HTML report here.")]
Weight = Annotated[
    str | None, typer.Option(help="Column of sample weights. Default: that of training, if any.")
]


def load_training_data(
    data: Path, columns: Columns, labels: Labels, reading: Reading, rows: int | None
) -> Dataset:
    """Load a file whose labels must be known, or a sample if it does not fit into memory."""
    from apmax.app.table_sample import load_sample
    from apmax.app.target import listed

    dataset = load_sample(
        data,
        rows,
        target=labels.target,
        positive=labels.positive,
        against_rest=labels.rest,
        roles=columns.roles(),
        drop_unlabelled=labels.drop_unlabelled,
        **reading.arguments(),
    )
    if dataset.y is not None:
        return dataset
    if not dataset.is_table:
        raise ParameterError(f"{data} has no labels: store them with X, as the array y")
    raise ParameterError(
        "which column is the target? Use --target last, its number, or its name: "
        f"{listed(dataset.X.columns)}"
    )


def check_leaks(
    console: Console, dataset: Dataset, strict: bool, test: Dataset | None = None
) -> list[Finding]:
    """Warn of columns that may reveal the target and of test rows seen in training.

    InputError is raised instead with `strict`.
    """
    from apmax.app.leaks import check_columns, refuse
    from apmax.app.shared_rows import check_test

    findings = check_columns(dataset) + ([] if test is None else check_test(dataset, test))
    if strict:
        refuse(findings)
    console.warn([finding.message for finding in findings])
    return findings


def measure_drift(
    console: Console, model: Model, dataset: Dataset, probability: Floats, remedy: str
) -> list[dict[str, Any]]:
    """Return the shifts since training as plain data; note large ones, and what to do."""
    from apmax.app.drift import shift_note

    shifts = model.shifts(dataset.X, probability)
    if note := shift_note(shifts):
        console.note(note)
        console.note(remedy)
    return [shift._asdict() for shift in shifts]


class Scored(NamedTuple):
    """A model, labelled data, the log-odds of its rows, and warnings about them."""

    model: Model
    dataset: Dataset
    log_odds: Floats
    warnings: list[str]

    @property
    def probability(self) -> Floats:
        """The probability of the positive label."""
        from scipy.special import expit

        return expit(self.log_odds)  # type: ignore[no-any-return]


def score_labelled_data(
    console: Console,
    model: Path,
    data: Path,
    labels: Labels,
    reading: Reading,
    weight: str | None = None,
    *,
    measuring: bool = True,
) -> Scored:
    """Apply a model to a file, with the target, labels and weights of the model by default.

    `measuring` says that the stored threshold is measured on these rows.
    """
    from apmax.app.files import digest
    from apmax.app.model import load_model

    loaded = load_model(model)
    dataset = _labelled_data(loaded, data, labels, reading, weight)
    notes = loaded.warnings_for(dataset)
    if digest(data) is not None and digest(data) == loaded.facts.get("data_sha256"):
        notes.append(
            f"{data} is the file that the model was trained on: AP, precision and thresholds are "
            "too good on it; use data that the model has not seen"
        )
    point = loaded.operating_point
    if measuring and point is not None and point.data == dataset.source.name:
        notes.append(
            f"the stored threshold was chosen on {point.data}: its precision and recall are "
            "slightly too high on the same rows"
        )
    console.warn(notes)
    return Scored(loaded, dataset, loaded.log_odds(dataset.X), notes)


def _labelled_data(
    model: Model, data: Path, labels: Labels, reading: Reading, weight: str | None
) -> Dataset:
    """Load labelled data for a model; ParameterError if their labels are not those of training."""
    from apmax.app.io import load
    from apmax.app.roles import Roles, read_weights
    from apmax.app.target import same_label

    wanted = labels.positive or model.positive
    try:
        dataset = load(
            data,
            target=labels.target or model.target,
            positive=wanted,
            against_rest=labels.rest or model.against_rest,
            text=model.text_columns(),
            roles=Roles(weight=weight),
            drop_unlabelled=labels.drop_unlabelled,
            trained_on=(model.positive, model.negative),
            **reading.arguments(model.number_formats()),
        )
    except UnknownNameError as error:
        if labels.target is not None or "--weight" in str(error):
            raise
        raise ParameterError(
            f"{data} has no column {model.target!r}, the target of the model: name the column of "
            "the labels with --target, or use `apmax predict` for data without labels"
        ) from None
    dataset.labels()
    found = [label for label in dataset.counts if same_label(label, model.positive)]
    if found and not same_label(wanted, model.positive):
        raise ParameterError(
            f"`--positive` = {wanted!r} is not what the model was trained for: it finds "
            f"{found[0]!r}"
        )
    if weight is None and model.weight is not None and model.weight in dataset.X:
        return replace(dataset, weight=read_weights(dataset.X[model.weight]))
    return dataset
