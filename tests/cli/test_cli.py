"""The command line as people and programs use it."""

from __future__ import annotations

import io
import json
import os
import re
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
from benchmarks.datasets import data_folder
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler
from typer.testing import CliRunner, Result

from apmax import average_precision
from apmax.cli import app
from apmax.data import load
from apmax.pipeline.encoder import TableEncoder
from apmax.pipeline.storage import load_model
from apmax.pipeline.training import load_labelled

ROOT = Path(__file__).parents[2]
COMMANDS = ["demo", "train", "evaluate", "predict", "compare", "report", "data list", "data get"]


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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made_loans(600, 0).to_csv("loans.csv", index=False)
    made_loans(400, 1).to_csv("new-loans.csv", index=False)
    return tmp_path


def run(*arguments: str, fails: bool = False) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert (result.exit_code != 0) == fails, result.output
    return result


def as_json(*arguments: str) -> Any:
    return json.loads(run("--json", *arguments).stdout)


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


def test_the_positive_label_can_be_chosen(folder: Path) -> None:
    options = ("--target", "defaulted", "--positive", "no", "--solver", "lbfgs", "-o", "m.apmax")
    assert as_json("train", "loans.csv", *options)["positive"] == "no"
    assert load_model("m.apmax").positive == "no"


def test_labels_may_be_spelled_a_bit_otherwise(folder: Path) -> None:
    frame = made_loans(400, 1)
    frame["defaulted"] = frame["defaulted"].str.upper() + "."
    frame.to_csv("shouted.csv", index=False)
    plain = load_labelled("new-loans.csv", target="defaulted", positive="yes")
    shouted = load_labelled("shouted.csv", target="defaulted", positive="yes")
    np.testing.assert_array_equal(plain.y, shouted.y)
    flipped = load_labelled("new-loans.csv", target="defaulted", positive="no")
    np.testing.assert_array_equal(plain.y, ~flipped.y)


@pytest.mark.parametrize("solver", ["adap-adam", "soap-adam", "cv"])
def test_every_kind_of_solver_trains(folder: Path, solver: str) -> None:
    told = as_json("train", "loans.csv", "--target", "last", "--solver", solver, "-o", "m.apmax",
                   "--test", "new-loans.csv", "--report", "r.html")  # fmt: skip
    assert told["test_ap"] > 1.5 * told["test_prevalence"]
    assert "<svg" in Path("r.html").read_text()


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
    tested = load_labelled("new-loans.csv", target="defaulted", positive="yes")
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

    monkeypatch.setattr("apmax.data.files.load", interrupted)
    result = run("train", "loans.csv", "--target", "last", fails=True)
    assert result.exit_code == 130
    assert result.stderr.strip() == "stopped before the end"


