"""Losses of logits, per sample, larger where the model is more wrong: margins, cross-entropy, DLR; clipping.

With ``targets`` they measure how close the model is to predicting these classes. All but cross-entropy are positive
exactly where the sample is misclassified; with a target, where the target's logit exceeds the label's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

Loss = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def margin(logits: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
    """Margin loss: the largest logit of another class, or the target's, minus the label's (paper, eq. margin loss).

    Args:
        logits: (b, classes) of any floating dtype.
        labels: (b,) true classes, int64.
        targets: (b,) target classes, int64; None: any other class.

    Returns:
        (b,) margins, positive where the sample is misclassified.
    """
    own = logits.gather(1, labels.unsqueeze(1)).squeeze(1)
    if targets is not None:
        return logits.gather(1, targets.unsqueeze(1)).squeeze(1) - own
    return mask_label(logits, labels).amax(1) - own


def cross_entropy(logits: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
    """Cross-entropy: -log p_y, or log p_t with a target t.

    Args:
        logits: (b, classes) of any floating dtype.
        labels: (b,) true classes, int64.
        targets: (b,) target classes, int64; None: any other class.

    Returns:
        (b,) losses.
    """
    if targets is not None:
        return -torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    return torch.nn.functional.cross_entropy(logits, labels, reduction="none")


def probability_margin(logits: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
    """Probability margin: the largest probability of another class, or the target's, minus the label's.

    The margin of p = softmax(logits): max_{i != y} p_i - p_y (Xie et al. 2024, "Probability Margin Attack"). It lies
    between -1 and 1.

    Args:
        logits: (b, classes) of any floating dtype.
        labels: (b,) true classes, int64.
        targets: (b,) target classes, int64; None: any other class.

    Returns:
        (b,) losses, positive where the sample is misclassified.
    """
    # Where the model is confident, the label's part of the gradient, p_y (1 - p_y + p_i), rounds to 0 in float32.
    return margin(torch.softmax(logits.double(), 1), labels, targets).to(logits.dtype)


def dlr(logits: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
    """DLR loss: the margin divided by a difference of the largest logits, so that it is scale-invariant.

    Difference of logits ratio, Croce and Hein 2020. With fewer classes than the formula needs (``dlr_classes``), the
    margin is divided by the difference of the largest and the smallest logit.

    Args:
        logits: (b, classes) of any floating dtype.
        labels: (b,) true classes, int64.
        targets: (b,) target classes, int64; None: any other class.

    Returns:
        (b,) losses, positive where the sample is misclassified.
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
    """Return how many classes the DLR formula needs; with fewer it is nearly constant and has no useful gradient.

    Args:
        targeted: whether there are targets.

    Returns:
        3, or 4 with targets: the number of largest logits that the formula uses.
    """
    return 4 if targeted else 3


LOSSES: dict[str, Loss] = {"margin": margin, "ce": cross_entropy, "dlr": dlr, "pm": probability_margin}


def clip_level(name: str, classes: int) -> float:
    """Return the level at which max-loss clips a loss (paper, "Loss clipping"): above it a sample is misclassified.

    Cross-entropy reaches ln K at a tie of all K classes and is never higher on a correctly classified sample.

    Args:
        name: "margin", "ce", "dlr" or "pm".
        classes: the number of classes K.

    Returns:
        ln K for cross-entropy, 0.01 for the others, which are positive on misclassified samples.
    """
    return math.log(classes) if name == "ce" else 0.01


def clipped(loss: Tensor, level: float) -> Tensor:
    """Clip losses: min(loss, level). Their gradient is 0 above the level.

    Args:
        loss: (b,) losses.
        level: from ``clip_level``.

    Returns:
        (b,) clipped losses.
    """
    return loss.clamp(max=level)


def as_loss(name: str) -> Loss:
    """Look up a loss by name.

    Args:
        name: "margin", "ce" (cross-entropy), "dlr" or "pm" (probability margin).

    Returns:
        A function (logits (b, classes), labels (b,), targets (b,) or None) -> (b,).
    """
    if name not in LOSSES:
        raise ValueError(f"loss: expected one of {', '.join(LOSSES)}, found {name!r}")
    return LOSSES[name]


def mask_label(logits: Tensor, labels: Tensor) -> Tensor:
    """Set the labels' logits to -inf, so that the largest logit is that of another class.

    Args:
        logits: (b, classes) of any floating dtype.
        labels: (b,) classes to mask, int64.

    Returns:
        (b, classes) masked logits.
    """
    return logits.scatter(1, labels.unsqueeze(1), -torch.inf)
