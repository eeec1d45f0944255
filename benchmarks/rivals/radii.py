"""Radii of the minimum-norm rivals: one CSV file per net, norm, rival and budget.

    PYTHONPATH=benchmarks python -m rivals.radii --out results/radii
    PYTHONPATH=benchmarks python -m rivals.radii --out results/radii --budgets 100 200 500 1000 4000

``radius`` is verified (see ``checking``), inf where nothing valid was found. ``forward`` and ``backward`` are
passes per sample, ``seconds_total`` and ``cpu_seconds`` the wall and processor time of the whole batch: the same in
every row.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import torch

from . import checking, command, nets, records
from .counting import Counted
from .minimum_norm import PUBLISHED_STEPS, RIVALS

COLUMNS = ("sample", "test_index", "radius", "forward", "backward", "seconds_total", "cpu_seconds")
SLOWEST = "fab"


def label_of(rival: str, budget: int | None) -> str:
    """What stands for the budget in a file's name. A thousand steps are 2000 passes: the same run."""
    same = RIVALS[rival].stepwise and budget == 2 * PUBLISHED_STEPS
    return "published" if budget is None or same else str(budget)


def file_of(out: Path, net: str, norm: str, rival: str, budget: int | None) -> Path:
    return out / f"{net}.{norm}.{rival}.{label_of(rival, budget)}.csv"


def run(task: nets.Task, norm: str, rival: str, budget: int | None, path: Path) -> None:
    setting = RIVALS[rival].build(norm, task.dataset, budget)
    model = Counted(task.net)
    torch.manual_seed(0)
    began, began_cpu = time.perf_counter(), time.process_time()
    points = setting.attack(model, task.images.clone(), task.labels.clone())
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    n = len(task.images)
    forward, backward = model.forward_rows / n, model.backward_rows / n
    radius = checking.radii(task.net, task.images, task.labels, points, norm)
    found = radius.isfinite()
    mean = radius[found].mean().item()
    title = f"{task.name} {norm} {rival} {label_of(rival, budget)}"
    print(
        f"{title}: mean {mean:.5f} of {int(found.sum())}/{n}, {forward:.0f} + {backward:.0f} passes, {seconds:.1f} s",
        flush=True,
    )
    times = (f"{seconds:.2f}", f"{cpu_seconds:.2f}")
    rows = [
        (i, int(task.test_index[i]), f"{radius[i].item():.9g}", f"{forward:g}", f"{backward:g}", *times)
        for i in range(n)
    ]
    records.write(path, [title, setting.text], COLUMNS, rows)


def budget_of(text: str) -> int | None:
    return None if text == "published" else int(text)


def main() -> None:
    parser = command.parser(__doc__, RIVALS)
    parser.add_argument("--budgets", nargs="+", type=budget_of, default=[None], help="published, or passes per sample")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    runs = command.Runs(args.images)
    for budget in args.budgets:
        # The slowest rival only after all others have been on every net.
        for group in ([r for r in args.rivals if r != SLOWEST], [r for r in args.rivals if r == SLOWEST]):
            for name in args.nets:
                for norm in args.norms:
                    for rival in (r for r in group if norm in RIVALS[r].norms):
                        path = file_of(args.out, name, norm, rival, budget)
                        runs.attempt(name, path, partial(run, norm=norm, rival=rival, budget=budget, path=path))
    runs.end()


if __name__ == "__main__":
    main()
