"""Every attack there is on awkward models: it answers, with verified points and within its budget, or says why not."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pwcf import MaxLoss, MinRadius, evaluate
from pwcf.attacks import ATTACKS, as_attack
from pwcf.attacks.external import available
from pwcf.metrics import Metric, as_metric, perceptual
from pwcf.problems import Problem

BUDGET, SLOW_BUDGET = 300, 120  # the paper's method takes the longest by far
Net = Callable[[Tensor], Tensor]


def linear(classes: int, entries: int, seed: int = 0) -> Net:
    generator = torch.Generator().manual_seed(seed)
    W = torch.randn(entries, classes, generator=generator)
    return lambda x: (x.flatten(1) - 0.5) @ W


def one_logit() -> Net:
    two = linear(2, 24)
    return lambda x: two(x)[:, 1] - two(x)[:, 0]


def sometimes_nan() -> Net:
    """Undefined where the image is bright in the mean, which is on the way of some."""
    net = linear(4, 24)
    return lambda x: torch.where((x.flatten(1).mean(1) > 0.52).unsqueeze(1), torch.nan, net(x))


# The model, its classes, the shape of an image, and how many there are.
CASES: dict[str, tuple[Net, int, tuple[int, ...], int]] = {
    "two classes": (linear(2, 24), 2, (1, 4, 6), 5),
    "one logit": (one_logit(), 2, (1, 4, 6), 5),
    "100 classes": (linear(100, 24), 100, (1, 4, 6), 5),
    "not square": (linear(4, 60), 4, (3, 2, 10), 5),
    "vectors": (linear(4, 24), 4, (24,), 5),
    "a batch of one": (linear(4, 24), 4, (1, 4, 6), 1),
    "NaN on some inputs": (sometimes_nan(), 4, (1, 4, 6), 5),
}
# These find what there is on a linear model; a random search of 300 queries, and FMN, may miss some.
SURE = ("lmn", "pwcf", "apgd", "apgd-ce", "apgd-margin", "apgd-dlr", "apgd-t", "malt", "pma", "fw", "fab", "fab-t")
# Far beyond the radii of these models.
EPS = {"l0": 20.0, "l1": 6.0, "l2": 1.5, "linf": 0.4, "pd": 0.4}
# For images of any shape.
PD = perceptual(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Softplus()))


def samples(net: Net, shape: tuple[int, ...], count: int) -> tuple[Tensor, Tensor]:
    images = 0.5 + 0.05 * torch.randn(40, *shape, generator=torch.Generator().manual_seed(3))
    images = images[~net(images).reshape(40, -1).isnan().any(1)][:count]
    logits = net(images)
    return images, (logits > 0).long() if logits.dim() == 1 else logits.argmax(1)


def said_by(net: Net, x: Tensor) -> Tensor:
    logits = net(x)
    return (logits > 0).long() if logits.dim() == 1 else logits.argmax(1)


def questions(name: str) -> list[Problem]:
    metrics: list[str | Metric] = ["l0"] if name == "sigma-zero" else [PD] if name == "ppgd" else ["l1", "l2", "linf"]
    if name in ("lmn", "lpa", "fast-lpa", "alma"):
        metrics.append(PD)
    asked: list[Problem] = [MaxLoss(metric, EPS[as_metric(metric).name]) for metric in metrics]
    # Variants that differ in the loss alone are one attack in min-radius.
    return asked if name.startswith("pwcf-") else [*asked, *(MinRadius(metric) for metric in metrics)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ATTACKS)
def test_it_answers_or_says_why_not(name: str, case: str) -> None:
    net, classes, shape, count = CASES[case]
    images, labels = samples(net, shape, count)
    budget = SLOW_BUDGET if name.startswith("pwcf") else BUDGET
    for problem in questions(name):
        why_not = as_attack(name).unsupported_reason(problem, classes)  # type: ignore[attr-defined]
        if why_not is not None:
            with pytest.raises(ValueError, match=f"attacks: {name} cannot answer .*: {re.escape(why_not)}"):
                evaluate(net, images, labels, problem, attacks=name, budget=budget)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about points that were not found
            run = evaluate(net, images, labels, problem, attacks=name, budget=budget)
        found = run.adversarial
        assert found.any()
        if name in SURE and case != "NaN on some inputs":
            assert found.all(), f"{problem}: {int(found.sum())} of {len(found)}"
        assert (run.passes.total <= budget).all()
        assert run.x_adv.isfinite().all()
        assert (said_by(net, run.x_adv[found]) != labels[found]).all()
        if isinstance(problem, MaxLoss):
            assert (run.radius[found] <= EPS[problem.metric.name] * (1 + 1e-6)).all()


def test_declining_is_rare() -> None:
    """ALMA's loss needs three classes; all others answer everything that is asked here."""
    declined = {
        (name, classes)
        for name in ATTACKS
        for problem in questions(name)
        for classes in (2, 3)
        if (why_not := as_attack(name).unsupported_reason(problem, classes)) and "not for" not in why_not  # type: ignore[attr-defined]
    }
    assert declined <= {("alma", 2)} or not available()
