"""LPA, Fast-LPA and PPGD (Laidlaw, Singla, Feizi 2021): max-loss where the distance is perceptual."""

from pwcf.attacks.perceptual.lagrange import FastLpa, Lpa
from pwcf.attacks.perceptual.projected import Ppgd

__all__ = ["FastLpa", "Lpa", "Ppgd"]
