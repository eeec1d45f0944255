"""Attacks and presets, which are several attacks together, by name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from pwcf.attacks.apgd import Apgd
from pwcf.attacks.base import Attack, CannotAnswer, Stop
from pwcf.attacks.external import AdvLib, Function
from pwcf.attacks.external.adv_lib import NAMES as ADV_LIB
from pwcf.attacks.fab import Fab
from pwcf.attacks.frank_wolfe import FrankWolfe
from pwcf.attacks.lmn import Lmn
from pwcf.attacks.perceptual import FastLpa, Lpa, Ppgd
from pwcf.attacks.pwcf import Pwcf
from pwcf.attacks.square import Square
from pwcf.problems import MaxLoss, MinRadius, Problem

AttackLike = str | Attack | Callable[[Any, Tensor, Tensor], Tensor]
"""A name, an attack, or any function (model, images, labels) -> x_adv."""

# AutoAttack's: the likeliest other classes, if there are so many.
TARGETS = 9
ATTACKS: dict[str, Callable[[], Attack]] = {
    "lmn": Lmn,
    "pwcf": Pwcf,
    "pwcf-ce": partial(Pwcf, loss="ce", name="pwcf-ce"),
    "pwcf-margin": partial(Pwcf, loss="margin", name="pwcf-margin"),
    "pwcf-published": Pwcf.as_published,
    "apgd": Apgd,
    "apgd-ce": partial(Apgd, loss="ce", name="apgd-ce"),
    "apgd-margin": partial(Apgd, loss="margin", name="apgd-margin"),
    "apgd-dlr": partial(Apgd, loss="dlr", name="apgd-dlr"),
    "apgd-t": partial(Apgd, loss="dlr", targets=TARGETS, name="apgd-t"),
    "malt": partial(Apgd, loss="dlr", targets=TARGETS, ranking="malt", name="malt"),
    "pma": partial(Apgd, loss="pm", name="pma"),
    "fw": FrankWolfe,
    "fab": Fab,
    "fab-t": partial(Fab, targets=TARGETS, name="fab-t"),
    "square": Square,
    "lpa": Lpa,
    "fast-lpa": FastLpa,
    "ppgd": Ppgd,
    **{name: partial(AdvLib, name) for name in ADV_LIB},
}
# Names that share this much of their letters may have been meant: difflib's own.
ALIKE = 0.6

RENAMED = {"pwcf-folded": "pwcf", "pwcf-folded-ce": "pwcf-ce", "pwcf-folded-margin": "pwcf-margin"}
"""Names of version 0.1.0 that are no longer names of anything, and what they are called now."""


@dataclass(frozen=True)
class Preset:
    """Attacks for each of the two questions, and how many passes per sample each of them is to have."""

    max_loss: tuple[Attack, ...]
    min_radius: tuple[Attack, ...]
    budget: int

    def attacks(self, problem: Problem) -> tuple[Attack, ...]:
        return self.max_loss if isinstance(problem, MaxLoss) else self.min_radius


def _of(*names: str) -> tuple[Attack, ...]:
    return tuple(ATTACKS[name]() for name in names)


# AutoAttack's four as published. Square's 5000 queries are the longest of them, hence the budget.
_AUTOATTACK: tuple[Attack, ...] = (
    Apgd(loss="ce", steps=100, restarts=1, name="apgd-ce"),
    Apgd(loss="dlr", targets=TARGETS, steps=100, restarts=1, name="apgd-t"),
    Fab(targets=TARGETS, steps=100, restarts=1, name="fab-t"),
    Square(queries=5000),
)
PRESETS: dict[str, Preset] = {
    "fast": Preset(_of("lmn"), _of("lmn"), 500),
    # Ours, a gradient method of another kind, and one that needs no gradients.
    "standard": Preset(_of("lmn", "apgd-t", "square"), _of("lmn", "fab-t", "square"), 2000),
    # "A&P", and the two of its table of radii.
    "paper": Preset(_of("apgd-ce", "apgd-margin", "pwcf-ce", "pwcf-margin"), _of("fab", "pwcf"), 2000),
    "autoattack": Preset(_AUTOATTACK, _AUTOATTACK, 5100),
    # For distances without a projection: ours, and the methods that were made for them.
    "perceptual": Preset(_of("lmn", "lpa", "ppgd"), _of("lmn", "lpa", "alma"), 2000),
    "thorough": Preset(
        _of("lmn", "apgd-ce", "apgd-t", "fab-t", "pwcf", "pdpgd", "fmn", "square"),
        _of("lmn", "fab-t", "fab", "apgd-t", "pwcf", "square", *ADV_LIB),
        4000,
    ),
}


BUDGET = 2000
"""passes per sample of an attack, AttackBench's; in max-loss few samples use it up"""
UNTIL_CONVERGED = 10_000
"""of an attack that stops where a search has converged: hard samples have what they need"""


