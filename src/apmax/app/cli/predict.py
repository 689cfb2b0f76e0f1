"""The command `apmax predict`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apmax.app.cli.console import Console, check_outputs, write_csv
from apmax.app.cli.inputs import DropUnlabelled, Labels, Reading
from apmax.app.cli.options import AllowEmpty, Data, ModelFile, measure_drift, warnings_for
from apmax.app.cli.threshold import SHARE, Cost, Precision, Recall, Top, choose_on
from apmax.errors import ParameterError

if TYPE_CHECKING:  # slow imports are left to the command
    from apmax.app.decisions import Decision, Rule
    from apmax.app.io import Dataset
    from apmax.app.model import Model
    from apmax.validation import Floats, Mask

OUTPUT = ("probability", "log_odds", "label")


def predict(
    context: typer.Context,
    model: ModelFile,
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="CSV or Parquet file. Default: CSV to stdout."),
    ] = None,
    identifier: Annotated[
        str | None,
        typer.Option("--id", help="Column to copy to the output. Default: --id of train."),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(metavar=SHARE, help="Label rows with at least this probability as positive."),
    ] = None,
    precision: Precision = None,
    recall: Recall = None,
    top: Top = None,
    cost: Cost = None,
    valid: Annotated[
        Path | None, typer.Option(help="Labelled data, for --precision, --recall and --cost.")
    ] = None,
    explain: Annotated[
        int, typer.Option(help="Add this number of strongest reasons for each row.")
    ] = 0,
    only_alerts: Annotated[
        bool,
        typer.Option("--only-alerts", help="Write alerts only, the highest probability first."),
    ] = False,
    allow_empty: AllowEmpty = False,
    drop_unlabelled: DropUnlabelled = False,
    *,
    reading: Reading,
) -> None:
    """Predict the probability of the positive label for every row of a file.

    Rows are labelled by one of --threshold, --precision, --recall, --top and --cost; by default
    with the threshold that `apmax threshold` has stored in the model, or else at 0.5. Rows with
    the positive label are alerts.

    [bold]Example:[/bold] apmax predict adult.apmax new.csv --top 5% --out scores.csv
    """
    console: Console = context.obj
    with console.errors():
        import numpy as np
        import pandas as pd
        from scipy.special import expit

        from apmax.app.decisions import make_rule, select
        from apmax.app.io import load
        from apmax.app.model import load_model
        from apmax.validation import check_real

        check_outputs(out, inputs=[model, data, valid])
        if out is not None and out.suffix.lower() not in (".csv", ".parquet"):
            raise ParameterError(
                f"`--out` = {out} must end with .csv or .parquet: leave --out away to write CSV to "
                "stdout"
            )
        check_real(explain, "--explain", at_least=0, why="it is a number of reasons")
        rule = make_rule(
            threshold=threshold, precision=precision, recall=recall, top=top, cost=cost
        )
        _check_rule(rule, model, valid)
        loaded = load_model(model)
        dataset = load(
            data,
            target=False,
            text=loaded.text_columns(),
            identifier=identifier or loaded.id,
            **reading.arguments(loaded.number_formats()),
        )
        columns = _identifiers(dataset, identifier, loaded.id)
        notes = warnings_for(loaded, dataset, allow_empty)
        chosen = None
        if rule is not None and valid is not None:
            labels = Labels(drop_unlabelled=drop_unlabelled)
            chosen = choose_on(
                console, model, valid, rule, labels, reading, allow_empty=allow_empty
            )[1]
        log_odds = loaded.log_odds(dataset.X)
        console.warn(notes)
        probability = expit(log_odds)
        remedy = (
            f"run `apmax evaluate {model} FILE` on labelled rows like these, and train again if AP "
            "has fallen"
        )
        drift = measure_drift(console, loaded, dataset, probability, remedy)
        used = _used_rule(loaded, rule, chosen)
        alerts = select(used, probability)
        if rule is None and loaded.operating_point is None:
            _check_default(console, alerts, probability)
        label = np.where(alerts, loaded.positive, loaded.negative)
        scores = dict(zip(OUTPUT, (probability, log_odds, label), strict=True))
        frame = pd.DataFrame({**columns, **scores})
        if only_alerts:
            frame = _sorted_alerts(frame, alerts, [*columns])
        if explain:
            frame = _with_reasons(console, frame, loaded, dataset, explain)
        count, rows = int(alerts.sum()), probability.size
        decision = {"rule": used.text, "threshold": used.threshold, "alerts": count}
        default = "" if rule or loaded.operating_point else "; no threshold is stored"
        found = (
            f"{rows:,} row{'s' * (rows != 1)}, {count:,} labelled {loaded.positive!r} "
            f"({used}{default})"
        )
        result = {"decision": decision, "drift": drift, "warnings": notes}
        _write(console, frame, out, found, {"rows": rows, "out": str(out)}, result)


def _write(
    console: Console,
    frame: Any,
    out: Path | None,
    found: str,
    written: dict[str, Any],
    result: dict[str, Any],
) -> None:
    """Write the table of predictions to a file or to stdout, and say what was found."""
    from apmax.atomic_files import write_file

    if out is not None:
        parquet = out.suffix.lower() == ".parquet"
        stored = frame.to_parquet(None, index=False) if parquet else frame.to_csv(index=False)
        write_file(out, stored if parquet else stored.encode())
        console.show({**written, **result})
        console.say(f"{found} → {out}")
    elif console.as_json:
        console.show({**frame.to_dict("list"), **result})
    else:
        console.note(found)
        write_csv(frame)


def _sorted_alerts(frame: Any, alerts: Mask, columns: list[str]) -> Any:
    """Return the alerts, the highest probability first, with row numbers unless IDs are unique."""
    if not any(frame[name].is_unique for name in columns):
        name = "row" if "row" not in frame else "row number"
        frame.insert(0, name, range(1, len(frame) + 1))
    return frame[alerts].sort_values("probability", ascending=False, kind="stable")


def _with_reasons(console: Console, frame: Any, model: Model, dataset: Dataset, count: int) -> Any:
    """Add columns of reasons to a frame whose index are rows of the data."""
    from apmax.app.reasons import compared_with_typical, reasons_of

    if compared_with_typical(model):
        console.note(
            "a reason is the difference in log-odds to the typical value of the column, which is "
            "the median or the most frequent category"
        )
    X = dataset.rows(frame.index.to_numpy()).X
    with console.progress("explaining", len(frame)) as advance:
        reasons = reasons_of(model, X, count, lambda done: advance("explaining", done, len(frame)))
    return frame.assign(**reasons)


def _check_rule(rule: Rule | None, model: Path, valid: Path | None) -> None:
    """Raise ParameterError if labelled data are missing, or given without need."""
    if rule is not None and rule.needs_labels and valid is None:
        option = f"--{rule.kind} {rule.value:g}"
        raise ParameterError(
            f"{option} needs labelled data: add --valid FILE, or store the threshold once with "
            f"`apmax threshold {model} {option} --data FILE`"
        )
    if valid is not None and (rule is None or not (rule.needs_labels or rule.kind == "cost")):
        raise ParameterError("--valid is for --precision, --recall and --cost: leave it out")


def _used_rule(model: Model, rule: Rule | None, chosen: Decision | None) -> Rule:
    """Return the given rule, the threshold chosen or stored on labelled data, or 0.5."""
    from apmax.app.decisions import Rule

    stored = model.operating_point if rule is None else chosen
    if stored is None:
        return rule or Rule("threshold", 0.5, "probability ≥ 0.5")
    where = "" if rule is not None else ", stored in the model"
    return Rule("threshold", stored.threshold, f"{stored}{where}")


def _check_default(console: Console, alerts: Mask, probability: Floats) -> None:
    """Point out that a threshold of 0.5 finds far fewer rows than there are positives."""
    if alerts.sum() < 0.5 * probability.sum():
        console.note(
            f"{alerts.sum():,} of {alerts.size:,} rows have probability ≥ 0.5, and about "
            f"{probability.sum():,.0f} positives are expected: choose with --top, --threshold or "
            "--cost, or store a threshold for a precision with `apmax threshold`"
        )


def _identifiers(dataset: Dataset, given: str | None, default: str | None) -> dict[str, Any]:
    """Return the column to copy by its name, if any; missing values are None."""
    import pandas as pd

    from apmax.app.column_values import to_words
    from apmax.app.target import find_column

    if given is not None and not dataset.is_table:
        raise ParameterError(
            f"--id names a column, but {dataset.source} is not a table: leave it out"
        )
    names = list(dataset.X.columns) if dataset.is_table else []
    if given is None and default not in names:
        return {}
    name = str(default) if given is None else find_column(names, given, option="--id")
    if name in OUTPUT:
        raise ParameterError(f"--id = {name!r} is a column of the output: rename it in the file")
    values, numeric = dataset.X[name], pd.api.types.is_numeric_dtype(dataset.X[name])
    # Whole numbers beside missing values are floats in pandas, and integers after conversion.
    words = (values.convert_dtypes() if numeric else to_words(values)).tolist()
    return {name: pd.Series([None if pd.isna(word) else word for word in words], dtype=object)}
