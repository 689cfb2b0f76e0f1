"""The command line: parse, call, print."""

from __future__ import annotations

try:
    import typer
except ImportError as error:  # pragma: no cover - the tests' machine has it
    raise SystemExit(
        "apmax: the command line needs typer and rich: pip install 'apmax[cli,data,report]'"
    ) from error

import io
import sys
from typing import Annotated

from apmax._version import __version__
from apmax.app.cli import comparing, demonstrating, fetching, training, using
from apmax.app.cli.console import Settings

app = typer.Typer(
    name="apmax",
    help="Train classifiers by directly maximising average precision.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"apmax {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Train classifiers by directly maximising average precision."""
    context.obj = Settings(as_json=as_json, quiet=quiet, debug=debug)


app.command("demo")(demonstrating.demo)
app.command("train")(training.train)
app.command("evaluate")(using.evaluate)
app.command("predict")(using.predict)
app.command("compare")(comparing.compare)
app.command("report")(using.report)
app.add_typer(fetching.app, name="data")


def main() -> None:
    """Where the installed command starts."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without "→" shows something else
    app()