@dataclass(frozen=True)
class ResolvedAttacks:
    """The attacks of an evaluation."""

    attacks: list[Attack]
    budgets: list[int]
    """what each of them has unless the user says otherwise"""
    left_out: list[str]
    """sentences: attacks of a preset that cannot answer this question"""


def resolve_attacks(
    attacks: AttackLike | Sequence[AttackLike], problem: Problem, classes: int | None, stop: Stop
) -> ResolvedAttacks:
    """Attacks from names, presets, attacks and functions.

    Attacks in a preset that do not support the problem are skipped; an attack that was named and does not is an error.

    Args:
        attacks: one of them or several.
        problem: what they are to answer.
        classes: how many the model has; None where there is no image to ask it with.
        stop: whether those that can tell stop where a search has converged: then they may have more.

    Returns:
        The attacks, what they may spend in all, and sentences about those that were skipped.
    """
    several = attacks if isinstance(attacks, Iterable) and not isinstance(attacks, str) else [attacks]
    chosen: list[Attack] = []
    left_out, budgets = [], []
    for one in several:
        preset = PRESETS.get(one) if isinstance(one, str) else None
        members = (as_attack(one),) if preset is None else preset.attacks(problem)
        for attack in members:
            reason = attack.unsupported_reason(problem, classes)
            if reason is None:
                chosen.append(attack)
                budgets.append(_budget(attack, problem, stop) if preset is None else preset.budget)
            elif preset is None:
                raise CannotAnswer(f"attacks: {attack.name} cannot answer {problem}: {reason}")
            else:
                left_out.append(f"{attack.name} was left out of {one!r}: {reason}")
    if not chosen and left_out:
        raise CannotAnswer("attacks: expected at least one, found none; " + "; ".join(left_out))
    if not chosen:
        raise ValueError("attacks: expected at least one, found none")
    names = [attack.name for attack in chosen]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"attacks: expected names that differ, found {', '.join(twice)} more than once; "
            "attacks take name=, and functions as pwcf.attacks.Function(function, name=...)"
        )
    return ResolvedAttacks(chosen, budgets, left_out)


def _budget(attack: Attack, problem: Problem, stop: Stop) -> int:
    """Passes per sample that an attack has by default."""
    return UNTIL_CONVERGED if attack.converges and stop == "converged" and isinstance(problem, MinRadius) else BUDGET


def as_attack(attack: AttackLike) -> Attack:
    """An attack from its name or a function, or as it is."""
    if isinstance(attack, str):
        if attack in RENAMED:
            raise ValueError(f"attacks: {attack!r} is now called {RENAMED[attack]!r}")
        if attack not in ATTACKS:
            raise ValueError(f"attacks: expected {_names(attack)}")
        return ATTACKS[attack]()
    if isinstance(attack, Attack):
        return attack
    if callable(attack) and not isinstance(attack, type) and _takes_three(attack):
        return Function(attack)
    raise TypeError(
        "attacks: expected names, subclasses of pwcf.attacks.Attack or functions (model, images, labels) -> x_adv, "
        f"found {_kind(attack)}"
    )


def _names(found: str) -> str:
    """What a name could have been: the attack or preset that is spelt most alike, or all of them."""

    def likeness(known: str) -> float:
        return difflib.SequenceMatcher(None, found.lower(), known).ratio()

    closest = max((*ATTACKS, *PRESETS), key=likeness)  # the first of several
    if likeness(closest) >= ALIKE:
        return f"the name of an attack or preset, found {found!r}; did you mean {closest!r}? (pwcf attacks lists all)"
    return f"names out of {', '.join(ATTACKS)}, or of presets, {', '.join(PRESETS)}, found {found!r}"


def _takes_three(function: Callable[..., object]) -> bool:
    """Whether it can be called with a model, images and labels, as far as Python knows."""
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:  # a built-in function
        return True
    return True


def _kind(thing: object) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__
