"""From a task to points by way of a callable (model, images, labels) -> points that knows nothing of tasks."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable, Iterator

import numpy
import torch
from torch import Tensor

from pwcf.attacks.base import Task
from pwcf.attacks.external.watched import BudgetSpent, TrackedModel

Call = Callable[[TrackedModel, Tensor, Tensor], Tensor]


def run_external(call: Call, task: Task, name: str) -> Tensor:
    """(n, ...) the best of what the attack has shown to the model and what it returns.

    Where it returns something that was not seen, and has passes left, one of them decides.
    """
    if task.images.shape[0] == 0:
        return task.images
    watched = TrackedModel(task)
    with _apart(task):
        try:
            # Contiguous: attacks project views of the flattened images in place.
            returned = call(watched, watched.images.clone(), task.labels.clone())
        except BudgetSpent:
            return watched.best
        except Exception as error:
            raise RuntimeError(f"attack {name} failed: {type(error).__name__}: {error}") from error
    shape = task.images.shape
    if not isinstance(returned, Tensor) or returned.shape != shape:
        found = tuple(returned.shape) if isinstance(returned, Tensor) else type(returned).__name__
        raise ValueError(
            f"attack {name}: expected points of shape {tuple(shape)}, found {found}; an attack "
            "of Foolbox or torchattacks needs pwcf.attacks.from_foolbox or from_torchattacks"
        )
    return _best(watched, returned.detach().to(task.images.device))


def _best(watched: TrackedModel, returned: Tensor) -> Tensor:
    """The best points seen; where there are none those that were returned, without NaN."""
    shape = (-1, *(1 for _ in returned.shape[1:]))
    undefined = torch.isnan(returned).flatten(1).any(1).view(shape)
    everyone = torch.arange(returned.shape[0], device=returned.device)
    points = torch.where(undefined, watched.task.images, watched.points(returned, everyone))
    new = (points != watched.best).flatten(1).any(1) & (points != watched.task.images).flatten(1).any(1)
    rows = (new & (watched.left > 0).to(new.device)).nonzero().squeeze(1)
    if rows.numel():
        watched.look(points[rows], rows)
    return torch.where(watched.found.view(shape), watched.best, points)


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
