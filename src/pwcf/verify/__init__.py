"""Answers rechecked and repaired, whoever found them."""

from pwcf.verify.recheck import Checked, recheck
from pwcf.verify.repair import to_boundary, to_grid

__all__ = ["Checked", "recheck", "to_boundary", "to_grid"]
