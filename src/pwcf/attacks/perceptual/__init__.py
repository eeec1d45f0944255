"""LPA, Fast-LPA and PPGD (Laidlaw, Singla, Feizi 2021): max-loss where the distance is perceptual."""

from pwcf.attacks.perceptual.lpa import FastLpa, Lpa
from pwcf.attacks.perceptual.ppgd import Ppgd

__all__ = ["FastLpa", "Lpa", "Ppgd"]
