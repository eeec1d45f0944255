"""Robust accuracy under the max-loss rivals: one CSV file per net, norm, eps and rival.

    PYTHONPATH=benchmarks python -m rivals.accuracies --out results/maxloss

Over the first images that are classified correctly. A sample is broken only by a verified point within eps (see
``checking``). ``forward`` and ``backward`` are mean passes per sample, ``seconds_total`` and ``cpu_seconds``
the wall and processor time of the whole batch: the same in every row, as is ``robust_accuracy``.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import torch

from . import checking, command, nets, records
from .counting import Counted
from .maximum_loss import RIVALS

COLUMNS = ("sample", "test_index", "broken", "robust_accuracy", "forward", "backward", "seconds_total", "cpu_seconds")
_GREY = (("linf", 0.1), ("l2", 1.5), ("l1", 10.0))
EPS: dict[str, tuple[tuple[str, float], ...]] = {
    "cifar10": (("linf", 2 / 255), ("linf", 8 / 255), ("l2", 0.5), ("l1", 12.0)),
    "mnist": _GREY,
    "fashion_mnist": _GREY,
}
"""The usual radii of each dataset."""


def file_of(out: Path, net: str, norm: str, eps: float, rival: str) -> Path:
    return out / f"{net}.{norm}_{eps:.4g}.{rival}.csv"


def run(task: nets.Task, norm: str, eps: float, rival: str, path: Path) -> None:
    setting = RIVALS[rival](norm, eps)
    model = Counted(task.net)
    torch.manual_seed(0)
    began, began_cpu = time.perf_counter(), time.process_time()
    points = setting.attack(model, task.images.clone(), task.labels.clone())
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    n = len(task.images)
    forward, backward = model.forward_rows / n, model.backward_rows / n
    broken = checking.broken(task.net, task.images, task.labels, points, norm, eps)
    # Points the rival counts and we do not: outside eps, or right after all. Told, because they cost it accuracy.
    changed = checking.misclassified(task.net, checking.into_box(points), task.labels)
    outside = int((changed & ~broken).sum())
    accuracy = (~broken).double().mean().item()
    title = f"{task.name} {norm} eps {eps:.6g} {rival}"
    counts = f"robust accuracy {accuracy:.2f}, misclassified but outside eps {outside}"
    print(f"{title}: {counts}, {forward:.0f} + {backward:.0f} passes, {seconds:.1f} s", flush=True)
    times = (f"{seconds:.2f}", f"{cpu_seconds:.2f}")
    rows = [
        (i, int(task.test_index[i]), int(broken[i]), f"{accuracy:g}", f"{forward:g}", f"{backward:g}", *times)
        for i in range(n)
    ]
    records.write(path, [title, setting.text, counts], COLUMNS, rows)


def main() -> None:
    args = command.parser(__doc__, RIVALS).parse_args()
    torch.set_num_threads(args.threads)
    runs = command.Runs(args.images)
    for rival in args.rivals:
        for name in args.nets:
            for norm, eps in EPS[nets.DATASETS[name]]:
                if norm in args.norms:
                    path = file_of(args.out, name, norm, eps, rival)
                    runs.attempt(name, path, partial(run, norm=norm, eps=eps, rival=rival, path=path))
    runs.end()


if __name__ == "__main__":
    main()
