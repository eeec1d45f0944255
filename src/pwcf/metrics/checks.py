"""A look at a distance before it is used: below 0, always 0, rows that mix, d(x, x) other than 0, and randomness."""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf.metrics.metric import Metric
from pwcf.metrics.reference import refuse_negative

# Rows that are looked at, and how far they are moved towards a corner of the box.
MOVES = (0.1, 0.2, 0.3, 0.4)
# Rounding differs with the number of rows; so much more, relative to the largest distance, is another distance.
ROUNDING = 1e-3
# d(x, x) of a smoothed distance, such as sqrt(|d|^2 + 1e-6), is small beside those of points moved far.
ZERO = 1e-2


def check_metric(metric: Metric, images: Tensor, bounds: tuple[float, float], batch: int = len(MOVES)) -> list[str]:
    """Raise where no answer in a metric could mean anything; say what makes answers doubtful.

    Lp distances are known, and distances of features are ours, whose networks are in eval mode: each of their calls is
    counted. Others are called a few times with four points; these calls belong to no sample and are not
    counted. Random numbers are drawn from a copy of torch's generators: what follows is what it would be without.

    Args:
        metric: bound to its classifier.
        images: (n, ...) within the bounds.
        bounds: least and largest value of an input.
        batch: rows per call, at most.

    Returns:
        Sentences; none if nothing looks wrong.
    """
    if metric.exponent is not None or metric.network or not len(images):
        return []
    devices = [images.device] if images.is_cuda else []
    with torch.no_grad(), torch.random.fork_rng(devices):
        places = torch.arange(min(len(MOVES), batch), device=images.device) % len(images)
        reference = images[places].clone()
        candidate = _moved(reference, bounds)
        distance, again = (metric(reference.clone(), candidate.clone()) for _ in range(2))
        pairs = zip(torch.split(reference, 1), torch.split(candidate, 1), strict=True)
        alone = torch.cat([metric(*pair) for pair in pairs])
        itself = metric(reference, reference.clone())
    if not bool(torch.isfinite(torch.stack([distance, again, alone])).all()):
        return []  # attacks and verification say what there is to say about single points
    size, zero = float(distance.abs().amax()), float(itself.nan_to_num(0).abs().amax())
    if zero > ZERO * size:
        raise ValueError(
            f"metric {metric.name}: expected d(x, x) = 0, found {zero:.4g} beside distances of up to {size:.4g}; "
            "is it a similarity? take 1 - similarity"
        )
    refuse_negative(metric, distance)
    if size == 0:
        return [
            f"The metric {metric.name} is 0 between images and points far from them, so a radius of 0 means nothing. "
            "Does it look at the candidate?"
        ]
    if float((again - distance).abs().amax()) > ROUNDING * size:
        return [
            f"The metric {metric.name} gives different distances for the same points: it is random, so a radius "
            "is that of one lucky look. Put its network in eval mode, or average over its randomness."
        ]
    if float((alone - distance).abs().amax()) > ROUNDING * size:
        raise ValueError(
            f"metric {metric.name}: expected each row's distance to depend on that row alone, but it changes with the "
            "other rows of the batch; reduce over all axes but the first, as in (candidate - reference).flatten(1)"
            ".norm(dim=1), and put networks in eval mode"
        )
    return []


def _moved(images: Tensor, bounds: tuple[float, float]) -> Tensor:
    """Each row (b, ...) moved by its own share of the way towards one corner of the box."""
    lower, upper = bounds
    entries = torch.arange(images[0].numel(), device=images.device)
    corner = torch.where(entries % 3 == 0, upper, lower).to(images.dtype).view(1, *images.shape[1:])
    share = torch.tensor(MOVES[: len(images)], dtype=images.dtype, device=images.device).view(
        -1, *(1 for _ in images.shape[1:])
    )
    return images + share * (corner - images)
