"""Adversarial training in any metric: minimise the largest loss within eps over the weights (paper, eq. min-max)."""

from pwcf.training.inner import WorstPoints, worst_points
from pwcf.training.train import Epoch, TrainingLog, train

__all__ = ["Epoch", "TrainingLog", "WorstPoints", "train", "worst_points"]
