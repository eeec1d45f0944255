"""Minimum-norm rivals at their published settings, and scaled to other budgets.

Each attack is ``(model, images, labels) -> points``. ``budget`` counts forward + backward passes per sample; None
stands for the published settings: 1000 steps for those that take steps (2000 passes), 5 restarts x 100 iterations
for FAB (5505), 9 targets x 100 for FAB-T (2718), 20 bisections x 100 for APGD with radius search (4060).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from . import shims
from .checking import distances

shims.install()

from adv_lib.attacks import alma, ddn, fab, fmn, pdgd, pdpgd  # noqa: E402
from adv_lib.attacks.auto_pgd import minimal_apgd  # noqa: E402
from pyautoattack.fab_pt import FABAttack_PT  # noqa: E402

Attack = Callable[[nn.Module, Tensor, Tensor], Tensor]

PUBLISHED_STEPS = 1000
ORDERS = {"l1": 1.0, "l2": 2.0, "linf": float("inf")}


@dataclass(frozen=True)
class Setting:
    """An attack ready to run, and in words what it is."""

    attack: Attack
    text: str


@dataclass(frozen=True)
class Rival:
    """``build(norm, dataset, budget)`` gives the setting; ``stepwise`` rivals cost two passes a step."""

    norms: tuple[str, ...]
    build: Callable[[str, str, int | None], Setting]
    stepwise: bool = True


def _steps(budget: int | None) -> int:
    return PUBLISHED_STEPS if budget is None else budget // 2


# ---- attacks that take steps: one forward and one backward each -------------------------------------


def _fmn(norm: str, dataset: str, budget: int | None) -> Setting:
    steps = _steps(budget)
    step_size = 10.0 if norm == "linf" else 1.0  # as its authors set it for linf, in AttackBench too

    def attack(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        return fmn(model, images, labels, norm=ORDERS[norm], steps=steps, α_init=step_size)

    return Setting(attack, f"adv-lib fmn, {steps} steps, alpha {step_size:g}, gamma 0.05")


def _ddn(norm: str, dataset: str, budget: int | None) -> Setting:
    steps = _steps(budget)

    def attack(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        # levels=None: rounding to 256 grey values, its default, could only make the radii larger.
        return ddn(model, images, labels, steps=steps, levels=None)

    return Setting(attack, f"adv-lib ddn, {steps} steps, gamma 0.05, no quantisation")


def _alma(norm: str, dataset: str, budget: int | None) -> Setting:
    steps = _steps(budget)
    first = {"l1": 0.5, "l2": 0.1}[norm]
    memory = 0.9 if steps >= 500 else 0.5  # its paper's pair: 0.9 for 1000 steps, 0.5 for 100

    def attack(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        return alma(model, images, labels, distance=norm, num_steps=steps, init_lr_distance=first, α=memory)

    return Setting(attack, f"adv-lib alma, {steps} steps, penalty P2, initial distance {first:g}, alpha {memory:g}")


def _pdgd(norm: str, dataset: str, budget: int | None) -> Setting:
    steps = _steps(budget)

    def attack(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        return pdgd(model, images, labels, num_steps=steps)

    return Setting(attack, f"adv-lib pdgd, {steps} steps, defaults")


def _pdpgd(norm: str, dataset: str, budget: int | None) -> Setting:
    steps = _steps(budget)

    def attack(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        return pdpgd(model, images, labels, norm=ORDERS[norm], num_steps=steps)

    return Setting(attack, f"adv-lib pdpgd, {steps} steps, defaults")


# ---- FAB: an iteration is two forwards and a backward per class it looks at --------------------------


def _fab(norm: str, dataset: str, budget: int | None) -> Setting:
    # 1 + 11 n passes a restart with ten classes. Below one full restart the iterations are cut, not the restart.
    restarts = 5 if budget is None else max(1, budget // 1000)
    iterations = 100 if budget is None else (budget // restarts - 1) // 11

    def attack(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        return fab(model, images, labels, norm=ORDERS[norm], n_iter=iterations, restarts=restarts)

    return Setting(attack, f"adv-lib fab, {restarts} restart(s) x {iterations} iterations")


_FAB_TARGETS = {100: 2, 200: 3, 500: 5}
"""Targets by budget: the likeliest classes matter most, and few iterations per target reach nothing."""


def _fab_t(norm: str, dataset: str, budget: int | None) -> Setting:
    targets = 9 if budget is None else _FAB_TARGETS.get(budget, 9)
    iterations = 100 if budget is None else (budget // targets - 2) // 3  # 2 + 3 n passes a target

    def attack(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        runner = FABAttack_PT(
            model, norm={"l1": "L1", "l2": "L2", "linf": "Linf"}[norm], n_iter=iterations, device=images.device
        )
        best, best_distance = images.clone(), torch.full((len(images),), float("inf"), dtype=torch.float64)
        for rank in range(2, targets + 2):
            # Not runner.perturb: that leaves a sample alone once it is broken within an eps, and minimises no further.
            runner.target_class = rank
            points = runner.attack_single_run(images, labels, is_targeted=True)
            distance = distances(images, points, norm)
            better = (distance > 0) & (distance < best_distance)  # it returns the image itself where it fails
            best[better], best_distance[better] = points[better], distance[better]
        return best

    return Setting(attack, f"pyautoattack FABAttack_PT, {targets} targets x {iterations} iterations, best of targets")


# ---- APGD with radius search ------------------------------------------------------------------------


_SEARCH = {None: (20, 100), 100: (6, 6), 200: (8, 11), 500: (9, 26), 1000: (10, 48), 2000: (10, 98), 4000: (20, 98)}
"""Bisections and iterations by budget; an attack of n iterations and its check cost 2 n + 3 passes. 20 x 100 are the
library's defaults and AttackBench's."""

_FIRST_EPS = {
    "cifar10": {"l1": 64.0, "l2": 2.5, "linf": 0.1},
    "mnist": {"l1": 64.0, "l2": 5.0, "linf": 0.5},
    "fashion_mnist": {"l1": 64.0, "l2": 5.0, "linf": 0.5},
}
"""Where the bisection starts; it reaches up to twice that. The l2 values are those of ALMA's authors."""


def _apgd(norm: str, dataset: str, budget: int | None) -> Setting:
    searches, iterations = _SEARCH[budget]
    phases = norm == "l1" and iterations >= 10  # as published for l1: the first iterations use a larger eps
    if phases and budget is not None:
        iterations -= 2  # the three phases cost a gradient each at their start
    first = _FIRST_EPS[dataset][norm]

    def attack(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        return minimal_apgd(
            model,
            images,
            labels,
            norm=ORDERS[norm],
            max_eps=first,
            binary_search_steps=searches,
            n_iter=iterations,
            use_large_reps=phases,
        )

    return Setting(attack, f"adv-lib minimal_apgd, DLR, {searches} bisections from {first:g} x {iterations} iterations")


RIVALS: dict[str, Rival] = {
    "fmn": Rival(("linf", "l2", "l1"), _fmn),
    "ddn": Rival(("l2",), _ddn),
    "alma": Rival(("l2", "l1"), _alma),
    "pdgd": Rival(("l2",), _pdgd),
    "pdpgd": Rival(("linf", "l2", "l1"), _pdpgd),
    "apgd": Rival(("linf", "l2", "l1"), _apgd, stepwise=False),
    "fab_t": Rival(("linf", "l2", "l1"), _fab_t, stepwise=False),
    "fab": Rival(("linf", "l2", "l1"), _fab, stepwise=False),
}
"""Cheapest first."""
