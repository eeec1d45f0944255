"""Batched optimisation of nonsmooth constrained problems.

``minimize`` needs only functions, starts, constraints and bounds; it does not depend on the rest of the package.
"""

from pwcf.solvers.callback import Progress
from pwcf.solvers.constraints import Constraint, eq, ineq
from pwcf.solvers.hessian import LimitedBFGS
from pwcf.solvers.minimize import minimize
from pwcf.solvers.restarts import Restarts, noisy_starts
from pwcf.solvers.solution import Evidence, Solution, SolverState, Trajectory

__all__ = [
    "Constraint",
    "Evidence",
    "LimitedBFGS",
    "Progress",
    "Restarts",
    "Solution",
    "SolverState",
    "Trajectory",
    "eq",
    "ineq",
    "minimize",
    "noisy_starts",
]
