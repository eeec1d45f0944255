"""Entrances shaped like other libraries', for scripts that were written for those.

``AutoAttack`` stands in for fra31/auto-attack, ``foolbox.MinRadiusAttack`` for an attack of Foolbox,
``adv_lib.lmn_min`` and ``adv_lib.lmn_max`` for functions of adversarial-library. None of these needs to be installed.
"""

from __future__ import annotations

from pwcf.compat import adv_lib, foolbox
from pwcf.compat.autoattack import AutoAttack
from pwcf.compat.state import EvaluationState

__all__ = ["AutoAttack", "EvaluationState", "adv_lib", "foolbox"]
