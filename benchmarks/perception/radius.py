"""Min-radius in PD against LPA's bisection and ALMA, and what the evidence of these answers is worth."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

import pwcf
from perception.cells import Cells, Numbers
from perception.tasks import CIFAR, Task, distance, load
from pwcf import Status
from pwcf.attacks import AttackLike
from pwcf.attacks import Task as Asked
from pwcf.attacks.linearised.schedule import DEEP_ENOUGH, Stage, plan_for
from pwcf.attacks.linearised.search import Search

# Passes of the classifier; ALMA and LPA have as many. AlexNet's are about four times as many in ours and as many in
# theirs, so that with LESS ours has fewer passes in all than ALMA with BUDGET.
BUDGET, LESS = 2000, 750
ATTACKS: tuple[AttackLike, ...] = ("lpa", "alma", "pwcf")
LONGER, TOL = 10, 1e-2
HEAD = """\
# Radii in the perceptual distance

PD over AlexNet's features, the first correctly classified images of each net, one thread.
`python benchmarks/perceptual.py --parts radius`. LPA: its smallest feasible eps by bisection over balls. ALMA:
adv-lib's ALMA-LPIPS, whose distance is the same, AlexNet from a file. All have as many passes of the classifier; the
second line of "pwcf" has fewer passes than ALMA even if AlexNet's count the same.

Constants of the search for any metric were chosen on other nets and metrics and on the first ten of these images; ALMA
and LPA have their published settings.

Below: images on which the radius of "pwcf" is smaller than this attack's. Ratio: geometric mean of this attack's radius
over that of "pwcf" in the first line.

| net | images | attack | passes | AlexNet | mean radius | median | "pwcf" below | ratio | CPU s an image |
|---|---|---|---|---|---|---|---|---|---|
"""
EVIDENCE = """\

## Evidence

Converged (tol 1e-2): if features and condition were linear as far as the image, at most 1 % of the radius could go.
Near: the same said of the surroundings alone, 5 % of the way (`evidence.shrink`). That is less than it seems: the last
columns have by how many percent radii fall when the same steps go on from the first {rows} of these answers with
{longer} times the passes.

| net | images | passes | converged | near | gained by going on, mean % | largest % |
|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Given:
    """Points that are there already."""

    points: Tensor
    name: str = "given"

    def __call__(self, task: Asked) -> Tensor:
        return self.points[task.samples.cpu()]


@dataclass(frozen=True)
class Continued:
    """The steps of "pwcf" from the known points, no restart."""

    name: str = "continued"

    def __call__(self, task: Asked) -> Tensor:
        plan, steps = plan_for(task.problem.metric), (task.budget - 2) // 2
        whole = [Stage(1, "best", plan.first(DEEP_ENOUGH))] * (steps // DEEP_ENOUGH)
        return Search(task).run(whole)


def radii(task: Task, attack: AttackLike, budget: int) -> tuple[Numbers, Tensor]:
    began = time.process_time()
    run = pwcf.evaluate(task.net, task.images, task.labels, pwcf.MinRadius(distance()), attacks=attack, budget=budget)
    seconds = (time.process_time() - began) / len(task.images)
    return {
        "radius": run.radius.tolist(),
        "converged": [status is Status.CONVERGED for status in run.status],
        "shrink": run.evidence.shrink.tolist(),
        "passes": float(run.passes.total.double().mean()),
        "metric_passes": float(run.metric_passes.total.double().mean()),
        "seconds": seconds,
    }, run.x_adv


def continued(task: Task, points: Tensor, budget: int) -> tuple[Numbers, None]:
    run = pwcf.evaluate(
        task.net, task.images, task.labels, pwcf.MinRadius(distance()), attacks=[Given(points), Continued()],
        budget=2 * LONGER * budget,
    )  # fmt: skip
    return {"radius": run.radius.tolist()}, None


def table(cells: Cells, nets: list[str], images: int) -> list[str]:
    lines = HEAD.splitlines()
    for task in (load(net, images) for net in CIFAR if net in nets):
        ours = torch.tensor(_found(cells, task, "pwcf", BUDGET)["radius"])
        for attack, passes in [*((attack, BUDGET) for attack in ATTACKS), ("pwcf", LESS)]:
            found = _found(cells, task, attack, passes)
            radius = torch.tensor(found["radius"])
            below = "" if attack == "pwcf" else f"{int((ours < radius).sum())} of {len(radius)}"
            ratio = float((radius / ours).log().mean().exp())
            mean, median = float(radius.mean()), float(radius.median())
            lines.append(
                f"| {task.name} | {len(radius)} | {attack} | {found['passes']:.0f} | {found['metric_passes']:.0f} |"
                f" {mean:.4g} | {median:.4g} | {below} | {ratio:.3f} | {found['seconds']:.2f} |"
            )
    return lines


def evidence(cells: Cells, nets: list[str], images: int, rows: int) -> list[str]:
    """Of the first ``rows`` answers that are near in their surroundings."""
    tasks = (load(net, images) for net in CIFAR if net in nets)
    return [*EVIDENCE.format(rows=rows, longer=LONGER).splitlines(), *(_evidence(cells, task, rows) for task in tasks)]


def _evidence(cells: Cells, task: Task, rows: int) -> str:
    first = _found(cells, task, "pwcf", BUDGET)
    near = (torch.tensor(first["shrink"]) <= TOL).nonzero().squeeze(1)
    some = Task(task.name, task.net, task.images[near[:rows]], task.labels[near[:rows]])
    points = cells.points(_key(task, "pwcf", BUDGET))[near[:rows]]
    on = cells.numbers(f"continued-{task.name}-{len(points)}", lambda: continued(some, points, BUDGET))
    gained = 100 * (1 - torch.tensor(on["radius"]) / torch.tensor(first["radius"])[near[:rows]])
    return (
        f"| {task.name} | {len(first['radius'])} | {BUDGET} | {sum(first['converged'])} | {len(near)} |"
        f" {float(gained.mean()):.1f} | {float(gained.max()):.1f} |"
    )


def _key(task: Task, attack: AttackLike, budget: int) -> str:
    return f"radius-{task.name}-{attack}-{budget}-{len(task.images)}"


def _found(cells: Cells, task: Task, attack: AttackLike, budget: int) -> Numbers:
    return cells.numbers(_key(task, attack, budget), lambda: radii(task, attack, budget))
