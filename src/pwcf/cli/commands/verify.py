"""``pwcf verify``: every stored point once more against the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pwcf.cli.console import Json, Trust, console, print_json, safe, table, user_code

if TYPE_CHECKING:
    from pwcf.runs.recheck import Rechecked

Run = Annotated[Path, typer.Argument(help="Folder of a run, or of a benchmark.", metavar="RUN")]
Model = Annotated[str | None, typer.Option(help="Another model, or another place of the same one.")]
Weights = Annotated[str | None, typer.Option(help="Its state dict.")]
Data = Annotated[str | None, typer.Option(help="Another place of the data.")]
HOLD = "inside the bounds, misclassified, as far as recorded"
SHOWN = 20
"""points that do not hold, told one by one"""


def add_to(app: typer.Typer) -> None:
    app.command("verify", help="Check every stored point against the model again. Exit code 1: some do not hold.")(
        _command
    )


def _command(
    run: Run,
    model: Model = None,
    weights: Weights = None,
    data: Data = None,
    device: str = "cpu",
    trust: Trust = False,
    json: Json = False,
) -> None:
    from pwcf.runs import RunFolder, find_runs, header_from
    from pwcf.runs.recheck import Rechecked, recheck_run
    from pwcf.runs.resolve import Loader
    from pwcf.runs.trust import check_named, check_trusted

    loader, found = Loader(), dict[Path, Rechecked]()
    with user_code():  # what the user's own code prints is not the result
        for path in find_runs(run):
            folder = RunFolder(path)
            header = header_from(folder.header(), str(path))
            then = header.settings
            asked = {name for name, value in (("model", model), ("data", data)) if value is not None}
            check_named(header.saved, str(path), asked)
            if not trust:
                check_trusted(then, str(path), asked | {"attacks"}, "name them with --model and --data, or add --trust")
            settings = replace(
                then, model=model or then.model, weights=weights or then.weights, data=data or then.data, device=device
            )
            found[path] = recheck_run(folder, header, settings, loader)
    if json:
        told = [_as_json(path, each) for path, each in found.items()]
        print_json(told[0] if list(found) == [run] else told)
    else:
        for path, each in found.items():
            _print(each, "" if path == run else f"{path.relative_to(run)}: ")
        if list(found) != [run]:
            hold, checked = (sum(getattr(each, name) for each in found.values()) for name in ("hold", "checked"))
            typer.echo(f"all {len(found)} runs: {hold} of {checked} points hold: {HOLD}")
    raise typer.Exit(1 if any(each.failed for each in found.values()) else 0)


def _as_json(path: Path, found: Rechecked) -> dict[str, Any]:
    return {"run": str(path), "checked": found.checked, "hold": found.hold, "remarks": found.remarks,
            "failed": [vars(each) for each in found.failed]}  # fmt: skip


def _print(found: Rechecked, name: str) -> None:
    out = console()
    for remark in found.remarks:
        out.print(f"[yellow]note[/yellow] {safe(name + remark)}")
    hold = f"{found.hold} of {found.checked} points hold"
    out.print(safe(f"{name}{hold}" if name else f"{hold}: {HOLD}"))
    if found.failed:
        shown = table(["sample", "what is wrong"], [[str(each.index), each.what] for each in found.failed[:SHOWN]])
        shown.columns[1].justify = "left"
        out.print(shown)
        if len(found.failed) > SHOWN:
            out.print(f"... and {len(found.failed) - SHOWN} more (--json has all)")
