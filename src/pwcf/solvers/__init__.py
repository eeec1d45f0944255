"""Batched optimisation of nonsmooth constrained problems.

``minimize`` is complete in itself: it asks for functions, starts, constraints and bounds, and for nothing else.
"""

from pwcf.solvers.constraints import Constraint, eq, ineq
from pwcf.solvers.hessian import LimitedBFGS
from pwcf.solvers.minimize import minimize
from pwcf.solvers.restarts import Restarts, noisy_starts
from pwcf.solvers.solution import Evidence, Solution, SolverState, Trajectory

__all__ = [
    "Constraint",
    "Evidence",
    "LimitedBFGS",
    "Restarts",
    "Solution",
    "SolverState",
    "Trajectory",
    "eq",
    "ineq",
    "minimize",
    "noisy_starts",
]
