"""Adversarial training in any metric: min over the weights of the largest loss within eps (paper, eq. min-max)."""

from pwcf.training.inner import Worst, worst_points
from pwcf.training.log import Epoch, TrainingLog
from pwcf.training.train import train

__all__ = ["Epoch", "TrainingLog", "Worst", "train", "worst_points"]
