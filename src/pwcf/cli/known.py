"""The attacks there are, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pwcf.attacks import ATTACKS, PRESETS, AttackLike, as_attack
from pwcf.cli.errors import CommandError

ALL = "all"
DEFAULT = ("lmn", "apgd-t", "fab-t", "square", "ddn", "fmn", "alma", "pdgd", "pdpgd")
"""One of each kind: no variants of the same method, and none for l0 alone."""


def chosen(names: Sequence[str] | None, own: Mapping[str, AttackLike]) -> dict[str, AttackLike]:
    """Attacks by name; ``own`` are a zoo's. A preset is one attack: its members share the budget."""
    known: dict[str, AttackLike] = {name: name for name in (*ATTACKS, *PRESETS)} | dict(own)
    wanted = [*DEFAULT, *own] if names is None else names
    found: dict[str, AttackLike] = {}
    for name in wanted:
        if name not in known and name != ALL:
            raise CommandError(f"--attacks: expected names out of {', '.join([*known, ALL])}; found {name!r}")
        for one in (*ATTACKS, *own) if name == ALL else (name,):
            found[one] = known[one]
    return found


def listed(own: Mapping[str, AttackLike]) -> list[str]:
    """Lines about all of them."""
    lines = ["attacks:"]
    for name, attack in ({name: name for name in ATTACKS} | dict(own)).items():
        lines.append(f"  {name:<19} {as_attack(attack).about}")
    lines.append("presets, each a portfolio that shares the budget:")
    for name, preset in PRESETS.items():
        members = {"min-radius": preset.min_radius, "max-loss": preset.max_loss}
        told = [f"{question}: {', '.join(one.name for one in attacks)}" for question, attacks in members.items()]
        lines.append(f"  {name:<19} {'; '.join(told)}")
    return lines
