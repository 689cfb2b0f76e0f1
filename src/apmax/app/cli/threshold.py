"""The command `apmax threshold`, and the options that choose alerts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apmax.app.cli import inputs, options
from apmax.app.cli.console import Console, check_outputs, make_table
from apmax.errors import ParameterError

if TYPE_CHECKING:  # slow imports are left to the command
    from apmax.app.cli.console import ResultTable
    from apmax.app.decisions import Decision, Rule
    from apmax.validation import Floats

SHARE = "SHARE"
"""Shown for options that take 0.8 or 80%."""
Precision = Annotated[
    str | None,
    typer.Option(
        metavar=SHARE, help="Find as many positives as possible with this precision: 0.8 or 80%."
    ),
]
Recall = Annotated[
    str | None,
    typer.Option(
        metavar=SHARE, help="Find this share of the positives with the highest precision."
    ),
]
Top = Annotated[
    str | None, typer.Option(help='Alert on the rows of highest probability: "100" or "5%".')
]
Cost = Annotated[
    str | None, typer.Option(help='Costs of a false alarm and a missed positive: "1:20".')
]


def threshold(
    context: typer.Context,
    model: options.ModelFile,
    data: Annotated[Path, typer.Option(help="Labelled data that were not used for training.")],
    precision: Precision = None,
    recall: Recall = None,
    top: Annotated[
        str | None, typer.Option(help='Alert on this share of highest probability: "5%".')
    ] = None,
    cost: Cost = None,
    *,
    labels: inputs.Labels,
    weight: options.Weight = None,
    allow_empty: options.AllowEmpty = False,
    reading: inputs.Reading,
) -> None:
    """Choose the threshold of alerts on labelled data and store it in the model.

    `apmax predict` then uses it by default.

    [bold]Example:[/bold] apmax threshold adult.apmax --precision 0.8 --data adult-valid.csv
    """
    console: Console = context.obj
    with console.errors():
        from dataclasses import asdict, replace

        from apmax.app.decisions import FEW_ALERTS, effective_rows, make_rule
        from apmax.app.model import save_model

        check_outputs(model, inputs=[data])
        rule = make_rule(precision=precision, recall=recall, top=top, cost=cost)
        if rule is None:
            raise ParameterError("give one of --precision, --recall, --top and --cost")
        scored, chosen = choose_on(
            console, model, data, rule, labels, reading, weight, allow_empty=allow_empty
        )
        notes = list(scored.warnings)
        parts = _weights(scored, chosen)
        alerts, effective = parts["alerts"].size, effective_rows(parts["alerts"])
        if effective < FEW_ALERTS:
            as_few = "" if round(effective) == alerts else f", as with {effective:.0f} equal ones"
            notes.append(
                f"precision and recall are uncertain with {alerts:,} "
                f"alert{'s' * (alerts != 1)}{as_few}: use more labelled rows"
            )
            console.warn(notes[-1:])
        replaced = scored.model.operating_point
        save_model(replace(scored.model, operating_point=chosen), model)
        shares = {"precision": chosen.precision, "recall": chosen.recall}
        result = {"model": str(model), **asdict(chosen), **shares, "warnings": notes}
        console.show(result, _expectations(chosen, parts))
        instead = "" if replaced is None else f" instead of {replaced}"
        console.say(
            f"stored in {model}{instead}; `apmax predict` uses it by default. Expect lower "
            "precision and recall on new rows than on those that chose the threshold."
        )


def _weights(scored: options.Scored, chosen: Decision) -> dict[str, Floats]:
    """Return the weights above 0 of the rows, the alerts, the positives and the true alerts."""
    import numpy as np

    y, given = scored.dataset.labels(), scored.dataset.weight
    weight = np.ones(y.size) if given is None else given
    alerts, there = scored.probability >= chosen.threshold, weight > 0
    of = {"rows": there, "alerts": alerts, "positives": y, "true alerts": alerts & y}
    return {name: weight[rows & there] for name, rows in of.items()}


def _expectations(chosen: Decision, weights: dict[str, Floats]) -> ResultTable:
    """Return the shares of alerts, precision and recall, with intervals and numbers of rows."""
    import numpy as np

    from apmax.app.decisions import effective_rows, shown_threshold
    from apmax.app.report.calibration import wilson

    title = f"{chosen}: probability ≥ {shown_threshold(chosen.threshold)}"
    table = make_table(title, "on these rows", "share", "95 % interval", "rows")
    parts = {
        "alerts": ("alerts", "rows", chosen.alerts / chosen.rows),
        "precision": ("true alerts", "alerts", chosen.precision),
        "recall": ("true alerts", "positives", chosen.recall),
    }
    for name, (part, whole, share) in parts.items():
        low, high = wilson(np.array(share), np.array(effective_rows(weights[whole])))
        interval = "" if name == "alerts" else f"{float(low):.1%} to {float(high):.1%}"
        rows = f"{weights[part].size:,} of {weights[whole].size:,}"
        table.add_row(name, f"{share:.1%}", interval, rows)
    return table


def choose_on(
    console: Console,
    model: Path,
    data: Path,
    rule: Rule,
    labels: inputs.Labels,
    reading: inputs.Reading,
    weight: str | None = None,
    *,
    allow_empty: bool,
) -> tuple[options.Scored, Decision]:
    """Score labelled data and choose the threshold of a rule on them."""
    from apmax.app.decisions import choose

    scored = options.score_labelled_data(
        console, model, data, labels, reading, weight, measuring=False, allow_empty=allow_empty
    )
    dataset = scored.dataset
    y, name = dataset.labels(), dataset.source.name
    return scored, choose(rule, y, scored.probability, name, dataset.weight)
