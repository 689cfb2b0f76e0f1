"""Plain data with arrays as a ZIP archive, and typed access to what was read.

An archive has the member ``model.json`` and one ``.npy`` member per array. Reading it constructs
only dictionaries, lists, texts, numbers and arrays of numbers.
"""

from __future__ import annotations

import io
import json
import math
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apmax.app.files import FREE_BYTES, MAX_EXPANSION, PIECE_BYTES, one_line
from apmax.errors import ModelFileError
from apmax.validation import Floats

DOCUMENT, ARRAY = "model.json", "array"
MAX_BYTES = 1 << 32
"""The members of an archive may have this size in all, however large the archive is."""
VALUE_BYTES = 64
"""Memory that a value of the document takes at least, such as an empty list in a list."""
END_BYTES = 22
"""Size of the record that ends a ZIP archive without a comment."""
LABELS = (str, int, bool, float)
"""Types of the labels of a classifier."""
TYPES = ("<f8", "<i8", "<i4", "<u4")
"""Types of the arrays in an archive."""


def write_archive(document: dict[str, Any]) -> bytes:
    """Return an archive of nested dictionaries and lists with texts, numbers and arrays."""
    arrays: list[NDArray[Any]] = []

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return {ARRAY: len(arrays) - 1}
        if isinstance(value, dict):
            return {str(name): plain(one) for name, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(one) for one in value]
        return value.item() if isinstance(value, np.generic) else value

    text = json.dumps(plain(document), ensure_ascii=False, allow_nan=False)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(_member(DOCUMENT), text, zipfile.ZIP_DEFLATED, compresslevel=1)
        for number, array in enumerate(arrays):
            content = io.BytesIO()
            little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
            np.lib.format.write_array(content, little, allow_pickle=False)
            member = _member(f"{number}.npy")
            archive.writestr(member, content.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=1)
    return stream.getvalue()


