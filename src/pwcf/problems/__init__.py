"""The two problems, min-radius and max-loss, and what counts as an answer."""

from pwcf.problems.robustness import MaxLoss, MinRadius, Problem, is_defined, is_surely_wrong, is_tied, is_wrong

__all__ = [
    "MaxLoss",
    "MinRadius",
    "Problem",
    "is_defined",
    "is_surely_wrong",
    "is_tied",
    "is_wrong",
]
