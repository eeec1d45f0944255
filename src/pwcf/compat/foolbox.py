"""An attack that is called as Foolbox 3's are: ``raw, clipped, success = attack(fmodel, inputs, criterion, epsilons)``.

Foolbox itself is not imported. Its tensors (eagerpy) are understood by their ``raw``, its models by their ``bounds``,
its criteria by their ``labels`` or ``target_classes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pwcf.compat.search import search
from pwcf.evaluation import Run
from pwcf.metrics import Distance, Metric, as_metric, distance64, shrink_to_eps
from pwcf.models import Classifier, CountedClassifier
from pwcf.problems import MaxLoss, MinRadius
from pwcf.verify import recheck

__all__ = ["MetricDistance", "MinRadiusAttack"]


@dataclass(frozen=True)
class MetricDistance:
    """A metric with the methods of Foolbox's distances."""

    metric: Metric

    @property
    def p(self) -> float | None:
        """The p of an l_p norm, 0 for l0; None for other distances."""
        return self.metric.exponent

    def __call__(self, references: Any, perturbed: Any) -> Any:
        """(n,) distances in float64."""
        return _wrapper(references)(distance64(self.metric, _raw(references), _raw(perturbed)))

    def clip_perturbation(self, references: Any, perturbed: Any, epsilon: float) -> Any:
        """(n, ...) the points, drawn straight towards the references where they are farther than epsilon."""
        images, points = _raw(references), _raw(perturbed)
        anywhere = torch.full_like(images, -torch.inf), torch.full_like(images, torch.inf)
        return _wrapper(perturbed)(_drawn(self.metric, images, points, float(epsilon), anywhere))


@dataclass(frozen=True)
class MinRadiusAttack:
    """The nearest adversarial points, as a Foolbox minimisation attack.

    Args:
        metric: "linf", "l2", "l1", "l1.5", ..., or a function d(reference, candidate) -> (b,).
        budget: forward + backward passes per sample.

    Extra keyword arguments of calls go to ``pwcf.evaluate``: ``attacks``, ``mask``, ``stop``, ``batch``, ...
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
        **options: Any,
    ) -> tuple[Any, Any, Any]:
        """(raw, clipped, success): the nearest points; the same drawn to within eps; which of these are adversarial.

        Args:
            model: a Foolbox model, or any callable from inputs in [0, 1] to logits.
            criterion: (n,) labels, or one of Foolbox's: Misclassification, TargetedMisclassification.
            epsilons: None: no limit. Of several, ``raw`` and ``clipped`` are lists, ``success`` is (K, n).
        """
        classifier, images, labels, targeted = _question(model, inputs, criterion)
        metric, run = as_metric(self.metric), self._search(classifier, images, labels, targeted, options)
        if isinstance(epsilons, Tensor) and epsilons.dim() == 0:
            epsilons = float(epsilons)
        several = isinstance(epsilons, Iterable)
        limits = list(epsilons) if isinstance(epsilons, Iterable) else [epsilons]
        raw, clipped, success = run.x_adv, [], []
        # Points that were seen and not verified have no radius; they are drawn in like the others.
        size = torch.where(run.adversarial, run.radius, torch.where(run.nearest.isinf(), 0.0, run.nearest))
        for eps in limits:
            points, found = raw, run.adversarial.to(images.device)
            if eps is not None:
                question = MaxLoss(metric, float(eps), targeted=targeted)
                far = (~question.allows(size)).nonzero().squeeze(1).to(images.device)
                points, found = raw.clone(), found.clone()
                points[far], found[far] = _judged(classifier, question, images[far], labels[far], raw[far])
            clipped.append(points)
            success.append(found)
        wrap = _wrapper(inputs)
        if several:
            return [wrap(raw) for _ in limits], [wrap(each) for each in clipped], wrap(torch.stack(success))
        return wrap(raw), wrap(clipped[0]), wrap(success[0])

    def run(
        self,
        model: Callable[[Any], Any],
        inputs: Any,
        criterion: Any,
        *,
        early_stop: float | None = None,
        **options: Any,
    ) -> Any:
        """(n, ...) the nearest points, ``raw`` of a call. The search goes on below ``early_stop``."""
        return _wrapper(inputs)(self._search(*_question(model, inputs, criterion), options).x_adv)

    @property
    def distance(self) -> MetricDistance:
        """What is minimised, as one of Foolbox's distances."""
        return MetricDistance(as_metric(self.metric))

    def repeat(self, times: int) -> MinRadiusAttack:
        """The attack with so many times the budget: one long search is worth more than several short ones."""
        if isinstance(times, bool) or not isinstance(times, int) or times < 1:
            raise ValueError(f"times: expected an integer >= 1, found {times!r}")
        return replace(self, budget=times * self.budget)

    def _search(
        self, classifier: Classifier, images: Tensor, labels: Tensor, targeted: bool, options: dict[str, Any]
    ) -> Run:
        problem = MinRadius(self.metric, targeted=targeted)
        return search(classifier, images, labels, problem, **{"budget": self.budget, "seed": self.seed, **options})


def _question(model: Callable[[Any], Any], inputs: Any, criterion: Any) -> tuple[Classifier, Tensor, Tensor, bool]:
    images = _raw(inputs)
    labels, targeted = _wanted(criterion)
    return _classifier(model), images, labels.to(images.device), targeted


def _drawn(metric: Metric, images: Tensor, points: Tensor, eps: float, box: tuple[Tensor, Tensor]) -> Tensor:
    """Points beyond eps drawn to within it."""
    limits = torch.full((len(images),), eps, dtype=torch.float64, device=images.device)
    return shrink_to_eps(partial(distance64, metric, images), images, points, limits, box)


def _judged(
    classifier: Classifier, question: MaxLoss, images: Tensor, labels: Tensor, points: Tensor
) -> tuple[Tensor, Tensor]:
    """Points beyond eps drawn to within it, and whether they are adversarial even there."""
    lower, upper = (torch.full_like(images, side) for side in classifier.bounds)
    points = _drawn(question.metric, images, points, float(question.eps), (lower, upper))
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
