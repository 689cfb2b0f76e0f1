"""Arguments and options that several commands share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from apmax.app.cli.console import Console
from apmax.app.cli.inputs import Columns, Labels, Reading
from apmax.errors import InputError, ParameterError, UnknownNameError

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
AllowEmpty = Annotated[
    bool,
    typer.Option(
        "--allow-empty",
        help="Accept columns that are empty, unreadable or all new, and had values in training.",
    ),
]
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


def warnings_for(model: Model, dataset: Dataset, allow_empty: bool) -> list[str]:
    """Return warnings about new data; InputError if a column has no value that can be used."""
    try:
        found = model.differences(dataset.X)
    except ParameterError as error:  # columns are absent
        problem = str(error).replace("the table", str(dataset.source), 1)
        raise ParameterError(problem + _header_hint(model, dataset)) from None
    lost = [one.text for one in found if one.lost]
    if lost and not allow_empty:
        raise InputError(
            f"{dataset.source}: {'; '.join(lost)}: correct the file, or continue without these "
            "values with --allow-empty"
        )
    return [*dataset.notes, *(one.text for one in found)]


def _header_hint(model: Model, dataset: Dataset) -> str:
    """Show the first row of a file that has no column of the model."""
    names = list(dataset.X.columns)
    if model.preprocessor is None or {*names} & {*model.preprocessor.kinds_}:
        return ""
    unnamed = [f"column {k}" for k in range(1, len(names) + 1)] == names
    first = [str(one)[:20] for one in (dataset.X.iloc[0] if unnamed else names)]
    more = ", …" if len(first) > 3 else ""
    return f"; its first row is {', '.join(map(repr, first[:3]))}{more}: is the header missing?"


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
    allow_empty: bool = True,
) -> Scored:
    """Apply a model to a file, with the target, labels and weights of the model by default.

    `measuring` says that the stored threshold is measured on these rows. InputError is raised for a
    column without any value that can be used, unless `allow_empty` is set.
    """
    from apmax.app.files import digest
    from apmax.app.model import load_model

    loaded = load_model(model)
    dataset = _labelled_data(loaded, model, data, labels, reading, weight)
    notes = warnings_for(loaded, dataset, allow_empty)
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
    model: Model, path: Path, data: Path, labels: Labels, reading: Reading, weight: str | None
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
    if dataset.y is None and dataset.is_table:
        raise ParameterError(
            f"{path} does not store the name of its target: name the column of the labels with "
            "--target"
        )
    dataset.labels()
    found = [label for label in dataset.counts if same_label(label, model.positive)]
    if found and not same_label(wanted, model.positive):
        raise ParameterError(
            f"--positive = {wanted!r} is not what the model was trained for: it finds {found[0]!r}"
        )
    if weight is None and model.weight is not None and model.weight in dataset.X:
        return replace(dataset, weight=read_weights(dataset.X[model.weight]))
    return dataset
