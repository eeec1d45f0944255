"""The statistics of a run, each defined once, on plain columns and without a network library.

``status`` is one text per sample: the values of ``pwcf.Status``. ``adversarial`` says where there is a verified
adversarial point (the sample itself where it is misclassified), ``radius`` how far it is: inf where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
