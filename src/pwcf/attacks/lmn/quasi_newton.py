"""The last digits by the general solver:  min d(z, x0)  s.t.  f_y(z) - f_t(z) <= 0,  z in the box,  from a good point.

It learns the curvature of the distance and of the boundary, which steps along gradients do not: what a metric without
structure needs near the end. Rows are (image, target class); the best misclassified point seen counts, whatever the
solver ends with.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf.attacks.base import Task
from pwcf.attacks.targets import resolve_targets
from pwcf.losses import margin
from pwcf.problems import is_surely_wrong
from pwcf.solvers import ineq, minimize

# Forward passes beside the evaluations: one for the images, and minimize() looks at its functions with up to two.
LOOKS = 3
# The condition asks for this share of its value at the image more than it must: the solver ends on the boundary of what
# it is asked, and there rounding would decide the class.
SURPLUS = 2e-4
# What minimize() says of a function that gives two values at one point.
DIFFERENT = "gave different values"
# Beyond the number of evaluations that a budget of passes buys nothing limits a row.
ENDLESS = 10_000


def descend(task: Task, image: Tensor, target: Tensor, starts: Tensor, passes: int) -> tuple[Tensor, Tensor]:
    """(r,) least distances and (r, n) points from starts (r, n) of these images and targets; ``passes`` for each row.

    Distances are inf where no misclassified point was seen.
    """
    shape, measure = task.images.shape[1:], task.measure()
    labels, samples = task.labels[image], task.samples[image]

    def condition(logits: Tensor, rows: Tensor) -> Tensor:
        own = labels[rows]
        return (
            margin(logits, own)
            if task.problem.targeted
            else -margin(logits, own, resolve_targets(logits, own, target[rows]))
        )

    everyone = torch.arange(len(image), device=starts.device)
    surplus = SURPLUS * condition(task.model.logits(task.images[image], samples), everyone).abs()
    best = torch.full_like(starts[:, 0], torch.inf)
    best_x = starts.clone()

    def radius_and_condition(z: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        x = z.view(-1, *shape)
        logits = task.model.differentiable(x, samples[rows])
        distance = measure(x, image[rows])
        with torch.no_grad():
            better = is_surely_wrong(logits, labels[rows], task.problem.targeted) & (distance < best[rows])
            hit = rows[better]
            best[hit], best_x[hit] = distance[better], z[better]
        return distance, condition(logits, rows) + surplus[rows]

    try:
        minimize(
            radius_and_condition,
            starts,
            [ineq()],
            bounds=(task.lower[image].flatten(1), task.upper[image].flatten(1)),
            max_iterations=ENDLESS,
            budget=max(1, (passes - LOOKS) // 2),
            slots=task.model.batch,
        )
    except ValueError as error:
        if DIFFERENT not in str(error):
            raise  # a random model has no minimum; what was found before stays
    return best, best_x
