"""The command `apmax predict`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from apmax.app.cli.console import Console, check_outputs
from apmax.app.cli.inputs import Reading
from apmax.app.cli.options import Data, ModelFile
from apmax.errors import ParameterError


def predict(
    context: typer.Context,
    model: ModelFile,
    data: Data,
    reading: Reading,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="CSV or Parquet file. Default: CSV to stdout."),
    ] = None,
) -> None:
    """Predict the probability of the positive label for every row of a file.

    [bold]Example:[/bold] apmax predict adult.apmax new.csv --out scores.csv
    """
    console: Console = context.obj
    with console.errors():
        import numpy as np
        import pandas as pd
        from scipy.special import expit

        from apmax.app.files import write_file
        from apmax.app.io import load
        from apmax.app.model import load_model

        check_outputs(out, inputs=[model, data])
        if out is not None and out.suffix.lower() not in (".csv", ".parquet"):
            raise ParameterError(f"`--out` = {out} must end with .csv or .parquet")
        loaded = load_model(model)
        read = reading.arguments(loaded.number_formats())
        dataset = load(data, target=False, text=[*loaded.text_columns(), loaded.id or ""], **read)
        log_odds = loaded.log_odds(dataset.X)
        notes = loaded.warnings_for(dataset)
        console.warn(notes)
        label = np.where(log_odds > 0, loaded.positive, loaded.negative)
        frame = pd.DataFrame({"probability": expit(log_odds), "log_odds": log_odds, "label": label})
        if loaded.id is not None and dataset.is_table and loaded.id in dataset.X:
            frame.insert(0, loaded.id, dataset.X[loaded.id].to_numpy(), allow_duplicates=True)
        if out is not None:
            parquet = out.suffix.lower() == ".parquet"
            stored = frame.to_parquet(None, index=False) if parquet else frame.to_csv(index=False)
            write_file(out, stored if parquet else stored.encode())
            console.show({"rows": len(frame), "out": str(out), "warnings": notes})
            console.say(f"{len(frame):,} row{'s' * (len(frame) != 1)} → {out}")
        elif console.as_json:
            console.show({**frame.to_dict("list"), "warnings": notes})
        else:
            frame.to_csv(sys.stdout, index=False)
