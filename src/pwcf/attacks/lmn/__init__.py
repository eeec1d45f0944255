"""Linearised minimum norm (lmn), pwcf's structured method: the linearised problem solved exactly, again and again."""

from pwcf.attacks.lmn.attack import Lmn

__all__ = ["Lmn"]
