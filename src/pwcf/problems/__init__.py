"""The question as an optimisation problem: what is asked, constraints and how they are folded."""

from pwcf.problems.constraints import Constraint, eq, ineq
from pwcf.problems.robustness import MaxLoss, MinRadius, Problem, is_defined, is_surely_wrong, is_tied, is_wrong

__all__ = [
    "Constraint",
    "MaxLoss",
    "MinRadius",
    "Problem",
    "eq",
    "ineq",
    "is_defined",
    "is_surely_wrong",
    "is_tied",
    "is_wrong",
]
