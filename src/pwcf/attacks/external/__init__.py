"""Attacks of other people behind the signature of ours."""

from pwcf.attacks.external.adapters import Function, from_foolbox, from_torchattacks
from pwcf.attacks.external.adv_lib import AdvLib, available
from pwcf.attacks.external.tracked_model import TrackedModel

__all__ = ["AdvLib", "Function", "TrackedModel", "available", "from_foolbox", "from_torchattacks"]
