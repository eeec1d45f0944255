"""Maximum-loss rivals: APGD on the margin, in two implementations, and AutoAttack's standard ensemble.

Each attack is ``(model, images, labels) -> points`` at one ``eps``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from unittest import mock

from torch import Tensor, nn

from . import shims

shims.install()

from adv_lib.attacks import apgd, auto_pgd  # noqa: E402
from adv_lib.utils.losses import difference_of_logits  # noqa: E402
from pyautoattack import AutoAttack  # noqa: E402
from pyautoattack.autopgd_base import APGDAttack  # noqa: E402

from .minimum_norm import ORDERS, Setting  # noqa: E402

RESTARTS, ITERATIONS = 5, 100
NAMES = {"l1": "L1", "l2": "L2", "linf": "Linf"}
_QUIET = logging.getLogger("rivals")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


def _margin(logits: Tensor, labels: Tensor, targeted: bool = False) -> Tensor:
    return difference_of_logits(logits, labels)


def apgd_margin(norm: str, eps: float) -> Setting:
    """adv-lib's, the faster one. It offers cross-entropy and DLR: the margin takes the place of the latter."""

    def attack(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        with mock.patch.object(auto_pgd, "difference_of_logits_ratio", _margin):
            return apgd(
                model,
                images,
                labels,
                eps=eps,
                norm=ORDERS[norm],
                n_iter=ITERATIONS,
                n_restarts=RESTARTS,
                loss_function="dlr",
                use_large_reps=norm == "l1",  # as published for l1
            )

    return Setting(attack, f"adv-lib apgd, margin loss, {RESTARTS} restarts x {ITERATIONS} iterations")


class _MarginAPGD(APGDAttack):
    def dlr_loss(self, x: Tensor, y: Tensor) -> Tensor:
        return -difference_of_logits(x, y)


def apgd_margin_original(norm: str, eps: float) -> Setting:
    """The original authors' code; unlike adv-lib's it keeps a start that is adversarial already."""

    def attack(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        runner = _MarginAPGD(
            model,
            n_restarts=RESTARTS,
            n_iter=ITERATIONS,
            eps=eps,
            norm=NAMES[norm],
            loss="dlr",
            seed=0,
            use_largereps=norm == "l1",
            device=images.device,
            logger=_QUIET,
        )
        points: Tensor = runner.perturb(images, labels)
        return points

    return Setting(attack, f"pyautoattack APGDAttack, margin loss, {RESTARTS} restarts x {ITERATIONS} iterations")


def autoattack(norm: str, eps: float) -> Setting:
    def attack(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        runner = AutoAttack(model, norm=NAMES[norm], eps=eps, seed=0, version="standard", device=images.device)
        points: Tensor = runner.run_standard_evaluation(images, labels, batch_size=len(images))[0]
        return points

    return Setting(attack, "pyautoattack AutoAttack, standard: APGD-CE, APGD-T, FAB-T, Square")


RIVALS: dict[str, Callable[[str, float], Setting]] = {
    "apgd": apgd_margin,
    "apgd_original": apgd_margin_original,
    "autoattack": autoattack,
}
"""Cheapest first."""
