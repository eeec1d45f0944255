"""Proven ground truth: verifiers decided whether a linf change of eps can alter the class."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import torch
from realdata import find_zoo

import pwcf
from exact.judge import Line, timing

PART = "proven"
ROOM = 1e-6
"""eps is rounded to six decimals: this keeps to the proved side."""


def measure(args: argparse.Namespace) -> Iterator[Line]:
    zoo = find_zoo()
    if zoo is None:
        print("proven: skipped, there is no folder of real networks", flush=True)
        return
    rows = [row for row in zoo.load_groundtruth() if row.verdict in ("robust", "not_robust")]
    for model in sorted({row.model for row in rows}):
        yield from _net(zoo, model, [row for row in rows if row.model == model], args)


def _net(zoo: Any, model: str, rows: list[Any], args: argparse.Namespace) -> Iterator[Line]:
    indices = sorted({row.test_index for row in rows})
    net, (images, labels) = zoo.load_net(model), zoo.load_images(rows[0].dataset)
    images, labels = images[indices], labels[indices]
    began = time.perf_counter()
    run = pwcf.evaluate(net, images, labels, pwcf.MinRadius("linf"), budget=args.budget, seed=args.seed)
    seconds = time.perf_counter() - began
    radius = dict(zip(indices, run.radius.tolist(), strict=True))
    status = dict(zip(indices, run.status, strict=True))
    with torch.no_grad():
        classes = net(images[:1]).shape[1]
    about = {"part": PART, "metric": "linf", "n": images[0].numel(), "classes": classes, "dtype": "float32"}
    for verdict in ("robust", "not_robust"):
        case = f"{model}, {verdict.replace('_', ' ')}"
        chosen = [row for row in rows if row.verdict == verdict]
        missed = [row for row in chosen if not _agrees(row, radius[row.test_index])]
        if not chosen:
            continue
        yield Line(
            **about,
            case=case,
            rows=len(chosen),
            found=sum(radius[row.test_index] < float("inf") for row in chosen),
            good=len(chosen) - len(missed),
            below=len(missed) if verdict == "robust" else 0,
            claims=sum(status[row.test_index] is pwcf.Status.CONVERGED for row in chosen),
            **timing(run, seconds),
            missed=tuple(
                about
                | {"case": case, "row": row.test_index, "exact": row.eps}
                | {"radius": radius[row.test_index], "excess": radius[row.test_index] / row.eps - 1}
                | {"status": status[row.test_index].value, "why": f"proved {verdict} (pgd found: {row.pgd40x3_found})"}
                for row in missed
            ),
        )


def _agrees(row: Any, radius: float) -> bool:
    return radius > row.eps - ROOM if row.verdict == "robust" else radius <= row.eps + ROOM
