"""Min-radius in PD against LPA's bisection and ALMA, and what the evidence of these answers is worth."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

import pwcf
from perception.cells import Cells, Numbers
from perception.tasks import CIFAR, Task, distance, load
from pwcf.attacks import Answer, Attack, AttackLike
from pwcf.attacks import Task as Asked
from pwcf.attacks.linearised.general_metric import GeneralMetricRule
from pwcf.attacks.linearised.schedule import CLOSE_SCHEDULE, LONG_MEMORY, REPEATS, Phase, Stage
from pwcf.attacks.lmn.attack import LmnSearch

# Passes of the classifier; ALMA and LPA have as many. AlexNet's are about four times as many in ours and as many in
# theirs, so that with LESS ours has fewer passes in all than ALMA with BUDGET.
BUDGET, LESS = 2000, 750
ATTACKS: tuple[AttackLike, ...] = ("lpa", "alma", "lmn")
# A larger budget, of how many images; how much longer rows go on; what counts as converged, and as little left.
DEEP, DEEP_IMAGES, LONGER, TOL, LITTLE = 10000, 10, 10, 1e-2, 5e-2
HEAD = """\
# Radii in the perceptual distance

PD over AlexNet's features, the first correctly classified images of each net, one thread.
`python benchmarks/perceptual.py --parts radius`. LPA: its smallest feasible eps by bisection over balls. ALMA:
adv-lib's ALMA-LPIPS, whose distance is the same, AlexNet from a file. All have as many passes of the classifier; the
second line of "lmn" has fewer passes than ALMA even if AlexNet's count the same.

Constants of the search for any metric were chosen on other nets and metrics and on the first ten of these images; ALMA
and LPA have their published settings.

Below: images on which the radius of "lmn" is smaller than this attack's. Ratio: geometric mean of this attack's radius
over that of "lmn" in the first line.

| net | images | attack | passes | AlexNet | mean radius | median | "lmn" below | ratio | CPU s an image |
|---|---|---|---|---|---|---|---|---|---|
"""
EVIDENCE = """\

## Evidence

How much of its radius an answer could lose if features and condition were linear as far as the image; with at most
`tol`, 1e-2 unless one says otherwise, it says converged. Going on: the first rows with at most 5 %, and the first of
the others, polished on from where they ended with {longer} times the passes of the whole search; by how many percent
radii fall, mean and largest. Anew: a search of the same images with {longer} times the passes, which has more and
longer restarts. Converged says that a minimum was reached, not that there is no other, and in PD there are many.

| net | images | passes | at most 1 % | at most 5 % | of these went on | mean % | largest % | anew, mean % | largest % |
|---|---|---|---|---|---|---|---|---|---|
"""
OTHERS = """
The same of the first rows that have more than 5 % left.

| net | images | passes | more than 5 % | of these went on | mean % | largest % | anew, mean % | largest % |
|---|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Given(Attack):
    """Points that are there already."""

    points: Tensor
    name: str = "given"

    def __call__(self, task: Asked) -> Answer:
        return Answer(self.points[task.samples.cpu()])


@dataclass(frozen=True)
class Continued(Attack):
    """The polish of "lmn" from the known points, no restart."""

    name: str = "continued"

    def __call__(self, task: Asked) -> Answer:
        steps = (task.budget - 2) // 2
        return LmnSearch(task).run(
            [Stage(1, "best", (Phase(GeneralMetricRule(REPEATS, LONG_MEMORY), CLOSE_SCHEDULE, steps),))]
        )


def radii(task: Task, attack: AttackLike, budget: int) -> tuple[Numbers, Tensor]:
    began = time.process_time()
    run = pwcf.evaluate(task.net, task.images, task.labels, pwcf.MinRadius(distance()), attacks=attack, budget=budget)
    seconds = (time.process_time() - began) / len(task.images)
    return {
        "radius": run.radius.tolist(),
        "stationarity": run.evidence.stationarity.tolist(),
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
        ours = torch.tensor(_found(cells, task, "lmn", BUDGET)["radius"])
        for attack, passes in [*((attack, BUDGET) for attack in ATTACKS), ("lmn", LESS)]:
            found = _found(cells, task, attack, passes)
            radius = torch.tensor(found["radius"])
            below = "" if attack == "lmn" else f"{int((ours < radius).sum())} of {len(radius)}"
            ratio = float((radius / ours).log().mean().exp())
            mean, median = float(radius.mean()), float(radius.median())
            lines.append(
                f"| {task.name} | {len(radius)} | {attack} | {found['passes']:.0f} | {found['metric_passes']:.0f} |"
                f" {mean:.4g} | {median:.4g} | {below} | {ratio:.3f} | {found['seconds']:.2f} |"
            )
    return lines


def evidence(cells: Cells, nets: list[str], images: int, rows: int) -> list[str]:
    """``rows``: how many go on."""
    lines, others = EVIDENCE.format(longer=LONGER).splitlines(), OTHERS.splitlines()
    for net in (net for net in CIFAR if net in nets):
        task = load(net, images)
        left = torch.tensor(_found(cells, task, "lmn", BUDGET)["stationarity"])
        head = f"| {net} | {len(left)} | {BUDGET} |"
        little, much = ((left <= LITTLE).nonzero().squeeze(1), (left > LITTLE).nonzero().squeeze(1))
        counts = f" {int((left <= TOL).sum())} | {len(little)} |"
        lines.append(head + counts + _longer(cells, task, "little", little[:rows]))
        others.append(head + f" {len(much)} |" + _longer(cells, task, "much", much[:rows]))
        task = load(net, DEEP_IMAGES)
        left = torch.tensor(_found(cells, task, "lmn", DEEP)["stationarity"])
        little = (left <= LITTLE).nonzero().squeeze(1)
        counts = f"| {net} | {len(left)} | {DEEP} | {int((left <= TOL).sum())} | {len(little)} |"
        lines.append(counts + " | | | | |")
    return lines + others


def _longer(cells: Cells, task: Task, name: str, rows: Tensor) -> str:
    """How many were tried, by how many percent their radii fall when they go on, and anew."""
    if not len(rows):
        return " 0 | | | | |"
    some = Task(task.name, task.net, task.images[rows], task.labels[rows])
    first = torch.tensor(_found(cells, task, "lmn", BUDGET)["radius"])[rows]
    points = cells.points(_key(task, "lmn", BUDGET))[rows]
    key = f"{task.name}-{BUDGET}-{name}-{len(rows)}"
    on = cells.numbers(f"continued-{key}", lambda: continued(some, points, BUDGET))
    anew = cells.numbers(f"anew-{key}", lambda: radii(some, "lmn", LONGER * BUDGET))
    text = f" {len(rows)} |"
    for each in (on, anew):
        gained = 100 * (1 - torch.tensor(each["radius"]) / first)
        text += f" {float(gained.mean()):.2f} | {float(gained.max()):.2f} |"
    return text


def _key(task: Task, attack: AttackLike, budget: int) -> str:
    return f"radius-{task.name}-{attack}-{budget}-{len(task.images)}"


def _found(cells: Cells, task: Task, attack: AttackLike, budget: int) -> Numbers:
    return cells.numbers(_key(task, attack, budget), lambda: radii(task, attack, budget))
