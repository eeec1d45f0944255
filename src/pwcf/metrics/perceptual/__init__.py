"""Distances that networks see: PD of the paper, and LPIPS."""

from pwcf.metrics.perceptual.features import FeatureDistance, Features
from pwcf.metrics.perceptual.named import lpips, perceptual

__all__ = ["FeatureDistance", "Features", "lpips", "perceptual"]
