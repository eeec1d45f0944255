"""How far ``converged`` can be trusted: the default call, and for every claim a much longer search::

    python benchmarks/reliability.py --results out/reliability --out docs/benchmarks

A claim is false where a new search (``stop="budget"``, ten times the passes that the sample used and at least 20,000,
another seed) lowers the radius by more than 1 %. *Before* is the mean radius with 2000 passes and ``stop="budget"``;
a second table compares it with 2000 passes and ``stop="converged"``. Constants were fitted on the nets in FITTED; the
others are told apart. One JSON file a net and norm, with the passes and gains of every sample; those that exist are
read, not computed again, so that ``--nets`` and ``--norms`` may be measured beside each other.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from perception.tasks import distance
from rivals import nets

import pwcf

NORMS = ("linf", "l2", "l1")
NETS = (
    "cifar10_cnn_a_adv", "cifar10_cnn_a_adv4", "cifar10_kw_l2_36", "mnist_kw_linf01", "mnist_fc_256x2",
    "fmnist_kw_linf01",
)  # fmt: skip
# Further metrics, on one net each: other l_p, and the perceptual distance over AlexNet's features.
OTHERS = {"l1.5": "cifar10_kw_l2_36", "l8": "mnist_fc_256x2", "pd": "cifar10_cnn_a_adv"}
FITTED = ("cifar10_cnn_a_adv", "cifar10_cnn_a_adv4", "mnist_kw_linf01", "fmnist_kw_linf01")
LONGER, AT_LEAST = 10, 20_000
SMALL = 2000
FALSE, FALSE_BY_FAR = 0.01, 0.1
STEM = "reliability"
HEADS = ("net", "norm", "converged", "false", "by 10 %", "largest gain", "passes", "radius", "before", "")
SMALL_HEADS = ("net", "norm", "converged", "passes", 'of stop="budget"', "radius", 'of stop="budget"', "")
Line = dict[str, Any]


def measure(task: nets.Task, norm: str) -> Line:
    """The default call on all images, longer searches on those that converged, and both ways to stop at 2000 passes."""
    problem, x, y = pwcf.MinRadius(distance() if norm == "pd" else norm), task.images, task.labels
    run = pwcf.evaluate(task.net, x, y, problem)
    converged = _has_converged(run)
    budgets = (LONGER * run.passes.total).clamp(min=AT_LEAST)
    budgets = 10_000 * torch.ceil(budgets / 10_000).long()  # samples of like budgets together
    gain = torch.full_like(run.radius, math.nan)
    for budget in budgets[converged].unique().tolist():
        rows = (converged & (budgets == budget)).nonzero().squeeze(1)
        longer = pwcf.evaluate(task.net, x[rows], y[rows], problem, budget=budget, stop="budget", seed=1)
        gain[rows] = 1 - longer.radius / run.radius[rows]
    small, whole = (pwcf.evaluate(task.net, x, y, problem, budget=SMALL, stop=stop) for stop in ("converged", "budget"))
    return {
        "net": task.name,
        "norm": norm,
        "images": len(x),
        "converged": converged.tolist(),
        "gain": gain.tolist(),
        "passes": run.passes.total.tolist(),
        "seconds": run.seconds,
        "radius": run.radius.tolist(),
        "small": {
            "converged": _has_converged(small).tolist(),
            "passes": small.passes.total.tolist(),
            "radius": small.radius.tolist(),
            "whole passes": whole.passes.total.tolist(),
            "whole radius": whole.radius.tolist(),
        },
    }


def _has_converged(run: pwcf.Run) -> torch.Tensor:
    return torch.tensor([status is pwcf.Status.CONVERGED for status in run.status])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _larger(line: Line, than: float) -> int:
    return sum(gain > than for gain in line["gain"])  # NaN, of samples without a claim, is not


def _is_no_larger(line: Line) -> bool:
    return _mean(line["radius"]) <= _mean(line["small"]["whole radius"])


def _remark(line: Line) -> str:
    return "fitted" if line["net"] in FITTED else ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["", *(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)), ""]


def _row(line: Line) -> list[str]:
    claims = sum(line["converged"])
    largest = max((gain for gain in line["gain"] if not math.isnan(gain)), default=math.nan)
    return [
        line["net"], line["norm"], f"{claims} of {line['images']}", str(_larger(line, FALSE)),
        str(_larger(line, FALSE_BY_FAR)), f"{largest:.2%}", f"{_mean(line['passes']):.0f}",
        f"{_mean(line['radius']):.5g}", f"{_mean(line['small']['whole radius']):.5g}", _remark(line),
    ]  # fmt: skip


def _small_row(line: Line) -> list[str]:
    small = line["small"]
    passes, radius = (_mean(small[key]) / _mean(small[f"whole {key}"]) for key in ("passes", "radius"))
    return [
        line["net"], line["norm"], f"{sum(small['converged'])} of {line['images']}", f"{_mean(small['passes']):.0f}",
        f"{passes:.0%}", f"{_mean(small['radius']):.5g}", f"{radius:.2%}", _remark(line),
    ]  # fmt: skip


def _total(name: str, lines: Sequence[Line]) -> str:
    images, claims = sum(line["images"] for line in lines), sum(sum(line["converged"]) for line in lines)
    false, by_far = (sum(_larger(line, limit) for line in lines) for limit in (FALSE, FALSE_BY_FAR))
    passes = sum(sum(line["passes"]) for line in lines) / images
    less = sum(_is_no_larger(line) for line in lines)
    small, whole = (sum(sum(line["small"][key]) for line in lines) / images for key in ("passes", "whole passes"))
    return (
        f"- {name}: converged {claims} of {images} ({claims / images:.0%}); false {false} "
        f"({false / max(claims, 1):.1%} of the claims), by more than 10 % {by_far}; {passes:.0f} passes in the mean; "
        f"mean radius no larger than before on {less} of {len(lines)} pairs. At {SMALL} passes: {small:.0f} in place "
        f"of {whole:.0f} ({1 - small / whole:.0%} fewer)."
    )


GROUPS: dict[str, Callable[[Line], bool]] = {
    "all": lambda line: True,
    "CIFAR-10": lambda line: line["net"].startswith("cifar10"),
    "fitted": lambda line: line["net"] in FITTED,
    "not fitted": lambda line: line["net"] not in FITTED,
}


def report(lines: Sequence[Line]) -> str:
    text = ["# Reliability of `converged`", "", *(__doc__ or "").rstrip().split("\n")]
    text += _table(HEADS, [_row(line) for line in lines])
    groups = {name: [line for line in lines if belongs(line)] for name, belongs in GROUPS.items()}
    text += [_total(name, some) for name, some in groups.items() if some]
    text += ["", f'## {SMALL} passes: `stop="converged"` against `stop="budget"`']
    text += _table(SMALL_HEADS, [_small_row(line) for line in lines])
    return "\n".join(text).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--nets", nargs="+", default=NETS)
    parser.add_argument("--norms", nargs="+", default=(*NORMS, *OTHERS), help=f"{', '.join(OTHERS)}: on one net each")
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--results", type=Path, default=Path("out/reliability"))
    parser.add_argument("--out", type=Path, default=None, help="folder for the table")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # samples without a point count as not converged
    args.results.mkdir(parents=True, exist_ok=True)
    lines = []
    for norm in args.norms:
        for net in (OTHERS[norm],) if norm in OTHERS else args.nets:
            path = args.results / f"{net}.{norm}.{args.images}.json"
            if not path.exists():
                path.write_text(json.dumps(measure(nets.load(net, args.images), norm)))
            lines.append(json.loads(path.read_text()))
            print(" | ".join(_row(lines[-1])), flush=True)
    text = report(lines)
    print(text)
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / f"{STEM}.md").write_text(text)


if __name__ == "__main__":
    main()
