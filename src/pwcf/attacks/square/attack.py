"""``Square``: misclassified points by random search, without gradients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from pwcf.attacks.base import Task, check_settings
from pwcf.attacks.radius_search import MaxLossAttack
from pwcf.attacks.square.search import PROPOSALS, SquareSearch
from pwcf.metrics import distance64, shrink_to_eps
from pwcf.problems import Problem


@dataclass(frozen=True)
class Square(MaxLossAttack):
    """Windows at random places, kept where the margin falls; fewer entries in each as the queries go by."""

    queries: int | None = None
    """forward passes per sample in a ball, 5000 in AutoAttack; None: all that the budget has"""
    p: float = 0.8
    """share of the entries that the first windows have"""
    name: str = "square"
    black_box: bool = True

    def __post_init__(self) -> None:
        check_settings(self, "queries")
        if not isinstance(self.p, (int, float)) or not 0 < self.p <= 1:
            raise ValueError(f"p: expected a share, 0 < p <= 1, found {self.p!r}")

    @property
    def about(self) -> str:
        queries = "as many queries as the budget has" if self.queries is None else f"{self.queries} queries"
        return f"pwcf's own Square, margin loss, p = {self.p:g} with the schedule rescaled, one run of {queries}"

    def unsupported_reason(self, problem: Problem, classes: int | None) -> str | None:
        """Why it cannot answer, or None."""
        metric = problem.metric
        if metric.exponent in PROPOSALS:
            return None
        return f"square has windows for l1, l2 and linf, not for {metric.name}"

    def within_eps(self, task: Task) -> Tensor:
        """Max-loss: the points, within eps and the box."""
        metric, eps = task.problem.metric, task.eps
        if eps is None or metric.exponent not in PROPOSALS:
            raise ValueError(self.unsupported_reason(task.problem, None) or "square needs an eps")
        points = task.images.clone()
        able = (eps.to(points.device) > 0) & (task.upper > task.lower).flatten(1).any(1)
        rows = able.nonzero().squeeze(1)
        if len(rows):
            queries = task.budget if self.queries is None else min(self.queries, task.budget)
            points[rows] = SquareSearch(task.select(rows), metric.exponent).run(queries, self.p)
        distance = partial(distance64, metric, task.images)
        return shrink_to_eps(distance, task.images, points, eps, (task.lower, task.upper))
