"""Workbooks whose XML claims, expands or refers to more than they have are refused or harmless."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reliability.formats import excel_seeds, make_zip, unzip
from tests.reliability.reader_process import run_jobs

MEGABYTES = 200
SECRET = "1234567891"
"""Content of a file that an entity refers to; its sum would be seen."""
NAMESPACE = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
REFUSED = "FileFormatError "


def workbook(rows: str, doctype: str = "") -> bytes:
    """Return a workbook with this content of the sheet."""
    sheet = f'<?xml version="1.0"?>{doctype}<worksheet {NAMESPACE}><sheetData>{rows}'
    sheet += "</sheetData></worksheet>"
    members = unzip(excel_seeds()[0])
    return make_zip({**members, "xl/worksheets/sheet1.xml": sheet.encode()}, zipfile.ZIP_DEFLATED)


def cell(place: str, value: str = "1") -> str:
    return f'<c r="{place}"><v>{value}</v></c>'


def table(value: str, doctype: str) -> bytes:
    """Return a table of one row, with a value that may be an entity."""
    rows = f'<row r="1">{cell("A1")}{cell("B1")}</row><row r="2">{cell("A2", value)}{cell("B2")}'
    return workbook(f"{rows}</row>", doctype)


def laughs() -> str:
    """Return entities that expand to 10^9 times 100 digits."""
    nested = (f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 10))
    return f'<!DOCTYPE l [<!ENTITY a0 "{"1" * 100}">{"".join(nested)}]>'


def square() -> bytes:
    return table("&a;" * 20_000, f'<!DOCTYPE l [<!ENTITY a "{"1" * 200_000}">]>')


CLAIMS: dict[str, Callable[[], bytes]] = {
    "two cells far apart": lambda: workbook(
        f'<row r="1">{cell("A1")}</row><row r="200000">{cell("ALL200000")}</row>'
    ),
    "the first and the last cell of a sheet": lambda: workbook(
        f'<row r="1">{cell("A1")}</row><row r="1048576">{cell("XFD1048576")}</row>'
    ),
    "wide rows without values": lambda: workbook('<row><c r="XFD1"/></row>' * 5000),
    "row 10^12": lambda: workbook(f'<row r="1">{cell("A1")}</row><row r="{10**12}"/>'),
    "entities of entities": lambda: table("&a9;", laughs()),
    "a long entity, often": square,
}


def answers(folder: Path, workbooks: dict[str, bytes]) -> dict[str, str]:
    """Read workbooks in a process with limits."""
    orders = []
    for name, content in workbooks.items():
        path = folder / f"{name}.xlsx"
        path.write_bytes(content)
        orders.append({"path": str(path), "megabytes": MEGABYTES})
    return dict(zip(workbooks, map(str, run_jobs(folder, orders)), strict=True))


@pytest.fixture(params=["lxml and defusedxml", "plain"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let openpyxl parse with the packages that it prefers, or without them."""
    if request.param == "plain":
        monkeypatch.setenv("OPENPYXL_LXML", "False")
        monkeypatch.setenv("OPENPYXL_DEFUSEDXML", "False")


@pytest.mark.usefixtures("parser")
def test_workbooks_that_claim_or_expand_to_much_are_refused(tmp_path: Path) -> None:
    found = answers(tmp_path, {name: content() for name, content in CLAIMS.items()})
    assert {name: one for name, one in found.items() if not re.match(REFUSED, one)} == {}


@pytest.mark.usefixtures("parser")
def test_workbooks_never_read_other_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    refers = {
        "an external entity": table(
            "&e;", f'<!DOCTYPE l [<!ENTITY e SYSTEM "{secret.as_uri()}">]>'
        ),
        "an external parameter": table(
            "1", f'<!DOCTYPE l [<!ENTITY % e SYSTEM "{secret.as_uri()}">%e;]>'
        ),
        "an external DTD": table("1", '<!DOCTYPE l SYSTEM "http://192.0.2.1/x.dtd">'),
    }
    found = answers(tmp_path, refers)  # the process fails if it opens a connection
    assert {k: one for k, one in found.items() if not re.match(f"{REFUSED}|read", one)} == {}
    assert SECRET not in str(found)
