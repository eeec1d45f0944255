"""Training: minimise the mean over samples of the largest cross-entropy within eps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from pwcf._common.progress import progress_bar
from pwcf.losses import cross_entropy
from pwcf.models import Classifier, check_inputs
from pwcf.problems import MaxLoss
from pwcf.training.inner import worst_points

STANDARD = "standard training"
# Adam multiplies the rate by up to 10, and the product must fit in float32.
MOST_LR = 1e37
# The rate rises over this share of the training, from this share of lr, then falls to 0 as a cosine. With this
# schedule small nets learn in few epochs.
RISE, FIRST = 0.15, 0.1


@dataclass(frozen=True)
class Epoch:
    """Means over the samples of an epoch so far, each computed with the weights at the time of its batch."""

    number: int
    """from 1"""
    loss: float
    """the minimised loss: cross-entropy at the worst points found; in standard training at the images"""
    clean_accuracy: float
    """on the images, in eval mode; in standard training in train mode, from the pass that trains the weights"""
    robust_accuracy: float | None
    """at the worst points, in eval mode; None in standard training"""
    inner_gain: float | None
    """how much higher the cross-entropy is at the worst points than at the images; None in standard training"""
    seconds: float
    """since the epoch began"""


@dataclass
class TrainingLog:
    """The record of a training."""

    problem: str
    """the training problem, in words"""
    settings: dict[str, int | float]
    """``epochs``, ``batch``, ``lr``, ``inner_steps`` and ``seed``"""
    epochs: list[Epoch] = field(default_factory=list)
    """the completed epochs"""

    def summary(self) -> str:
        """Describe the problem, the number of epochs and the last epoch in two lines."""
        lines = [f"{self.problem}, {len(self.epochs)} of {self.settings['epochs']} epochs"]
        for epoch in self.epochs[-1:]:
            robust = (
                "" if epoch.robust_accuracy is None else f" and {epoch.robust_accuracy:.1%} of the worst points found"
            )
            right = f"right on {epoch.clean_accuracy:.1%} of the images{robust}"
            lines.append(f"last epoch: loss {epoch.loss:.3f}, {right}")
        return "\n".join(lines)


@torch.inference_mode(False)  # weights need gradients wherever this is called from
def train(
    model: nn.Module | Classifier,
    images: Tensor,
    labels: Tensor,
    problem: MaxLoss | None = None,
    *,
    epochs: int = 15,
    batch: int = 128,
    lr: float = 2e-3,
    inner_steps: int = 7,
    seed: int = 0,
    progress: bool = False,
    on_batch: Callable[[Epoch, float], Any] | None = None,
    on_epoch: Callable[[Epoch], Any] | None = None,
) -> TrainingLog:
    """Train a model in place, from the weights it has.

    The optimiser is Adam; its rate rises and then falls to 0. The outer and the inner loss are cross-entropy, whichever
    loss the problem names. The same seed, weights and images give the same result bit for bit on one thread of one
    machine.

    Adversarial training measures accuracies in eval mode. Standard training measures them in train mode (batch norm by
    the batch, dropout on), in the pass that trains the weights. After every epoch, before ``on_epoch``, the weights and
    the logits of the last batch are checked; FloatingPointError is raised if they are not finite.

    Args:
        model: a module, or a ``Classifier`` around one, which brings bounds and normalisation.
        images: (n, ...) within the bounds, float32 or float64; they may stay on the CPU if the model is elsewhere.
        labels: (n,) true classes, integers.
        problem: ``MaxLoss(metric, eps)``, the perturbations to be robust to; None: standard training.
        epochs: passes over all images.
        batch: images per step. A single leftover image joins the last step.
        lr: the largest learning rate.
        inner_steps: gradient steps of the inner problem, each a forward and a backward pass.
        seed: random seed of the order of the images, the starts of the inner problem and the model (dropout).
        progress: show a progress bar (needs tqdm).
        on_batch: called after every batch with the ``Epoch`` so far and the completed share of the epoch.
        on_epoch: called after every epoch with its ``Epoch``; the model then has the weights of that epoch.

    Returns:
        The log: the problem in words, the settings, and an ``Epoch`` for every epoch.
    """
    classifier = model if isinstance(model, Classifier) else Classifier(model)
    module, parameters = _trainable(classifier)
    for name, count in (("epochs", epochs), ("batch", batch), ("inner_steps", inner_steps)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"{name}: expected an integer >= 1, found {count!r}")
    if isinstance(lr, bool) or not isinstance(lr, (int, float)) or not 0 < lr <= MOST_LR:
        raise ValueError(f"lr: expected a number > 0, at most {MOST_LR:g}, found {lr!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed: expected an integer of 64 bits, found {seed!r}")
    device = parameters[0].device
    _check_samples(classifier, images, labels, device)
    eps = None if problem is None else _checked(problem).radii(len(images))
    log = TrainingLog(
        STANDARD if problem is None else f"adversarial training, {problem.metric.name} within {_words(problem)}",
        {"epochs": epochs, "batch": batch, "lr": lr, "inner_steps": inner_steps, "seed": seed},
    )
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(parameters, lr)
    parts, finite = _parts(len(images), batch), _finite(module)
    with _training(module, device, seed), progress_bar(progress, log.problem, epochs * len(images), "image") as advance:
        for number in range(1, epochs + 1):
            tally = _Tally(number, problem is not None)
            order = torch.randperm(len(images), generator=generator)
            for i, rows in enumerate(torch.split(order, parts)):
                for group in optimiser.param_groups:
                    group["lr"] = lr * _learning_rate((number - 1 + i / len(parts)) / epochs)
                x, y = images[rows].detach().to(device), labels[rows].to(device, torch.int64)
                if problem is None or eps is None:
                    logits = _descend(classifier, optimiser, x, y, tally)
                    tally.add_clean(logits.argmax(1) == y)
                else:
                    worst = worst_points(
                        classifier, x, y, problem.metric, eps[rows].to(device), steps=inner_steps, generator=generator
                    )
                    _descend(classifier, optimiser, worst.points, y, tally)
                    tally.add_clean(worst.clean_right)
                    tally.add_worst(worst.right, worst.loss - worst.clean_loss)
                if on_batch is not None:
                    on_batch(tally.epoch(), (i + 1) / len(parts))
                if advance is not None:
                    advance(len(rows), loss=f"{tally.epoch().loss:.3f}")
            optimiser.zero_grad(set_to_none=True)
            _check_weights(classifier, finite - _finite(module), x, number, lr)
            log.epochs.append(tally.epoch())
            if on_epoch is not None:
                on_epoch(log.epochs[-1])
    return log


def _learning_rate(share: float) -> float:
    """Return the learning rate as a share of the largest, after ``share`` (0 to 1) of the training."""
    if share < RISE:
        return FIRST + (1 - FIRST) * share / RISE
    return 0.5 * (1 + math.cos(math.pi * (share - RISE) / (1 - RISE)))


def _parts(samples: int, batch: int) -> list[int]:
    """Return the batch sizes. A single leftover image joins the batch before it: batch norm needs two."""
    parts = [min(batch, samples - start) for start in range(0, samples, batch)]
    if batch > 1 and len(parts) > 1 and parts[-1] == 1:
        parts[-2:] = [batch + 1]
    return parts


def _finite(module: nn.Module) -> set[str]:
    """Return the names of finite parameters and buffers; a model's own masks may hold infinities."""
    held = {name: value for name, value in module.state_dict().items() if isinstance(value, Tensor)}
    return {name for name, value in held.items() if bool(value.isfinite().all())}


