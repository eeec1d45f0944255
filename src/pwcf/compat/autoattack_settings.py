"""AutoAttack's attacks as ours: the attributes that scripts set, and what they ask for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from pwcf.attacks import Apgd, Attack, Fab, Lmn, Square

# Passes of evaluate() beside the attack's own: checks, repairs, evidence; about 60. A budget is a limit, so there is no
# harm in more; from 500 on evaluate() is not short of passes.
OVERHEAD = 500
# APGD: value and slope at every step and where a phase begins, of which l1 has three; one pass ranks the classes.
APGD_BEGINS, APGD_RANKS = 3, 1
# FAB: a look at the image and three at the end; one for every run.
FAB_LOOKS = 4
# evaluate()'s own default, AttackBench's.
LMN_BUDGET = 2000


Perturb = Callable[[str, Tensor, Tensor | None], Tensor]
"""(attack, images, labels) -> points"""


class AttackSettings:
    """What scripts set on ``adversary.apgd``, ``.apgd_targeted``, ``.fab`` and ``.square``.

    What has an effect in the original has it here, or there is a warning; an attribute that neither knows is an error.
    """

    label: ClassVar[str]
    numbers: ClassVar[Mapping[str, float]]
    """that have an effect, and how the original's constructor sets them"""
    fixed: ClassVar[Mapping[str, object]] = {}
    """that are as published"""
    # The original overwrites the first two itself, the others change nothing that is computed.
    idle: ClassVar[frozenset[str]] = frozenset({"loss", "seed", "targeted", "verbose", "device", "logger"})

    def __init__(self) -> None:
        for name, value in self.numbers.items():
            setattr(self, name, value)

    def bind(self, perturb: Perturb) -> None:
        """What ``perturb`` asks: the AutoAttack object that the settings belong to."""
        object.__setattr__(self, "_perturb", perturb)

    @property
    def attack(self) -> str:
        """The name in ``attacks_to_run`` of what these settings are of."""
        return self.label

    def perturb(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """(n, ...) verified points within eps by this attack alone; the images where it found none.

        Args:
            x: (n, ...) images.
            y: (n,) labels; None: what the model says.
        """
        return self._perturb(self.attack, x, y)

    _perturb: Perturb

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.fixed and value != self.fixed[name]:
            warnings.warn(
                f"{self.label}.{name}: fixed at {self.fixed[name]} here; {value!r} has no effect", stacklevel=2
            )
        elif name not in self.numbers and name not in self.fixed and name not in self.idle:
            hint = "; set it on the AutoAttack object" if name in ("eps", "norm", "model") else ""
            raise AttributeError(f"{self.label}.{name}: expected one of {', '.join(self.numbers)}{hint}")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name in self.fixed:
            return self.fixed[name]
        raise AttributeError(f"{self.label}.{name}: expected one of {', '.join(self.numbers)}")

    def count(self, name: str) -> int:
        """An attribute that counts something."""
        value = getattr(self, name)
        if isinstance(value, bool) or int(value) != value or value < 1:
            raise ValueError(f"{self.label}.{name}: expected an integer >= 1, found {value!r}")
        return int(value)


class ApgdSettings(AttackSettings):
    label = "apgd"

    @property
    def attack(self) -> str:
        loss = vars(self).get("loss", "ce")
        if loss not in ("ce", "dlr"):
            raise ValueError(f"{self.label}.loss: expected 'ce' or 'dlr', found {loss!r}")
        return f"apgd-{loss}"

    numbers: ClassVar[Mapping[str, float]] = {"n_restarts": 5, "n_iter": 100, "eot_iter": 1}
    fixed: ClassVar[Mapping[str, object]] = {"rho": 0.75, "thr_decr": 0.75, "topk": None, "use_largereps": True}


class TargetedApgdSettings(ApgdSettings):
    label, attack = "apgd_targeted", "apgd-t"
    numbers: ClassVar[Mapping[str, float]] = {"n_restarts": 1, "n_iter": 100, "eot_iter": 1, "n_target_classes": 9}


class FabSettings(AttackSettings):
    label = "fab"

    @property
    def attack(self) -> str:
        return "fab-t" if vars(self).get("targeted", False) else "fab"

    numbers: ClassVar[Mapping[str, float]] = {
        "n_restarts": 5, "n_iter": 100, "n_target_classes": 9, "alpha_max": 0.1, "eta": 1.05, "beta": 0.9,
    }  # fmt: skip


class SquareSettings(AttackSettings):
    label = "square"
    numbers: ClassVar[Mapping[str, float]] = {"n_restarts": 1, "n_queries": 5000, "p_init": 0.8}
    fixed: ClassVar[Mapping[str, object]] = {"rescale_schedule": True, "resc_schedule": True}


class LmnSettings(AttackSettings):
    label = "lmn"
    numbers: ClassVar[Mapping[str, float]] = {"budget": LMN_BUDGET}


@dataclass(frozen=True)
class SuiteSettings:
    """The settings of all attacks."""

    apgd: ApgdSettings = field(default_factory=ApgdSettings)
    apgd_targeted: TargetedApgdSettings = field(default_factory=TargetedApgdSettings)
    fab: FabSettings = field(default_factory=FabSettings)
    square: SquareSettings = field(default_factory=SquareSettings)
    lmn: LmnSettings = field(default_factory=LmnSettings)


@dataclass(frozen=True)
class ConfiguredAttack:
    """One attack with the budget, averaging and repeats that its settings ask for."""

    attack: Attack
    budget: int
    eot: int = 1
    """calls of the model that are averaged"""
    repeats: int = 1
    """how often it is run, each time with other random numbers"""


NAMES = ("apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "square", "lmn")


def configure(name: str, suite: SuiteSettings, classes: int) -> ConfiguredAttack:
    """An attack by its name in ``attacks_to_run``, as the settings have it, for a model with so many classes."""
    match name:
        case "apgd-ce" | "apgd-dlr":
            return _apgd(name, suite.apgd, name.removeprefix("apgd-"), None)
        case "apgd-t":
            return _apgd(name, suite.apgd_targeted, "dlr", suite.apgd_targeted.count("n_target_classes"))
        case "fab":
            return _fab(name, suite.fab, None, suite.fab.count("n_restarts"), classes)
        case "fab-t":  # once, whatever n_restarts says: the original sets it to 1
            return _fab(name, suite.fab, suite.fab.count("n_target_classes"), 1, 2)
        case "square":
            queries = suite.square.count("n_queries")
            attack = Square(queries=queries, p=float(suite.square.p_init), name=name)
            return ConfiguredAttack(attack, OVERHEAD + queries, repeats=suite.square.count("n_restarts"))
        case "lmn":
            return ConfiguredAttack(Lmn(), suite.lmn.count("budget"))
        case _:
            raise ValueError(f"attacks_to_run: expected names out of {', '.join(NAMES)}, found {name!r}")


def _apgd(name: str, settings: ApgdSettings, loss: str, targets: int | None) -> ConfiguredAttack:
    steps, restarts = settings.count("n_iter"), settings.count("n_restarts")
    attack = Apgd(loss=loss, targets=targets, steps=steps, restarts=restarts, name=name)
    passes = APGD_RANKS + (targets or 1) * restarts * 2 * (steps + APGD_BEGINS)
    return ConfiguredAttack(attack, OVERHEAD + passes, settings.count("eot_iter"))


def _fab(name: str, settings: FabSettings, targets: int | None, restarts: int, passes_a_step: int) -> ConfiguredAttack:
    """Without targets a step takes one pass forward and one back for every other class."""
    steps = settings.count("n_iter")
    weights = {key: float(getattr(settings, key)) for key in ("alpha_max", "eta", "beta")}
    attack = Fab(targets=targets, steps=steps, restarts=restarts, name=name, **weights)
    return ConfiguredAttack(attack, OVERHEAD + FAB_LOOKS + (targets or 1) * restarts * (1 + steps * passes_a_step))
