"""Small trained ReLU networks: the exact l1 and linf radius by MILP."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator

import pwcf
from exact.judge import Line, against_exact
from oracles.cases import trained_mlp
from oracles.relu import exact_radius

PART = "relu"
NETS = ((8, 20, 2), (12, 20, 20, 3), (16, 24, 16, 4))


def measure(args: argparse.Namespace) -> Iterator[Line]:
    for seed, widths in enumerate(NETS):
        net, points, labels = trained_mlp(widths, args.seed + seed)
        images, own = points[: args.samples], labels[: args.samples]
        for metric, p in (("linf", math.inf), ("l1", 1.0)):
            exact = [exact_radius(net, x, int(y), p, points) for x, y in zip(images, own, strict=True)]
            began = time.perf_counter()
            run = pwcf.evaluate(net, images, own, pwcf.MinRadius(metric), budget=args.budget, seed=args.seed)
            seconds = time.perf_counter() - began
            about = {"part": PART, "case": "-".join(map(str, widths)), "metric": metric}
            about |= {"n": widths[0], "classes": widths[-1], "dtype": "float64"}
            yield against_exact(run, [r.lower for r in exact], [r.upper for r in exact], about, seconds)
