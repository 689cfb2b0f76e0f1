"""The command `apmax compare`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tests.app.loans import as_json

FAST = ("--target", "defaulted", "--folds", "2", "--repeats", "1")


def test_models_are_compared_and_reported(folder: Path) -> None:
    prices = [f"${1000 + k:,}" for k in range(600)]
    pd.read_csv("loans.csv").assign(price=prices).to_csv("odd.csv", index=False)
    result = as_json("compare", "odd.csv", *FAST, "--report", "c.html")
    names = ["logistic regression", "apmax (APClassifierCV)", "gradient boosting"]
    assert list(result["models"]) == names
    for name in names[1:]:
        assert len(result["models"][name]["ap"]) == 2
        assert name in result["models"][name]["difference"]["verdict"]
    (note,) = result["warnings"]
    assert note.startswith("'price' is text whose values hardly ever repeat")
    page = Path("c.html").read_text()
    assert "Warning: &#39;price&#39; is text" in page
    assert "Leaderboard" in page
