"""The command line as a whole: help, errors, exit codes and output options."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.app.loans import made_loans, run
from tests.hang import SECONDS

ROOT = Path(__file__).parents[3]
COMMANDS = ["demo", "train", "evaluate", "threshold", "predict", "compare", "report"]


def readme_commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("apmax ") and " data " not in line]


def test_every_command_of_the_readme_runs(folder: Path) -> None:
    commands = readme_commands()
    made_loans(400, 1).to_csv("valid.csv", index=False)
    made_loans(400, 3).to_csv("test.csv", index=False)
    made_loans(400, 2).drop(columns="defaulted").to_csv("new.csv", index=False)
    used = {shlex.split(command)[1] for command in commands}
    assert set(COMMANDS) - {"demo"} <= used
    for command in commands:
        fewer = ["--folds", "2"] if " compare " in command else []
        if " demo" not in command:  # has a test of its own
            run(*shlex.split(command)[1:], *fewer)
    assert {"loans.apmax", "loans.html", "alerts.csv"} <= set(os.listdir(folder))


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_describes_the_command_and_gives_an_example(command: str) -> None:
    text = run(*shlex.split(command), "--help").stdout
    assert "Usage:" in text
    assert ("Example" in text) == (command not in ("", "demo"))


ERRORS: dict[str, tuple[str, str]] = {
    "no such file": ("train none.csv --target a", "none.csv: no such file"),
    "no target": ("train loans.csv", "which column is the target"),
    "misspelt target": ("train loans.csv --target defaultd", "did you mean 'defaulted'"),
    "target of many values": ("train loans.csv --target income", "income"),
    "unknown positive": (
        "train loans.csv --target defaulted --positive maybe",
        "--positive = 'maybe'",
    ),
    "unknown model": (
        "train loans.csv --target defaulted --model aditive",
        "`--model` = 'aditive': did you mean 'additive'",
    ),
    "too few folds": ("compare loans.csv --target defaulted --folds 1", "`--folds` must be"),
    "no repeats": ("compare loans.csv --target defaulted --repeats 0", "`--repeats` must be"),
    "negative reasons": ("predict MODEL new-loans.csv --explain -1", "`--explain` must be"),
    "no labels": ("train only-x.npz", "only-x.npz has no labels: store them with X"),
    "labels nowhere": ("train only-x.npz --target last", "store them as the array y"),
    "no model": ("evaluate loans.csv new-loans.csv", "not a model of apmax"),
    "missing model": ("predict none.apmax new-loans.csv", "none.apmax: no such file"),
    "few positives": (
        "compare few.csv --target defaulted",
        "label 'yes' of column 'defaulted' has only",
    ),
    "unknown output format": ("predict MODEL new-loans.csv --out p.xlsx", "must end with"),
    "missing column": ("predict MODEL short.csv", "no column 'city'"),
    "no folder": ("train loans.csv --target last -o no/m.apmax", "there is no folder"),
    "a folder": ("train loans.csv --target last -o .", "is a folder"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_is_one_line_with_a_remedy(folder: Path, name: str) -> None:
    command, message = ERRORS[name]
    few = made_loans(200, 4)
    few.loc[few.index[few["defaulted"] == "yes"][1:], "defaulted"] = "no"
    few.to_csv("few.csv", index=False)
    np.savez("only-x.npz", X=np.eye(4))
    if "MODEL" in command:
        run(
            "--quiet",
            "train",
            "loans.csv",
            "--target",
            "last",
            "--model",
            "logistic",
            "-o",
            "MODEL",
        )
        made_loans(20, 2).drop(columns="city").to_csv("short.csv", index=False)
    if "TREES" in command:
        run("--quiet", "train", "loans.csv", "--target", "last", "--model", "trees", "-o", "TREES")
    result = run(*shlex.split(command), fails=True)
    assert result.exit_code == 1
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output
    in_json = run("--json", *shlex.split(command), fails=True)
    assert message in json.loads(in_json.stderr.strip())["error"]


@pytest.mark.parametrize(
    "command",
    [
        "train loans.csv --target defaulted --out loans.csv",
        "train loans.csv --target defaulted --test new-loans.csv --out ./new-loans.csv",
        "train loans.csv --target defaulted --report loans.csv",
        "compare loans.csv --target defaulted --report loans.csv",
        "predict m.apmax new-loans.csv --out new-loans.csv",
        "evaluate m.apmax new-loans.csv --report m.apmax",
        "report m.apmax new-loans.csv --out m.apmax",
    ],
)
def test_inputs_are_never_overwritten(folder: Path, command: str) -> None:
    Path("m.apmax").write_text("a model")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert "choose another" in run(*shlex.split(command), fails=True).stderr
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_debug_shows_the_traceback_and_wrong_usage_is_2(folder: Path) -> None:
    result = run("--debug", "train", "none.csv", "--target", "a", fails=True)
    assert isinstance(result.exception, Exception)
    assert not isinstance(result.exception, SystemExit)
    assert run("train", "--nonsense", fails=True).exit_code == 2


def test_internal_errors_and_interrupts_are_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error from cause

    monkeypatch.setattr("apmax.app.table_sample.load_sample", fails)
    error: BaseException = ZeroDivisionError("by zero")
    cause: BaseException | None = None
    result = run("train", "loans.csv", "--target", "last", fails=True)
    assert result.exit_code == 1
    assert "internal error: ZeroDivisionError: by zero. Rerun with" in result.stderr
    error, cause = SystemError("a result with an exception set"), KeyboardInterrupt()
    assert run("train", "loans.csv", "--target", "last", fails=True).exit_code == 130
    error, cause = KeyboardInterrupt(), None
    result = run("train", "loans.csv", "--target", "last", fails=True)
    assert (result.exit_code, result.stderr.strip()) == (130, "stopped; no model was written")


@pytest.mark.parametrize(
    "command",
    [
        "predict m.apmax valid.csv --out new.csv",
        "evaluate m.apmax valid.csv --report new.html",
        "report m.apmax valid.csv --out new.html",
        "threshold m.apmax --top 5% --data valid.csv",
    ],
)
def test_interrupted_commands_write_nothing(
    model: str, folder: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    assert model in command
    before = {path: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr("apmax.app.model.Model.log_odds", interrupted)
    assert run(*shlex.split(command), fails=True).exit_code == 130
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_output_of_a_pipe_has_no_escape_codes(folder: Path) -> None:
    command = [sys.executable, "-m", "apmax", "train", "loans.csv", "--target", "last",
               "--model", "logistic", "-o", "m.apmax"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS)
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr == ""


def test_version_and_completion_import_nothing_heavy() -> None:
    code = "import sys; from apmax.app.cli.app import app; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"sklearn", "scipy", "pandas", "numba", "torch", "matplotlib", "jinja2", "skops"}
    assert not heavy & set(done.stdout.split())
    assert run("--version").stdout.startswith("apmax ")
    environment = {"_APMAX_COMPLETE": "complete_bash", "COMP_WORDS": "apmax ev", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "apmax"], env={**os.environ, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "evaluate" in done.stdout


NARROW = {
    "train": "train loans.csv --target defaulted --model trees -o m.apmax",
    "compare": "compare loans.csv --target defaulted --model trees",
    "evaluate": "evaluate m.apmax new-loans.csv",
    "threshold": "threshold m.apmax --top 10% --data new-loans.csv",
    "predict": "predict m.apmax new-loans.csv --only-alerts",
}


def test_tables_fit_into_a_narrow_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    shown = {name: run(*command.split()).stdout for name, command in NARROW.items()}
    for name, text in shown.items():
        assert "…" not in text, name
        rules = [line for line in text.splitlines() if "───" in line]
        assert bool(rules) == (name != "predict")
        assert all(len(rule) <= 60 for rule in rules), name
    assert "to the best ± SE" in shown["train"]
    assert "←" in shown["compare"]
    assert "alerts" in shown["evaluate"]
    monkeypatch.setenv("COLUMNS", "100")
    assert "seconds" in run(*NARROW["compare"].split()).stdout
    assert "alerts per 1,000" in run(*NARROW["evaluate"].split()).stdout
