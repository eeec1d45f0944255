"""``pwcf compare``: runs side by side, on the samples they share."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from pathlib import Path
from typing import Any

import typer

from pwcf._common.wording import number_text, share_text
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
        told = {"shared": found.shared, "attacked": found.attacked, "found": found.found, "notes": found.notes}
        print_json({"runs": dict(zip(names, found.runs, strict=True)), **told})
        return
    questions = [each["question"] for each in found.runs]
    same = len(set(questions)) == 1
    lines = []
    for name, header, each in zip(names, headers, found.runs, strict=True):
        whole = "" if each["samples"] == found.shared else f" of {each['samples']}"
        lines.append([
            name, f"{found.shared}{whole}",
            "–" if header.settings.targeted else share_text(each["clean_accuracy"]),
            f"{each['found']} of {each['attacked']}", _cell(each["robust_accuracy"], share_text),
            _cell(each["mean_radius"], number_text), _cell(each["median_radius"], number_text),
            _cell(each["best"], str), _cell(each["alone"], str),
            "" if isnan(each["passes"]) else f"{each['passes']:.0f}", f"{each['seconds']:.1f}",
        ])  # fmt: skip
    heads = ["run", "samples", "clean", "found", "robust", "mean radius", "median", "best", "alone", "passes", "s"]
    used = [i for i in range(len(heads)) if any(line[i] for line in lines)]
    out = console()
    if same:
        out.print(f"[bold]{safe(questions[0])}[/bold]")
    else:
        out.print(*(f"[bold]{safe(name)}[/bold]: {safe(asked)}" for name, asked in zip(names, questions, strict=True)),
                  "", sep="\n")  # fmt: skip
    out.print(table([heads[i] for i in used], [[line[i] for i in used] for line in lines]))
    explained = [f"All numbers are of the {found.shared} samples that all runs share"]
    if "mean radius" in (heads[i] for i in used):
        some, whole = "those found", "all attacked"
        if found.match:
            some = f"the {found.found} that every run attacked and found a point for"
            whole = f"the {found.attacked} that every run attacked"
        explained.append(f"mean radius: over {some}; median: over {whole}, ∞ where fewer than half have a point")
    if "best" in (heads[i] for i in used):
        explained.append("best: samples on which no other run is nearer; alone: broken by this run only")
    out.print(f"\n{'; '.join(explained)}.")
    for note in found.notes:
        out.print(f"[yellow]note[/yellow] {safe(note)}")


def _cell(value: Any, text: Callable[[Any], str]) -> str:
    return "" if value is None else text(value)


def _names(paths: list[Path]) -> list[str]:
    """The folders' names, or their paths where two are the same, or numbered."""
    for names in ([path.resolve().name for path in paths], [str(path) for path in paths]):
        if len(set(names)) == len(names):
            return names
    return [f"{path} ({i})" for i, path in enumerate(paths, 1)]
