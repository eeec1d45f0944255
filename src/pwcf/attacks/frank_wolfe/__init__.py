"""Frank-Wolfe with an automatic step: ascent by convex combinations, without a projection."""

from __future__ import annotations

from pwcf.attacks.frank_wolfe.attack import FrankWolfe

__all__ = ["FrankWolfe"]
