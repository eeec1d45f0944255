"""The step length of the outer descent."""

from __future__ import annotations

import math

# Rise over this share of the training, then a cosine down to 0: small nets learn in few epochs with it.
RISE, FIRST = 0.15, 0.1


def rate(share: float) -> float:
    """Share of the largest learning rate when this share of the training, 0 to 1, is done."""
    if share < RISE:
        return FIRST + (1 - FIRST) * share / RISE
    return 0.5 * (1 + math.cos(math.pi * (share - RISE) / (1 - RISE)))
