"""Attacks of other people behind the signature of ours."""

from pwcf.attacks.foreign.adapters import from_foolbox, from_torchattacks
from pwcf.attacks.foreign.adv_lib import AdvLib
from pwcf.attacks.foreign.function import Function
from pwcf.attacks.foreign.importing import available
from pwcf.attacks.foreign.watched import Watched

__all__ = ["AdvLib", "Function", "Watched", "available", "from_foolbox", "from_torchattacks"]
