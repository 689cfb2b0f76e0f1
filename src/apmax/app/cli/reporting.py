"""What several commands say: notes, and a report on a model and labelled data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy.special import expit

from apmax.app.cli.console import Settings, command_line
from apmax.errors import ParameterError

if TYPE_CHECKING:  # what takes long to import is imported by the command that needs it
    from apmax.app.data.files import Dataset
    from apmax.app.pipeline.model import Model
    from apmax.app.pipeline.training import Trained


def noted(settings: Settings, notes: list[str]) -> list[str]:
    """Say these notes beside the result, and return them for it."""
    for note in notes:
        settings.note(f"note: {note}")
    return notes


def log_odds_of(settings: Settings, model: Model, dataset: Dataset) -> tuple[Any, list[str]]:
    """Of each row, and a note for each column or label that the model does not know."""
    scores = model.log_odds(dataset.X)
    new_labels = model.new_labels(dataset.counts, dataset.positive_label)
    return scores, noted(settings, model.doubts(dataset.X) + new_labels)


def labels_of(dataset: Dataset) -> Any:
    """The mask of positives, which the command cannot do without."""
    if dataset.y is None:
        raise ParameterError("the data have no target: say which column it is with --target")
    return dataset.y


def report_on(
    settings: Settings, path: Path, title: str, model: Model, dataset: Dataset, scores: Any,
    trained: Trained | None = None, note: str = "", doubts: Sequence[str] = (),
) -> None:  # fmt: skip
    """Write a report on the log-odds of labelled data, and say where."""
    from apmax.app.pipeline.training import strongest_features
    from apmax.app.report import Report, Scored, write_report

    y = labels_of(dataset)
    scored = Scored(
        name="apmax",
        y=y,
        scores=expit(scores),
        history=None if trained is None else trained.history,
        coefficients=strongest_features(model, dataset.X),
        scale="probability",
        per_deviation=True,
    )
    facts = {
        "data": title,
        "rows": f"{y.size:,}",
        "positives": f"{int(y.sum()):,} ({y.mean():.2%}), {model.positive!r}",
        "features": f"{model.coef.size:,}",
        "trained with": str(model.facts.get("solver", "")),
        "trained on": f"{model.facts.get('rows', '?')} rows",
        **({"these numbers": note} if note else {}),
    }
    write_report(Report(title, [scored], None, facts, command_line(), doubts), path)
    settings.say(f"report → {path}")
