"""Which runs are about the same data, what that is called, and so what can be drawn together.

Files of one name may have nothing in common, and one set may lie in several places: images tell.
"""

from __future__ import annotations

from pwcf.analysis.of_runs import NamedRuns
from pwcf.runs import RecordedRun

NOT_RECORDED = "not recorded"


def data_groups(runs: NamedRuns) -> dict[str, int]:
    """By run the number of the data it is about: runs that share an image, or share one with a third, are about one.

    Runs that were not recorded know nothing of their data and count as one.
    """
    group_of: dict[str, int] = {}
    found: dict[str, int] = {}
    for name, run in runs.items():
        images = set(run.rows["image"].to_pylist()) if isinstance(run, RecordedRun) else {""}
        met = {group_of[image] for image in images & group_of.keys()}
        number = min(met, default=len(found))
        for grouped in (group_of, found):  # what this run brings together
            grouped |= {key: number for key, value in grouped.items() if value in met}
        group_of |= dict.fromkeys(images, number)
        found[name] = number
    return found


def data_names(runs: NamedRuns) -> dict[str, str]:
    """By run the name of its data: the same for runs that share images, different for all others."""
    groups = data_groups(runs)
    specs: dict[int, str] = {}
    for name, group in groups.items():
        run = runs[name]
        specs.setdefault(group, run.header.settings.data.rstrip("/") if isinstance(run, RecordedRun) else NOT_RECORDED)
    names = {group: _end(spec, 1) for group, spec in specs.items()}
    for name in set(names.values()):
        alike = [group for group in names if names[group] == name]
        if len(alike) > 1:
            names |= _by_their_paths({group: specs[group] for group in alike})
    return {name: names[group] for name, group in groups.items()}


def data_name(run: RecordedRun) -> str:
    """What a run's data is called, without where it lies."""
    return _end(run.header.settings.data.rstrip("/"), 1)


def topics(runs: NamedRuns) -> dict[str, str]:
    """By run what can be drawn together: a metric, whether classes were wanted, the data where there are several."""
    data = data_names(runs)
    several = len(set(data.values())) > 1
    return {
        name: run.problem.metric.name
        + (", targeted" if run.problem.targeted else "")
        + (f" · {data[name]}" if several else "")
        for name, run in runs.items()
    }


def _by_their_paths(specs: dict[int, str]) -> dict[int, str]:
    """By as much of the path as it takes; a file that has changed since has the same, and gets a number."""
    most = max(spec.count("/") for spec in specs.values()) + 1
    for parts in range(2, most + 1):
        names = {group: _end(spec, parts) for group, spec in specs.items()}
        if len(set(names.values())) == len(names):
            return names
    return {group: f"{_end(spec, 1)} ({i})" for i, (group, spec) in enumerate(specs.items(), 1)}


def _end(spec: str, parts: int) -> str:
    return "/".join(spec.split("/")[-parts:])