def test_ctrl_c_in_the_last_fit_leaves_the_model_that_was_tested(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apmax.pipeline import training

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

    monkeypatch.setattr("apmax.cli.training.report_on", interrupted)
    command = "--quiet train loans.csv --target last --solver lbfgs -o m.apmax --report r.html"
    result = run(*shlex.split(command), fails=True)
    assert result.exit_code == 130
    assert result.stderr.strip() == "stopped before the end: m.apmax holds the best model so far"
    assert not Path("r.html").exists()


@pytest.mark.skipif(data_folder() is None, reason="needs adult and w8a: set APMAX_DATA")
@pytest.mark.parametrize("name", ["adult", "w8a"])
def test_real_data_needs_no_option_but_the_target(name: str, tmp_path: Path) -> None:
    """And the test AP is at least that of logistic regression on the same features."""
    shared = data_folder()
    assert shared is not None
    if name == "adult":
        files = [shared / "tabular" / f"adult-{part}.csv.xz" for part in ("train", "test")]
        target: list[str] = ["--target", "last"]
    else:
        files = [shared / "libsvm" / f"w8a{part}.xz" for part in ("", ".t")]
        target = []
    out = str(tmp_path / "m.apmax")
    told = as_json("train", str(files[0]), *target, "--test", str(files[1]), "--out", out)
    learnt = load(files[0], target="last" if target else None)
    tested = load_labelled(files[1], target=learnt.target, positive=str(learnt.positive_label))
    encoder = TableEncoder.fit(learnt.X) if target else None
    X, X_test = (
        part if encoder is None else encoder.transform(part) for part in (learnt.X, tested.X)
    )
    scaler = MaxAbsScaler().fit(X)
    logistic = LogisticRegression(max_iter=3000).fit(scaler.transform(X), learnt.y)
    assert tested.y is not None
    expected = average_precision(tested.y, logistic.decision_function(scaler.transform(X_test)))
    assert told["test_ap"] >= expected - 0.0005


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
    code = "import sys; from apmax.cli import app; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"sklearn", "pandas", "numba", "torch", "matplotlib"} & set(done.stdout.split())
    assert run("--version").stdout.startswith("apmax ")


def test_a_row_gets_the_same_score_whatever_else_is_in_its_file(folder: Path) -> None:
    rng = np.random.default_rng(5)
    code = rng.choice(["01", "02", "A3"], 400)
    frame = pd.DataFrame({"code": code, "y": rng.random(400) < np.where(code == "01", 0.6, 0.2)})
    frame.to_csv("codes.csv", index=False)
    run("--quiet", "train", "codes.csv", "--target", "y", "--solver", "lbfgs", "-o", "m.apmax")
    Path("all.csv").write_text("code\n01\n02\nA3\n")
    Path("some.csv").write_text("code\n01\n02\n")
    every = pd.read_csv(io.StringIO(run("predict", "m.apmax", "all.csv").stdout))
    some = pd.read_csv(io.StringIO(run("predict", "m.apmax", "some.csv").stdout))
    pd.testing.assert_frame_equal(every.iloc[:2], some)
    assert every["probability"].nunique() == 3


def test_words_that_look_like_markup_are_shown_as_they_are(folder: Path) -> None:
    rng = np.random.default_rng(6)
    word = rng.choice(["[/b]", "[red]x", "plain"], 300)
    frame = pd.DataFrame({"w": word, "y": rng.random(300) < np.where(word == "[/b]", 0.7, 0.2)})
    frame.to_csv("odd.csv", index=False)
    told = run("train", "odd.csv", "--target", "y", "--solver", "lbfgs", "-o", "m.apmax").stdout
    assert "w = [/b]" in told


def test_labels_that_differ_in_case_only_are_told_apart(folder: Path) -> None:
    frame = made_loans(300, 7)
    frame["defaulted"] = np.where(frame["defaulted"] == "yes", "m", "M")
    frame.to_csv("case.csv", index=False)
    for label in ("m", "M"):
        found = load_labelled("case.csv", target="defaulted", positive=label)
        np.testing.assert_array_equal(found.y, frame["defaulted"] == label)


@pytest.mark.parametrize("positives", [1, 2, 3])
def test_very_few_positives_still_train(folder: Path, positives: int) -> None:
    frame = made_loans(200, 8)
    frame["defaulted"] = np.where(np.arange(200) < positives, "yes", "no")
    frame.to_csv("rare.csv", index=False)
    options = ("--target", "last", "--test", "loans.csv", "-o", "m.apmax")
    assert as_json("train", "rare.csv", *options)["positives"] == positives


def test_a_table_with_row_numbers_from_pandas_is_read(folder: Path) -> None:
    made_loans(300, 9).to_csv("numbered.csv")
    dataset = load("numbered.csv", target="defaulted")
    assert dataset.names == ["column 1", "income", "city", "since"]


def test_decimal_commas_and_headers_that_look_like_data_are_understood(folder: Path) -> None:
    Path("comma.csv").write_text("x;y\n1,5;a\n2,25;b\n-3,0;a\n")
    assert load("comma.csv", target="y").X["x"].tolist() == [1.5, 2.25, -3.0]
    Path("years.csv").write_text("2019,2020,y\n1,2,a\n3,4,b\n5,6,a\n")
    assert load("years.csv", target="y").names == ["2019", "2020"]


def test_the_models_negative_label_cannot_be_asked_for(folder: Path) -> None:
    run("--quiet", "train", "loans.csv", "--target", "last", "--solver", "lbfgs", "-o", "m.apmax")
    refused = run("evaluate", "m.apmax", "new-loans.csv", "--positive", "No", fails=True)
    assert "it finds 'yes'" in refused.stderr


def test_rows_that_the_model_cannot_use_are_told_beside_the_result(folder: Path) -> None:
    run("train", "loans.csv", "--target", "defaulted", "-o", "m.apmax", "--solver", "lbfgs")
    frame = pd.read_csv("new-loans.csv").assign(income="lots")
    frame.to_csv("odd.csv", index=False)
    for command in ("predict", "evaluate"):
        told = run(command, "m.apmax", "odd.csv")
        assert "note: 'income': 400 of 400 values are no number" in told.stderr
        assert "note" not in told.stdout
        assert as_json(command, "m.apmax", "odd.csv")["notes"][0].startswith("'income': 400")
        assert "note" not in run(command, "m.apmax", "new-loans.csv").stderr


def test_a_report_tells_what_the_model_could_not_use(folder: Path) -> None:
    run("train", "loans.csv", "--target", "defaulted", "-o", "m.apmax", "--solver", "lbfgs")
    pd.read_csv("new-loans.csv").assign(income="lots").to_csv("odd.csv", index=False)
    run("report", "m.apmax", "odd.csv", "-o", "odd.html")
    assert "values are no number" in Path("odd.html").read_text()


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


def test_training_tells_what_it_does_not_use(folder: Path) -> None:
    frame = pd.read_csv("loans.csv").assign(code=[f"word {k}" for k in range(600)])
    frame["income"] = frame["income"].astype(object).where(frame.index != 7, "-")
    frame.to_csv("odd.csv", index=False)
    told = run("train", "odd.csv", "--target", "defaulted", "-o", "m.apmax", "--solver", "lbfgs")
    assert "'code' is text that hardly ever repeats, and is not used" in told.stderr
    plain = run("train", "loans.csv", "--target", "defaulted", "-o", "p.apmax", "--solver", "lbfgs")
    assert plain.stderr == ""
    assert "income" in load_model(Path("m.apmax")).feature_names()
    pd.read_csv("new-loans.csv").assign(city="Bonn", code="x").to_csv("drifted.csv", index=False)
    options = ["--target", "defaulted", "--test", "drifted.csv", "-o", "m.apmax"]
    notes = as_json("train", "odd.csv", *options, "--solver", "lbfgs")["notes"]
    assert [note.split()[0] for note in notes] == ["'income':", "'code'", "'city':"]


def test_data_without_labels_are_for_predict(folder: Path) -> None:
    run("train", "loans.csv", "--target", "defaulted", "-o", "m.apmax", "--solver", "lbfgs")
    pd.read_csv("new-loans.csv").drop(columns="defaulted").to_csv("bare.csv", index=False)
    assert "use apmax predict" in run("evaluate", "m.apmax", "bare.csv", fails=True).stderr


def test_predictions_and_reports_speak_json_too(folder: Path) -> None:
    run("--quiet", "train", "loans.csv", "--target", "last", "--solver", "lbfgs", "-o", "m.apmax")
    told = as_json("predict", "m.apmax", "new-loans.csv")
    run("predict", "m.apmax", "new-loans.csv", "-o", "told.csv")
    assert told == {**pd.read_csv("told.csv").to_dict("list"), "notes": []}
    assert as_json("predict", "m.apmax", "new-loans.csv", "-o", "p.csv")["rows"] == 400
    assert as_json("report", "m.apmax", "new-loans.csv", "-o", "r.html") == {"report": "r.html"}
