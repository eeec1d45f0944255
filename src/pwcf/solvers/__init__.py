"""Batched optimisation of nonsmooth constrained problems; knows nothing of images or classifiers."""

from pwcf.solvers.hessian import LimitedBFGS
from pwcf.solvers.minimize import minimize
from pwcf.solvers.progress import Advance, progress_bar
from pwcf.solvers.restarts import Restarts, noisy_starts
from pwcf.solvers.solution import Evidence, Solution, SolverState, Trajectory
from pwcf.solvers.status import Status

__all__ = [
    "Advance",
    "Evidence",
    "LimitedBFGS",
    "Restarts",
    "Solution",
    "SolverState",
    "Status",
    "Trajectory",
    "minimize",
    "noisy_starts",
    "progress_bar",
]
