"""The SHA-256 of everything that is installed, compared with a list in the repository.

``python .ci/hashes.py write`` asks the package index for the hashes of all files, of all
platforms, of every version in constraints.txt, and writes hashes.txt. ``check`` lets pip resolve
and download what it would install here, without installing it, and compares.

constraints.txt itself has no hashes: pip would then want one for every requirement, and a
machine whose torch comes from a folder of wheels (a build without CUDA) could not be set up. A
file from disk that is not in the list is named, and is its owner's; one from the network fails.
On a machine without such a folder ``pip install --require-hashes --no-deps -r hashes.txt`` works.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PINS, LIST = ROOT / "constraints.txt", ROOT / "hashes.txt"
_LINK = re.compile(r"/([^/\"#]+)#sha256=([0-9a-f]{64})")
_WHEEL, _SOURCE = re.compile(r"(.+?)-([^-]+)-.+\.whl"), re.compile(r"(.+)-([^-]+)\.(?:tar\.gz|zip)")


def plain(name: str) -> str:
    """A package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> list[tuple[str, str]]:
    """Names and versions of constraints.txt."""
    lines = PINS.read_text().splitlines()
    return [
        (name, version) for name, _, version in (line.partition("==") for line in lines) if version
    ]


def hashes_of(page: str, name: str, version: str) -> list[str]:
    """The hashes of all files of this version on a page of the index."""
    found = set()
    for file, digest in _LINK.findall(page):
        match = (_WHEEL if file.endswith(".whl") else _SOURCE).fullmatch(file)
        if match and plain(match[1]) == plain(name) and match[2] == version:
            found.add(digest)
    return sorted(found)


def index() -> str:
    """Where pip looks for packages, by its own settings."""
    given = os.environ.get("PIP_INDEX_URL")
    if given is None:
        command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
        given = subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()
    if not given:
        raise SystemExit("set PIP_INDEX_URL to the package index, the page that ends in /simple/")
    return given.rstrip("/") + "/"


def write() -> None:
    """Write hashes.txt from the index."""
    place = index()

    def entry(pin: tuple[str, str]) -> str:
        with urllib.request.urlopen(f"{place}{plain(pin[0])}/", timeout=60) as answer:
            found = hashes_of(answer.read().decode(), *pin)
        if not found:
            raise SystemExit(f"{pin[0]}=={pin[1]} is not on {place}")
        return " \\\n    ".join([f"{pin[0]}=={pin[1]}", *(f"--hash=sha256:{one}" for one in found)])

    with ThreadPoolExecutor(8) as pool:
        entries = list(pool.map(entry, pins()))
    LIST.write_text(
        "# Written by .ci/hashes.py write; see make audit.\n" + "\n".join(entries) + "\n"
    )


def listed() -> dict[str, set[str]]:
    """Hashes of every package in hashes.txt, by name and version."""
    found: dict[str, set[str]] = {}
    for entry in LIST.read_text().replace("\\\n", " ").splitlines():
        if "==" in entry:
            pin, *rest = entry.split()
            name, _, version = pin.partition("==")
            found[f"{plain(name)}=={version}"] = {
                one.removeprefix("--hash=sha256:") for one in rest
            }
    return found


def compare(report: dict[str, Any], known: dict[str, set[str]]) -> tuple[int, list[str], list[str]]:
    """How many packages of a pip report are as listed; which are from disk; which are wrong."""
    good, local, wrong = 0, [], []
    for package in report["install"]:
        source = package["download_info"]
        name = f"{plain(package['metadata']['name'])}=={package['metadata']['version']}"
        if name.startswith("apmax==") and "dir_info" in source:  # this repository itself
            continue
        digest = source.get("archive_info", {}).get("hashes", {}).get("sha256", "none")
        if digest in known.get(name, set()):
            good += 1
        elif "archive_info" in source and source["url"].startswith("file:"):
            local.append(f"{name} sha256:{digest}")
        else:
            wrong.append(f"{name} sha256:{digest} from {source['url']}")
    return good, local, wrong


def check() -> None:
    """Compare what pip would install here with hashes.txt."""
    if {f"{plain(name)}=={version}" for name, version in pins()} != set(listed()):
        raise SystemExit("hashes.txt is of other versions than constraints.txt: make hashes")
    done = subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed",
            "--report", "-", "--no-build-isolation", "--constraint", str(PINS), "--group", "dev",
            f"{ROOT}[all]",
        ],
        check=True,
        stdout=subprocess.PIPE,  # errors of pip are printed
        text=True,
        cwd=ROOT,
    )  # fmt: skip
    good, local, wrong = compare(json.loads(done.stdout), listed())
    print(f"{good} packages are as listed in hashes.txt")
    for one in local:
        print(f"from this disk, not listed: {one}")
    if wrong:
        raise SystemExit("not as listed:\n" + "\n".join(wrong))


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]]()
