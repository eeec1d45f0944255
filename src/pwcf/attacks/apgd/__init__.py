"""APGD: projected gradient ascent that sets its own steps (Croce and Hein 2020; for l1 Croce and Hein 2021)."""

from __future__ import annotations

from pwcf.attacks.apgd.attack import Apgd

__all__ = ["Apgd"]
