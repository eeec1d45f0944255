"""An attack that is called as Foolbox 3's are: ``raw, clipped, success = attack(fmodel, inputs, criterion, epsilons)``.

Foolbox itself is not imported. Its tensors (eagerpy) are understood by their ``raw``, its models by their ``bounds``,
its criteria by their ``labels`` or ``target_classes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pwcf.evaluation import evaluate
from pwcf.metrics import Distance, Metric, as_metric, distance64, shrink_to_eps
from pwcf.models import Classifier, CountedClassifier
from pwcf.problems import MaxLoss, MinRadius
from pwcf.verify import recheck

__all__ = ["MinRadiusAttack"]


@dataclass(frozen=True)
class MinRadiusAttack:
    """The nearest adversarial points, as a Foolbox minimisation attack.

    Args:
        metric: "linf", "l2", "l1", "l1.5", ..., or a function d(reference, candidate) -> (b,).
        budget: forward + backward passes per sample.
    """

    metric: str | Metric | Distance
    budget: int = 2000
    seed: int = 0

    def __call__(
        self,
        model: Callable[[Any], Any],
        inputs: Any,
        criterion: Any,
        *,
        epsilons: float | Iterable[float | None] | None,
    ) -> tuple[Any, Any, Any]:
        """(raw, clipped, success): the nearest points; the same drawn to within eps; which of these are adversarial.

        Args:
            model: a Foolbox model, or any callable from inputs in [0, 1] to logits.
            criterion: (n,) labels, or one of Foolbox's: Misclassification, TargetedMisclassification.
            epsilons: None: no limit. Of several, ``raw`` and ``clipped`` are lists, ``success`` is (K, n).
        """
        images = _raw(inputs)
        labels, targeted = _wanted(criterion)
        labels = labels.to(images.device)
        classifier = _classifier(model)
        metric = as_metric(self.metric)
        problem = MinRadius(metric, targeted=targeted)
        run = evaluate(classifier, images, labels, problem, budget=self.budget, seed=self.seed)
        if isinstance(epsilons, Tensor) and epsilons.dim() == 0:
            epsilons = float(epsilons)
        several = isinstance(epsilons, Iterable)
        limits = list(epsilons) if isinstance(epsilons, Iterable) else [epsilons]
        raw, clipped, success = run.x_adv, [], []
        for eps in limits:
            points, found = raw, run.adversarial.to(images.device)
            if eps is not None:
                question = MaxLoss(metric, float(eps), targeted=targeted)
                far = (~question.allows(run.radius) & run.adversarial).nonzero().squeeze(1).to(images.device)
                points, found = raw.clone(), found.clone()
                points[far], found[far] = _drawn(classifier, question, images[far], labels[far], raw[far])
            clipped.append(points)
            success.append(found)
        wrap = _wrapper(inputs)
        if several:
            return [wrap(raw) for _ in limits], [wrap(each) for each in clipped], wrap(torch.stack(success))
        return wrap(raw), wrap(clipped[0]), wrap(success[0])


def _drawn(
    classifier: Classifier, question: MaxLoss, images: Tensor, labels: Tensor, points: Tensor
) -> tuple[Tensor, Tensor]:
    """Points beyond eps drawn to within it, and whether they are adversarial even there."""
    eps = question.radii(len(images)).to(images.device)
    lower, upper = (torch.full_like(images, side) for side in classifier.bounds)
    points = shrink_to_eps(partial(distance64, question.metric, images), images, points, eps, (lower, upper))
    if not len(images):
        return points, torch.zeros(0, dtype=torch.bool, device=images.device)
    with classifier.in_use():
        checked = recheck(CountedClassifier(classifier, len(images)), question, images, labels, points)
    return points, checked.adversarial.to(images.device)


def _classifier(model: Callable[[Any], Any]) -> Classifier:
    if isinstance(model, Classifier):
        return model
    bounds = getattr(model, "bounds", None)
    if bounds is None or callable(bounds):
        return Classifier(model)
    lower, upper = bounds
    return Classifier(model, (float(lower), float(upper)))


def _wanted(criterion: Any) -> tuple[Tensor, bool]:
    """Labels, and whether they are the wanted ones."""
    for name, targeted in (("target_classes", True), ("labels", False)):
        if hasattr(criterion, name):
            return _raw(getattr(criterion, name)), targeted
    return _raw(criterion), False


def _raw(tensor: Any) -> Tensor:
    inner = getattr(tensor, "raw", tensor)
    if not isinstance(inner, Tensor):
        raise TypeError(
            "inputs, criterion: expected PyTorch tensors, or Foolbox's Misclassification or TargetedMisclassification, "
            f"found {type(tensor).__name__}"
        )
    return inner


def _wrapper(inputs: Any) -> Callable[[Tensor], Any]:
    """Back into what the inputs came in."""
    return (lambda tensor: tensor) if isinstance(inputs, Tensor) else type(inputs)
