"""pwcf: how robust is a classifier really? Penalty-SQP with constraint folding, batched in PyTorch."""

from pwcf import attacks, compat, losses, metrics, testproblems
from pwcf.evaluation import Run, evaluate
from pwcf.models import Classifier
from pwcf.problems import Constraint, MaxLoss, MinRadius, eq, ineq
from pwcf.solvers import (
    Evidence,
    Restarts,
    Solution,
    SolverState,
    Status,
    Trajectory,
    minimize,
    noisy_starts,
)

__version__ = "0.1.0"
__all__ = [
    "Classifier",
    "Constraint",
    "Evidence",
    "MaxLoss",
    "MinRadius",
    "Restarts",
    "Run",
    "Solution",
    "SolverState",
    "Status",
    "Trajectory",
    "attacks",
    "compat",
    "eq",
    "evaluate",
    "ineq",
    "losses",
    "metrics",
    "minimize",
    "noisy_starts",
    "testproblems",
]
