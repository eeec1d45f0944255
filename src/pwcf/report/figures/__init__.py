"""Figures for papers and notebooks, each a function of runs or of what ``pwcf.analysis`` makes of them.

They return ``matplotlib.figure.Figure`` objects that know nothing of pyplot: show them in a notebook, or ``save`` them.
matplotlib is the extra ``plots``.
"""

from pwcf.report.figures.accuracy import accuracy_curves
from pwcf.report.figures.attacks import local_optimality, radius_over_budget
from pwcf.report.figures.canvas import NothingToShow, save
from pwcf.report.figures.clipping import loss_clipping
from pwcf.report.figures.matrices import agreement, cross_metric
from pwcf.report.figures.patterns import magnitudes, perturbations, sparsity
from pwcf.report.figures.radii import Pair, radii_by_sample, radius_comparison, radius_comparisons, radius_distribution
from pwcf.report.figures.searches import best_found, termination, trajectories

__all__ = [
    "NothingToShow",
    "Pair",
    "accuracy_curves",
    "agreement",
    "best_found",
    "cross_metric",
    "local_optimality",
    "loss_clipping",
    "magnitudes",
    "perturbations",
    "radii_by_sample",
    "radius_comparison",
    "radius_comparisons",
    "radius_distribution",
    "radius_over_budget",
    "save",
    "sparsity",
    "termination",
    "trajectories",
]
