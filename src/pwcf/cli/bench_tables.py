"""The tables of what is in a benchmark's folder."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pwcf.cli import known
from pwcf.cli.bench_arguments import NORMS
from pwcf.cli.errors import CommandError
from pwcf.records import Record, RecordError, check_asked, read_folder


def tables(args: argparse.Namespace, command: str, nets: Sequence[str] = ()) -> None:
    """Write them, of the cells that the arguments choose; nets in this order, others after."""
    records = _chosen(args)
    if not records:
        raise CommandError(f"--out: no such cells in {args.out / 'cells'}")
    order = {name: i for i, name in enumerate([*(args.nets or ()), *nets])}
    norms = {name: i for i, name in enumerate(args.norms or NORMS)}
    records.sort(
        key=lambda r: (order.get(r.cell.net, len(order)), r.cell.net, norms.get(r.cell.norm, len(norms)), r.cell.norm)
    )


def _chosen(args: argparse.Namespace) -> list[Record]:
    found = {path: record for path, record in read_folder(args.out / "cells").items() if _fits(args, record)}
    chosen: list[Record] = []
    for path, record in found.items():
        first = next(iter(found.values())).header
        images = first.images if args.images is None else args.images
        seed = first.seed if args.seed is None else args.seed
        try:
            check_asked(record, str(path), images, seed)
        except RecordError as error:
            if args.images is None or args.seed is None:
                raise CommandError(f"{error}: choose by --images and --seed") from None
            print(f"left out of the tables: {error}", flush=True)
            continue
        chosen.append(record)
    return chosen


def _fits(args: argparse.Namespace, record: Record) -> bool:
    cell = record.cell
    attacks = None if args.attacks is None or known.ALL in args.attacks else args.attacks
    pairs = ((args.nets, cell.net), (args.norms, cell.norm), (attacks, cell.attack), (args.budgets, cell.budget))
    return all(asked is None or value in asked for asked, value in pairs)
