"""Hostile model files are refused, and nothing in them is imported, unpickled or executed."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch

from apmax.app.io import load
from apmax.app.model import load_model
from apmax.errors import ApmaxError, ModelFileError
from tests.reliability.formats import make_zip, model_seeds, unzip, use_model


class Exploit:
    """An object that creates a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def members(edit: Callable[[dict[str, bytes]], Any]) -> dict[str, bytes]:
    """Return the members of a valid model file after an edit."""
    found = unzip(model_seeds()[0])
    edit(found)
    return found


def assert_refused(content: bytes, folder: Path) -> None:
    path = folder / "model.apmax"
    path.write_bytes(content)
    modules = set(sys.modules)
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert set(sys.modules) == modules, "a module was imported"
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(path))


@pytest.fixture(autouse=True, scope="module")
def _load_everything_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Load what reading a valid model imports, so that any further module shows."""
    path = tmp_path_factory.mktemp("valid") / "model.apmax"
    for content in model_seeds():
        path.write_bytes(content)
        use_model(path)
        path.write_bytes(content[:-5])
        with pytest.raises(ModelFileError):
            load_model(path)


def containers_of_code(mark: Path) -> dict[str, bytes]:
    """Return an exploit in every container that some loader of models would execute."""

    def written(write: Callable[[Any], Any]) -> bytes:
        stream = io.BytesIO()
        write(stream)
        return stream.getvalue()

    exploit = Exploit(mark)
    objects = np.empty(1, dtype=object)
    objects[0] = exploit
    raw, call = pickle.dumps(exploit), f"__import__('os').mkdir({str(mark)!r})"
    return {
        **{f"pickle {k}": pickle.dumps(exploit, protocol=k) for k in range(6)},
        "GLOBAL and REDUCE": f"cos\nmkdir\n(V{mark}\ntR.".encode(),
        "INST": f"(V{mark}\nios\nmkdir\n.".encode(),
        "OBJ": f"(cos\nmkdir\nV{mark}\no.".encode(),
        "eval": f"c__builtin__\neval\n(V{call}\ntR.".encode(),
        "pickle in gzip": gzip.compress(raw),
        "joblib": written(lambda f: joblib.dump(exploit, f)),
        "joblib in zlib": written(lambda f: joblib.dump(exploit, f, compress=3)),
        "npy": written(lambda f: np.save(f, objects, allow_pickle=True)),
        "npz": written(lambda f: np.savez(f, coef=objects)),
        "torch": written(lambda f: torch.save(exploit, f)),
        "Python": call.encode(),
        "YAML": f"!!python/object/apply:os.mkdir [{str(mark)!r}]".encode(),
        "JSON, then a pickle": json.dumps({"format": "apmax-model"}).encode() + raw,
        "a pickle as a member": make_zip(members(lambda m: m.update({"0.pkl": raw}))),
        "a pickle as an array": make_zip(members(lambda m: m.update({array_in(m): raw}))),
        "an array of objects": make_zip(
            members(lambda m: m.update({array_in(m): written(lambda f: np.save(f, objects))}))
        ),
    }


def array_in(found: dict[str, bytes]) -> str:
    """Return the name of the largest array."""
    return max((name for name in found if name.endswith(".npy")), key=lambda name: len(found[name]))


def test_code_in_any_container_is_refused_and_never_executed(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    for name, content in containers_of_code(mark).items():
        assert_refused(content, tmp_path)
        for suffix in (".npz", ".parquet", ".feather", ".csv", ".svm"):
            (tmp_path / f"data{suffix}").write_bytes(content)
            with contextlib.suppress(ApmaxError):  # text can be a table
                load(tmp_path / f"data{suffix}")
        assert not mark.exists(), name


def test_the_exploits_work_in_a_loader_that_unpickles(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    for name in ("pickle 0", "pickle 5", "GLOBAL and REDUCE", "INST", "OBJ", "eval"):
        pickle.loads(containers_of_code(mark)[name])
        assert mark.is_dir(), name
        mark.rmdir()


def records(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all records of a document, which are what classes are made from."""
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from records(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from records(value)


TYPES: list[dict[str, Any]] = [
    {"kind": "antigravity"},
    {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode"},
    {"kind": "os.system", "array": "antigravity"},
    {"antigravity": None},
]


@pytest.mark.parametrize("seed", range(7))
@pytest.mark.parametrize("change", TYPES, ids=str)
def test_names_of_other_types_and_unknown_fields_are_refused_in_every_record(
    change: dict[str, Any], seed: int, tmp_path: Path
) -> None:
    valid = unzip(model_seeds()[seed])
    count = len(list(records(json.loads(valid["model.json"]))))
    assert count > 10
    accepted = []
    for number in range(count):
        document = json.loads(valid["model.json"])
        record = list(records(document))[number]
        record.update(change)
        content = make_zip({**valid, "model.json": json.dumps(document).encode()})
        if record is document["facts"]:
            accepted.append(content)
        else:
            assert_refused(content, tmp_path)
    (notes,) = accepted  # texts with names that the user may choose
    path, modules = tmp_path / "model.apmax", set(sys.modules)
    path.write_bytes(notes)
    assert change.items() <= load_model(path).facts.items()
    assert set(sys.modules) == modules


@pytest.mark.parametrize("name", ["../a.npy", "/etc/a.npy", "a/0.npy", "C:\\0.npy", "0.NPY"])
def test_other_member_names_are_refused_and_nothing_is_extracted(name: str, tmp_path: Path) -> None:
    assert_refused(make_zip(members(lambda m: m.update({name: b"0"}))), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.apmax"]


def overlapping(content: bytes) -> bytes:
    """Return an archive in which all members point to the data of the first one."""
    changed, at = bytearray(content), content.find(b"PK\1\2")
    while at >= 0:
        changed[at + 42 : at + 46] = bytes(4)
        at = content.find(b"PK\1\2", at + 4)
    return bytes(changed)


BOMBS: dict[str, Callable[[], bytes]] = {
    "deflated": lambda: make_zip(
        members(lambda m: m.update({"99.npy": bytes(1 << 28)})), zipfile.ZIP_DEFLATED
    ),
    "bzip2": lambda: make_zip(members(lambda m: None), zipfile.ZIP_BZIP2),
    "overlapping members": lambda: overlapping(model_seeds()[0]),
    "an array that claims 10^12 rows": lambda: make_zip(
        members(lambda m: m.update({array_in(m): m[array_in(m)].replace(b"(", b"(999999999999, ")}))
    ),
    "100,000 nested lists": lambda: make_zip(
        members(lambda m: m.update({"model.json": b"[" * 100_000 + b"]" * 100_000}))
    ),
}


FACTS: list[dict[str, Any]] = [{"rows": value} for value in ("abc", None, [1], 0, -1, 1.5, True)]
FACTS += [{"model": value} for value in (None, 1, {"a": 1})]


@pytest.mark.parametrize("change", FACTS, ids=str)
def test_facts_that_commands_cannot_use_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    valid = unzip(model_seeds()[0])
    document = json.loads(valid["model.json"])
    document["facts"].update(change)
    assert_refused(make_zip({**valid, "model.json": json.dumps(document).encode()}), tmp_path)


@pytest.mark.parametrize("name", BOMBS)
def test_archives_that_expand_or_nest_are_refused(name: str, tmp_path: Path) -> None:
    assert_refused(BOMBS[name](), tmp_path)


@pytest.mark.parametrize("seed", range(7))
def test_arrays_of_another_shape_or_type_are_refused_or_give_finite_scores(
    seed: int, tmp_path: Path
) -> None:
    """Indices and categories from the file must never lead compiled code out of bounds."""
    valid = unzip(model_seeds()[seed])
    path = tmp_path / "model.apmax"
    outcomes = []
    for name in (name for name in valid if name.endswith(".npy")):
        array = np.load(io.BytesIO(valid[name]), allow_pickle=False)
        other = array.astype("<i4" if array.dtype.kind == "f" else "<f8")
        for changed in (array[:0], np.repeat(array, 3, axis=-1), other, array[:1], array[None]):
            stream = io.BytesIO()
            np.save(stream, changed)
            path.write_bytes(make_zip({**valid, name: stream.getvalue()}))
            try:
                outcomes.append(bool(np.isfinite(use_model(path)).all()))
            except ApmaxError:
                outcomes.append(True)
    assert all(outcomes)
    assert len(outcomes) >= 10
