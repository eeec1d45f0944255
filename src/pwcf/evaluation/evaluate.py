"""``evaluate``: checks the arguments, resolves the attacks and lets an ``Evaluator`` do the work."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import get_args

import torch
from torch import Tensor

from pwcf._common.progress import progress_bar, watched
from pwcf._common.text import brief
from pwcf.attacks import AttackLike, Stop, resolve_attacks
from pwcf.evaluation.diagnosis import warnings_about_eps
from pwcf.evaluation.evaluator import Evaluator
from pwcf.evaluation.inputs import Images, Labels, read_samples
from pwcf.evaluation.progress import Callback
from pwcf.evaluation.run import Run
from pwcf.metrics.checks import check_metric
from pwcf.models import ENOUGH, Classifier, CountedClassifier, check_inputs, warnings_about
from pwcf.problems import MaxLoss, MinRadius, Problem

# Rows per call of the model, and the entries they may have together.
BATCH, BATCH_ENTRIES = 256, 5_000_000
# Below this there is nothing left for an attack after the checks.
LEAST_BUDGET = 50
# What is larger is a slip, and does not fit torch's integers where it is multiplied.
MOST = 2**53


@torch.inference_mode(False)  # attacks need gradients wherever they are called from
def evaluate(
    model: Callable[[Tensor], Tensor] | Classifier,
    images: Images,
    labels: Labels | Problem | None = None,
    problem: Problem | None = None,
    *,
    attacks: AttackLike | Sequence[AttackLike] = "lmn",
    budget: int | Sequence[int] | None = None,
    stop: Stop = "converged",
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
    mask: Tensor | None = None,
    eight_bit: bool = False,
    batch: int | None = None,
    tol: float = 1e-2,
    progress: bool = False,
    callback: Callback | None = None,
) -> Run:
    """Attack every sample with one or several attacks and verify the best point of each.

    Args:
        model: a ``Classifier``, or any callable from inputs (b, ...) to logits (b, classes).
        images: (n, ...) within the bounds, float32 or float64: a tensor, a NumPy array or a list. Or a DataLoader or
            Dataset that gives pairs (images, labels), which is read batch by batch; labels are left out then. What is
            no tensor goes to the model's device.
        labels: (n,) true classes, integers; target classes if the problem is targeted.
        problem: ``MinRadius(metric)`` or ``MaxLoss(metric, eps)``.
        attacks: names, presets, attacks or functions (model, images, labels) -> x_adv, one or several. The best
            verified point of each sample counts. The attacks share the budget; in max-loss each gets the samples that
            those before it have not broken.
        budget: forward + backward passes per sample for everything together, checks and evidence included, which
            the attacks share; or one for each attack. Default:
            2000 per attack, as in AttackBench; 10,000 for one that stops where it has converged ("lmn" in min-radius);
            presets have their own; of a ``Classifier`` that averages ``samples`` calls so many times that. Max-loss
            uses little of it.
        stop: "converged": a sample whose search has converged stops, "budget": every sample uses its budget up, as
            comparisons at equal budgets need it. Attacks that cannot tell use it up in any case.
        seed: random seed; a sample's answer does not depend on the other samples.
        bounds: least and largest value of an input, for a model that is not a ``Classifier``; default (0, 1).
        mask: bool, (n, ...) or a shape that broadcasts to it: True where an entry may change.
        eight_bit: round answers to the grid of 8-bit images and verify them there.
        batch: rows per call of the model; halved when memory runs out. Default: 256, fewer for large inputs (33 images
            of 3 x 224 x 224).
        tol: a search has converged where ``evidence.gain`` is at most this share of the radius.
        progress: show a progress bar (needs tqdm).
        callback: called with an ``EvaluationProgress`` after every group of samples; its ``numbers()`` are what a
            tracker logs.

    Returns:
        A ``Run``: per sample the radius (n,), the verified point ``x_adv`` (n, ...), status, evidence and passes.
    """
    started = time.perf_counter()
    classifier = _classifier(model, bounds)
    if problem is None and isinstance(labels, (MinRadius, MaxLoss)):  # a DataLoader has its own labels
        labels, problem = None, labels
    if not isinstance(problem, (MinRadius, MaxLoss)):
        found = repr(problem) if isinstance(problem, str) else type(problem).__name__
        raise TypeError(f'problem: expected MinRadius(...) or MaxLoss(...), such as MinRadius("l2"), found {found}')
    for number in budget if isinstance(budget, Sequence) else [budget]:
        if number is not None:
            _check_count("budget", number, LEAST_BUDGET * classifier.samples)
    if batch is not None:
        _check_count("batch", batch, 1)
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed: expected an integer of 64 bits, found {seed!r}")
    if stop not in get_args(Stop):
        raise ValueError(f"stop: expected 'converged' or 'budget', found {stop!r}")
    if isinstance(tol, bool) or not isinstance(tol, (int, float)) or not 0 < tol < math.inf:
        raise ValueError(f"tol: expected a finite number > 0, found {tol!r}")
    if isinstance(labels, (MinRadius, MaxLoss)):
        raise TypeError("labels: expected labels, found a second question")
    images, labels = read_samples(classifier, images, labels)
    if not labels.is_floating_point():
        labels = labels.to(images.device) if labels.dtype == torch.bool else labels.to(images.device, torch.int64)
    classes = check_inputs(classifier, images, labels)
    problem = problem.bind(classifier)
    chosen = resolve_attacks(attacks, problem, classes, stop)
    count = len(chosen.attacks)
    if isinstance(budget, Sequence):
        budgets = list(budget)
        if len(budgets) != count:
            raise ValueError(f"budget: expected one number, or {count}, one for each attack; found {len(budgets)}")
    else:
        budgets = (
            [each * classifier.samples for each in chosen.budgets] if budget is None else [budget // count] * count
        )
    budgets = [each // classifier.samples for each in budgets]  # passes; attacks count calls
    images, labels = (t.clone() if t.is_inference() else t.detach() for t in (images, labels))
    batch = batch or default_batch(images)
    box = _box(classifier, images, mask)
    counted = CountedClassifier(classifier, images.shape[0], batch)
    evaluator = Evaluator(counted, problem, images, labels, box, chosen.attacks, budgets, seed, eight_bit, tol, stop)
    looked_at = min(ENOUGH, batch)
    with classifier.in_use():  # some metrics measure with it
        remarks = chosen.left_out + check_metric(problem.metric, images, classifier.bounds, batch)
    remarks += warnings_about(counted, images, labels, looked_at, problem.targeted)
    remarks += warnings_about_eps(problem, images, box, classifier.bounds)
    _warn(remarks)
    counted.passes.add(torch.arange(min(len(images), 1)), forward=1)  # of check_inputs
    bar = progress_bar(progress, str(problem), images.shape[0], "sample")
    with classifier.in_use(), watched(evaluator.under_way), bar as advance:
        evaluator.run(advance, callback)
    later = evaluator.failures + evaluator.diagnose()
    _warn(later)
    return evaluator.result(time.perf_counter() - started, remarks + later)


def default_batch(images: Tensor) -> int:
    """Rows per call. Networks of large images keep tens of megabytes an image for the way back."""
    entries = images[0].numel() if len(images) else 1
    return max(1, min(BATCH, BATCH_ENTRIES // entries))


def _warn(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        warnings.warn(sentence, stacklevel=4)  # the line that calls evaluate, beyond its decorator


def _classifier(model: Callable[[Tensor], Tensor] | Classifier, bounds: tuple[float, float] | None) -> Classifier:
    if not isinstance(model, Classifier):
        return Classifier(model) if bounds is None else Classifier(model, bounds)
    if bounds is not None:
        raise ValueError(f"bounds: the Classifier has its own, {model.bounds}; found {bounds!r} beside them")
    return model


def _check_count(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < MOST:
        most = " (below 2^53)" if isinstance(value, int) and value >= MOST else ""
        raise ValueError(f"{name}: expected an integer >= {least}{most}, found {brief(value)}")


def _box(classifier: Classifier, images: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """(n, ...) least and largest value of every entry."""
    lower, upper = (torch.full_like(images, side) for side in classifier.bounds)
    if mask is None:
        return lower, upper
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        found = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"mask: expected a bool tensor, True where an entry may change, found {found}")
    try:
        free = mask.to(images.device).expand_as(images)
    except RuntimeError:
        raise ValueError(
            f"mask: expected a shape that fits the images {tuple(images.shape)}, found {tuple(mask.shape)}"
        ) from None
    return torch.where(free, lower, images), torch.where(free, upper, images)
