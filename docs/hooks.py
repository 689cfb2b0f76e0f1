"""Hooks of the documentation site: pages from the root of the repository, and their links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Files of the root, and the pages that they are on the site."""
WITHOUT_OUTPUTS = """
!!! note

    This build shows only the code. `make docs-gallery` runs it and adds outputs and plots.
"""
EXAMPLE = re.compile(r"\]\(\.\./examples/gallery/(\w+)\.py\)")
NOT_RUN = re.compile(
    r"^\*\*Total running time of the script:\*\* \( 0 minutes  0\.000 .*\n", re.MULTILINE
)
"""What the gallery says of examples that `make docs` does not run."""
CODE = re.compile(r"\]\(\.\./((?:examples|tests|benchmarks|experiments|src|LICENSE)[^)]*)\)")


def on_config(config: Any) -> Any:
    """Show the version of the package in the footer."""
    text = (ROOT / "src" / "apmax" / "_version.py").read_text(encoding="utf-8")
    version = re.search(r'__version__ = "(.+)"', text)
    assert version is not None
    config.copyright = f"apmax {version[1]}, BSD-3-Clause"
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root."""
    for source, name in PAGES.items():
        content = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links lead to these pages, to the gallery, and links to other code to the repository.

    The gallery says if its examples have not been run.
    """
    executed = config.plugins["gallery"].config["plot_gallery"]
    if page.file.src_uri == "gallery/index.md" and not executed:
        markdown = markdown.replace("\n\n", f"\n\n{WITHOUT_OUTPUTS}\n", 1)
    for source, name in PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({name}").replace(
            f"]({source}", f"]({name}"
        )
    markdown = EXAMPLE.sub(r"](gallery/\1.md)", NOT_RUN.sub("", markdown))
    return CODE.sub(rf"]({config.extra['repository']}/blob/main/\1)", markdown)
