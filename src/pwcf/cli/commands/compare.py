"""``pwcf compare``: runs side by side, on the samples they share."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import typer

from pwcf._common.wording import share_text
from pwcf.cli.console import Json, console, print_json, safe, table
from pwcf.cli.summaries import Runs, all_runs


def add_to(app: typer.Typer) -> None:
    app.command("compare", help="Compare runs, sample by sample where they share samples.")(_command)


def _command(runs: Runs, json: Json = False) -> None:
    from pwcf.runs import RunFolder, header_from
    from pwcf.runs.comparison import compare_runs

    runs = all_runs(runs)
    folders = [RunFolder(path) for path in runs]
    headers = [header_from(folder.header(), str(folder.path)) for folder in folders]
    found = compare_runs(headers, [folder.rows() for folder in folders])
    names = _names(runs)
    if json:
        print_json({"runs": dict(zip(names, found.runs, strict=True)), "shared": found.shared, "notes": found.notes})
        return
    questions = [each["question"] for each in found.runs]
    same = len(set(questions)) == 1
    lines = []
    for name, each in zip(names, found.runs, strict=True):
        lines.append([
            name if same else f"{name}: {each['question']}", str(each["samples"]), share_text(each["clean_accuracy"]),
            share_text(each["robust_accuracy"]) if each["robust_accuracy"] is not None else "",
            f"{each['mean_radius']:.4g}" if each["mean_radius"] is not None else "",
            f"{each['median_radius']:.4g}" if each["median_radius"] is not None else "",
            str(each["best"]), str(each["alone"]), "" if isnan(each["passes"]) else f"{each['passes']:.0f}",
            f"{each['seconds']:.1f}",
        ])  # fmt: skip
    heads = ["run", "samples", "clean", "robust", "mean radius", "median", "best", "alone", "passes", "s"]
    out = console()
    if same:
        out.print(f"[bold]{safe(questions[0])}[/bold]")
    out.print(table(heads, lines))
    out.print(
        f"\nOn the {found.shared} samples that all of them share. Radii: of samples that every run found a point for; "
        "best: samples on which no other run is nearer; alone: broken by this run only."
    )
    for note in found.notes:
        out.print(f"[yellow]note[/yellow] {safe(note)}")


def _names(paths: list[Path]) -> list[str]:
    """The folders' names, or their paths where two are the same, or numbered."""
    for names in ([path.resolve().name for path in paths], [str(path) for path in paths]):
        if len(set(names)) == len(names):
            return names
    return [f"{path} ({i})" for i, path in enumerate(paths, 1)]
