"""PWCF as published: penalty SQP with constraint folding, every technique of the paper with a switch."""

from pwcf.attacks.pwcf.attack import Pwcf

__all__ = ["Pwcf"]
