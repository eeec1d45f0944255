"""Samples of all classes in turn, for data that lie class by class: the first ones of these are of a few classes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from pwcf.data import checks
from pwcf.data.source import Source

# Labels that are looked at first. In no other order do those of so many samples change as seldom.
PROBED = 64


class BalancedSource:
    """The samples of another source, drawn by a seed from every class in turn.

    Its first samples stay what they are however many are taken of it.
    """

    def __init__(self, source: Source, seed: int) -> None:
        self._source, self._order = source, balanced_order(source.labels(range(len(source))), seed)
        self.names = None if source.names is None else [source.names[index] for index in self._order]
        self.classes, self.remarks = source.classes, source.remarks
        self.about = f"{source.about}; samples of every class in turn, drawn with seed {seed}"

    def __len__(self) -> int:
        return len(self._order)

    def labels(self, index: Sequence[int]) -> list[int]:
        return self._source.labels([self._order[i] for i in index])

    def fingerprint(self, count: int) -> str:
        """Over the images as they are read, and their labels."""
        checks.check_count(self.about, count, len(self))
        digest = hashlib.sha256()
        for place in range(count):
            image, label = self.read(place, place + 1)
            digest.update(json.dumps([*image.shape, int(label)]).encode() + b"\n" + image.numpy().tobytes())
        return digest.hexdigest()

    def read(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        checks.check_range(self.about, start, stop, len(self))
        read = [self._source.read(index, index + 1) for index in self._order[start:stop]]
        if not read:
            return self._source.read(0, 0)
        images, labels = zip(*read, strict=True)
        return torch.cat(images), torch.cat(labels)


def balanced_order(labels: Sequence[int], seed: int) -> list[int]:
    """All places of labels (n,): the first round has one of every class, the next another one of each, and so on.

    Args:
        labels: (n,) classes.
        seed: of the draw, by digests: it is the same with every version of every library.
    """

    def drawn(index: int) -> bytes:
        return hashlib.blake2b(f"{seed} {index}".encode(), digest_size=16).digest()

    seen: Counter[int] = Counter()
    rounds = []
    for key, index in sorted((drawn(index), index) for index in range(len(labels))):
        rounds.append((seen[labels[index]], key, index))
        seen[labels[index]] += 1
    return [index for _, _, index in sorted(rounds)]


def lies_by_class(source: Source) -> bool:
    """Whether several classes lie one after the other. A few labels are read, and all where these look like it."""
    n, some = len(source), min(len(source), PROBED)
    probed = [i * (n - 1) // max(1, some - 1) for i in range(some)]
    return _by_class(source.labels(probed)) and _by_class(source.labels(range(n)))


def _by_class(labels: Sequence[int]) -> bool:
    classes = len(set(labels))
    return classes > 1 and sum(a != b for a, b in pairwise(labels)) == classes - 1
