"""Losses of logits, per sample, larger where the model is more wrong: margin, cross-entropy, DLR; clipping.

With a ``target`` they measure how near the model is to saying that class. All but cross-entropy are positive exactly
where the sample is misclassified (as the target, if there is one).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

Loss = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def margin(logits: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
    """The largest logit of another class, or that of the target, less the label's (paper, eq. margin loss).

    Args:
        logits: (b, classes)
        labels: (b,) the true classes.
        targets: (b,) the classes to be reached; None: any other.

    Returns:
        (b,) positive where the sample is misclassified.
    """
    own = logits.gather(1, labels.unsqueeze(1)).squeeze(1)
    if targets is not None:
        return logits.gather(1, targets.unsqueeze(1)).squeeze(1) - own
    return mask_label(logits, labels).amax(1) - own


def cross_entropy(logits: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
    """-log p_y; with a target log p_t.

    Args:
        logits: (b, classes)
        labels: (b,) the true classes.
        targets: (b,) the classes to be reached; None: any other.

    Returns:
        (b,)
    """
    if targets is not None:
        return -torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    return torch.nn.functional.cross_entropy(logits, labels, reduction="none")


def dlr(logits: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
    """The margin divided by a difference of the largest logits: blind to their scale (Croce and Hein 2020).

    With fewer classes than the formula needs (``dlr_classes``) it divides by the spread of all of them.

    Args:
        logits: (b, classes)
        labels: (b,) the true classes.
        targets: (b,) the classes to be reached; None: any other.

    Returns:
        (b,) positive where the sample is misclassified.
    """
    ordered = logits.sort(dim=1, descending=True).values
    if logits.shape[1] < dlr_classes(targets is not None):
        spread = ordered[:, 0] - ordered[:, -1]
    elif targets is None:
        spread = ordered[:, 0] - ordered[:, 2]
    else:
        spread = ordered[:, 0] - 0.5 * (ordered[:, 2] + ordered[:, 3])
    return margin(logits, labels, targets) / spread.clamp(min=1e-12)


def dlr_classes(targeted: bool) -> int:
    """How many classes DLR needs: it divides by differences of the three largest logits, with a target of four.

    With fewer it is constant or nearly so, and has no slope to follow.
    """
    return 4 if targeted else 3


LOSSES: dict[str, Loss] = {"margin": margin, "ce": cross_entropy, "dlr": dlr}


def clip_level(name: str, classes: int) -> float:
    """Where max-loss clips (paper, "Loss clipping"): beyond it a sample is misclassified, whatever follows.

    0.01 for losses that are positive there; ln K for cross-entropy, which can be as high as that at a tie of all
    K classes and no higher on any correctly classified sample.
    """
    return math.log(classes) if name == "ce" else 0.01


def clipped(loss: Tensor, level: float) -> Tensor:
    """min(loss, level): without slope where it has reached the level."""
    return loss.clamp(max=level)


def as_loss(name: str) -> Loss:
    """A loss by its name: "margin", "ce" or "dlr"."""
    if name not in LOSSES:
        raise ValueError(f"loss: expected one of {', '.join(LOSSES)}, found {name!r}")
    return LOSSES[name]


def mask_label(logits: Tensor, labels: Tensor) -> Tensor:
    """(b, classes) logits in which those of the labels (b,) are -inf: the largest is that of another class."""
    return logits.scatter(1, labels.unsqueeze(1), -torch.inf)
