"""Frank-Wolfe as an attack: runs from the image and from random points, as far as the budget goes.

    max loss(x')  s.t.  x' in ball and box:    x_{k+1} = x_k + gamma_k (s_k - x_k)

s_k is the feasible point at which the linearised loss is largest, so all points are convex combinations of feasible
ones and nothing is projected. gamma_k is the short step  min(1, gap / (M |s_k - x_k|^2))  with  gap = grad'(s_k - x_k).
M estimates the Lipschitz constant of the gradient along the step and is backtracked (Pedregosa et al. 2020, "Linearly
convergent Frank-Wolfe with backtracking line-search"): it grows until the loss has risen by what M promises,
gamma gap - gamma^2 M |s_k - x_k|^2 / 2,  and shrinks after every step. So there is no step size to set.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.rng import seeds_of
from pwcf._common.rows import PerRow
from pwcf.attacks.base import ANY, Task, check_settings, needs_methods
from pwcf.attacks.feasible_set import FeasibleSet
from pwcf.attacks.objective import MaxLossObjective
from pwcf.attacks.radius_search import MaxLossAttack
from pwcf.losses import as_loss
from pwcf.metrics import HasDualNorm, HasHalfspaceStep
from pwcf.problems import MaxLoss, Problem

# Passes of a trial. The gradient is computed with the loss: most trials are accepted and need it.
TRIAL = 2
# Pedregosa et al. 2020: M grows by this factor where the loss has not risen enough, and shrinks by that one at most
# after a step.
GROWTH, SHRINK = 2.0, 0.9
# A run ends where the linearised loss can rise by no more than this share of its rise from the image, or where steps
# are shorter than that share of the way. At a kink no step is short enough: on the zoo's networks 1e-2 breaks up to 5 %
# more samples than 1e-3, which spends more trials there.
STATIONARY, SHORTEST = 1e-4, 1e-2


@dataclass(frozen=True)
class FrankWolfe(MaxLossAttack):
    """Frank-Wolfe with an automatic step: feasible points by convex combinations, without a projection."""

    loss: str | None = None
    """"ce", "margin", "dlr" or "pm"; None: that of a max-loss problem, the margin for min-radius"""
    steps: int = 100
    """trials of a run, at most; a run that is stationary ends earlier"""
    restarts: int | None = None
    """runs, at most. None: as many as the budget allows"""
    name: str = "fw"

    def __post_init__(self) -> None:
        if self.loss is not None:
            as_loss(self.loss)
        check_settings(self, "steps", "restarts")

    @property
    def about(self) -> str:
        loss = self.loss or "the problem's loss"
        restarts = "restarts by budget" if self.restarts is None else f"{self.restarts} restart(s)"
        return f"pwcf's own Frank-Wolfe, {loss}, automatic steps, at most {self.steps} a run, {restarts}"

    def unsupported_reason(self, problem: Problem, classes: int | None) -> str | None:
        return needs_methods(self.name, problem, dual_norm=HasDualNorm, nearest_on_halfspace=HasHalfspaceStep)

    def within_eps(self, task: Task) -> Tensor:
        """(n, ...) misclassified points within eps; the images where there is none.

        The first run begins at the image, or at the known point if there is one.
        """
        assert isinstance(task.problem, MaxLoss)
        objective = MaxLossObjective(task, self.loss or task.problem.loss)
        region, seeds = FeasibleSet.of(task), seeds_of(task.images, task.seed)
        known = task.images if task.known is None else task.known
        state = FwState.at(region.shrunk(known.flatten(1)))
        # The last trial is only looked at for answers: one pass.
        rounds = (task.budget + TRIAL - 1) // TRIAL
        for number in range(rounds):
            trial = region.inside(state.trial())
            if number + 1 == rounds:
                objective.check(state.sample, trial)
                break
            aim = torch.full_like(state.sample, ANY)
            value, gradient = objective.look(state.sample, aim, trial, region.upper > region.lower)
            going = ~objective.broken[state.sample]
            _keep(going, state, region)
            state.learn(region, trial[going], value[going], gradient[going])
            _restart(state, region, seeds, self.steps)
            if self.restarts is not None:
                _keep(state.run < self.restarts, state, region)
            if state.sample.numel() == 0:
                break
        return objective.answers


@dataclass
class FwState(PerRow):
    """Where r rows are in their ascent."""

    sample: Tensor
    """(r,) whose rows these are: places in the task"""
    run: Tensor
    """(r,) int64, the number of the run"""
    trials: Tensor
    """(r,) int64, of this run"""
    begins: Tensor
    """(r,) bool: nothing is known at x yet"""
    x: Tensor
    """(r, n)"""
    value: Tensor
    """(r,) the loss at x"""
    vertex: Tensor
    """(r, n) s, the feasible point at which the loss, linear about x, is largest"""
    gap: Tensor
    """(r,) by how much the linearised loss rises on the way to s"""
    square: Tensor
    """(r,) |s - x|^2"""
    lipschitz: Tensor
    """(r,) M, the estimate with which the next trial is made"""
    stationary: Tensor
    """(r,) bool: the gap is next to nothing"""

    @classmethod
    def at(cls, x: Tensor) -> FwState:
        """All rows begin at x (r, n)."""
        sample = torch.arange(x.shape[0], device=x.device)
        none, zero = torch.zeros_like(sample), x.new_zeros(x.shape[0])
        flag = torch.zeros_like(sample, dtype=torch.bool)
        return cls(sample, none, none, ~flag, x, zero, x, zero, zero, zero, flag)

    def step(self) -> Tensor:
        """(r,) gamma, the short step; 0 where there is no way up."""
        promise = self.lipschitz * self.square
        return torch.where(promise > 0, (self.gap / promise).clamp(max=1), 0.0)

    def trial(self) -> Tensor:
        """(r, n) the next points to look at: x itself where a run begins."""
        return self.x + self.step().unsqueeze(1) * (self.vertex - self.x)

    def learn(self, region: FeasibleSet, trial: Tensor, value: Tensor, gradient: Tensor) -> None:
        """Go to the trials (r, n) whose loss (r,) has risen by what M promises; elsewhere M grows.

        At the first point of a run M is such that the first step goes all the way to s.
        """
        step, rise = self.step(), value - self.value
        promised = step * self.gap - 0.5 * step.square() * self.lipschitz * self.square
        accepted = self.begins | (rise >= promised)
        # The M that explains the rise exactly: where it is smaller, the next one may be, but not at once.
        exact = 2 * (step * self.gap - rise) / (step.square() * self.square)
        smaller = torch.clamp(exact, SHRINK * self.lipschitz, self.lipschitz)
        self.lipschitz = torch.where(accepted, smaller, GROWTH * self.lipschitz)
        self.trials = self.trials + 1
        new = accepted.nonzero().squeeze(1)
        part = region.select(new)
        x, g = trial[new], gradient[new]
        vertex = part.vertex(g)
        way = vertex - x
        gap, square = (g * way).sum(1), way.square().sum(1)
        first = torch.where(square > 0, gap / square, 0.0)
        self.lipschitz[new] = torch.where(self.begins[new], first, self.lipschitz[new])
        self.stationary[new] = ~(gap > STATIONARY * (g * (vertex - part.centre)).sum(1))
        self.x, self.value = self.x.index_copy(0, new, x), self.value.index_copy(0, new, value[new])
        self.vertex = self.vertex.index_copy(0, new, vertex)
        self.gap, self.square = self.gap.index_copy(0, new, gap), self.square.index_copy(0, new, square)
        self.begins = torch.zeros_like(self.begins)


def _keep(rows: Tensor, state: FwState, region: FeasibleSet) -> None:
    """Only rows with these flags (r,) go on."""
    if not bool(rows.all()):
        state.keep(rows)
        region.keep(rows)


def _restart(state: FwState, region: FeasibleSet, seeds: list[int], steps: int) -> None:
    """Rows whose run has ended begin another at a random vertex."""
    over = state.stationary | (state.step() < SHORTEST) | (state.trials >= steps)
    ended = over.nonzero().squeeze(1)
    if ended.numel() == 0:
        return
    state.run = state.run + over
    drawn = [seeds[i] + run for i, run in zip(state.sample[ended].tolist(), state.run[ended].tolist(), strict=True)]
    x = region.select(ended).random_vertex(drawn)
    state.x, state.vertex = state.x.index_copy(0, ended, x), state.vertex.index_copy(0, ended, x)
    state.begins = over
    state.stationary = state.stationary & ~over
    state.trials = torch.where(over, 0, state.trials)
