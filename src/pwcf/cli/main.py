"""``pwcf``: one subcommand per file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import pwcf
from pwcf.cli import bench
from pwcf.cli.errors import CommandError
from pwcf.records import RecordError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (default: the process's own) and return the exit code."""
    parser = argparse.ArgumentParser(prog="pwcf", description="How robust is a classifier really?")
    parser.add_argument("--version", action="version", version=f"pwcf {pwcf.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    bench.add_to(commands)
    words = list(sys.argv[1:] if argv is None else argv)
    args = parser.parse_args(words)
    try:
        return int(args.run(args, words))
    except (CommandError, RecordError) as error:
        print(f"pwcf: {error}", file=sys.stderr)
        return 2
