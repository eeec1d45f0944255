"""Runs made up by hand, a letter for every sample."""

import torch
from torch import Tensor

import pwcf
from pwcf import Run, Status
from pwcf.evaluation import Contribution
from pwcf.models import Passes
from pwcf.problems import Problem
from pwcf.verify import AnswerEvidence

SAID = {
    "c": Status.CONVERGED,
    "b": Status.BUDGET,
    "n": Status.NOT_FOUND,
    "f": Status.FOUND,
    "w": Status.ALREADY_MISCLASSIFIED,
    "x": Status.NONFINITE,
}


def run_of(
    said: str,
    radius: list[float],
    problem: Problem | None = None,
    x_adv: Tensor | None = None,
    attacks: tuple[str, ...] = ("one",),
) -> Run:
    """Of min-radius in l2 unless said otherwise; the second attack's radii are twice the first's, and so on."""
    n = len(said)
    found = torch.tensor(radius, dtype=torch.float64)
    nothing, count = torch.zeros(n, dtype=torch.float64), torch.arange(1, n + 1)
    return Run(
        problem or pwcf.MinRadius("l2"), found, torch.tensor([letter in "cbfw" for letter in said]),
        torch.zeros(n, 4) if x_adv is None else x_adv, [SAID[letter] for letter in said],
        AnswerEvidence(nothing, 0 * count, 0 * count, nothing, nothing), Passes(count, count), Passes.none(n),
        ["a"] * n, 3.0, [],
        [Contribution(name, "", False, found * i, count, 1.0) for i, name in enumerate(attacks, 1)],
        torch.zeros(n, 2), torch.zeros(n, 2), nothing, found,
    )  # fmt: skip
