"""``pwcf report``: runs as one HTML file to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pwcf.cli.console import CommandError, Json, console, print_json, safe, user_code
from pwcf.cli.summaries import Runs, all_runs, parse_eps

To = Annotated[Path, typer.Option("--out", "-o", help="File to write.")]
Title = Annotated[str | None, typer.Option(help="Of the page; default: the models' names.")]
Data = Annotated[str | None, typer.Option(help="Another place of the data, for the original images.")]
Gallery = Annotated[
    int | None,
    typer.Option(min=0, help="Samples shown at most; default: 500, or as many as keep the file below 10 MB."),
]

Eps = Annotated[
    str | None,
    typer.Option(
        help="Where robust accuracy is told: 0.1,8/255, or by metric, l1=12,linf=8/255. Default: what papers use."
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command("report", help="Write one HTML file about runs: numbers, plots, a gallery. It needs no network.")(
        _command
    )


def _command(
    runs: Runs,
    out: To = Path("report.html"),
    title: Title = None,
    data: Data = None,
    gallery: Gallery = None,
    eps: Eps = None,
    json: Json = False,
) -> None:
    if out.is_dir():
        raise CommandError(f"{out}: expected a file to write, found a folder")
    from pwcf.report import write_page

    with user_code():  # what a library that opens the data prints is not the result
        page = write_page(all_runs(runs), out, title=title, data=data, gallery=gallery, eps=parse_eps(eps))
    if json:
        print_json({"report": str(page.path), "bytes": page.bytes, "samples": page.samples, "total": page.total,
                    "images": page.images, "remarks": page.remarks})  # fmt: skip
        return
    for remark in page.remarks:
        console().print(f"[yellow]note[/yellow] {safe(remark)}")
    samples = f"{page.samples} samples" if page.samples == page.total else f"{page.samples} of {page.total} samples"
    samples += f" of {page.images} images" if page.images < page.total else ""
    typer.echo(f"{page.path}: {page.bytes / 1e6:.1f} MB, {samples} in the gallery")
