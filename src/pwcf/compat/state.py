"""What is known of an evaluation so far: in memory, and on disk if it is to survive an interruption."""

from __future__ import annotations

import hashlib
import io
import os
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pwcf._common import atomic
from pwcf.models import Classifier
from pwcf.models.loading import code_fingerprint, fingerprint

# A file of ours begins with it. One that is cut off begins with a part of it at least; any other is somebody else's.
MAGIC = b"pwcf AutoAttack state 2\n"
# Of files that know the model by its tensors alone: they can be read, and not gone on with.
EARLIER = b"pwcf AutoAttack state 1\n"
# Of a fingerprint.
DIGITS = 16
# Saving may take this share of the time.
SAVING = 0.05


@dataclass
class EvaluationState:
    """The answers so far about n samples."""

    origin: dict[str, str]
    """whose evaluation it is: of which data, model, norm, eps, version, attacks, seed"""
    seed: int
    robust: Tensor
    """(n,) bool"""
    labels: Tensor
    """(n,) int64 what the model says at the points"""
    tried: Tensor
    """(n,) bool: the attack that is under way has had its turn at the sample"""
    found_by: list[str]
    """(n,) which attack broke it; "clean": wrong as it is, "": not broken"""
    rows: list[Tensor] = field(default_factory=list)
    """which samples were broken, batch by batch"""
    points: list[Tensor] = field(default_factory=list)
    """(m, ...) by what"""
    done: list[str] = field(default_factory=list)
    """attacks that are finished"""
    accuracy: dict[str, float] = field(default_factory=dict)
    """robust accuracy after each, "clean" before all"""
    seconds: float = 0.0
    attacks: list[str] = field(default_factory=list)
    """that were asked for, in their order"""
    path: Path | None = None
    """the file it is kept in"""

    @classmethod
    def begin(
        cls, origin: dict[str, str], seed: int, robust: Tensor, labels: Tensor, attacks: Sequence[str] = ()
    ) -> EvaluationState:
        found_by = ["" if right else "clean" for right in robust.tolist()]
        state = cls(origin, seed, robust.clone(), labels, torch.zeros_like(robust), found_by, attacks=list(attacks))
        state.accuracy["clean"] = state.robust_accuracy
        return state

    @property
    def robust_accuracy(self) -> float:
        return float(self.robust.double().mean())

    @property
    def clean_accuracy(self) -> float:
        return self.accuracy["clean"]

    @property
    def robust_flags(self) -> Tensor:
        """(n,) 1 where robust. Float: RobustBench takes its mean."""
        return self.robust.float()

    @property
    def run_attacks(self) -> set[str]:
        return set(self.done)

    @property
    def attacks_to_run(self) -> set[str]:
        return set(self.attacks)

    def broke(self, attack: str, rows: Tensor, points: Tensor, labels: Tensor) -> None:
        """An attack has broken some samples."""
        self.robust[rows] = False
        self.labels[rows] = labels
        self.rows.append(rows)
        self.points.append(points)
        for row in rows.tolist():
            self.found_by[row] = attack

    def saw(self, rows: Tensor, points: Tensor) -> None:
        """An attack saw points misclassified that did not hold: the samples stay robust, and have them as points."""
        self.rows.append(rows)
        self.points.append(points)

    def finish(self, attack: str) -> None:
        self.done.append(attack)
        self.accuracy[attack] = self.robust_accuracy
        self.tried.zero_()

    def adversarial(self, images: Tensor) -> Tensor:
        """(n, ...) the images, with the points in their places; those of breaks come later, and stay."""
        x_adv = images.detach().clone()
        for rows, points in zip(self.rows, self.points, strict=True):
            x_adv[rows.to(x_adv.device)] = points.to(x_adv)
        return x_adv

    @classmethod
    def from_disk(cls, path: str | os.PathLike[str]) -> EvaluationState:
        """ValueError if the file is not ours or is cut off."""
        data = Path(path).read_bytes()
        if not data.startswith((MAGIC, EARLIER)):
            raise _not_ours(path)
        known = {each.name for each in fields(cls)} - ({"attacks"} if data.startswith(EARLIER) else set())
        try:
            content = torch.load(io.BytesIO(data[len(MAGIC) :]), weights_only=True)
            return cls(**{name: content[name] for name in known - {"path"}}, path=Path(path))
        except Exception as error:
            raise ValueError(f"state_path: {path} is cut off or damaged") from error


class Saver:
    """Writes a state to its file, often enough that little is lost; a partial file is never left behind."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.path = None if path is None else Path(path)
        self._saved, self._took = time.monotonic(), 0.0

    def restore(self, origin: dict[str, str]) -> EvaluationState | None:
        """What the file knows of this evaluation; None: nothing. ValueError: it is of another."""
        if self.path is None or not self.path.exists():
            return None
        with self.path.open("rb") as file:
            head = file.read(len(MAGIC))
        if head == EARLIER:
            raise ValueError(
                f"state_path: {self.path} was begun by an earlier version of pwcf, which knew the model by its tensors "
                "alone: only that version can go on with it. Give another path, or delete the file"
            )
        if not MAGIC.startswith(head):
            raise _not_ours(self.path)
        try:
            state = EvaluationState.from_disk(self.path)
        except ValueError as error:
            warnings.warn(f"{error}; the evaluation begins again", stacklevel=4)
            return None
        for name in origin:
            if state.origin.get(name) != origin[name]:
                raise ValueError(
                    f"state_path: {self.path} belongs to another evaluation: {name} was {state.origin.get(name)} there "
                    f"and is {origin[name]} here. Give another path, or delete the file"
                )
        return state

    def save(self, state: EvaluationState, surely: bool = False) -> None:
        now = time.monotonic()
        if self.path is None or not (surely or self._took <= SAVING * (now - self._saved)):
            return
        state.path = self.path
        content = {each.name: getattr(state, each.name) for each in fields(state) if each.name != "path"}
        content["points"] = [points.cpu() for points in state.points]
        atomic.write_whole(self.path, lambda place: _fill(place, content))
        self._saved = time.monotonic()
        self._took = self._saved - now


def _fill(place: Path, content: dict[str, Any]) -> None:
    with place.open("wb") as file:
        file.write(MAGIC)
        torch.save(content, file)


def digest_of(tensors: Iterable[Tensor]) -> str:
    """The same for the same values, shapes and types."""
    digest = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def model_digest(classifier: Classifier, uncalled: str) -> str:
    """The same for the same model: its code, all that it computes with, and its tensors.

    A model that calls change, one that counts them for instance, is known by its code, hooks included, and its tensors.

    Args:
        classifier: the model, called at least once.
        uncalled: its fingerprint before that.
    """
    called = fingerprint(classifier, "", own=True)
    if called == uncalled:
        return called[:DIGITS]
    code = code_fingerprint(classifier.model, values=False)
    return f"{code[:DIGITS]} {digest_of(classifier.state().values())}"


def _not_ours(path: str | os.PathLike[str]) -> ValueError:
    return ValueError(
        f"state_path: {path} is no state of pwcf's AutoAttack (the original's cannot be resumed: they have no points). "
        "Give another path, or delete the file"
    )
