"""The command line as people and programs use it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cli.loans import as_json, made_loans, run

from apmax import average_precision

ROOT = Path(__file__).parents[2]


COMMANDS = ["demo", "train", "evaluate", "predict", "compare", "report", "data list", "data get"]


def readme_commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("apmax ")]


def test_every_command_of_the_readme_runs(folder: Path) -> None:
    commands = readme_commands()
    used = {" ".join(shlex.split(command)[1:3]) for command in commands}
    assert all(any(one.startswith(name) for one in used) for name in COMMANDS if name != "data get")
    for command in commands:
        run(*shlex.split(command)[1:])
    assert {"loans.apmax", "loans.html", "scores.csv"} <= set(os.listdir(folder))


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_says_what_and_gives_an_example(command: str) -> None:
    told = run(*shlex.split(command), "--help").stdout
    assert "Usage:" in told
    if command not in ("", "demo", "data list"):
        assert "Example" in told


def test_train_evaluate_and_predict_agree(folder: Path) -> None:
    trained = as_json(
        "train", "loans.csv", "--target", "defaulted", "-o", "m.apmax", "--solver", "lbfgs"
    )
    assert trained["positive"] == "yes"
    told = as_json("evaluate", "m.apmax", "new-loans.csv")
    run("predict", "m.apmax", "new-loans.csv", "--out", "p.csv")
    predicted = pd.read_csv("p.csv")
    y = made_loans(400, 1)["defaulted"] == "yes"
    assert told["average_precision"] == pytest.approx(average_precision(y, predicted["log_odds"]))
    assert told["average_precision"] > 1.5 * told["prevalence"]
    assert set(predicted["label"]) <= {"yes", "no"}
    np.testing.assert_array_equal(predicted["label"] == "yes", predicted["probability"] >= 0.5)
    run("predict", "m.apmax", "new-loans.csv", "--out", "p.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet("p.parquet"), predicted)
    assert run("predict", "m.apmax", "new-loans.csv").stdout == Path("p.csv").read_text()


@pytest.mark.parametrize("solver", ["adap-adam", "soap-adam", "cv"])
def test_every_kind_of_solver_trains(folder: Path, solver: str) -> None:
    told = as_json("train", "loans.csv", "--target", "last", "--solver", solver, "-o", "m.apmax",
                   "--test", "new-loans.csv", "--report", "r.html")  # fmt: skip
    assert told["test_ap"] > 1.5 * told["test_prevalence"]
    assert "<svg" in Path("r.html").read_text()


BAD: dict[str, tuple[str, str]] = {
    "no such file": ("train none.csv --target a", "none.csv: no such file"),
    "no target": ("train loans.csv", "which column is the target"),
    "misspelt target": ("train loans.csv --target defaultd", "did you mean 'defaulted'"),
    "target of many values": ("train loans.csv --target income", "income"),
    "unknown positive": ("train loans.csv --target defaulted --positive maybe", "maybe"),
    "unknown solver": ("train loans.csv --target defaulted --solver adap-adma", "adap-adam"),
    "all solvers": ("train loans.csv --target defaulted --solver best", "'cv'"),
    "no labels": ("train only-x.npz", "only-x.npz holds no labels: store them with X, as the"),
    "labels nowhere": ("train only-x.npz --target last", "missing; store them as the array y"),
    "no model": ("evaluate loans.csv new-loans.csv", "not a model of apmax"),
    "missing model": ("predict none.apmax new-loans.csv", "cannot read"),
    "unknown set": ("data get w9a", "w8a"),
    "few positives": ("compare few.csv --target defaulted", "use more data"),
    "odd output": ("predict MODEL new-loans.csv --out p.xlsx", "must end with"),
    "other columns": ("predict MODEL short.csv", "lacks 'city'"),
    "no folder": ("train loans.csv --target last -o no/m.apmax", "there is no folder"),
    "nothing to go on with": ("train loans.csv --target last --checkpoint c", "e.g. soap-adam"),
    "a folder": ("train loans.csv --target last -o .", "is a folder"),
}


@pytest.mark.parametrize("name", BAD)
def test_every_error_is_one_line_with_a_remedy(folder: Path, name: str) -> None:
    command, told = BAD[name]
    few = made_loans(200, 4)
    few.loc[few.index[few["defaulted"] == "yes"][3:], "defaulted"] = "no"
    few.to_csv("few.csv", index=False)
    np.savez("only-x.npz", X=np.eye(4))
    if "MODEL" in command:
        run("--quiet", "train", "loans.csv", "--target", "last", "--solver", "lbfgs", "-o", "MODEL")
        made_loans(20, 2).drop(columns="city").to_csv("short.csv", index=False)
    result = run(*shlex.split(command), fails=True)
    assert result.exit_code == 1
    assert told in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output
    in_json = run("--json", *shlex.split(command), fails=True)
    assert told in json.loads(in_json.stderr.strip())["error"]


def test_debug_lets_the_traceback_through(folder: Path) -> None:
    result = run("--debug", "train", "none.csv", "--target", "a", fails=True)
    assert isinstance(result.exception, Exception)
    assert not isinstance(result.exception, SystemExit)


def test_quiet_prints_nothing_and_wrong_usage_is_2(folder: Path) -> None:
    arguments = ("train", "loans.csv", "--target", "last", "--solver", "lbfgs", "-o", "m.apmax")
    assert run("--quiet", *arguments).output == ""
    assert run("train", "--nonsense", fails=True).exit_code == 2


def test_nothing_fancy_in_a_pipe(folder: Path) -> None:
    command = [sys.executable, "-m", "apmax", "train", "loans.csv", "--target", "last",
               "--solver", "lbfgs", "-o", "m.apmax"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr == "" or "compiling" in done.stderr


def test_shell_completion_is_there() -> None:
    environment = {
        **os.environ,
        "_APMAX_COMPLETE": "complete_bash",
        "COMP_WORDS": "apmax ev",
        "COMP_CWORD": "1",
    }
    apmax = Path(sys.executable).with_name("apmax")
    done = subprocess.run(
        [str(apmax)], env=environment, capture_output=True, text=True, check=False
    )
    assert "evaluate" in done.stdout


def test_the_command_needs_nothing_heavy_to_say_its_version() -> None:
    code = "import sys; from apmax.app.cli import app; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"sklearn", "pandas", "numba", "torch", "matplotlib"} & set(done.stdout.split())
    assert run("--version").stdout.startswith("apmax ")


def test_words_that_look_like_markup_are_shown_as_they_are(folder: Path) -> None:
    rng = np.random.default_rng(6)
    word = rng.choice(["[/b]", "[red]x", "plain"], 300)
    frame = pd.DataFrame({"w": word, "y": rng.random(300) < np.where(word == "[/b]", 0.7, 0.2)})
    frame.to_csv("odd.csv", index=False)
    told = run("train", "odd.csv", "--target", "y", "--solver", "lbfgs", "-o", "m.apmax").stdout
    assert "w = [/b]" in told


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
def test_what_is_read_is_not_overwritten(folder: Path, command: str) -> None:
    Path("m.apmax").write_text("a model")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert "choose another" in run(*shlex.split(command), fails=True).stderr
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_predictions_and_reports_speak_json_too(folder: Path) -> None:
    run("--quiet", "train", "loans.csv", "--target", "last", "--solver", "lbfgs", "-o", "m.apmax")
    told = as_json("predict", "m.apmax", "new-loans.csv")
    run("predict", "m.apmax", "new-loans.csv", "-o", "told.csv")
    assert told == {**pd.read_csv("told.csv").to_dict("list"), "notes": []}
    assert as_json("predict", "m.apmax", "new-loans.csv", "-o", "p.csv")["rows"] == 400
    assert as_json("report", "m.apmax", "new-loans.csv", "-o", "r.html") == {"report": "r.html"}
