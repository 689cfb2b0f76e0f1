"""Model files: whole or not there, read and never run."""

from __future__ import annotations

import builtins
import json
import os
import pickle
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from apmax.errors import FileError, ModelFileError
from apmax.app.pipeline.encoder import TableEncoder
from apmax.app.pipeline.model import Model
from apmax.app.pipeline.storage import load_model, save_model

FRAME = pd.DataFrame({"x": [1.0, 2.0, None] * 5, "word": ["a", "b", "ü<script>"] * 5})
ENCODER = TableEncoder.fit(FRAME)
MODEL = Model(
    coef=np.random.default_rng(0).normal(size=len(ENCODER.feature_names())),
    intercept=-1.25,
    positive=">50K",
    negative="<=50K",
    target="income",
    encoder=ENCODER,
    facts={"rows": 15, "command": "apmax train …"},
)


def stored(tmp_path: Path) -> Path:
    path = tmp_path / "model.apmax"
    save_model(MODEL, path)
    return path


def test_a_model_comes_back_as_it_was(tmp_path: Path) -> None:
    again = load_model(stored(tmp_path))
    np.testing.assert_array_equal(again.coef, MODEL.coef)
    np.testing.assert_array_equal(again.log_odds(FRAME), MODEL.log_odds(FRAME))
    assert (again.positive, again.target, again.facts) == (">50K", "income", MODEL.facts)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.apmax"]


def test_a_file_that_was_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    path = stored(tmp_path)
    whole = path.read_bytes()
    for size in np.random.default_rng(1).integers(0, len(whole) - 1, 60):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelFileError):
            load_model(path)


def test_a_file_with_a_changed_byte_is_refused_or_the_same(tmp_path: Path) -> None:
    path = stored(tmp_path)
    whole = path.read_bytes()
    rng = np.random.default_rng(2)
    refused = 0
    for place in rng.integers(0, len(whole), 200):
        changed = bytearray(whole)
        changed[place] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(bytes(changed))
        try:
            again = load_model(path)
        except ModelFileError:
            refused += 1
        else:  # white space, or the version that is only for people
            np.testing.assert_array_equal(again.coef, MODEL.coef)
    assert refused > 150


def test_a_model_from_the_future_says_so(tmp_path: Path) -> None:
    path = stored(tmp_path)
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({**whole, "schema": 2, "version": "9.9"}))
    with pytest.raises(ModelFileError, match=r"apmax 9\.9 .*upgrade"):
        load_model(path)


class Bomb:
    def __reduce__(self) -> Any:
        return builtins.open, ("/nonexistent/pwned", "w")


HOSTILE: dict[str, bytes] = {
    "a pickle": pickle.dumps(Bomb()),
    "an old pickle": pickle.dumps(Bomb(), protocol=0),
    "JSON without end": b"[" * 200_000,
    "a number": b"1e999999",
    "another JSON": b'{"format": "other"}',
    "nothing": b"",
    "zeros": bytes(1000),
    "not UTF-8": b"\xff\xfe{}",
    "a list": b"[1, 2]",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_model_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.apmax"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(ModelFileError, match="apmax train"):
        load_model(path)


FORGED: dict[str, dict[str, Any]] = {
    "no weights": {"coef": ""},
    "half a weight": {"coef": "AAAA"},
    "weights that are not numbers": {"coef": "////////////"},
    "one weight too few": {"coef": "AAAAAAAAAAA="},
    "labels that are numbers": {"positive": 1},
    "an encoder of code": {"encoder": [{"name": "x", "kind": "eval"}]},
    "no encoder for named features": {"encoder": 7},
    "an endless intercept": {"intercept": float("inf")},
    "facts that are none": {"facts": 3},
    "a rest that is one word": {"rest": "yes"},
    "a rest of numbers": {"rest": [1]},
}


def test_a_model_of_an_older_version_is_read(tmp_path: Path) -> None:
    from apmax.app.pipeline import storage

    path = stored(tmp_path)
    whole = json.loads(path.read_text())
    del whole["model"]["rest"]
    for column in whole["model"]["encoder"]:
        del column["extent"]
    whole["digest"] = storage._digest(whole["model"])
    path.write_text(json.dumps(whole))
    again = load_model(path)
    assert again.rest is None
    np.testing.assert_array_equal(again.log_odds(FRAME), MODEL.log_odds(FRAME))


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_model_with_a_right_digest_is_refused(name: str, tmp_path: Path) -> None:
    from apmax.app.pipeline import storage

    path = stored(tmp_path)
    whole = json.loads(path.read_text())
    whole["model"].update(FORGED[name])
    whole["digest"] = storage._digest(whole["model"])
    path.write_text(json.dumps(whole))
    with pytest.raises(ModelFileError, match="no usable model"):
        load_model(path)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="No such file"):
        load_model(tmp_path / "none")
    with pytest.raises(ModelFileError, match="cannot"):
        load_model(tmp_path)
    with pytest.raises(FileError, match="cannot write"):
        save_model(MODEL, tmp_path / "no" / "folder")


def test_a_full_disk_leaves_the_old_model(tmp_path: Path) -> None:
    path = stored(tmp_path)
    before = path.read_bytes()
    child = os.fork()
    if child == 0:  # a limit that cannot be raised again: in a process of its own
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            save_model(MODEL, path)
        except FileError as error:
            os._exit(0 if "as it was" in str(error) else 2)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.apmax"]
