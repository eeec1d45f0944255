"""Which samples a page shows, and their pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from pwcf.analysis import found_in
from pwcf.report.page.originals import Originals
from pwcf.report.page.pictures import are_images, perturbation_of, picture_of, values_of
from pwcf.runs import RecordedRun, RunError, RunFolder
from pwcf.runs.comparison import sample_places
from pwcf.runs.shard import read_tensors

Key = tuple[str, int, int]
"""of a sample: digest of its image, its label, the how manieth of these"""
SAMPLES = 500
"""shown at most, unless one asks for more"""
PICTURE_BYTES = 7_000_000
"""of all pictures together, about: see ``PAGE_BYTES`` of write.py"""
BYTES_PER_VALUE = 1.0
"""of a picture in base64, measured on photographs; drawings take half"""
ENDS = 6
"""samples with the smallest and as many with the largest radii of each run that are shown first of all"""


@dataclass(frozen=True)
class Named:
    """A run with what a page calls it, and its folder."""

    name: str
    series: str
    """its name among the runs about the same question"""
    run: RecordedRun
    path: Path
    data: str
    """what its data is called: the same for runs that share samples, different for all others"""

    @property
    def targeted(self) -> bool:
        return self.run.header.settings.targeted

    @property
    def bounds(self) -> tuple[float, float]:
        lower, upper = self.run.header.settings.bounds
        return lower, upper


@dataclass(frozen=True)
class Shown:
    """Samples of a page and where they are."""

    samples: list[dict[str, Any]]
    """id, index, label, name of the class, picture"""
    rows: list[dict[str, list[Any]]]
    """of each run, columns about the samples it shares"""
    number: dict[Key, int]
    """of each sample in ``samples``"""
    total: int
    """of samples there are"""


def gallery_of(runs: Sequence[Named], limit: int, originals: Originals) -> Shown:
    """``limit``: samples at most. Without pictures where there are none."""
    places = [sample_places(each.run.rows) for each in runs]
    chosen = _chosen(runs, places, limit)
    samples: list[dict[str, Any]] = []
    number: dict[Key, int] = {}
    rows = []
    sets = list(dict.fromkeys(each.data for each in runs))
    taken: set[str] = set()
    for each, place in zip(runs, places, strict=True):
        letter = _letters(sets.index(each.data)) if len(sets) > 1 else ""
        mine = [(key, where) for key, where in place.items() if key in chosen]
        images = _images(each, [where for _, where in mine], originals)
        points = _points(each, [where for _, where in mine], originals)
        for key, where in mine:
            if key not in number:
                number[key] = len(samples)
                samples.append(_sample(each, where, letter, taken))
            sample = samples[number[key]]
            if sample["picture"] is None and where in images:
                sample["picture"] = picture_of(images[where], each.bounds)
        pictures = [_pictures(each, images.get(where), points.get(where), where) for _, where in mine]
        rows.append(_columns(each.run, [number[key] for key, _ in mine], [where for _, where in mine], pictures))
    total = len({key for place in places for key in place})
    return Shown(samples, rows, number, total)


def _chosen(runs: Sequence[Named], places: Sequence[Mapping[Key, int]], limit: int) -> set[Key]:
    """Every run's nearest and farthest, the others evenly over the order of radii; all if they are few enough."""
    ranks: dict[Key, list[float]] = {}
    values: dict[Key, int] = {}
    ends: list[list[Key]] = []
    for each, place in zip(runs, places, strict=True):
        order = np.argsort(each.run.radius.numpy(), kind="stable")
        rank = np.empty(len(order))
        rank[order] = np.arange(len(order)) / max(len(order) - 1, 1)
        size = values_of(each.run.header.shape)
        for key, where in place.items():
            ranks.setdefault(key, []).append(float(rank[where]))
            values[key] = size
        keys = {where: key for key, where in place.items()}
        # Samples that are wrong as they are have the least radius of all, those without a point the largest, and
        # nothing to be seen.
        near = [keys[where] for where in order[found_in(each.run).numpy()[order]]]
        ends += [near[:ENDS], near[::-1][:ENDS]]
    # An original, which all runs share, and two pictures for each run.
    cost = sum(values[key] * (1 + 2 * len(ranks[key])) for key in ranks) * BYTES_PER_VALUE
    count = min(limit, int(len(ranks) * min(1.0, PICTURE_BYTES / max(cost, 1))))
    ordered = sorted(ranks, key=lambda key: sum(ranks[key]) / len(ranks[key]))
    if len(ordered) <= count:
        return set(ordered)
    # The ends in turn, the utmost of every run first; no more than leave room for what is between.
    in_turn = dict.fromkeys(key for nth in zip_longest(*ends) for key in nth if key is not None)
    chosen = set(islice(in_turn, max(count // 2, min(count, len(ends)))))
    rest = [key for key in ordered if key not in chosen]
    even = np.linspace(0, len(rest) - 1, count - len(chosen)).round().astype(int)
    return chosen | {rest[i] for i in even}


def _images(each: Named, places: Sequence[int], originals: Originals) -> dict[int, Tensor]:
    if not are_images(each.run.header.shape) or not places:
        return {}
    return originals.images(each.run, each.name, places)


def _points(each: Named, places: Sequence[int], originals: Originals) -> dict[int, Tensor]:
    """The adversarial points at these places, shard by shard: a large run never sits in memory."""
    if not are_images(each.run.header.shape):
        return {}
    wanted = set(places)
    found: dict[int, Tensor] = {}
    folder, size = RunFolder(each.path), each.run.header.settings.chunk
    numbered = enumerate(each.run.rows["index"].to_pylist())
    try:
        for number, group in groupby(numbered, lambda pair: pair[1] // size):
            listed = list(group)
            if not wanted.isdisjoint(where for where, _ in listed):
                tensors = read_tensors(folder, number, [index for _, index in listed])
                found |= {where: tensors["x_adv"][i] for i, (where, _) in enumerate(listed) if where in wanted}
    except RunError as error:
        originals.remarks.append(f"{each.name}: adversarial points are missing ({error})")
    return found


def _pictures(each: Named, image: Tensor | None, point: Tensor | None, where: int) -> dict[str, Any]:
    attacked = bool(each.run.adversarial[where]) and float(each.run.radius[where]) > 0
    if point is None or not attacked:
        return {"adversarial": None, "perturbation": None, "factor": None}
    difference = perturbation_of(image, point, each.bounds) if image is not None else None
    return {
        "adversarial": picture_of(point, each.bounds),
        "perturbation": difference.picture if difference else None,
        "factor": difference.factor if difference else None,
    }


def _sample(each: Named, where: int, letter: str, taken: set[str]) -> dict[str, Any]:
    """What is the same in every run. Its id is its index, with a letter where there are several sets of data."""
    index, label = int(each.run.index[where]), int(each.run.rows["label"][where].as_py())
    name = f"{index}{letter}"
    while name in taken:  # the same place of two versions of a file
        name += "+"
    taken.add(name)
    return {"id": name, "index": index, "label": label, "class": class_name(each.run, label), "picture": None}


def _letters(which: int) -> str:
    return chr(ord("a") + which) if which < 26 else f"_{which}"


def class_name(run: RecordedRun, label: int) -> str:
    classes = run.header.classes
    return classes[label] if 0 <= label < len(classes) else f"class {label}"


_FIGURES = ("radius", "loss", "l0", "l1", "l2", "linf", "sparsity", "stationarity", "shrink", "excess", "violation",
            "seconds")  # fmt: skip


def _columns(
    run: RecordedRun, samples: list[int], places: list[int], pictures: list[dict[str, Any]]
) -> dict[str, list[Any]]:
    rows = run.rows.take(np.array(places, dtype=np.int64))
    columns: dict[str, list[Any]] = {"sample": samples}
    columns |= {name: [_short(v) for v in rows[name].to_pylist()] for name in _FIGURES if name in rows.column_names}
    columns["passes"] = (rows["forward"].to_numpy() + rows["backward"].to_numpy()).tolist()
    columns["found"] = [bool(value) for value in rows["adversarial"].to_pylist()]
    columns["status"], columns["attack"] = rows["status"].to_pylist(), rows["attack"].to_pylist()
    for name in ("clean_label", "adversarial_label"):
        columns[name] = [class_name(run, label) for label in rows[name].to_pylist()]
    for each in run.contributions:
        if len(run.contributions) > 1:
            column = rows[f"radius:{each.name}"].to_pylist()
            # Not asked: nothing; asked and nothing found: infinity, which JSON has no word for.
            columns[f"radius:{each.name}"] = ["none" if v == np.inf else _short(v) for v in column]
    for name in ("adversarial", "perturbation", "factor"):
        columns[f"{name}_picture" if name != "factor" else name] = [
            _short(each[name]) if name == "factor" else each[name] for each in pictures
        ]
    return columns


def _short(value: float | None) -> float | None:
    """Five digits: a page is to be looked at."""
    return None if value is None or not np.isfinite(value) else float(f"{value:.5g}")
