"""The gallery of a page: which samples it shows, and their pictures.

Pictures are PNG files in base64, written by hand so that no image library is needed.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pwcf._common.statistics import class_name
from pwcf.analysis import amplified, found_in
from pwcf.report.page.runs import PageRun, embedded_json
from pwcf.runs import RecordedRun, RunError, RunFolder
from pwcf.runs.comparison import sample_places
from pwcf.runs.originals import OriginalImages
from pwcf.runs.shard import read_tensors, recorded_shards
from pwcf.runs.summary import json_safe

Key = tuple[str, int, int]
"""of a sample: digest of its image, its label, the how manieth of these"""
SAMPLES = 500
"""shown at most, unless one asks for more"""
PICTURE_BYTES = 7_000_000
"""of all pictures that are made, about: see ``PAGE_BYTES`` of write.py"""
BYTES_PER_VALUE = 1.0
"""of a picture in base64, measured on photographs; drawings take half"""
ENDS = 6
"""samples with the smallest and as many with the largest radii of each run that are shown first of all"""
Pixels = np.ndarray[Any, np.dtype[np.uint8]]
SIDE = 96
"""pictures with a longer side are averaged down to it: a page has hundreds of them"""
LEVELS = 15
"""steps of a perturbation to either side of zero: enough to see, and a third of the bytes that 127 take"""


@dataclass(frozen=True)
class Gallery:
    """The samples of a page and where they are."""

    samples: list[dict[str, Any]]
    """id, index, label, name of the class, picture"""
    rows: list[dict[str, list[Any]]]
    """of each run, columns about the samples it shares"""
    number: dict[Key, int]
    """of each sample in ``samples``"""
    total: int
    """of samples there are"""

    def within(self, order: SampleOrder, room: int) -> Gallery:
        """The same, or a part of it that takes at most ``room`` bytes of a page. No picture is made again."""
        sizes = self._sizes()
        count = len(self.samples)
        chosen = order.choose(count, set(self.number))
        while chosen and (size := sum(sizes[key] for key in chosen)) > room:
            count = min(count - 1, int(count * max(room, 0) / size))
            chosen = order.choose(count, set(self.number))
        return self if len(chosen) == len(self.samples) else self._part(chosen)

    def _sizes(self) -> dict[Key, int]:
        """Bytes of each sample on the page, commas included."""
        sizes = [len(embedded_json(json_safe(sample))) + 1 for sample in self.samples]
        for columns in self.rows:
            for values in columns.values():
                for sample, value in zip(columns["sample"], values, strict=True):
                    sizes[sample] += len(embedded_json(json_safe(value))) + 1
        return {key: sizes[number] for key, number in self.number.items()}

    def _part(self, chosen: set[Key]) -> Gallery:
        number = {key: i for i, key in enumerate(key for key in self.number if key in chosen)}
        new = {self.number[key]: i for key, i in number.items()}
        rows = []
        for columns in self.rows:
            kept = [i for i, sample in enumerate(columns["sample"]) if sample in new]
            part = {name: [values[i] for i in kept] for name, values in columns.items()}
            rows.append({**part, "sample": [new[sample] for sample in part["sample"]]})
        return Gallery([self.samples[old] for old in new], rows, number, self.total)


@dataclass(frozen=True)
class SampleOrder:
    """Which samples are shown before which."""

    places: list[dict[Key, int]]
    """of each run, where its samples are"""
    by_radius: list[Key]
    """all samples by the rank of their radius, mean over runs"""
    ends: list[Key]
    """the nearest and farthest samples of every run in turn, the utmost first"""
    affordable: int
    """so many pictures keep to ``PICTURE_BYTES``, about"""

    def choose(self, count: int, among: set[Key] | None = None) -> set[Key]:
        """Every run's nearest and farthest, the others evenly over the order of radii; all if they are few enough."""
        ordered = self.by_radius if among is None else [key for key in self.by_radius if key in among]
        if len(ordered) <= count:
            return set(ordered)
        # No more of the ends than leave room for what is between.
        most = max(count // 2, min(count, 2 * len(self.places)))
        chosen = set(islice((key for key in self.ends if among is None or key in among), most))
        rest = [key for key in ordered if key not in chosen]
        even = np.linspace(0, len(rest) - 1, count - len(chosen)).round().astype(int)
        return chosen | {rest[i] for i in even}


def order_of(runs: Sequence[PageRun]) -> SampleOrder:
    """The order of the samples of all runs of a page."""
    places = [sample_places(each.run.rows) for each in runs]
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
        # Misclassified samples have the least radius of all, those without a point the largest, and nothing to be seen.
        near = [keys[where] for where in order[found_in(each.run).numpy()[order]]]
        ends += [near[:ENDS], near[::-1][:ENDS]]
    # An original, which all runs share, and two pictures for each run.
    cost = sum(values[key] * (1 + 2 * len(ranks[key])) for key in ranks) * BYTES_PER_VALUE
    return SampleOrder(
        places,
        sorted(ranks, key=lambda key: sum(ranks[key]) / len(ranks[key])),
        list(dict.fromkeys(key for nth in zip_longest(*ends) for key in nth if key is not None)),
        int(len(ranks) * min(1.0, PICTURE_BYTES / max(cost, 1))),
    )


def make_gallery(runs: Sequence[PageRun], order: SampleOrder, limit: int, originals: OriginalImages) -> Gallery:
    """The gallery of at most ``limit`` samples; without pictures where there are none."""
    chosen = order.choose(min(limit, order.affordable))
    samples: list[dict[str, Any]] = []
    number: dict[Key, int] = {}
    rows = []
    sets = list(dict.fromkeys(each.data for each in runs))
    taken: set[str] = set()
    for each, place in zip(runs, order.places, strict=True):
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
    total = len({key for place in order.places for key in place})
    return Gallery(samples, rows, number, total)


def _images(each: PageRun, places: Sequence[int], originals: OriginalImages) -> dict[int, Tensor]:
    if not are_images(each.run.header.shape) or not places:
        return {}
    return originals.read(each.run, each.name, places)


def _points(each: PageRun, places: Sequence[int], originals: OriginalImages) -> dict[int, Tensor]:
    """The adversarial points at these places, shard by shard: a large run never sits in memory."""
    if not are_images(each.run.header.shape):
        return {}
    if each.path is None or len(each.run.x_adv):
        return {where: each.run.x_adv[where].detach().cpu() for where in places}
    wanted = set(places)
    found: dict[int, Tensor] = {}
    folder, size = RunFolder(each.path), each.run.header.settings.chunk
    begin = 0
    try:
        for shard in recorded_shards(each.run.rows, size):
            listed = range(begin, begin + len(shard.index))
            begin = listed.stop
            if not wanted.isdisjoint(listed):
                tensors = read_tensors(folder, shard)
                found |= {where: tensors["x_adv"][i] for i, where in enumerate(listed) if where in wanted}
    except RunError as error:
        originals.remarks.append(f"{each.name}: adversarial points are missing ({error})")
    return found


def _pictures(each: PageRun, image: Tensor | None, point: Tensor | None, where: int) -> dict[str, Any]:
    attacked = bool(each.run.adversarial[where]) and float(each.run.radius[where]) > 0
    if point is None or not attacked:
        return {"adversarial": None, "perturbation": None, "factor": None}
    difference = perturbation_of(image, point, each.bounds) if image is not None else None
    return {
        "adversarial": picture_of(point, each.bounds),
        "perturbation": difference.picture if difference else None,
        "factor": difference.factor if difference else None,
    }


def _sample(each: PageRun, where: int, letter: str, taken: set[str]) -> dict[str, Any]:
    """What is the same in every run. Its id is its index, with a letter where there are several sets of data."""
    index, label = int(each.run.index[where]), int(each.run.rows["label"][where].as_py())
    name = f"{index}{letter}"
    while name in taken:  # the same place of two versions of a file
        name += "+"
    taken.add(name)
    return {
        "id": name,
        "index": index,
        "label": label,
        "class": class_name(each.run.header.classes, label),
        "picture": None,
    }


def _letters(which: int) -> str:
    return chr(ord("a") + which) if which < 26 else f"_{which}"


_FIGURES = ("radius", "loss", "l0", "l1", "l2", "linf", "sparsity", "gain", "agreement", "searches", "nearest",
            "stationarity", "violation", "seconds")  # fmt: skip


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
        columns[name] = [class_name(run.header.classes, label) for label in rows[name].to_pylist()]
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


# ---- pictures ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Perturbation:
    """A difference made visible."""

    picture: str
    factor: float
    """by so much it is amplified: the largest change is full scale"""


def note_on(shape: tuple[int, ...]) -> str | None:
    """What a reader must know about pictures of inputs of this shape; None if they are what one expects."""
    if not are_images(shape):
        return f"Inputs of shape {' x '.join(map(str, shape))} are no images: there are no pictures of them."
    notes = []
    if shape[0] not in (1, 3):
        notes.append(f"inputs have {shape[0]} channels, the pictures show their mean")
    if _step(shape) > 1:
        notes.append(f"inputs of {shape[2]} x {shape[1]} pixels are shown {_step(shape)} times smaller")
    return "; ".join(notes).capitalize() + "." if notes else None


def are_images(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and min(shape) > 0 and min(shape[1:]) > 1


def values_of(shape: tuple[int, ...]) -> int:
    """Numbers in a picture of such an input; 0 if there is none."""
    if not are_images(shape):
        return 0
    step = _step(shape)
    return (3 if shape[0] == 3 else 1) * -(-shape[1] // step) * -(-shape[2] // step)


def picture_of(image: Tensor, bounds: tuple[float, float]) -> str:
    """An input (c, h, w) within bounds."""
    lower, upper = bounds
    shown = (_visible(image) - lower) / (upper - lower)
    return _png((shown * 255).round().clamp(0, 255).to(torch.uint8).numpy())


def perturbation_of(image: Tensor, point: Tensor, bounds: tuple[float, float]) -> Perturbation | None:
    """What was added, so that the largest change is full scale: grey inputs from blue to red, colour around grey."""
    difference = _visible(point.double() - image.double())
    largest = float(difference.abs().max())
    if not 0 < largest < float("inf"):
        return None
    shown, factor = amplified(difference / (bounds[1] - bounds[0]))
    steps = ((shown - 0.5) * 2 * LEVELS).round().to(torch.int64)  # -LEVELS ... LEVELS
    if len(steps) == 1:
        picture = _png((steps + LEVELS).to(torch.uint8).numpy(), _DIVERGING)
    else:
        picture = _png((127.5 + steps * (127.5 / LEVELS)).round().to(torch.uint8).numpy())
    return Perturbation(picture, factor)


def _visible(image: Tensor) -> Tensor:
    """(1 or 3, h, w), not too large."""
    shown = image.detach().cpu().double()
    if shown.shape[0] not in (1, 3):
        shown = shown.mean(0, keepdim=True)
    if (step := _step(tuple(shown.shape))) > 1:
        shown = torch.nn.functional.avg_pool2d(shown[None], step, ceil_mode=True)[0]
    return shown


def _step(shape: tuple[int, ...]) -> int:
    return max(1, -(-max(shape[1:]) // SIDE))


def _diverging() -> bytes:
    """Blue through a light grey to red, as distinct for colour-blind eyes as two hues can be."""
    ends = np.array([[5, 80, 160], [242, 242, 242], [178, 36, 20]], dtype=float)
    colours = []
    for step in range(-LEVELS, LEVELS + 1):
        share = (abs(step) / LEVELS) ** 0.7  # small changes are to be seen too
        colours.append(ends[1] + share * (ends[0 if step < 0 else 2] - ends[1]))
    return np.array(colours).round().astype(np.uint8).tobytes()


_DIVERGING = _diverging()


def _png(planes: Pixels, palette: bytes | None = None) -> str:
    """(1 or 3, h, w) as a PNG in base64. Of the format's row filters the one that packs best."""
    channels, height, width = planes.shape
    rows = np.ascontiguousarray(planes.transpose(1, 2, 0)).reshape(height, width * channels)
    filters = (0,) if palette else (0, 2, 4)
    packed = min((zlib.compress(_filtered(rows, channels, kind), 9) for kind in filters), key=len)
    kind = 3 if palette else (0 if channels == 1 else 2)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))]
    parts += [(b"PLTE", palette)] if palette else []
    parts += [(b"IDAT", packed), (b"IEND", b"")]
    file = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )
    return base64.b64encode(file).decode()


def _filtered(rows: Pixels, channels: int, kind: int) -> bytes:
    """Each row after its filter's number: 0 as it is, 2 less the row above, 4 less Paeth's guess."""
    left, above, corner = (np.zeros(rows.shape, dtype=np.int16) for _ in range(3))
    left[:, channels:], above[1:], corner[1:, channels:] = rows[:, :-channels], rows[:-1], rows[:-1, :-channels]
    guess = left + above - corner
    to_left, to_above, to_corner = (np.abs(guess - each) for each in (left, above, corner))
    paeth = np.where(
        (to_left <= to_above) & (to_left <= to_corner), left, np.where(to_above <= to_corner, above, corner)
    )
    taken = {0: np.zeros_like(left), 2: above, 4: paeth}[kind]
    body = (rows.astype(np.int16) - taken).astype(np.uint8)
    return np.hstack([np.full((len(rows), 1), kind, dtype=np.uint8), body]).tobytes()
