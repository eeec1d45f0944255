"""Which runs are about the same data, and what that is called: files of one name may have nothing in common."""

from __future__ import annotations

from collections.abc import Sequence

from pwcf.analysis import data_groups
from pwcf.runs import RecordedRun


def data_names(runs: Sequence[RecordedRun]) -> list[str]:
    """Of each run the name of its data: the same for runs that share images, different for all others."""
    groups = list(data_groups({str(i): run for i, run in enumerate(runs)}).values())
    specs: dict[int, str] = {}
    for group, run in zip(groups, runs, strict=True):
        specs.setdefault(group, run.header.settings.data.rstrip("/"))
    names = {group: _end(spec, 1) for group, spec in specs.items()}
    for name in set(names.values()):
        alike = [group for group in names if names[group] == name]
        if len(alike) > 1:
            names |= _told_apart({group: specs[group] for group in alike})
    return [names[group] for group in groups]


def own_name(run: RecordedRun) -> str:
    """What a run's data is called, without where it lies."""
    return _end(run.header.settings.data.rstrip("/"), 1)


def _told_apart(specs: dict[int, str]) -> dict[int, str]:
    """By as much of the path as it takes; a file that has changed since has the same, and gets a number."""
    most = max(spec.count("/") for spec in specs.values()) + 1
    for parts in range(2, most + 1):
        names = {group: _end(spec, parts) for group, spec in specs.items()}
        if len(set(names.values())) == len(names):
            return names
    return {group: f"{_end(spec, 1)} ({i})" for i, (group, spec) in enumerate(specs.items(), 1)}


def _end(spec: str, parts: int) -> str:
    return "/".join(spec.split("/")[-parts:])
