"""The model that an external attack is given: it counts passes, keeps to the budget and remembers the best points."""

from __future__ import annotations

import contextlib
import io
import math
import random
from collections.abc import Callable, Iterator

import numpy
import torch
from torch import Tensor, nn

from pwcf._common.rows import per_row
from pwcf.attacks.base import Answer, Diagnostics, Task
from pwcf.metrics.l0 import L0
from pwcf.problems import is_defined, is_surely_wrong

# Entries of a point at eps are rounded: the image plus a step, clipped. Each is off by this many units at most.
ROUNDING = 4


class BudgetSpent(BaseException):
    """No pass is left, or nothing is left to ask. No Exception: the attack's code must not mistake it for a failure."""


class TrackedModel(nn.Module):
    """Inputs in [0, 1] to logits, for an attack that knows nothing of tasks.

    Inputs are scaled to the bounds and clamped to the box. Entries that must not change are the image's whatever is
    shown, so they have no gradient. Logits that are undefined are said to be of a sample that still stands, and
    gradients that are undefined to be zero: one NaN would otherwise stay in an attack's state for ever.
    """

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task
        n, (lower, upper) = task.images.shape[0], task.model.bounds
        self.width = upper - lower
        self.images = ((task.images - lower) / self.width).clamp(0, 1).contiguous()
        """(n, ...) what the attack is given"""
        self.best = task.images.clone()
        """(n, ...) the nearest misclassified points seen, the images where there is none"""
        self.distance = torch.full((n,), torch.inf, dtype=torch.float64, device=task.images.device)
        self._everyone = torch.arange(n, device=task.images.device)
        self._numbers = task.samples.cpu()
        self._before = task.model.passes.total[self._numbers]
        self._measure = task.measure()
        self._fixed = task.lower >= task.upper
        # From here on nothing can be gained: any answer within eps, and one entry where entries are counted.
        least = 1.0 if isinstance(task.problem.metric, L0) else 0.0
        self._enough = least if task.eps is None else torch.finfo(torch.float64).max
        self._slack = _rounding_of_distances(task)
        # Attacks ask the first parameter for device and dtype. The user's own are none of their business.
        self.placement = nn.Parameter(torch.zeros_like(task.images.flatten()[:1]), requires_grad=False)
        self.eval()

    def __deepcopy__(self, memo: object) -> TrackedModel:
        """Itself: what is asked of a copy counts too."""
        return self

    __copy__ = __deepcopy__

    @property
    def found(self) -> Tensor:
        """(n,) bool"""
        return torch.isfinite(self.distance)

    @property
    def left(self) -> Tensor:
        """(n,) passes, on the CPU"""
        return self.task.budget - (self.task.model.passes.total[self._numbers] - self._before)

    def forward(self, z: Tensor) -> Tensor:
        """(m, classes) of z (m, ...), in the dtype of z. n rows are the samples in their order."""
        rows = self._everyone if z.shape[0] == len(self._everyone) else self._nearest(z)
        traced = torch.is_grad_enabled() and z.requires_grad
        self._go_on()
        # A forward pass whose backward pass is not affordable would be wasted.
        self._afford(rows, 2 if traced else 1)
        x = self.points(z, rows)
        samples = self.task.samples[rows]
        if not traced:
            logits = self.task.model.logits(x, samples)
        else:
            x.register_hook(lambda g: torch.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0))  # type: ignore[no-untyped-call]
            batch = self.task.model.batch
            parts = [slice(start, start + batch) for start in range(0, max(len(rows), 1), batch)]
            logits = torch.cat([self.task.model.differentiable(x[some], samples[some]) for some in parts])
        self._remember(x.detach(), logits.detach(), rows)
        if traced:  # here, and not on the way back: errors in a device's own thread may end the process
            self._go_on()
        said = self._said(logits, rows).to(z.dtype)
        if traced and not logits.requires_grad:  # a model without gradients: they are zero, and cost nothing
            said = said + 0 * x.flatten(1).sum(1, keepdim=True).to(z.dtype)
        elif traced:
            # One forward pass may be followed by any number of backward passes, as many as classes in some attacks.
            said.register_hook(lambda _: self._afford(rows, 1))  # type: ignore[no-untyped-call]
        return said

    def points(self, z: Tensor, rows: Tensor) -> Tensor:
        """(m, ...) what z is for us: within bounds and box, the image where it says NaN."""
        task = self.task
        images, lower, upper, fixed = (self._of(t, rows) for t in (task.images, task.lower, task.upper, self._fixed))
        z = z.reshape(images.shape)
        if self.width == 1 and z.dtype == images.dtype and task.model.bounds[0] == 0:
            x = z
        else:  # as a difference: entries that were not changed come back exactly as they were
            x = images + self.width * (z - self._of(self.images, rows).to(z.dtype)).to(images.dtype)
        return torch.where(fixed | torch.isnan(x), images, torch.clamp(x, lower, upper))

    def look(self, points: Tensor, rows: Tensor) -> None:
        """One more forward pass for the points (m, ...) of some samples (m,), which must have it left."""
        logits = self.task.model.logits(points, self.task.samples[rows])
        self._remember(points, logits, rows)

    def _of(self, tensor: Tensor, rows: Tensor) -> Tensor:
        return tensor if rows is self._everyone else tensor[rows]

    def _nearest(self, z: Tensor) -> Tensor:
        """(m,) whose rows these are, by the nearest image. A mistake loses a point; it never makes one."""
        shown = torch.nan_to_num(z.detach().to(self.images.dtype)).reshape(z.shape[0], -1)
        return torch.cdist(shown, self.images.flatten(1)).argmin(1)

    def _afford(self, rows: Tensor, cost: int) -> None:
        """Stop everything if a sample has fewer passes left than its rows cost."""
        asked = cost * torch.bincount(rows.cpu(), minlength=len(self._numbers))
        if bool(((asked > 0) & (asked > self.left)).any()):
            raise BudgetSpent("no pass is left")

    def _go_on(self) -> None:
        """Stop everything if no sample has anything to gain."""
        if bool((self.distance <= self._enough).all()):
            raise BudgetSpent("no sample has anything left to gain")

    def _remember(self, x: Tensor, logits: Tensor, rows: Tensor) -> None:
        task = self.task
        hits = is_surely_wrong(logits, task.labels[rows], task.problem.targeted).nonzero().squeeze(1)
        if hits.numel() == 0:
            return
        owner = rows[hits]
        distance = self._measure.distance64(x[hits], owner)
        eps = None if task.eps is None else task.eps.to(owner.device)[owner] + self._slack
        # The nearest one of every owner: sorted by owner, and by distance within.
        order = distance.argsort()
        order = order[owner[order].argsort(stable=True)]
        first = torch.ones_like(order, dtype=torch.bool)
        first[1:] = owner[order][1:] != owner[order][:-1]
        better = task.problem.allows(distance, eps) & (distance < self.distance[owner])
        taken = order[first & better[order]]
        self.best[owner[taken]] = x[hits[taken]]
        self.distance[owner[taken]] = distance[taken]

    def _said(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Logits without NaN and inf. Those of a class that is ruled out (-inf) are very low."""
        said = torch.where(logits == -torch.inf, torch.finfo(logits.dtype).min / 4, logits)
        undefined = ~is_defined(logits.detach()).unsqueeze(1)
        stands = torch.zeros_like(logits).scatter(
            1, self.task.labels[rows].unsqueeze(1), -1.0 if self.task.problem.targeted else 1.0
        )
        return torch.where(undefined, stands, said)


def _rounding_of_distances(task: Task) -> float:
    """How much farther than eps a point at eps may seem. The caller draws it in."""
    metric = task.problem.metric
    if not metric.exponent:  # no norm, or l0
        return 0.0
    unit = torch.finfo(task.images.dtype).eps * max(map(abs, task.model.bounds))
    return ROUNDING * unit * math.pow(task.images[:1].numel(), 1 / metric.exponent)


# ---- from a task to points ----------------------------------------------------------------------------------------


def run_external(call: Callable[[TrackedModel, Tensor, Tensor], Tensor], task: Task, name: str) -> Answer:
    """The best of what the attack has shown to the model and what it returns.

    Where it returns something that was not seen, and has passes left, one of them decides.
    """
    if task.images.shape[0] == 0:
        return Answer(task.images)
    tracked = TrackedModel(task)
    with _apart(task):
        try:
            # Contiguous: attacks project views of the flattened images in place.
            returned = call(tracked, tracked.images.clone(), task.labels.clone())
        except BudgetSpent:
            return Answer(tracked.best, Diagnostics(seen=tracked.found))
        except Exception as error:
            raise RuntimeError(f"attack {name} failed: {type(error).__name__}: {error}") from error
    shape = task.images.shape
    if not isinstance(returned, Tensor) or returned.shape != shape:
        found = tuple(returned.shape) if isinstance(returned, Tensor) else type(returned).__name__
        raise ValueError(
            f"attack {name}: expected points of shape {tuple(shape)}, found {found}; an attack "
            "of Foolbox or torchattacks needs pwcf.attacks.from_foolbox or from_torchattacks"
        )
    points = _best(tracked, returned.detach().to(task.images.device))
    return Answer(points, Diagnostics(seen=tracked.found))


def _best(tracked: TrackedModel, returned: Tensor) -> Tensor:
    """The best points seen; where there are none those that were returned, without NaN."""
    undefined = per_row(torch.isnan(returned).flatten(1).any(1), returned)
    everyone = torch.arange(returned.shape[0], device=returned.device)
    points = torch.where(undefined, tracked.task.images, tracked.points(returned, everyone))
    new = (points != tracked.best).flatten(1).any(1) & (points != tracked.task.images).flatten(1).any(1)
    rows = (new & (tracked.left > 0).to(new.device)).nonzero().squeeze(1)
    if rows.numel():
        tracked.look(points[rows], rows)
    return torch.where(per_row(tracked.found, points), tracked.best, points)


@contextlib.contextmanager
def _apart(task: Task) -> Iterator[None]:
    """Randomness from the task's seed and no one else's, nothing printed, gradients on; afterwards all is as it was."""
    device = task.images.device
    python, arrays = random.getstate(), numpy.random.get_state()
    with (
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
        torch.enable_grad(),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        torch.manual_seed(task.seed)
        random.seed(task.seed)
        numpy.random.seed(task.seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python)
            numpy.random.set_state(arrays)
