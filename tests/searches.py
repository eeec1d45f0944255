"""A search of lmn as ``evaluate`` sets it up, for tests that look inside."""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf import MaxLoss
from pwcf.attacks import Task
from pwcf.attacks.lmn.attack import LmnSearch
from pwcf.models import CountedClassifier
from pwcf.problems import Problem


def search_of(model: CountedClassifier, problem: Problem, images: Tensor, labels: Tensor, budget: int) -> LmnSearch:
    lower, upper = torch.zeros_like(images), torch.ones_like(images)
    everyone = torch.arange(len(images))
    eps = problem.radii(len(images)) if isinstance(problem, MaxLoss) else None
    return LmnSearch(Task(model, problem, images, labels, everyone, lower, upper, eps, budget, 0))