def _check_weights(classifier: Classifier, lost: set[str], x: Tensor, epoch: int, lr: float) -> None:
    """Raise if the last step of an epoch, which no loss has seen yet, made weights or logits nonfinite."""
    found = f"{min(lost)} is no longer finite" if lost else ""
    if not lost:
        with classifier.in_use(), torch.no_grad():
            found = "" if bool(classifier(x).isfinite().all()) else "the logits are no longer finite"
    if found:
        raise FloatingPointError(
            f"training: {found} after epoch {epoch} with lr {lr:g}; give a smaller lr, or check the images' scale"
        )


def _descend(
    classifier: Classifier, optimiser: torch.optim.Optimizer, x: Tensor, labels: Tensor, tally: _Tally
) -> Tensor:
    """Take one optimiser step; return the logits before it."""
    optimiser.zero_grad(set_to_none=True)
    with torch.enable_grad():
        logits = _logits(classifier, x)
        loss = cross_entropy(logits, labels).mean()
        loss.backward()  # type: ignore[no-untyped-call]
    value = float(loss.detach())
    if not math.isfinite(value):
        raise FloatingPointError(
            f"training: the loss became {value} in epoch {tally.number}; give a smaller lr, or check the images' scale"
        )
    optimiser.step()
    tally.add_loss(value, len(labels))
    return logits.detach()


