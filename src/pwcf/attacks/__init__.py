"""Ways to answer a question."""

from __future__ import annotations

from pwcf.attacks.attack import Attack, Task
from pwcf.attacks.folded import Folded
from pwcf.attacks.pwcf import Pwcf

__all__ = ["Attack", "Folded", "Pwcf", "Task", "as_attack"]

_BY_NAME: dict[str, type[Pwcf | Folded]] = {"pwcf": Pwcf, "pwcf-folded": Folded}


def as_attack(attack: str | Attack) -> Attack:
    """An attack from its name, or as it is."""
    if isinstance(attack, str):
        if attack not in _BY_NAME:
            raise ValueError(f"attacks: expected names out of {', '.join(_BY_NAME)}, found {attack!r}")
        return _BY_NAME[attack]()
    if isinstance(attack, Attack) and callable(attack) and not isinstance(attack, type):
        return attack
    raise TypeError(f"attacks: expected names or attacks, found {type(attack).__name__}")
