"""Numbers with decimal commas and separators of thousands, encodings, JSON lines and Excel."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from apmax.app.io import load
from apmax.app.model import load_model
from apmax.app.numbers import COMMA, ENGLISH, NumberReader, number_format
from apmax.app.tables import read_table
from apmax.errors import FileError, FileFormatError, ParameterError
from tests.app.loans import as_json, made_loans, run


def read(folder: Path, *columns: list[str], **options: Any) -> tuple[pd.DataFrame, list[str]]:
    """Write columns a, b, … as text separated by tabs, and read them with their notes."""
    names = "abc"[: len(columns)]
    rows = ["\t".join(names), *map("\t".join, zip(*columns, strict=True))]
    (folder / "t.tsv").write_text("\n".join(rows) + "\n")
    reader = NumberReader(**options)
    return read_table(folder / "t.tsv", numbers=reader), reader.notes


@pytest.mark.parametrize(
    ("texts", "numbers", "described"),
    [
        (["3,13", "-0,5", "12"], [3.13, -0.5, 12], "decimal commas"),
        (["1.101,50", "3,1", "2.000.000"], [1101.5, 3.1, 2e6], "decimal commas"),
        (["1.101.500", "2.000", "7"], [1101500, 2000, 7], "decimal commas"),
        (["1,101.50", "3.1", "2,000,000"], [1101.5, 3.1, 2e6], "decimal points and ','"),
        (["1 101,50", "3,1", "2 000 000"], [1101.5, 3.1, 2e6], "decimal commas and spaces"),
        (["1 101", "7", "2 000 000"], [1101, 7, 2e6], "and spaces between"),
        (["1\u00a0101.5", "7", "2\u202f000"], [1101.5, 7, 2000], "decimal points and spaces"),
        (["1'101.50", "3.1", "2'000'000"], [1101.5, 3.1, 2e6], 'decimal points and "\'"'),
    ],
)
def test_a_format_that_only_one_reading_explains_is_used_and_reported(
    tmp_path: Path, texts: list[str], numbers: list[float], described: str
) -> None:
    frame, notes = read(tmp_path, texts)
    assert frame["a"].tolist() == numbers
    assert len(notes) == 1
    assert described in notes[0]


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1.5", "2.25", "3"], [1.5, 2.25, 3]),
        (["0.123", "1.101", "2.345"], [0.123, 1.101, 2.345]),
        (["1e-3", "2.5", "7"], [0.001, 2.5, 7]),
        (["1", "2", "3000"], [1, 2, 3000]),
        (["24.01.2023", "25.02.2023", "?"], ["24.01.2023", "25.02.2023", "missing"]),
        (["a", "b,c", "1.101"], ["a", "b,c", "1.101"]),
        (["10 20", "30 4000", "5 600 7"], ["10 20", "30 4000", "5 600 7"]),
    ],
)
def test_plain_numbers_dates_and_words_are_left_alone(
    tmp_path: Path, texts: list[str], values: list[Any]
) -> None:
    frame, notes = read(tmp_path, texts)
    assert notes == []
    assert frame["a"].astype(object).fillna("missing").tolist() == values


def test_the_other_columns_decide_what_1_101_is(tmp_path: Path) -> None:
    unclear = ["1.101", "2.345", "9.999"]
    frame, notes = read(tmp_path, unclear, ["3,13", "2,5", "1,75"])
    assert frame["a"].tolist() == [1101, 2345, 9999]
    assert "'a', 'b': read as numbers with decimal commas" in notes[0]
    frame, notes = read(tmp_path, unclear, ["3.13", "2.5", "1.75"])
    assert (frame["a"].tolist(), notes) == ([1.101, 2.345, 9.999], [])


@pytest.mark.parametrize(
    ("texts", "taken", "other"),
    [
        (["1.101", "2.345", "9.999"], "1.101", "--decimal , --thousands . for 1101"),
        (["1.000", "2.000", "3.000"], "1", "--decimal , --thousands . for 1000"),
        (["1,101", "2,345", "9,999"], "1101", "--decimal , --thousands . for 1.101"),
        (["1.101", "950"] * 30, "1101", "--decimal . --thousands , for 1.101"),
    ],
)
def test_an_unclear_column_is_reported_with_the_options_that_decide(
    tmp_path: Path, texts: list[str], taken: str, other: str
) -> None:
    frame, notes = read(tmp_path, texts)
    assert frame["a"][0] == float(taken)
    assert len(notes) == 1
    assert "can be read in two ways" in notes[0]
    assert f"is taken for {taken};" in notes[0]
    assert other in notes[0]
    for given in (COMMA, ENGLISH):
        frame, notes = read(tmp_path, texts, given=given)
        plain = texts[0].replace(given.thousands, "").replace(given.decimal, ".")
        assert (frame["a"][0], notes) == (float(plain), [])


def test_values_of_another_format_are_missing_and_counted(tmp_path: Path) -> None:
    frame, notes = read(tmp_path, [*["3,13"] * 40, "3.5", "-"])
    assert np.isnan(frame["a"][40])
    assert "1 of 41 values are not numbers with decimal commas" in notes[1]
    assert "(first '3.5'), and count as missing" in notes[1]


@pytest.mark.parametrize(("decimal", "thousands"), [(";", None), (",", ","), (".", "x")])
def test_unknown_separators_are_refused(decimal: str, thousands: str | None) -> None:
    with pytest.raises(ParameterError, match="must"):
        number_format(decimal, thousands)


def test_a_model_reads_new_data_as_it_was_trained(folder: Path) -> None:
    frame = made_loans(600, 0).drop(columns="since")
    frame["income"] = [
        "" if np.isnan(value) else f"{value:,.0f}".replace(",", ".") for value in frame["income"]
    ]
    frame["rate"] = [f"{k % 7},{k % 10}" for k in range(600)]
    frame.to_csv("loans.csv", sep=";", index=False)
    options = ("--target", "defaulted", "--model", "logistic", "-o", "m.apmax")
    notes = as_json("train", "loans.csv", *options)["warnings"]
    assert notes[0].startswith("'income', 'rate': read as numbers with decimal commas")
    assert load_model("m.apmax").formats == {"income": COMMA, "rate": COMMA}
    few = frame[frame["income"] != ""].head(2).assign(rate="1")
    few.to_csv("few.csv", sep=";", index=False)
    pd.DataFrame({**few, "income": few["income"].str.replace(".", "").astype(int)}).to_parquet(
        "few.parquet"
    )
    written = as_json("predict", "m.apmax", "few.csv")
    assert written["warnings"] == []
    pd.read_parquet("few.parquet").assign(rate=1).to_csv("plain.csv", index=False)
    assert as_json("predict", "m.apmax", "plain.csv")["log_odds"] == written["log_odds"]


def test_encodings_are_named_by_the_error_and_by_the_option(folder: Path) -> None:
    file = folder / "t.csv"
    file.write_bytes("city,y\nKöln,a\nBonn,b\n".encode("cp1252"))
    with pytest.raises(FileFormatError, match=r"not UTF-8 text.*--encoding cp1252 .*latin-1"):
        read_table(file)
    assert read_table(file, encoding="cp1252")["city"][0] == "Köln"
    file.write_bytes("city,y\nKöln,a\nBonn,b\n".encode("utf-16"))
    with pytest.raises(FileFormatError, match="--encoding utf-16"):
        read_table(file)
    assert read_table(file, encoding="UTF-16")["city"][0] == "Köln"
    for unknown in ("klingon", "base64"):
        result = run("train", "t.csv", "--target", "y", "--encoding", unknown, fails=True)
        assert "is not a text encoding" in result.stderr


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson"])
def test_json_lines_are_read_and_malformed_ones_refused(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"t{suffix}"
    file.write_text('{"age": 39, "job": "clerk", "y": 1}\n{"age": null, "job": "ü", "y": 0}\n')
    dataset = load(file, target="y")
    assert dataset.X["job"].tolist() == ["clerk", "ü"]
    assert np.isnan(dataset.X["age"][1])
    for content in ("", "{", '{"a": 1}\nx\n', "[1, 2]\n[3]\n{"):
        file.write_text(content)
        with pytest.raises(FileFormatError):
            read_table(file)


def test_excel_without_openpyxl_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(FileError, match=r"pip install 'apmax\[excel\]'"):
        read_table(tmp_path / "t.xlsx")
    (tmp_path / "t.xlsx").write_bytes(b"not a workbook")
    with pytest.raises(FileFormatError, match="not an Excel workbook"):
        read_table(tmp_path / "t.xlsx")


def test_a_workbook_is_read_like_the_frame_it_was_written_from(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="needs the extra apmax[excel]")
    frame = pd.DataFrame({"a": [1.5, None], "word": ["x", "y"], "y": ["yes", "no"]})
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.xlsx"), frame)


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "gz", "parquet"])
def test_standard_input_is_read_in_every_format(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    frame = made_loans(50, 3)
    content = {
        "csv": lambda: frame.to_csv(index=False).encode(),
        "tsv": lambda: frame.to_csv(index=False, sep="\t").encode(),
        "jsonl": lambda: frame.to_json(orient="records", lines=True, date_format="iso").encode(),
        "gz": lambda: gzip.compress(frame.to_csv(index=False).encode()),
        "parquet": lambda: frame.to_parquet(None),
    }[kind]()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    dataset = load("-", target="defaulted")
    np.testing.assert_allclose(dataset.X["income"], frame["income"])
    assert dataset.labels().sum() == (frame["defaulted"] == "yes").sum()
    assert str(dataset.source) == "standard input"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(FileFormatError, match=r"^standard input is empty"):
        load("-", target="defaulted")
