"""ZIP archives made to mislead a reader are refused as model files, and nothing is extracted."""

from __future__ import annotations

import io
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from apmax.app.model import load_model
from apmax.errors import ApmaxError, ModelFileError
from tests.reliability.formats import make_zip, model_seeds, unzip, use_model

# Offsets in an entry of the central directory, and in a local header (APPNOTE 4.3.7, 4.3.12).
ENTRY = {"flags": 8, "method": 10, "packed": 20, "size": 24, "extra": 30, "start": 42}
LOCAL = {"flags": 6, "method": 8, "packed": 18, "size": 22}
LARGEST = 0xFFFFFFFF


def patched(field: str, value: int, *, both: bool = True) -> bytes:
    """Change a field of the first member, in the directory and in its own header."""
    content = bytearray(model_seeds()[0])
    width = "<H" if field in ("flags", "method", "extra") else "<I"
    places = [content.index(b"PK\1\2") + ENTRY[field]]
    if both and field in LOCAL:
        places.append(content.index(b"PK\3\4") + LOCAL[field])
    for place in places:
        struct.pack_into(width, content, place, value)
    return bytes(content)


def added(name: str, content: bytes, mode: int = 0) -> bytes:
    """Add a member to a valid model file."""
    stream = io.BytesIO(model_seeds()[0])
    with zipfile.ZipFile(stream, "a") as archive, warnings.catch_warnings(action="ignore"):
        member = zipfile.ZipInfo(name)
        member.external_attr = mode << 16
        archive.writestr(member, content)
    return stream.getvalue()


def with_zip64_size() -> bytes:
    """Return an archive whose first member claims 2^63 bytes in a ZIP64 field."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in unzip(model_seeds()[0]).items():
            member = zipfile.ZipInfo(name)
            member.extra = struct.pack("<HHQQ", 1, 16, 1 << 63, 1 << 63)
            archive.writestr(member, content)
    changed = bytearray(stream.getvalue())
    place = changed.index(b"PK\1\2") + ENTRY["packed"]
    struct.pack_into("<II", changed, place, LARGEST, LARGEST)
    return bytes(changed)


def one_array() -> bytes:
    """Return a valid array of a model."""
    return next(one for name, one in unzip(model_seeds()[0]).items() if name != "model.json")


def of_type(kind: int) -> bytes:
    """Return a valid model file whose first array is a link or a device."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in unzip(model_seeds()[0]).items():
            member = zipfile.ZipInfo(name)
            member.external_attr = (kind | 0o777) << 16 if name == "0.npy" else 0
            archive.writestr(member, content)
    return stream.getvalue()


def with_nul() -> bytes:
    """Return a valid model file in which a name goes on after a NUL byte."""
    members = {f"{k}_.py" if k == "0.npy" else k: v for k, v in unzip(model_seeds()[0]).items()}
    content = make_zip(members).replace(b"0.npy_.py", b"0.npy\0.py")
    assert zipfile.ZipFile(io.BytesIO(content)).namelist() == [*unzip(model_seeds()[0])]
    return content


ATTACKS: dict[str, Callable[[], bytes]] = {
    "two documents": lambda: added("model.json", b"{}"),
    "two arrays of one name": lambda: added("0.npy", b""),
    "a symbolic link": lambda: of_type(stat.S_IFLNK),
    "a device": lambda: of_type(stat.S_IFCHR),
    "a pipe": lambda: of_type(stat.S_IFIFO),
    "an array that nothing refers to": lambda: added("999.npy", one_array()),
    "data before the archive": lambda: b"#!/bin/sh\n" + model_seeds()[0],
    "an archive before the archive": lambda: make_zip({"0.npy": one_array()}) + model_seeds()[0],
    "data after the archive": lambda: model_seeds()[0] + b"MZ" * 10,
    "a comment": lambda: model_seeds()[0][:-2] + b"\2\0MZ",
    "a folder": lambda: added("0.npy/", b""),
    "an archive as an array": lambda: make_zip(
        {**unzip(model_seeds()[0]), "0.npy": model_seeds()[0]}
    ),
    "a name with a NUL byte": with_nul,
    "an encrypted member": lambda: patched("flags", 1),
    "another method": lambda: patched("method", 14),
    "a smaller size than it has": lambda: patched("size", 10),
    "a size of 4 GB": lambda: patched("size", LARGEST - 1),
    "a start beyond the file": lambda: patched("start", LARGEST - 1),
    "a start in another member": lambda: patched("start", 100),
    "an extra field beyond the file": lambda: patched("extra", 0xFFFF),
    "a size of 2^63 bytes": with_zip64_size,
    "sizes that differ between headers": lambda: patched("size", 10, both=False),
    "no directory": lambda: model_seeds()[0][: model_seeds()[0].index(b"PK\1\2")],
    "no members": lambda: make_zip({}),
    "20,000 empty members": lambda: make_zip({f"{k}.npy": b"" for k in range(20_000)}),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_archives_that_mislead_are_refused_and_nothing_is_extracted(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.apmax"
    path.write_bytes(ATTACKS[name]())
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
    assert [one.name for one in tmp_path.iterdir()] == ["model.apmax"]


def test_files_of_the_attacks_are_models_without_the_attack(tmp_path: Path) -> None:
    path = tmp_path / "model.apmax"
    for content in (of_type(0), of_type(stat.S_IFREG), make_zip(unzip(model_seeds()[0]))):
        path.write_bytes(content)
        assert np.isfinite(use_model(path)).all()


WRAPPED = [2**63 - 1, -(2**63), 2**32, -(2**32), 2**31, -(2**31) - 1, 2**62]


def test_integers_that_wrap_are_refused_or_give_finite_scores(tmp_path: Path) -> None:
    path, outcomes = tmp_path / "model.apmax", []
    for valid in map(unzip, model_seeds()):
        for name in (name for name in valid if name.endswith(".npy")):
            array = np.load(io.BytesIO(valid[name]), allow_pickle=False)
            if array.dtype.kind == "f" or array.size == 0:
                continue
            for number in WRAPPED:
                changed = array.copy().reshape(-1)
                changed[[0, -1]] = np.array([number]).astype(array.dtype)
                stream = io.BytesIO()
                np.save(stream, changed.reshape(array.shape))
                path.write_bytes(make_zip({**valid, name: stream.getvalue()}))
                try:
                    outcomes.append(bool(np.isfinite(use_model(path)).all()))
                except ApmaxError:
                    outcomes.append(True)
    assert all(outcomes)
    assert len(outcomes) >= 100
