"""Where a file of a data page is: in a folder of this machine, or to be downloaded."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from apmax.app.data.compression import OPENERS
from apmax.app.data.extras import need
from apmax.errors import DownloadError, FileError

PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
VARIABLE = "APMAX_DATA"


def data_folder() -> Path | None:
    """``$APMAX_DATA``, or ``shared/data`` beside a clone of the repository; None without."""
    given = os.environ.get(VARIABLE)
    if given:
        folder = Path(given).expanduser()
        if not folder.is_dir():
            raise FileError(
                f"{VARIABLE} = {given!r} is no folder: set it to the one that holds libsvm/, or "
                "unset it to download"
            )
        return folder.resolve()
    source = Path(__file__).resolve().parents[2]
    beside = source.parents[1] / "shared" / "data"
    return beside if source.name == "src" and beside.is_dir() else None


def find_offline(name: str, page_name: str) -> Path | None:
    """The file of that name in the data folder, or as downloaded before."""
    folder = data_folder()
    if folder is not None:
        for suffix in ("", *OPENERS):
            file = folder / "libsvm" / f"{name}{suffix}"
            if file.is_file():
                return file
    downloaded = cache_folder() / page_name
    return downloaded if downloaded.is_file() else None


def cache_folder() -> Path:
    """Where downloads are kept, by the habits of the system."""
    try:
        pooch = need("pooch", "downloading a data set")
    except ImportError:  # then nothing was downloaded either
        return Path(os.devnull)
    return Path(pooch.os_cache("apmax"))


def download(
    page_name: str,
    *,
    page: str = PAGE,
    folder: Path | None = None,
    known_hash: str | None = None,
    remedy: str = f"into a folder FOLDER/libsvm/ and set {VARIABLE}=FOLDER",
) -> Path:
    """Fetch a file of a page; without a known hash its content is checked after it is parsed."""
    pooch: Any = need("pooch", "downloading a data set")
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)  # its advice on hashes is not for our users
    try:
        file = pooch.retrieve(
            page + page_name, known_hash=known_hash, fname=page_name, path=folder or cache_folder()
        )
    except (OSError, ValueError) as error:  # requests' errors are OSErrors
        reason = " ".join(str(error).split())
        raise DownloadError(
            f"{page}{page_name} could not be downloaded ({reason}): try again later, or fetch it "
            f"by other means {remedy}"
        ) from error
    finally:
        logger.setLevel(level)
    return Path(file)
