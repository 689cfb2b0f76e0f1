"""What reaches a terminal: text from data without control characters."""

from __future__ import annotations

import io
import json
import re
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

from apmax.app.cli.app import app
from apmax.app.cli.console import write_csv
from tests.app.loans import made_loans, run

TITLE, CLEAR = "\x1b]0;owned\x07", "\x9b2J"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

OPTIONS = ("--target", "defaulted", "--model", "logistic", "--jobs", "1", "--out", "m.apmax")


@pytest.fixture
def hostile(folder: object) -> str:
    """Write data whose column names, labels and categories command a terminal."""
    frame = made_loans(600, 0)
    leak = np.where(frame["defaulted"] == "yes", 3, 1)
    frame["defaulted"] = frame["defaulted"].replace("yes", f"yes{TITLE}{CLEAR}")
    frame.assign(**{f"st{TITLE}{CLEAR}": leak}).to_csv("hostile.csv", index=False)
    return "hostile.csv"


def test_names_and_labels_never_command_the_terminal(hostile: str) -> None:
    shown = [run("train", hostile, *OPTIONS).output, run("evaluate", "m.apmax", hostile).output]
    shown.append(run("--json", "evaluate", "m.apmax", hostile).output)
    shown.append(run("evaluate", "m.apmax", hostile, "--target", f"a{TITLE}", fails=True).output)
    assert "st]0;owned2J" in shown[0]
    assert [CONTROL.findall(text) for text in shown] == [[]] * 4


def test_json_keeps_control_characters_as_escapes(hostile: str) -> None:
    output = run("--json", "--quiet", "train", hostile, *OPTIONS).stdout
    assert CONTROL.findall(output) == []
    assert json.loads(output)["positive"] == f"yes{TITLE}{CLEAR}"


def test_predictions_are_unchanged_in_a_pipe_and_harmless_on_a_terminal(
    hostile: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("--quiet", "train", hostile, *OPTIONS)
    command = ["--quiet", "predict", "m.apmax", hostile, "--threshold", "0"]
    for terminal in (False, True):
        monkeypatch.setattr(sys.stdout, "isatty", partial(bool, terminal))
        app(command, standalone_mode=False)
        printed = capsys.readouterr().out
        assert len(pd.read_csv(io.StringIO(printed))) == 600
        assert (f"yes{TITLE}{CLEAR}" in printed) != terminal
        assert ("yes]0;owned2J" in printed) == terminal


def test_a_terminal_gets_predictions_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "write", written.append)
    write_csv(pd.DataFrame({"id": range(5000), "label": f"yes{CLEAR}"}))
    text = "".join(written)
    monkeypatch.undo()
    assert text == "id,label\n" + "".join(f"{k},yes2J\n" for k in range(5000))
    assert max(map(len, written)) < 1000
