"""FAB and FAB-T: the boundary as hyperplanes, projections onto them, and a bias to the image."""

from pwcf.attacks.fab.attack import Fab

__all__ = ["Fab"]