def _logits(classifier: Classifier, x: Tensor) -> Tensor:
    try:
        return classifier(x)
    except ValueError as error:
        if len(x) > 1 or "more than 1 value per channel" not in str(error):
            raise
        raise ValueError(f"batch: expected at least 2 images for a model with batch norm ({error})") from error


class _Tally:
    """Sums of an epoch."""

    def __init__(self, number: int, adversarial: bool) -> None:
        self.number, self.adversarial, self.began = number, adversarial, time.perf_counter()
        self.samples = self.clean = self.robust = 0
        self.loss = self.gain = 0.0

    def add_loss(self, mean: float, samples: int) -> None:
        self.samples += samples
        self.loss += mean * samples

    def add_clean(self, right: Tensor) -> None:
        self.clean += int(right.sum())

    def add_worst(self, right: Tensor, gain: Tensor) -> None:
        self.robust += int(right.sum())
        self.gain += float(gain.sum())

    def epoch(self) -> Epoch:
        n = max(self.samples, 1)
        return Epoch(
            self.number,
            self.loss / n,
            self.clean / n,
            self.robust / n if self.adversarial else None,
            self.gain / n if self.adversarial else None,
            time.perf_counter() - self.began,
        )


@contextmanager
def _training(module: nn.Module, device: torch.device, seed: int) -> Iterator[None]:
    """Train mode with a random state of its own; restores modules' modes and the caller's random state afterwards."""
    modes = [(each, each.training) for each in module.modules()]
    with torch.random.fork_rng(devices=[] if device.type == "cpu" else [device], device_type=_kind(device)):
        torch.manual_seed(seed)
        module.train()
        try:
            yield
        finally:
            for each, mode in modes:
                each.training = mode
            for parameter in module.parameters():
                parameter.grad = None


def _kind(device: torch.device) -> str:
    return "cuda" if device.type == "cpu" else device.type  # fork_rng knows no "cpu"; it always keeps the CPU's state


def _trainable(classifier: Classifier) -> tuple[nn.Module, list[nn.Parameter]]:
    module = classifier.model
    if not isinstance(module, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, or a Classifier around one, found {type(module).__name__}")
    parameters = [each for each in module.parameters() if each.requires_grad]
    if not parameters:
        raise ValueError("model: expected parameters that require gradients, found none; nothing could be trained")
    return module, parameters


def _check_samples(classifier: Classifier, images: Tensor, labels: Tensor, device: torch.device) -> None:
    """Check images and labels as ``evaluate`` does, on their own device; only one image goes to the model's."""
    if isinstance(images, Tensor) and len(images) == 0:
        raise ValueError("images: expected at least one, found none")
    with classifier.in_use():  # the one below is no module, and cannot put the model in eval mode
        check_inputs(Classifier(lambda x: classifier(x.to(device)), classifier.bounds), images, labels)


def _checked(problem: MaxLoss) -> MaxLoss:
    if not isinstance(problem, MaxLoss):
        raise TypeError(f"problem: expected MaxLoss(metric, eps) or None, found {type(problem).__name__}")
    if problem.targeted:
        raise ValueError("problem: expected one that is not targeted; training is against every other class")
    if not problem.metric.differentiable:
        raise ValueError(f"metric {problem.metric.name}: expected a distance with a slope; it counts entries, take l1")
    return problem


def _words(problem: MaxLoss) -> str:
    return f"{problem.eps:g}" if isinstance(problem.eps, float) else "an eps per sample"
