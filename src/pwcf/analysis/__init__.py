"""What radii and verdicts of several attacks mean together: pure functions on tensors."""

from pwcf.analysis.accuracy import Curve, robust_accuracy, robust_accuracy_at, robust_accuracy_curve
from pwcf.analysis.comparison import Comparison, compare, wins, wins_and_pairs
from pwcf.analysis.optimality import area, best, largest_finite, local_optimality
from pwcf.analysis.spread import Spread, describe, filled_mean, spread

__all__ = [
    "Comparison",
    "Curve",
    "Spread",
    "area",
    "best",
    "compare",
    "describe",
    "filled_mean",
    "largest_finite",
    "local_optimality",
    "robust_accuracy",
    "robust_accuracy_at",
    "robust_accuracy_curve",
    "spread",
    "wins",
    "wins_and_pairs",
]
