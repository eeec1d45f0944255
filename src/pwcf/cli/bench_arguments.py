"""The arguments of ``pwcf bench``; their help is its manual."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from pwcf.cli.known import DEFAULT
from pwcf.metrics import as_metric

NORMS = ("linf", "l2", "l1")
BUDGETS = (200, 2000)
IMAGES, SEED = 100, 0
QUESTIONS = ("min-radius", "max-loss")

DESCRIPTION = """\
Run attacks on nets at equal budgets and compare them.

Every combination of net, norm, attack and budget is a cell. A cell is one
evaluation: each image may cost at most BUDGET forward + backward passes, all
checks included, and only verified points count. With an eps for the norm
(--eps, or EPS in the zoo file) the robust accuracy at that eps is measured as
well as the least radius.

Each finished cell is a file in OUT/cells. The same command goes on where an
earlier one ended, however it ended, and loses at most the cell in work.
Several commands may share one OUT, one after the other or at the same time on
different nets: the tables are of everything that is there.

Written to OUT: bench.md (all tables, for reading), tables/*.csv, plots/*.png.
"""

EPILOG = """\
A zoo file is a Python file with

    NETS = ("small", "large")                      # names
    def load(name, images):                        # at most that many images
        return model, images, labels               # logits of inputs in [0, 1]
    EPS = {"small": {"linf": 8/255, "l2": 0.5}}    # optional: max-loss as well
    ATTACKS = {"mine": my_attack}                  # optional: attacks of its own

It may import what lies beside it. Where inputs are not in [0, 1], load returns a
pwcf.Classifier(model, bounds=...) as the model.

examples:
  pwcf bench --list
  pwcf bench --zoo nets.py --attacks pwcf fab-t --budgets 200 2000 --out results
  pwcf bench --zoo nets.py --norms linf --eps linf=8/255 --questions max-loss
  pwcf bench --tables-only --out results

exit codes: 0 all done, 1 some cells failed (told at the end, details in
OUT/failures), 2 wrong arguments or files that do not fit, 130 Ctrl-C.
"""


def add_to(parser: argparse.ArgumentParser) -> None:
    """All arguments. None as a default: nothing was said."""
    what = parser.add_argument_group("what is measured")
    what.add_argument("--zoo", type=Path, metavar="FILE.py", help="the file that brings the nets, see below")
    what.add_argument("--nets", nargs="+", metavar="NET", help="some of the zoo's nets (default: all)")
    what.add_argument(
        "--norms", nargs="+", type=_norm, metavar="NORM", help=f"linf, l2, l1, l1.5, ... (default: {' '.join(NORMS)})"
    )
    what.add_argument(
        "--attacks",
        nargs="+",
        metavar="ATTACK",
        help="names out of --list; a preset is a column of its own, its attacks share the budget; all: every attack, "
        f"no preset (default: {' '.join(DEFAULT)}, and the zoo's own)",
    )
    what.add_argument(
        "--budgets",
        nargs="+",
        type=_positive,
        metavar="N",
        help=f"forward + backward passes per image (default: {' '.join(map(str, BUDGETS))})",
    )
    what.add_argument(
        "--images", type=_positive, metavar="N", help=f"how many are asked of the zoo (default: {IMAGES})"
    )
    what.add_argument(
        "--eps",
        nargs="+",
        type=_eps,
        metavar="NORM=EPS",
        help="measure robust accuracy there too: linf=8/255 l2=0.5; a norm may come more than once "
        "(default: EPS of the zoo file)",
    )
    what.add_argument(
        "--questions",
        nargs="+",
        choices=QUESTIONS,
        default=list(QUESTIONS),
        help="only radii, or only robust accuracy (default: both)",
    )
    what.add_argument("--seed", type=int, metavar="N", help=f"of all randomness (default: {SEED})")
    how = parser.add_argument_group("how")
    how.add_argument("--threads", type=_positive, default=1, metavar="N", help="of torch (default: 1)")
    how.add_argument(
        "--batch", type=_positive, default=256, metavar="N", help="rows per call of the model (default: 256)"
    )
    how.add_argument("--out", type=Path, default=Path("bench"), metavar="DIR", help="the folder (default: bench)")
    how.add_argument(
        "--overwrite",
        action="store_true",
        help="measure cells again whose files do not fit what is asked, or cannot be read; files that fit are kept",
    )
    how.add_argument(
        "--tables-only",
        action="store_true",
        help="measure nothing, write tables and plots of the cells in OUT; --nets, --norms, --attacks, --budgets, "
        "--images and --seed choose among them",
    )
    how.add_argument("--list", action="store_true", help="print attacks, presets and the zoo's nets, and end")


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected an integer > 0, found {text!r}")
    return value


def _norm(text: str) -> str:
    try:
        return as_metric(text).name
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _eps(text: str) -> tuple[str, float]:
    """NORM=NUMBER, or NORM=NUMBER/NUMBER as in 8/255."""
    norm, _, number = text.partition("=")
    try:
        above, slash, below = number.partition("/")
        value = float(above) / (float(below) if slash else 1)
    except (ValueError, ZeroDivisionError):
        value = math.nan
    if not norm or not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected NORM=EPS with EPS > 0, such as linf=8/255, found {text!r}")
    return _norm(norm), value
