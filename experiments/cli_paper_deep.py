"""apmax paper table4: the paper's experiment with deep networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from apmax.app.cli.console import Settings, make_table, one_line_errors, progress
from apmax.errors import ParameterError

PANEL = "Machine"


def table4(
    context: typer.Context,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Folder for results; a stopped run goes on from there."),
    ] = Path("paper-results"),
    preset: Annotated[
        str,
        typer.Option(help="laptop (ResNet-20, a few epochs) or paper (ResNet-18, as published)."),
    ] = "laptop",
    data: Annotated[str, typer.Option(help="cifar10 or cifar100.")] = "cifar10",
    methods: Annotated[
        str | None,
        typer.Option(
            help="Some of adap,soap,smoothap,cross-entropy,cross-entropy-resampled; all without."
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Some seeds, as 0,1; the preset's without.")
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose settings anew, also where they are known.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.", rich_help_panel=PANEL)] = "cpu",
    amp: Annotated[bool, typer.Option("--amp", help="bfloat16.", rich_help_panel=PANEL)] = False,
    compiled: Annotated[
        bool, typer.Option("--compile", help="torch.compile.", rich_help_panel=PANEL)
    ] = False,
    processes: Annotated[
        int, typer.Option(min=1, help="Ranks that share every batch.", rich_help_panel=PANEL)
    ] = 1,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of a process.", rich_help_panel=PANEL)
    ] = None,
) -> None:
    """Test AP of networks on imbalanced CIFAR: ADAP, SOAP, SmoothAP, cross-entropy.

    Pretraining, the choice of settings by validation AP, then every seed of every method. CIFAR is
    downloaded once. The laptop's whole table takes some hours on two cores; the paper's is for a
    GPU. A stopped run goes on, and two such commands may share a folder: each takes what the other
    is not at.

    [bold]Example:[/bold] apmax paper table4 --methods adap --seeds 0
    """
    settings: Settings = context.obj
    with one_line_errors(settings):
        from apmax.app.disk import write_aside
        from experiments.deep.protocol import METHODS, TITLES
        from experiments.deep.reports import draw_curves, setting_in_words, to_json, to_markdown
        from experiments.deep.stages import Machine, results_folder
        from experiments.deep.table import Experiment
        from experiments.figures import save

        machine = Machine(device, amp, compiled, processes, threads)
        numbers = None if seeds is None else _numbers(seeds)
        with progress(settings, "table 4") as advance:
            experiment = Experiment(
                preset,
                results_folder(out, machine),
                machine,
                data=data,
                advance=advance,
                tell=settings.note,
                tune=tune,
            )
            rows = experiment.table(
                METHODS if methods is None else [name.strip() for name in methods.split(",")],
                numbers,
            )
        table = make_table(f"test AP, {data}, {preset}", "method", "mean ± std", "paper", "chosen")
        for row in rows:
            paper = "" if row.published is None else f"{row.published[0]:.4f}"
            told = f"{row.mean:.4f} ± {row.std:.4f}"
            table.add_row(TITLES[row.method], told, paper, setting_in_words(row))
        found = to_json(rows)
        # A part of the table must not take the place of the whole.
        part = "" if methods is None and seeds is None else "-part"
        name = f"table4-{data}-{preset}{part}"
        write_aside(out / f"{name}.md", to_markdown(rows).encode())
        write_aside(out / f"{name}.json", json.dumps(found, indent=1).encode())
        save(draw_curves(rows), out, f"{name}-curves")
        settings.show(table, {"table4": found})
        settings.say(
            f"table → {out / name}.md and .json, curves → {out / name}-curves.svg and .png"
        )


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [-1]
    if min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ParameterError(f"`seeds` = {text!r} must be different numbers such as 0,1,2")
    return numbers
