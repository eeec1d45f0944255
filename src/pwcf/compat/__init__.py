"""Entrances shaped like other libraries', for scripts that were written for those.

``AutoAttack`` stands in for fra31/auto-attack, ``foolbox.MinRadiusAttack`` for an attack of Foolbox,
``adv_lib.lmn_min`` and ``adv_lib.lmn_max`` for functions of adversarial-library; ``attackbench`` is an attack for
AttackBench. With ``install_as_autoattack`` code that imports the original's package has ours, RobustBench for one.
None of these needs to be installed.
"""

from __future__ import annotations

from pwcf.compat import adv_lib, foolbox
from pwcf.compat.attack_bench import attackbench
from pwcf.compat.autoattack import AutoAttack
from pwcf.compat.install import Installation, install_as_autoattack
from pwcf.compat.state import EvaluationState

__all__ = [
    "AutoAttack",
    "EvaluationState",
    "Installation",
    "adv_lib",
    "attackbench",
    "foolbox",
    "install_as_autoattack",
]
