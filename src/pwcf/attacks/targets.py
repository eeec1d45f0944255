"""Which class a row aims at."""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf.losses import mask_label

ANY = -1
"""In place of a class: whichever other class is nearest in logits where the row is now."""


def resolve_targets(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """(r,) the targets (r,), and where these are ANY the class with the largest logit beside the label's."""
    return torch.where(targets == ANY, mask_label(logits, labels).argmax(1), targets)
