"""``pwcf bench`` has a manual and arguments of its own (bench_arguments.py); here it joins the others."""

from __future__ import annotations

import typer

from pwcf.cli.errors import CommandError


def add_to(app: typer.Typer) -> None:
    app.command(
        "bench",
        help="Benchmark attacks on nets, at equal budgets.",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )(_command)


def _command(context: typer.Context) -> None:
    from pwcf.cli.bench import main
    from pwcf.records import RecordError

    try:
        raise typer.Exit(main(context.args))
    except RecordError as error:
        raise CommandError(str(error)) from error
