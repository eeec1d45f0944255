"""The question as an optimisation problem: constraints and how they are folded."""

from pwcf.problems.constraints import Constraint, eq, ineq

__all__ = ["Constraint", "eq", "ineq"]
