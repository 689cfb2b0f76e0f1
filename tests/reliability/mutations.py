"""Damage bytes and JSON at random; all randomness comes from the generator that is passed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from random import Random
from typing import Any

TOKENS = [
    b"", b"0", b"-0", b"-1", b"1e308", b"1e309", b"-1e999", b"1e-400", b"nan", b"inf", b"-Infinity",
    b"9" * 25, b"9" * 5000, b"1" + b"0" * 400, b"0x10", b"1_0", b".", b"+", b"e", b"1e", b"1.2.3",
    str(2**31).encode(), str(2**32 + 1).encode(), str(2**40 + 1).encode(), str(2**62).encode(),
    str(2**63).encode(), str(2**64).encode(), str(-(2**63) - 1).encode(), b"1:", b":1", b"0:1",
    b"qid:", b"#", b"\0", b"\r", b"\n", b"\n\n\n", b"\r\n", b"\t", b" ", b" " * 3000, b"'", b'"',
    b"'" + b" " * 500, b'""', b",", b";", b",,,", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80",
    b"\xc3", b"\x0b", b"\x1c", b"\xe2\x80\xa8", b"{}", b"[]", b"null", b"true", b"NA", b"?",
    b"2020-02-30", b"99999-01-01", b"0001-01-01", b"31.12.9999",
]  # fmt: skip
"""Text that breaks parsers: numbers out of range, partial numbers, quotes, odd newlines."""

_NUMBER = re.compile(rb"\d+")


def flip_bits(rng: Random, content: bytes) -> bytes:
    """Change single bits."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8, 32])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(rng: Random, content: bytes) -> bytes:
    """Keep the beginning or the end."""
    at = rng.randrange(len(content))
    return content[:at] if rng.random() < 0.8 else content[at:]


def remove(rng: Random, content: bytes) -> bytes:
    """Remove a chunk."""
    begin, end = _span(rng, content)
    return content[:begin] + content[end:]


def repeat(rng: Random, content: bytes) -> bytes:
    """Repeat a chunk."""
    begin, end = _span(rng, content)
    return content[:end] + content[begin:end] * rng.choice([1, 2, 50]) + content[end:]


def change_number(rng: Random, content: bytes) -> bytes:
    """Replace numbers by other text."""
    found = list(_NUMBER.finditer(content))
    if not found:
        return insert(rng, content)
    for match in sorted(rng.sample(found, min(len(found), 3)), key=re.Match.start, reverse=True):
        content = content[: match.start()] + rng.choice(TOKENS) + content[match.end() :]
    return content


def insert(rng: Random, content: bytes) -> bytes:
    """Insert a hostile token."""
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(TOKENS) + content[at:]


def overwrite(rng: Random, content: bytes) -> bytes:
    """Overwrite bytes of lengths and offsets with zeros, ones or any byte."""
    count = rng.choice([1, 2, 4, 8])
    at = rng.randrange(len(content))
    fill = rng.choice([b"\0", b"\xff", b"\x7f", b"\x80", rng.randbytes(1)])
    return content[:at] + fill * count + content[at + count :]


MUTATIONS: list[Callable[[Random, bytes], bytes]] = [
    flip_bits, cut, remove, repeat, change_number, insert, overwrite,
]  # fmt: skip


def mutate(rng: Random, content: bytes, other: bytes = b"") -> bytes:
    """Damage the content one to four times, or join it with the end of another file."""
    if other and rng.random() < 0.1:
        return content[: rng.randrange(len(content))] + other[rng.randrange(len(other)) :]
    for _ in range(rng.choice([1, 1, 2, 4])):
        if content:
            content = rng.choice(MUTATIONS)(rng, content)
    return content


def mutate_parquet(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """Damage any bytes, only pages, or only the metadata at the end with all sizes and offsets."""
    content = rng.choice(seeds)
    kind = rng.randrange(3)
    if kind == 0:
        return mutate(rng, content, rng.choice(seeds))
    length = int.from_bytes(content[-8:-4], "little")
    pages, footer = content[4 : -8 - length], content[-8 - length : -8]
    if kind == 1:
        pages = mutate(rng, pages)
    else:
        footer = mutate(rng, footer)
    return b"PAR1" + pages + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _span(rng: Random, content: bytes) -> tuple[int, int]:
    begin = rng.randrange(len(content))
    return begin, min(len(content), begin + rng.choice([1, 4, 16, 64, 256]))


ODD_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**400, -(10**400), 0.5, 1e308, float("nan"),
    float("inf"), float("-inf"), "", "a", "\0", "\ud800", "__class__", "ü" * 100, "null", "[1]",
    "os", "system", "0.npy", "../0.npy", [], [[]], [None], {}, {"a": {}}, ["a", 1], [["a", 1]],
]  # fmt: skip
"""JSON values where another was expected."""


def mutate_tree(rng: Random, tree: Any) -> Any:
    """Return a copy of a JSON tree with some value replaced, deleted, or copied from elsewhere."""
    tree = deepcopy(tree)
    for _ in range(rng.choice([1, 1, 1, 3])):
        containers = [one for one in _containers(tree) if one]
        if not containers:
            break
        holder = rng.choice(containers)
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
        kind = rng.random()
        if kind < 0.6:
            holder[key] = deepcopy(rng.choice(ODD_VALUES))
        elif kind < 0.8:
            del holder[key]
        else:
            holder[key] = deepcopy(rng.choice(containers))
    return tree


def _containers(tree: Any) -> Iterator[Any]:
    if isinstance(tree, (dict, list)):
        yield tree
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from _containers(value)
