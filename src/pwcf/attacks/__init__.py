"""Ways to answer a question: ours, and those of others behind the same signature."""

from pwcf.attacks.apgd import Apgd
from pwcf.attacks.attack import Attack, CannotAnswer, Findings, Task
from pwcf.attacks.fab import Fab
from pwcf.attacks.folded import Folded
from pwcf.attacks.foreign import AdvLib, Function, from_foolbox, from_torchattacks
from pwcf.attacks.named import ATTACKS, PRESETS, AttackLike, about, as_attack, choose, is_black_box
from pwcf.attacks.perceptual import FastLpa, Lpa, Ppgd
from pwcf.attacks.pwcf import Pwcf
from pwcf.attacks.square import Square

__all__ = [
    "ATTACKS",
    "PRESETS",
    "AdvLib",
    "Apgd",
    "Attack",
    "AttackLike",
    "CannotAnswer",
    "Fab",
    "FastLpa",
    "Findings",
    "Folded",
    "Function",
    "Lpa",
    "Ppgd",
    "Pwcf",
    "Square",
    "Task",
    "about",
    "as_attack",
    "choose",
    "from_foolbox",
    "from_torchattacks",
    "is_black_box",
]
