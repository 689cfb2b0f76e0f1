"""Ctrl-C: what a command keeps, says and goes on from."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.cli.loans import made_loans, run

from apmax import average_precision
from apmax.app.data import load
from apmax.app.pipeline.storage import load_model


def test_a_training_that_was_stopped_goes_on_from_its_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apmax.linear import checkpoint, history

    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    command = ["--quiet", "train", "loans.csv", "--target", "last", "--solver", "sox", "-o"]
    run(*command, "never")
    records: list[int] = []
    record = history.History.record

    def stopped(self: history.History, step: int, *rest: Any) -> bool:
        records.append(step)
        if len(records) == 12:  # in the second fit, of all rows
            raise MemoryError
        return record(self, step, *rest)

    monkeypatch.setattr(history.History, "record", stopped)
    run(*command, "model", "--checkpoint", "kept", fails=True)
    run(*command, "model", "--checkpoint", "kept")
    assert records.count(0) == 2  # neither fit began anew
    np.testing.assert_array_equal(load_model("model").coef, load_model("never").coef)


def test_ctrl_c_keeps_the_best_model(folder: Path) -> None:
    made_loans(60_000, 3).to_csv("many.csv", index=False)
    command = [
        sys.executable,
        "-m",
        "apmax",
        "train",
        "many.csv",
        "--target",
        "last",
        "-o",
        "m.apmax",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    stopped = False
    for _ in range(600):
        time.sleep(0.05)
        if process.poll() is not None:
            break
        if Path("m.apmax").exists():  # the held-out part is done, all rows are under way
            time.sleep(1.5)
            process.send_signal(signal.SIGINT)
            stopped = True
            break
    _, told = process.communicate(timeout=120)
    model = load_model("m.apmax")
    tested = load("new-loans.csv", target="defaulted", positive="yes")
    assert tested.y is not None
    assert average_precision(tested.y, model.log_odds(tested.X)) > 1.5 * tested.y.mean()
    if stopped and process.returncode:
        assert process.returncode == 130, told
        assert "Traceback" not in told


def test_ctrl_c_on_the_way_out_of_compiled_code_is_ctrl_c(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr("apmax.app.data.files.load", interrupted)
    result = run("train", "loans.csv", "--target", "last", fails=True)
    assert result.exit_code == 130
    assert result.stderr.strip() == "stopped before the end"


def test_ctrl_c_in_the_last_fit_leaves_the_model_that_was_tested(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apmax.app.pipeline import training

    train, calls = training.train, []

    def second_is_stopped(*data: Any, **options: Any) -> Any:
        calls.append(data)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train(*data, **options)

    monkeypatch.setattr(training, "train", second_is_stopped)
    command = "train loans.csv --target last --solver lbfgs -o m.apmax"
    result = run(*shlex.split(command), fails=True)
    assert result.exit_code == 130
    assert "stopped before the end: m.apmax holds the best model so far" in result.stderr
    assert "; stopped" in result.stdout
    assert load_model("m.apmax").facts["rows"] < len(pd.read_csv("loans.csv"))


def test_ctrl_c_while_the_report_is_written_tells_of_the_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("apmax.app.cli.training.report_on", interrupted)
    command = "--quiet train loans.csv --target last --solver lbfgs -o m.apmax --report r.html"
    result = run(*shlex.split(command), fails=True)
    assert result.exit_code == 130
    assert result.stderr.strip() == "stopped before the end: m.apmax holds the best model so far"
    assert not Path("r.html").exists()
