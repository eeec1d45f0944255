"""``pwcf bench``: nets x norms x attacks at equal budgets."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence

import torch

from pwcf.cli import bench_arguments as arguments
from pwcf.cli import known
from pwcf.cli.bench_tables import tables
from pwcf.cli.bench_work import Work
from pwcf.cli.bench_zoo import Zoo, read_zoo
from pwcf.cli.errors import CommandError
from pwcf.records import Cell

INTERRUPTED = 130
"""what shells say after Ctrl-C"""


def main(words: Sequence[str]) -> int:
    """The command with these words after its name; its exit code."""
    parser = argparse.ArgumentParser(
        prog="pwcf bench",
        description=arguments.DESCRIPTION,
        epilog=arguments.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_to(parser)
    return run(parser.parse_args(words), ["bench", *words])


def run(args: argparse.Namespace, words: Sequence[str]) -> int:
    """The whole command; its exit code."""
    command = f"pwcf {shlex.join(words)}"
    if args.list:
        _list(None if args.zoo is None else read_zoo(args.zoo))
        return 0
    if args.tables_only:
        tables(args, command)
        return 0
    if args.zoo is None:
        raise CommandError("--zoo: expected the file that brings the nets (see pwcf bench --help), found none")
    zoo = read_zoo(args.zoo)
    args.images = arguments.IMAGES if args.images is None else args.images
    args.seed = arguments.SEED if args.seed is None else args.seed
    attacks = known.chosen(args.attacks, zoo.attacks)
    torch.set_num_threads(args.threads)
    work = Work(
        zoo, attacks, plan(args, zoo, list(attacks)), args.out, args.images, args.seed, args.batch, args.overwrite
    )
    try:
        work.begin()
        work.go_on()
    except KeyboardInterrupt:
        print(f"\nstopped; {work.state()}. The same command goes on from there: {command}", flush=True)
        return INTERRUPTED
    if any(args.out.glob("cells/*.csv")):
        # Everything in the folder: a benchmark may be made in several runs. Ordered as asked.
        everything = argparse.Namespace(**vars(args) | {"nets": None, "norms": None, "attacks": None, "budgets": None})
        tables(everything, command, work.nets)
    return work.end()


def plan(args: argparse.Namespace, zoo: Zoo, attacks: Sequence[str]) -> list[Cell]:
    """All cells: net by net, the cheap budgets first."""
    unknown = [net for net in args.nets or () if net not in zoo.nets]
    if unknown:
        raise CommandError(f"--nets: expected names out of {', '.join(zoo.nets)}; found {unknown[0]!r}")
    nets = list(dict.fromkeys(args.nets or zoo.nets))
    norms = list(dict.fromkeys(args.norms or arguments.NORMS))
    stray = [norm for norm, _ in args.eps or () if norm not in norms]
    if stray:
        raise CommandError(f"--eps: {stray[0]} is not among the norms {', '.join(norms)}; add it to --norms")
    cells: list[Cell] = []
    for net in nets:
        own = zoo.eps.get(net, {})
        eps = list(own.items()) if args.eps is None else args.eps
        for budget in sorted(set(args.budgets or arguments.BUDGETS)):
            for norm in norms:
                questions: list[float | None] = [None] if "min-radius" in args.questions else []
                if "max-loss" in args.questions:
                    questions += list(dict.fromkeys(value for at, value in eps if at == norm))
                cells += [Cell(net, norm, asked, attack, budget) for asked in questions for attack in attacks]
    if not cells:
        raise CommandError("nothing to do: --questions max-loss needs --eps, or EPS in the zoo file")
    return cells


def _list(zoo: Zoo | None) -> None:
    print("\n".join(known.listed({} if zoo is None else zoo.attacks)))
    print("nets: they come from a zoo file, --zoo" if zoo is None else "nets:")
    for net in () if zoo is None else zoo.nets:
        eps = ", ".join(f"{norm} {value:.4g}" for norm, value in zoo.eps.get(net, {}).items()) if zoo else ""
        print(f"  {net}" + (f"   eps: {eps}" if eps else ""))
