"""Any function from a model, images and labels to adversarial points, as an attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from pwcf.attacks.base import Answer, Attack, Task
from pwcf.attacks.external.answering import run_external


@dataclass(frozen=True, init=False)
class Function(Attack):
    """``call(model, images, labels) -> points``, all of them in [0, 1] whatever the bounds are.

    The model counts its passes. When the budget is spent it ends the call, and the best points it was shown are the
    answer; ``model.task`` is the whole question, for those who want to know.

    Args:
        call: the function. With a targeted problem the labels are the wanted classes.
        name: what tables call it; by default the function's own name.
        about: implementation and settings in words.
        black_box: whether it goes without gradients.
        each_eps: call it once for every value of eps there is among the samples, with the samples that have it.
    """

    call: Callable[..., Tensor]
    name: str = ""
    about: str = ""
    black_box: bool = False
    each_eps: bool = False

    def __init__(
        self,
        call: Callable[..., Tensor],
        name: str | None = None,
        about: str = "",
        black_box: bool = False,
        each_eps: bool = False,
    ) -> None:
        if not callable(call):
            raise TypeError(f"call: expected a function (model, images, labels) -> points, found {type(call).__name__}")
        object.__setattr__(self, "call", call)
        object.__setattr__(self, "name", name or getattr(call, "__name__", type(call).__name__).strip("<>"))
        object.__setattr__(self, "about", about or type(self).__name__)
        object.__setattr__(self, "black_box", black_box)
        object.__setattr__(self, "each_eps", each_eps)

    def __call__(self, task: Task) -> Answer:
        if task.eps is None or not self.each_eps:
            return Answer(run_external(self.call, task, self.name))
        points = task.images.clone()
        for eps in sorted(set(task.eps.tolist())):
            rows = (task.eps == eps).nonzero().squeeze(1).to(points.device)
            points[rows] = run_external(self.call, task.select(rows), self.name)
        return Answer(points)
