"""``Fab``: Croce and Hein 2020, "Minimally distorted adversarial examples with a fast adaptive boundary attack"."""

from __future__ import annotations

from dataclasses import dataclass

from pwcf.attacks.base import Answer, Attack, Task, check_settings, needs_methods
from pwcf.attacks.fab.geometry import FabWeights
from pwcf.attacks.fab.search import LOOK, FabSchedule, FabSearch
from pwcf.metrics import HasHalfspaceStep
from pwcf.problems import Problem


@dataclass(frozen=True)
class Fab(Attack):
    """From hyperplane to hyperplane, with a bias to the image: FAB, or FAB-T if there are ``targets``."""

    targets: int | None = None
    """None: every other class is linearised at every step. k: the k likeliest other classes one after the other, one
    of them a step (AutoAttack: 9)."""
    steps: int | None = None
    """None: about 100, as published; fewer where the budget has no more."""
    restarts: int | None = None
    """None: what the budget allows. Published: 5, with targets 1."""
    alpha_max: float = 0.1
    """largest share of the image's projection in a step"""
    eta: float = 1.05
    """how far beyond the plane a step goes"""
    beta: float = 0.9
    """how much of the way from the image is left after the step back from a misclassified point"""
    name: str = "fab"

    def __post_init__(self) -> None:
        check_settings(self, "targets", "steps", "restarts")
        for field, good in (
            ("alpha_max", 0 <= self.alpha_max <= 1),
            ("eta", self.eta >= 1),
            ("beta", 0 < self.beta <= 1),
        ):
            if not good:
                raise ValueError(f"{field}: out of range, found {getattr(self, field)!r}")

    @property
    def about(self) -> str:
        kind = "FAB" if self.targets is None else f"FAB-T, {self.targets} target(s)"
        steps = "steps by the budget" if self.steps is None else f"{self.steps} steps"
        restarts = "restarts by the budget" if self.restarts is None else f"{self.restarts} restart(s)"
        constants = f"alpha_max {self.alpha_max:g}, eta {self.eta:g}, beta {self.beta:g}"
        return f"pwcf's own {kind}, {steps}, {restarts}, {constants}"

    def unsupported_reason(self, problem: Problem, classes: int | None) -> str | None:
        return needs_methods(self.name, problem, nearest_on_halfspace=HasHalfspaceStep)

    def __call__(self, task: Task) -> Answer:
        if reason := self.unsupported_reason(task.problem, None):
            raise ValueError(reason)
        if task.images.shape[0] == 0 or task.budget <= LOOK:
            return Answer(task.images)
        at_image = task.model.logits(task.images, task.samples)
        others, targeted = at_image.shape[1] - 1, task.problem.targeted
        # A wanted class has one boundary that counts, to the likeliest of the others wherever a row is.
        one = targeted or self.targets is not None
        targets = 1 if targeted or self.targets is None else min(self.targets, others)
        schedule = FabSchedule.within(task.budget, targets, 1 if one else others, self.steps, self.restarts)
        if schedule is None:
            return Answer(task.images)
        fixed = not targeted and self.targets is not None
        weights = FabWeights(self.alpha_max, self.eta, self.beta)
        return FabSearch(task, schedule, weights, at_image).run(fixed)
