"""Files larger than memory are sampled: all positives, and other rows that stand for the rest."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from apmax import memory
from apmax.app import table_sample
from apmax.app.drift import psi
from apmax.app.io import load
from apmax.app.model import load_model
from apmax.app.table_sample import evenly_drawn, load_sample
from apmax.atomic_files import remove_unfinished_files, temporary_folder
from apmax.errors import FileFormatError, LabelError, ParameterError, UnknownNameError
from tests.app.loans import as_json, run

ROWS = 4000
RNG = np.random.default_rng(0)
POSITIVE = np.arange(ROWS) % 40 == 7
TABLE = pd.DataFrame(
    {
        "number": np.arange(ROWS),
        "status": np.where(POSITIVE, "bad", "good"),
        "text": np.where(np.arange(ROWS) % 3 == 0, 'a "quoted", word', "two\nlines"),
        "x": (RNG.normal(size=ROWS) + 2 * POSITIVE).round(3),
        "v": RNG.integers(1, 4, ROWS),
    }
)


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Check that no temporary file is left, whatever happens."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.chdir(tmp_path)
    yield
    assert list(place.iterdir()) == []


def write(name: str, table: pd.DataFrame = TABLE) -> str:
    if name.endswith(".parquet"):
        table.to_parquet(name, row_group_size=500)
    elif name.endswith(".feather"):
        table.to_feather(name)
    else:
        table.to_csv(name, index=False, sep="\t" if ".tsv" in name else ",")
    return name


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.parquet", "a.feather"])
def test_a_sample_holds_all_positives_and_stands_for_all_rows(name: str) -> None:
    found = load_sample(write(name), 1000, target="status")
    whole = load(name, target="status")
    assert found.y is not None
    assert found.X.shape == (1000, 4)
    assert list(found.X.columns) == list(whole.X.columns)
    assert (found.positive, found.negative) == ("bad", "good")
    assert found.y.sum() == POSITIVE.sum()
    assert found.weight is not None
    assert found.weight[found.y].sum() == pytest.approx(POSITIVE.sum())
    assert found.weight.sum() == pytest.approx(ROWS)
    kept = found.X["number"].to_numpy()
    assert (np.diff(kept) > 0).all()  # in the order of the file
    for column in ("x", "text", "v"):
        assert (found.X[column].to_numpy() == whole.X[column].to_numpy()[kept]).all()
    np.testing.assert_array_equal(found.y, POSITIVE[kept])
    assert found.source == Path(name)
    assert (
        "4,000 rows, and --rows limits them: training uses all 100 positives and 900 of 3,900"
        in (found.notes[0])
    )


def test_the_memory_for_training_limits_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load_sample(write("a.csv"), None, target="status")
    assert whole.stands_for is whole.weight is None
    assert whole.y is not None
    assert whole.y.size == ROWS
    monkeypatch.setattr(memory, "LEAST_ROWS", 10)
    monkeypatch.setenv("APMAX_MEMORY", "10.2 MB")  # 6000 bytes per row, and 20 per byte
    for name in ("a.csv", "a.parquet"):
        found = load_sample(write(name), None, target="status")
        assert found.X.shape[0] == 1500
        assert "do not fit into memory" in found.notes[0]
        assert "APMAX_MEMORY" in found.notes[0]
    assert load_sample("a.csv", 10**6, target="status").X.shape[0] == ROWS
    for wrong in ("much", "-1GB", "0", "1.2.3GB"):
        monkeypatch.setenv("APMAX_MEMORY", wrong)
        with pytest.raises(ParameterError, match=r"APMAX_MEMORY.*write it as 8GB"):
            load_sample("a.csv", None, target="status")


@pytest.mark.parametrize("version", [1, 2])
def test_memory_of_a_container_counts(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [tmp_path / path.name for path in memory.ROOT_GROUPS]
    assert [path.name for path in limits] == ["memory.max", "memory.limit_in_bytes"]
    limit = limits[2 - version]
    limit.write_text("1000000\n")
    monkeypatch.setattr(memory, "ROOT_GROUPS", limits)
    assert memory.memory_of_machine() == 1_000_000
    assert memory.memory_for_training() == 500_000
    limit.write_text("max\n")
    machine = memory.memory_of_machine()
    assert machine is None or machine > 1_000_000
    monkeypatch.setenv("APMAX_MEMORY", "2GiB")
    assert memory.memory_for_training() == 2 * 10**9


def test_half_of_the_rows_are_positive_at_most() -> None:
    found = load_sample(write("a.csv"), 100, target="status", positive="Bad")
    assert found.y is not None
    assert (found.y.sum(), found.y.size, found.positive) == (50, 100, "bad")
    assert "50 of 100 positives and 50 of 3,900 other rows" in found.notes[0]
    assert found.weight is not None
    assert found.weight.sum() == pytest.approx(ROWS)


def test_weights_of_rows_are_multiplied_and_unlabelled_rows_dropped() -> None:
    from apmax.app.roles import Roles

    table = TABLE.assign(status=TABLE["status"].where(TABLE.index % 4 != 0))
    found = load_sample(
        write("a.csv", table), 1000, target="status", roles=Roles(weight="v"), drop_unlabelled=True
    )
    assert found.weight is not None
    assert found.stands_for is not None
    given = TABLE["v"].to_numpy()[found.X["number"]]
    np.testing.assert_allclose(found.weight, given * found.stands_for)
    with pytest.raises(LabelError, match=r"a sample of a\.csv is missing in .*--drop-unlabelled"):
        load_sample("a.csv", 1000, target="status")


def test_labels_may_be_numbers_and_one_among_many() -> None:
    table = TABLE.assign(status=np.arange(ROWS) % 7)
    for name in ("a.csv", "a.parquet"):
        found = load_sample(
            write(name, table), 500, target="status", positive="3", against_rest=True
        )
        assert found.y is not None
        assert found.y.sum() == 250
        assert found.positive == 3


def test_rows_of_a_sample_that_are_evenly_drawn_have_the_share_of_positives_of_the_file() -> None:
    found = load_sample(write("a.csv"), 1000, target="status")
    assert found.y is not None
    even = evenly_drawn(found)
    assert 800 < even.size < 960
    assert found.y[even].mean() < 0.05 < found.y.mean()
    assert evenly_drawn(load("a.csv", target="status")).size == ROWS


def test_wrong_targets_and_damaged_files_are_reported() -> None:
    write("a.csv"), write("a.parquet")
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(UnknownNameError, match="did you mean 'status'"):
            load_sample(name, 1000, target="statu")
        with pytest.raises(LabelError, match=r"a sample of a\.\w+ has \d+ values"):
            load_sample(name, 1000, target="number")
        assert load_sample(name, 1000).y is None
        with pytest.raises(ParameterError, match="at least 2"):
            load_sample(name, 1, target="status")
    lines = Path("a.csv").read_text().splitlines()
    Path("b.csv").write_text("\n".join([*lines, "1,bad"]))
    with pytest.raises(FileFormatError, match=r"b\.csv, row 4001 \(line \d+\): 2 cells, expected"):
        load_sample("b.csv", 1000, target="status")
    content = gzip.compress(Path("a.csv").read_bytes())
    Path("c.csv.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(FileFormatError, match=r"c\.csv\.gz"):
        load_sample("c.csv.gz", 1000, target="status")
    Path("d.parquet").write_bytes(Path("a.parquet").read_bytes()[:-100])
    with pytest.raises(FileFormatError, match=r"d\.parquet"):
        load_sample("d.parquet", 1000, target="status")


def test_train_reports_the_sample_and_predicts_without_drift() -> None:
    write("a.csv")
    options = ("--target", "status", "--drop", "number", "--model", "logistic")
    result = as_json("train", "a.csv", *options, "--rows", "1000", "-o", "m.apmax")
    assert "training uses all 100 positives" in result["warnings"][0]
    model = load_model("m.apmax")
    assert (model.facts["rows"], model.facts["positives"]) == (1000, 100)
    scored = expit(model.log_odds(TABLE.drop(columns=["number", "status"])))
    assert scored.mean() == pytest.approx(POSITIVE.mean(), rel=0.3)  # weights keep probabilities
    whole = load("a.csv", target="status")
    shifts = psi(model.profile, whole.X, scored)
    assert {shift.size for shift in shifts} == {"small"}
    shown = run("compare", "a.csv", *options, "--rows", "1000").stdout
    assert "100 positives in 1,000 rows, a weighted sample of 4,000" in " ".join(shown.split())
    assert (
        "must be at least 2" in run("compare", "a.csv", *options, "--rows", "1", fails=True).output
    )


def test_one_label_among_more_than_can_be_counted_keeps_its_rows() -> None:
    labels = np.where(POSITIVE, "fraud", [f"other {k}" for k in range(ROWS)])
    name = write("many.csv", TABLE.assign(status=labels))
    found = load_sample(name, 1000, target="status", positive="fraud", against_rest=True)
    assert found.y is not None
    assert found.weight is not None
    assert found.y.sum() == POSITIVE.sum()
    assert found.weight[found.y].tolist() == [1.0] * POSITIVE.sum()
    assert found.weight.sum() == pytest.approx(ROWS)


def test_a_table_of_text_without_a_header_keeps_its_column_numbers() -> None:
    words = pd.DataFrame(
        {"colour": np.where(np.arange(ROWS) % 2, "red", "blue"), "y": np.where(POSITIVE, "n", "v")}
    )
    words.to_csv("words.csv", index=False, header=False)
    whole, found = load("words.csv", target="last"), load_sample("words.csv", 1000, target="last")
    assert found.X.shape[0] == 1000
    assert [*found.X.columns] == [*whole.X.columns]


def test_the_positive_label_is_that_of_the_whole_file() -> None:
    for labels in (np.where(POSITIVE, "none", "theft"), np.where(np.arange(ROWS) % 2, "9", "10")):
        name = write("labels.csv", TABLE.assign(status=labels))
        whole, found = load(name, target="status"), load_sample(name, 1000, target="status")
        assert str(found.positive) == str(whole.positive)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_spellings_of_two_labels_are_two_labels(name: str) -> None:
    write(name, TABLE.assign(status=np.where(POSITIVE, "a", "A")))
    for positive in (None, "a"):
        found = load_sample(name, 1000, target="status", positive=positive)
        assert (found.positive, found.negative) == ("a", "A")
        assert found.y is not None
        assert found.weight is not None
        assert found.y.sum() == POSITIVE.sum()
        assert found.weight.sum() == pytest.approx(ROWS)


@pytest.mark.parametrize("lines", [-500, 500])
def test_a_file_that_changes_between_the_passes_is_reported(
    lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.csv", TABLE.drop(columns="text"))
    whole = Path("a.csv").read_text().splitlines()
    count = table_sample._TextTable.count_labels

    def changed(self: Any, positive: Any) -> Any:
        found = count(self, positive)
        now = whole[:lines] if lines < 0 else whole + whole[1 : lines + 1]
        Path("a.csv").write_text("\n".join(now))
        return found

    monkeypatch.setattr(table_sample._TextTable, "count_labels", changed)
    with pytest.raises(FileFormatError, match=r"a\.csv changed while it was read"):
        load_sample("a.csv", 1000, target="status")


def test_rows_of_other_formats_cannot_be_limited() -> None:
    TABLE.to_json("a.jsonl", orient="records", lines=True)
    with pytest.raises(ParameterError, match=r"--rows needs a CSV, TSV, Parquet or Feather file"):
        load_sample("a.jsonl", 1000, target="status")
    assert load_sample("a.jsonl", ROWS, target="status").X.shape[0] == ROWS


def test_a_wrong_target_is_reported_before_the_table_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the whole table is read")

    monkeypatch.setattr("apmax.app.table_sample.load", refuse)
    with pytest.raises(UnknownNameError, match="status"):
        load_sample(write("a.csv"), 1000, target="stats")


def test_an_interrupted_command_leaves_no_sample() -> None:
    with temporary_folder() as folder:
        (folder / "sample.csv").write_text("a")
        remove_unfinished_files()
        assert not folder.exists()
        folder.mkdir()  # for the end of the block
