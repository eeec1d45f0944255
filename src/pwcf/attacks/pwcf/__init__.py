"""PWCF, the paper's method: penalty SQP with constraint folding, every technique with a switch."""

from pwcf.attacks.pwcf.attack import Pwcf

__all__ = ["Pwcf"]
