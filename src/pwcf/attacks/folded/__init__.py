"""PWCF as published: penalty SQP with constraint folding, every technique of the paper with a switch."""

from pwcf.attacks.folded.attack import Folded

__all__ = ["Folded"]