def read_archive(content: bytes) -> Fields:
    """Return the document of an archive; ModelFileError or any other exception if it is damaged."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        _check_members(archive, content)
        content_of = {member.filename: _read(archive, member) for member in archive.infolist()}
        text = content_of.pop(DOCUMENT)
        if VALUE_BYTES * sum(map(text.count, (b"[", b"{", b",", b":"))) > _limit(len(content)):
            raise ModelFileError("it has far more values than its size suggests: use another copy")
        document = json.loads(text)
        arrays = {name: _array(member) for name, member in content_of.items()}
    json.dumps(document, ensure_ascii=False).encode()  # half a surrogate pair cannot be printed
    return Fields(document, arrays)


class Fields:
    """The values of a dictionary that was read from a file, with checks of their types."""

    def __init__(
        self, values: Any, arrays: dict[str, NDArray[Any]], used: set[str] | None = None
    ) -> None:
        if not isinstance(values, dict):
            raise ModelFileError(f"it has {type(values).__name__} where fields are expected")
        self.values: dict[str, Any] = values
        self.arrays = arrays
        self._unread = set(values)
        self._used = set[str]() if used is None else used
        self._records: list[Fields] = []

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def check_all_read(self) -> None:
        """Raise ModelFileError for fields and arrays that were not read: apmax writes no others."""
        for name in chain(self._unread_fields(), self.arrays.keys() - self._used):
            raise ModelFileError(f"the field or array {one_line(name)!r} is unknown")

    def get(self, name: str) -> Any:
        """Return a value of any type, or None."""
        self._unread.discard(name)
        return self.values.get(name)

    def text(self, name: str) -> str:
        """Return a text."""
        return str(self._value(name, str))

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        return [str(one) for one in self._list(name, str)]

    def flag(self, name: str) -> bool:
        """Return a truth value."""
        return bool(self._value(name, bool))

    def number(self, name: str) -> float:
        """Return a finite number."""
        found = float(self._value(name, int, float))
        if not math.isfinite(found):
            raise self._wrong(name)
        return found

    def count(self, name: str, *, at_least: int = 0) -> int:
        """Return a whole number of at least 0, or another limit."""
        found = int(self._value(name, int))
        if found < at_least:
            raise self._wrong(name)
        return found

    def pair(self, name: str) -> tuple[float, float]:
        """Return two finite numbers, the smaller one first."""
        found = self._value(name, list)
        low, high = (Fields({name: one}, {}).number(name) for one in found)
        if low > high:
            raise self._wrong(name)
        return low, high

    def numbers(self, name: str) -> list[int]:
        """Return a list of whole numbers of at least 0."""
        found = [int(one) for one in self._list(name, int)]
        if any(one < 0 for one in found):
            raise self._wrong(name)
        return found

    def mapping(self, name: str, kind: type) -> dict[str, Any]:
        """Return a dictionary of values of one type: text, or a number."""
        found = self._value(name, dict)
        if not all(type(value) is kind for value in found.values()):
            raise self._wrong(name)
        return dict(found)

    def typical(self, name: str, is_number: Mapping[str, bool]) -> dict[str, float | str | None]:
        """Return a number, a text or None for each of these columns."""
        found = Fields(self._value(name, dict), {})
        if found.values.keys() != is_number.keys():
            raise self._wrong(name)
        return {
            key: None if key not in found else found.number(key) if number else found.text(key)
            for key, number in is_number.items()
        }

    def labels(self, name: str) -> list[Any]:
        """Return two different labels of one type, in rising order."""
        found: list[Any] = self._value(name, list)
        kinds = {type(one) for one in found}
        if len(kinds) != 1 or not kinds <= {*LABELS} or len(found) != 2 or not found[0] < found[1]:
            raise self._wrong(name)
        return found

    def plain(self, name: str) -> dict[str, Any]:
        """Return a dictionary of plain data as it is."""
        return dict(self._value(name, dict))

    def record(self, name: str) -> Fields:
        """Return the fields of a nested record."""
        return self._nested(self._value(name, dict))

    def records(self, name: str) -> list[Fields]:
        """Return the fields of each record of a list."""
        return [self._nested(one) for one in self._list(name, dict)]

    def floats(self, name: str, *, size: int | None = None, ndim: int = 1) -> Floats:
        """Return an array of finite numbers."""
        found = self.array(name, "<f8", ndim=ndim)
        if not np.isfinite(found).all() or size not in (None, found.size):
            raise self._wrong(name)
        return np.asarray(found, dtype=np.float64)

    def several_floats(self, name: str, sizes: Sequence[int]) -> list[Floats]:
        """Return a list of arrays of finite numbers with these sizes."""
        found = self._list(name, dict)
        if len(found) != len(sizes):
            raise self._wrong(name)
        records = [self._nested({name: one}) for one in found]
        return [one.floats(name, size=size) for one, size in zip(records, sizes, strict=True)]

    def array(self, name: str, dtype: str, *, ndim: int = 1) -> NDArray[Any]:
        """Return an array of this type and number of dimensions."""
        place = self._value(name, dict)
        member = f"{place.get(ARRAY)}.npy"
        found = self.arrays.get(member)
        self._used.add(member)
        if found is None or len(place) > 1 or found.dtype.str != dtype or found.ndim != ndim:
            raise self._wrong(name)
        return found

    def _unread_fields(self) -> Iterator[str]:
        yield from self._unread
        for record in self._records:
            yield from record._unread_fields()

    def _nested(self, values: Any) -> Fields:
        self._records.append(Fields(values, self.arrays, self._used))
        return self._records[-1]

    def _value(self, name: str, *kinds: type) -> Any:
        value = self.get(name)
        if type(value) not in kinds:
            raise self._wrong(name)
        return value

    def _list(self, name: str, kind: type) -> Sequence[Any]:
        found: list[Any] = self._value(name, list)
        if not all(type(one) is kind for one in found):
            raise self._wrong(name)
        return found

    def _wrong(self, name: str) -> ModelFileError:
        return ModelFileError(f"the field {name!r} is missing or has a wrong type or value")


def _member(name: str) -> zipfile.ZipInfo:
    """Return a member without the date, so that equal models are equal files."""
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _check_members(archive: zipfile.ZipFile, content: bytes) -> None:
    """Refuse archives that expand too far, and whatever `write_archive` does not write."""
    members = archive.infolist()
    names = [member.orig_filename for member in members]  # `filename` ends before a NUL
    sound = (
        len(set(names)) == len(names)
        and all(name == DOCUMENT or name.removesuffix(".npy").isdecimal() for name in names)
        and {stat.S_IFMT(member.external_attr >> 16) for member in members} <= {0, stat.S_IFREG}
        and {member.compress_type for member in members}
        <= {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
        and sum(member.file_size for member in members) <= _limit(len(content))
        and 0 in {member.header_offset for member in members}
        and content[-END_BYTES:].startswith(b"PK\5\6")
    )
    if not sound:
        raise ModelFileError("the archive is not one that apmax writes: use another copy")


def _limit(size: int) -> int:
    """Return the memory that an archive of this size may take."""
    return min(max(FREE_BYTES, MAX_EXPANSION * size), MAX_BYTES)


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return a member; in pieces, because the size that the archive states may be wrong."""
    parts, left = [], member.file_size
    with archive.open(member) as stream:
        while piece := stream.read(PIECE_BYTES):
            left -= len(piece)
            if left < 0:
                raise ModelFileError("a member of the archive is larger than stated")
            parts.append(piece)
    return b"".join(parts)


def _array(content: bytes) -> NDArray[Any]:
    stream = io.BytesIO(content)
    found = np.lib.format.read_array(stream, allow_pickle=False, max_header_size=1000)
    if found.dtype.str not in TYPES or stream.read(1):
        raise ModelFileError("it contains an array of a type that no model of apmax has")
    return np.asarray(found)
