"""Ways to answer a question: ours, and those of others behind the same signature."""

from pwcf.attacks.apgd import Apgd
from pwcf.attacks.base import Answer, Attack, CannotAnswer, Diagnostics, Stop, Task
from pwcf.attacks.external import AdvLib, Function, from_foolbox, from_torchattacks
from pwcf.attacks.fab import Fab
from pwcf.attacks.frank_wolfe import FrankWolfe
from pwcf.attacks.lmn import Lmn
from pwcf.attacks.perceptual import FastLpa, Lpa, Ppgd
from pwcf.attacks.pwcf import Pwcf
from pwcf.attacks.registry import ATTACKS, PRESETS, AttackLike, ResolvedAttacks, as_attack, resolve_attacks
from pwcf.attacks.square import Square

__all__ = [
    "ATTACKS",
    "PRESETS",
    "AdvLib",
    "Answer",
    "Apgd",
    "Attack",
    "AttackLike",
    "CannotAnswer",
    "Diagnostics",
    "Fab",
    "FastLpa",
    "FrankWolfe",
    "Function",
    "Lmn",
    "Lpa",
    "Ppgd",
    "Pwcf",
    "ResolvedAttacks",
    "Square",
    "Stop",
    "Task",
    "as_attack",
    "from_foolbox",
    "from_torchattacks",
    "resolve_attacks",
]
