"""Other metrics on real networks: radii must be ordered, and max-loss must agree with them at 0.8 and 1.2 of each."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import torch
from realdata import find_zoo, first_correct
from torch import Tensor

import pwcf
from exact.judge import Line, timing

PART = "metrics"
NETS = (("cifar10_cnn_a_adv4", "cifar10"), ("mnist_colt_linf01", "mnist"))
METRICS = ("l1.5", "l2", "l8")
SHARES = (0.8, 1.2)


def measure(args: argparse.Namespace) -> Iterator[Line]:
    zoo = find_zoo()
    if zoo is None:
        print("metrics: skipped, there is no folder of real networks", flush=True)
        return
    for name, dataset in NETS:
        net = zoo.load_net(name)
        images, labels, _ = first_correct(zoo, net, dataset, args.images)
        about = {"part": PART, "n": images[0].numel(), "classes": 10, "dtype": "float32"}
        radii: dict[str, Tensor] = {}
        for metric in METRICS:
            began = time.perf_counter()
            run = pwcf.evaluate(net, images, labels, pwcf.MinRadius(metric), budget=args.budget, seed=args.seed)
            seconds = time.perf_counter() - began
            radii[metric] = run.radius
            found = int(run.adversarial.sum())
            claims = sum(status is pwcf.Status.CONVERGED for status in run.status)
            yield Line(
                **about,
                case=f"{name}, radius",
                metric=metric,
                value=float(run.radius.mean()),
                rows=len(labels),
                found=found,
                good=found,
                claims=claims,
                **timing(run, seconds),
            )
            yield from _max_loss(net, name, images, labels, metric, run.radius, about, args)
        yield _ordered(name, radii, about)


def _ordered(name: str, radii: dict[str, Tensor], about: dict[str, Any]) -> Line:
    large, middle, small = (radii[metric] for metric in METRICS)
    wrong = torch.nonzero(~((large >= middle) & (middle >= small))).flatten().tolist()
    case, rows = f"{name}, {' >= '.join(METRICS)}", len(large)
    missed = tuple(
        about
        | {"case": case, "metric": "all", "row": i, "exact": "", "radius": "", "excess": "", "status": ""}
        | {"why": ", ".join(f"{metric} {float(radii[metric][i]):.6g}" for metric in METRICS)}
        for i in wrong
    )
    return Line(**about, case=case, metric="all", rows=rows, found=rows, good=rows - len(wrong), missed=missed)


def _max_loss(
    net: Any,
    name: str,
    images: Tensor,
    labels: Tensor,
    metric: str,
    radius: Tensor,
    about: dict[str, Any],
    args: argparse.Namespace,
) -> Iterator[Line]:
    known = torch.isfinite(radius) & (radius > 0)
    for share in SHARES:
        eps = share * radius[known]
        began = time.perf_counter()
        problem = pwcf.MaxLoss(metric, eps=eps)
        run = pwcf.evaluate(net, images[known], labels[known], problem, budget=args.budget, seed=args.seed)
        seconds = time.perf_counter() - began
        broken = run.adversarial.cpu()
        bad = broken if share < 1 else ~broken
        case = f"{name}, max-loss at {share:g} x radius"
        yield Line(
            **about,
            case=case,
            metric=metric,
            value=float(run.robust_accuracy),
            rows=len(eps),
            found=int(broken.sum()),
            good=int((~bad).sum()),
            **timing(run, seconds),
            missed=tuple(
                about
                | {"case": case, "metric": metric, "row": i}
                | {"exact": float(eps[i]), "radius": float(radius[known][i]), "excess": ""}
                | {"status": run.status[i].value, "why": "broken" if share < 1 else "not broken"}
                for i in torch.nonzero(bad).flatten().tolist()
            ),
        )
