"""Linear classifiers: dual norms where the box is inactive, exact breakpoint search where it is active."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator

import numpy as np
import torch

import pwcf
from exact.judge import Line, against_exact
from oracles.cases import LinearCase, linear_case
from oracles.linear import Array, exact_radii

PART = "linear"
P = (1.0, 1.5, 2.0, 4.0, 8.0, math.inf)


def name_of(p: float) -> str:
    return "linf" if math.isinf(p) else f"l{p:g}"


def exact_with_rounding(case: LinearCase, p: float) -> Array:
    """Radii below these cannot be, in single precision either.

    There logits decide only to within their rounding: about 8 units in the last place of their terms.
    """
    terms = np.abs(case.images) @ np.abs(case.W).T + np.abs(case.b)
    return exact_radii(case.images, case.labels, case.W, case.b, p, slack=1e-6 * terms.max(1))


def measure(args: argparse.Namespace) -> Iterator[Line]:
    families = [(n, classes, active) for n in args.n for classes in args.classes for active in (False, True)]
    for n, classes, active in families:
        # a seed of its own for each family, so that a choice of families does not change the others
        case = linear_case(n, classes, args.rows, active, seed=[args.seed, n, classes, int(active)])
        for p in P:
            exact = exact_radii(case.images, case.labels, case.W, case.b, p)
            for dtype in args.dtypes:
                images, labels = case.tensors(getattr(torch, dtype))
                began = time.perf_counter()
                problem = pwcf.MinRadius(name_of(p))
                model = case.model(images.dtype)
                run = pwcf.evaluate(model, images, labels, problem, budget=args.budget, seed=args.seed)
                seconds = time.perf_counter() - began
                lower = exact if dtype == "float64" else exact_with_rounding(case, p)
                about = {"part": PART, "case": f"box {'active' if active else 'inactive'}", "metric": name_of(p)}
                about |= {"n": n, "classes": classes, "dtype": dtype}
                yield against_exact(run, lower, exact, about, seconds)
