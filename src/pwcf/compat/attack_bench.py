"""Our search as an attack of AttackBench, which calls ``attack(model, inputs, labels, targets, targeted)``."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from torch import Tensor

from pwcf.compat.search import search
from pwcf.metrics import L0, lp
from pwcf.models import Classifier
from pwcf.problems import MinRadius

# AttackBench's limit of queries per sample.
QUERIES = 2000


def attackbench(
    model: Callable[[Tensor], Tensor] | Classifier,
    inputs: Tensor,
    labels: Tensor,
    targets: Tensor | None = None,
    targeted: bool = False,
    *,
    norm: float,
    budget: int = QUERIES,
    seed: int = 0,
) -> Tensor:
    """The nearest points (n, ...) that the search sees misclassified, for AttackBench to judge.

    Its model counts the forward and backward passes of each sample, for the sample whose image a row is nearest to, and
    past a limit it answers the true class. Our count may differ where a search goes far, so that a verification may
    come too late: then the point that was seen is returned, and nothing is lost. Every sample uses its budget up.

    Args:
        model: from inputs in [0, 1] to logits.
        labels: (n,) the true classes.
        targets: (n,) the wanted classes, if ``targeted``.
        norm: a number p >= 1, ``float("inf")`` included; or 0, which needs adv-lib.
        budget: forward + backward passes per sample; AttackBench's limit.
        seed: random seed.

    Returns:
        Points in [0, 1]; the inputs themselves where nothing misclassified was seen.
    """
    if targeted and targets is None:
        raise ValueError("targets: expected the wanted classes (n,) with targeted=True, found None")
    wanted = targets if targeted and targets is not None else labels
    problem = MinRadius(L0() if norm == 0 else lp(norm), targeted=targeted)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The model changed its answer")  # that is how its limit works
        return search(model, inputs, wanted, problem, budget=budget, stop="budget", seed=seed).x_adv
