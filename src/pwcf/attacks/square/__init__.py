"""Square: random search with windows, forward passes only (Andriushchenko et al. 2020; l1: Croce and Hein 2021)."""

from pwcf.attacks.square.attack import Square

__all__ = ["Square"]
