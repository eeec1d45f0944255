"""The comparison of ``answers.py``: where two records differ."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# A run without one of these fields is another answer; the others are compared where both sides have them.
REQUIRED = ("x_adv", "radius", "adversarial", "status", "x", "objective", "iterations", "weights", "epochs")

Content = dict[str, Any]
"""Of a cell, as JSON has it."""


def name_of(section: str, attack: str, case: str) -> str:
    """What a cell is called."""
    return "/".join(part for part in (section, attack, case) if part)


@dataclass
class Difference:
    """Two records of the same cells, by the names of AFTER."""

    equal: Counter[str] = field(default_factory=Counter)
    """section -> cells without any difference"""
    answers: dict[str, list[str]] = field(default_factory=dict)
    """cell -> what differs"""
    passes: dict[str, list[str]] = field(default_factory=dict)
    """cell with the same answers -> which passes differ"""
    only_before: list[str] = field(default_factory=list)
    only_after: list[str] = field(default_factory=list)
    one_sided: Counter[str] = field(default_factory=Counter)
    """fields that only one side has -> in how many cells"""

    def sections(self) -> list[str]:
        return sorted({*self.equal, *(name.split("/")[0] for name in (*self.answers, *self.passes))})

    def is_clean(self, ignore_passes: bool = False) -> bool:
        """Whether every answer of BEFORE is the same in AFTER."""
        same = not self.answers and not self.only_before and (ignore_passes or not self.passes)
        return same and bool(self.equal or self.passes)


def difference(
    before: Mapping[str, Any], after: Mapping[str, Any], rename: Mapping[str, str] | None = None, only: str = ""
) -> Difference:
    """Compare two records. ``rename`` maps names of attacks of ``before`` to those of ``after``, all at once."""
    rename = rename or {}
    old, new = _by_name(before["cells"].values(), rename), _by_name(after["cells"].values(), {})
    old, new = ({k: v for k, v in side.items() if re.search(only, k)} for side in (old, new))
    found = Difference(only_before=[n for n in old if n not in new], only_after=[n for n in new if n not in old])
    for name in old:
        if name in new:
            _compare(name, old[name], new[name], found)
    return found


def _by_name(every: Iterable[Content], rename: Mapping[str, str]) -> dict[str, Content]:
    named: dict[str, Content] = {}
    for cell in every:
        name = name_of(cell["section"], rename.get(cell["attack"], cell["attack"]), cell["case"])
        if name in named:
            sys.exit(f"--rename: two cells of BEFORE would be called {name!r}; rename both attacks")
        fields = dict(cell["fields"])
        if "attack" in fields:
            fields["attack"] = [rename.get(attack, attack) for attack in fields["attack"]]
        named[name] = {**cell, "fields": fields}
    return named


def _compare(name: str, old: Content, new: Content, found: Difference) -> None:
    if old["outcome"] != new["outcome"]:
        found.answers[name] = [f"{old['outcome']} -> {new['outcome']}"]
        return
    answers = []
    for key in dict.fromkeys((*old["fields"], *new["fields"])):
        a, b = (side["fields"].get(key) for side in (old, new))
        if a == b:
            continue
        if key not in REQUIRED and (a is None or b is None):
            found.one_sided[f"{key}, only {'after' if a is None else 'before'}"] += 1
        else:
            answers.append(f"{key}{_change(a, b) if isinstance(a, list) else ''}")
    for key in ("radius", "objective", "loss"):
        if answers and old.get(key) != new.get(key):
            answers.append(f"{key} rounded{_change(old.get(key), new.get(key))}")
    passes = []
    for key in dict.fromkeys((*old["passes"], *new["passes"])):
        a, b = (side["passes"].get(key) for side in (old, new))
        if a is None or b is None:
            found.one_sided[f"passes {key}, only {'after' if a is None else 'before'}"] += 1
        elif a != b:
            passes.append(f"{key}{_change(a, b)}")
    if answers:
        found.answers[name] = [*answers, *(f"passes {each}" for each in passes)]
    elif passes:
        found.passes[name] = passes
    else:
        found.equal[name.split("/")[0]] += 1


def _change(a: object, b: object) -> str:
    """The entries that are others."""
    if not (isinstance(a, list) and isinstance(b, list) and len(a) == len(b)):
        return f" {a} -> {b}"
    changed = [f"[{i}] {x} -> {y}" for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    return " " + ", ".join(changed)
