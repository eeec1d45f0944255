"""The statistics of a run, each defined once, on plain columns and without a network library.

``status`` is one text per sample: the values of ``pwcf.Status``. ``adversarial`` says where there is a verified
adversarial point (the sample itself where it is misclassified), ``radius`` how far it is: inf where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pwcf._common.status import Status

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Column = Any
"""(n,) an array, or a list"""


def defined(status: Sequence[str]) -> Mask:
    """Mask (n,) of the samples for which the model gives finite logits."""
    return ~_equal(status, Status.NONFINITE)


def attacked(status: Sequence[str]) -> Mask:
    """Mask (n,) of the samples classified correctly as they are, so that there was something to attack."""
    return ~_equal(status, Status.ALREADY_MISCLASSIFIED) & ~_equal(status, Status.NONFINITE)


def found(status: Sequence[str], adversarial: Column) -> Mask:
    """Mask (n,) of the attacked samples with a verified adversarial point."""
    verified: Mask = np.asarray(adversarial, dtype=bool)
    return attacked(status) & verified


def converged(status: Sequence[str]) -> Mask:
    """Mask (n,) of the samples whose min-radius search converged: the evidence leaves nothing to gain nearby."""
    return _equal(status, Status.CONVERGED)


def unsettled(status: Sequence[str]) -> Mask:
    """Mask (n,) of the attacked samples that a larger budget may serve: neither converged nor, in max-loss, found."""
    return attacked(status) & ~converged(status) & ~_equal(status, Status.FOUND)


def clean_accuracy(status: Sequence[str]) -> float:
    """Share of all samples that are classified correctly as they are; NaN of no samples."""
    return _mean(attacked(status))


def robust_accuracy(status: Sequence[str], adversarial: Column) -> float:
    """Robust accuracy of max-loss: the share of all samples without an adversarial point.

    Samples that are misclassified as they are, and samples without finite logits, count as broken. NaN of no samples.
    """
    return _mean(~np.asarray(adversarial, dtype=bool) & defined(status))


def robust_accuracy_at(status: Sequence[str], radius: Column, eps: float) -> float:
    """Robust accuracy of min-radius: the share of all samples whose radius is larger than eps; NaN of no samples."""
    return _mean((np.asarray(radius) > eps) & defined(status))


def mean_radius(status: Sequence[str], adversarial: Column, radius: Column) -> float:
    """Mean radius of the attacked samples with a point, so the number found belongs beside it; NaN if there is none."""
    return _mean(np.asarray(radius)[found(status, adversarial)])


def median_radius(status: Sequence[str], radius: Column) -> float:
    """Median radius of all attacked samples: half of them have a point no farther away; inf where most have none."""
    return quantile(np.sort(np.asarray(radius, dtype=np.float64)[attacked(status)]), 0.5)


def radius_figures(status: Sequence[str], adversarial: Column, radius: Column) -> dict[str, float]:
    """``mean``, ``least`` and ``largest`` radius of those found, ``median`` of all attacked; nothing if none was."""
    some = np.asarray(radius, dtype=np.float64)[found(status, adversarial)]
    if not len(some):
        return {}
    return {
        "mean": mean_radius(status, adversarial, radius),
        "median": median_radius(status, radius),
        "least": float(some.min()),
        "largest": float(some.max()),
    }


def nearest_seen(
    status: Sequence[str], adversarial: Column, nearest: Column, eps: Column, agreement: Column, searches: Column
) -> dict[str, float]:
    """How near max-loss came to the attacked samples that it did not break, in eps, and how many searches agree.

    Args:
        status: of n samples.
        adversarial: (n,) bool.
        nearest: (n,) the least distances of misclassified points that were seen, inf where none was.
        eps: (n,) or one for all.
        agreement: (n,) how many searches ended at that distance.
        searches: (n,) of how many.

    Returns:
        ``samples`` that a point was seen of, ``median`` and ``least`` distance of these in eps, and the medians of
        ``agreement`` and ``searches``; nothing where there are no such samples.
    """
    distance, level = np.asarray(nearest, dtype=np.float64), np.asarray(eps, dtype=np.float64)
    seen = attacked(status) & ~found(status, adversarial) & np.isfinite(distance) & (level > 0)
    if not seen.any():
        return {}
    share = (distance / np.where(level > 0, level, 1.0))[seen]
    counts = {"agreement": agreement, "searches": searches}
    return {
        "samples": float(seen.sum()),
        "median": median(share),
        "least": float(share.min()),
        **{name: median(np.asarray(values)[seen]) for name, values in counts.items()},
    }


def largest_loss(status: Sequence[str], adversarial: Column, loss: Column, targeted: bool) -> dict[str, float]:
    """How far max-loss drove the loss within eps on the attacked samples that it did not break.

    Args:
        status: of n samples.
        adversarial: (n,) bool.
        loss: (n,) the largest losses seen within eps, of wanted classes the least.
        targeted: whether labels are wanted classes.

    Returns:
        ``samples``, the ``median`` of their losses and the one ``nearest`` to an answer; nothing where there are none.
    """
    values = np.asarray(loss, dtype=np.float64)
    values = values[attacked(status) & ~found(status, adversarial) & np.isfinite(values)]
    if not len(values):
        return {}
    nearest = values.min() if targeted else values.max()
    return {"samples": float(len(values)), "median": median(values), "nearest": float(nearest)}


@dataclass(frozen=True)
class ClassStatistics:
    """The samples of one class."""

    label: int
    name: str
    samples: int
    attacked: int
    found: int
    clean_accuracy: float
    median: float
    """min-radius: ``median_radius``, NaN where none was attacked"""
    robust_accuracy: float
    """max-loss: the share of all samples of the class without an adversarial point"""
    robust_at: list[float]
    """min-radius: that share at several eps, an upper bound"""


FEWEST = 5
"""samples of a class, at least, for it to be called the worst or the best: fewer tell little of it"""


def by_class(
    status: Sequence[str],
    adversarial: Column,
    radius: Column,
    label: Column,
    *,
    names: Sequence[str] = (),
    max_loss: bool = False,
    eps: Sequence[float] = (),
) -> list[ClassStatistics]:
    """The statistics of every class that has samples, by rising label.

    Args:
        status: of n samples.
        adversarial: (n,) bool.
        radius: (n,) inf where there is no adversarial point.
        label: (n,) ints; of targeted runs the wanted classes.
        names: of the classes, where they have any.
        max_loss: whether the question was max-loss.
        eps: of ``robust_at``.
    """
    said, verified = np.asarray(status, dtype=object), np.asarray(adversarial, dtype=bool)
    distance, labels = np.asarray(radius, dtype=np.float64), np.asarray(label)
    classes = []
    for one in np.unique(labels).tolist():
        here = labels == one
        own, point, far = said[here].tolist(), verified[here], distance[here]
        classes.append(ClassStatistics(
            one, class_name(names, one), len(own), int(attacked(own).sum()), int(found(own, point).sum()),
            clean_accuracy(own), math.nan if max_loss else median_radius(own, far),
            robust_accuracy(own, point) if max_loss else math.nan,
            [] if max_loss else [robust_accuracy_at(own, far, each) for each in eps],
        ))  # fmt: skip
    return classes


def class_name(names: Sequence[str], label: int) -> str:
    """What a class is called: by its name, or else by its number."""
    return names[label] if 0 <= label < len(names) else f"class {label}"


def extremes(
    classes: Sequence[ClassStatistics], max_loss: bool
) -> tuple[list[ClassStatistics], list[ClassStatistics]] | None:
    """The least and the most robust classes: by the median radius of attacked samples or, in max-loss, robust accuracy.

    Classes with fewer than ``FEWEST`` samples are left out; one of which all samples are misclassified has radius 0.
    Several where they are alike; None where all are.
    """
    value = {
        each.label: each.robust_accuracy if max_loss else each.median if each.attacked else 0.0
        for each in classes
        if each.samples >= FEWEST
    }
    least, most = min(value.values(), default=0.0), max(value.values(), default=0.0)
    if least == most:
        return None
    worst, best = ([each for each in classes if value.get(each.label) == end] for end in (least, most))
    return worst, best


def broken_alone(broken: Column, attacked: Column) -> list[int]:
    """How many samples each of several runs or attacks breaks that no other one breaks.

    A sample counts only if every one of them had to attack it: what one model misclassifies as it is is no merit of
    the attack on that model.

    Args:
        broken: (a, n) bool, where each has a verified adversarial point.
        attacked: (n,) bool, classified correctly as they are by the models of all of them.

    Returns:
        (a,) counts.
    """
    verdicts = np.asarray(broken, dtype=bool)
    only = verdicts & (verdicts.sum(0) == 1) & np.asarray(attacked, dtype=bool)
    return [int(count) for count in only.sum(1)]


def mean_passes(status: Sequence[str], passes: Column) -> float:
    """Mean number of passes of the attacked samples; NaN where there is none."""
    return _mean(np.asarray(passes)[attacked(status)])


def quantile(rising: Column, q: float) -> float:
    """Quantile of rising values, interpolated between neighbours as numpy does; NaN of none.

    Between a radius and infinity there is no mean: the radius is taken, which so many samples have at most.
    """
    if not len(rising):
        return math.nan
    place = q * (len(rising) - 1)
    low, high = float(rising[math.floor(place)]), float(rising[math.ceil(place)])
    return low if math.isinf(high) or low == high else low + (place - math.floor(place)) * (high - low)


def quantiles(values: Column, at: Sequence[float]) -> list[float]:
    """Quantiles of values (n,) in any order; values that are not known (NaN) are left out."""
    rising = np.sort(np.asarray(values, dtype=np.float64))
    rising = rising[~np.isnan(rising)]
    return [quantile(rising, q) for q in at]


def median(values: Column) -> float:
    """Median of values (n,) in any order, by the rule of ``quantile``; NaN of none."""
    return quantiles(values, (0.5,))[0]


def _mean(values: Column) -> float:
    return float(values.mean()) if len(values) else math.nan


def _equal(status: Sequence[str], member: Status) -> Mask:
    # As objects: a list of no texts would become floats.
    return np.asarray(np.asarray(status, dtype=object) == member.value, dtype=np.bool_)
