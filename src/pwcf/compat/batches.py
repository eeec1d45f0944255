"""Samples on their way to the model: some at a time, on its device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import SupportsIndex

import torch
from torch import Tensor, nn

from pwcf.compat.averaged import averaged
from pwcf.models import Classifier, check_inputs
from pwcf.problems import is_defined


@dataclass(frozen=True)
class Batches:
    """All samples, where they are, and the model, where it is."""

    classifier: Classifier
    images: Tensor
    labels: Tensor
    size: int
    device: torch.device

    @classmethod
    def to_the_model(
        cls,
        model: Callable[[Tensor], Tensor] | Classifier,
        x_orig: Tensor,
        y_orig: Tensor,
        bs: int,
        device: str | torch.device | None,
    ) -> Batches:
        """``device`` None: the model's own, or if it has no parameters the images'."""
        if isinstance(bs, bool) or not isinstance(bs, SupportsIndex) or int(bs) < 1:
            raise ValueError(f"bs: expected an integer >= 1, found {bs!r}")
        for name, tensor in (("x_orig", x_orig), ("y_orig", y_orig)):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{name}: expected a tensor, found {type(tensor).__name__}")
        if x_orig.shape[:1] != y_orig.shape:
            raise ValueError(
                f"y_orig: expected one label for each of {x_orig.shape[0]} images, found shape {tuple(y_orig.shape)}"
            )
        classifier = model if isinstance(model, Classifier) else Classifier(model)
        place = _device_of(classifier.model, x_orig) if device is None else torch.device(device)
        return cls(classifier, x_orig.detach(), y_orig, int(bs), place)

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        images, labels = (t[rows.to(t.device)].to(self.device) for t in (self.images, self.labels))
        return images.clone(), labels.long()

    def first_look(self, calls: int) -> tuple[Tensor, Tensor, int]:
        """(n,) which samples are classified correctly; (n,) what the model says; how many classes it has."""
        right, said, classes = [torch.zeros(0, dtype=torch.bool)], [torch.zeros(0, dtype=torch.int64)], 2
        for rows in torch.split(torch.arange(self.images.shape[0]), self.size):
            images, labels = self.of(rows)
            check_inputs(self.classifier, images, labels)
            logits = _logits(averaged(self.classifier, calls), images)
            classes = logits.shape[1]
            right.append(((logits.argmax(1) == labels) & is_defined(logits)).cpu())
            said.append(logits.argmax(1).cpu())
        return torch.cat(right), torch.cat(said), classes


def classes_of(classifier: Classifier, points: Tensor, labels: Tensor) -> Tensor:
    """(m,) what the model says. Where only rounding makes that the label, each alone, as the points were verified."""
    said = _logits(classifier, points).argmax(1) if len(points) else labels
    for row in (said == labels).nonzero().squeeze(1).tolist():
        said[row] = _logits(classifier, points[row : row + 1]).argmax(1)[0]
    return said


def _logits(classifier: Classifier, images: Tensor) -> Tensor:
    with classifier.in_use(), torch.no_grad():
        return classifier(images)


def _device_of(model: object, images: Tensor) -> torch.device:
    owner = getattr(model, "__self__", model)  # scripts give model.forward, too
    tensors = (*owner.parameters(), *owner.buffers()) if isinstance(owner, nn.Module) else ()
    return tensors[0].device if tensors else images.device
