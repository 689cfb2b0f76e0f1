"""The typer application and its global options."""

from __future__ import annotations

import io
import sys
from typing import Annotated

try:
    import typer
except ImportError as error:
    raise SystemExit("apmax: the command line needs typer: pip install 'apmax[app]'") from error

from apmax._version import __version__
from apmax.app import cli
from apmax.app.cli import compare, demo, evaluate, predict, report, threshold, train
from apmax.app.cli.console import Console
from apmax.app.cli.inputs import AsJson, Debug, Quiet, with_shared_options

app = typer.Typer(
    name="apmax",
    help="Train and evaluate classifiers for rare positives by average precision.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    *(demo.demo, compare.compare, train.train, evaluate.evaluate),
    *(threshold.threshold, predict.predict, report.report),
):
    app.command(command.__name__)(with_shared_options(command))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"apmax {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Train and evaluate classifiers for rare positives by average precision."""
    cli.interrupt_message = "stopped"
    context.obj = Console(as_json=as_json, quiet=quiet, debug=debug)


def run() -> None:
    """Run the application on the arguments of this process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals without "→"
    app(prog_name="apmax")
