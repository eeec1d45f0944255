"""Perceptual distances, between features of a network: the paper's PD, and LPIPS."""

from pwcf.metrics.perceptual.features import FeatureDistance, Features
from pwcf.metrics.perceptual.named import lpips, perceptual

__all__ = ["FeatureDistance", "Features", "lpips", "perceptual"]
