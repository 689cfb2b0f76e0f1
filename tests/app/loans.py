"""A small table of loans, and the command line as tests call it."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pandas as pd
from typer.testing import CliRunner, Result

from apmax.app.cli.app import app


def made_loans(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    income = rng.lognormal(10, 0.6, rows)
    city = rng.choice(["Rome", "Oslo", "Paris"], rows)
    log_odds = -3.2 - 1.2 * (np.log(income) - 10) + 1.5 * (city == "Oslo")
    defaulted = np.where(rng.random(rows) < 1 / (1 + np.exp(-log_odds)), "yes", "no")
    days = rng.integers(0, 900, rows)
    frame = pd.DataFrame(
        {
            "income": np.round(income, 2),
            "city": city,
            "since": pd.Timestamp("2022-01-01") + pd.to_timedelta(days, unit="D"),
            "defaulted": defaulted,
        }
    )
    frame.loc[rng.random(rows) < 0.05, "income"] = None
    frame.loc[rng.random(rows) < 0.05, "city"] = "?"
    return frame


def run(*arguments: str, fails: bool = False) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert (result.exit_code != 0) == fails, result.output
    return result


def as_json(*arguments: str) -> Any:
    return json.loads(run("--json", *arguments).stdout)


def predicted(*arguments: str) -> pd.DataFrame:
    """Return what `apmax predict m.apmax` prints."""
    return pd.read_csv(io.StringIO(run("predict", "m.apmax", *arguments).stdout))
