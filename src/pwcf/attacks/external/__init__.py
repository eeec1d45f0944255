"""Attacks of other people behind the signature of ours."""

from pwcf.attacks.external.adapters import from_foolbox, from_torchattacks
from pwcf.attacks.external.adv_lib import AdvLib
from pwcf.attacks.external.function import Function
from pwcf.attacks.external.importing import available
from pwcf.attacks.external.watched import TrackedModel

__all__ = ["AdvLib", "Function", "TrackedModel", "available", "from_foolbox", "from_torchattacks"]
