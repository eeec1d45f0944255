"""Checks before an evaluation: invalid inputs raise, the classic mistakes of the set-up become warnings."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pwcf._common.text import describe_error
from pwcf.models.classifier import Classifier, CountedClassifier, out_of_memory

# Rows that are enough to see a mistake of the set-up.
ENOUGH = 32
# The largest value of an 8-bit image.
LEVELS = 255
# Mean logits of a random model that change by more, relative to the largest, are means of too few.
NOISY = 0.1


def check_inputs(classifier: Classifier, images: Tensor, labels: Tensor) -> int | None:
    """Raise if images or labels are invalid. Returns the number of classes, or None if there are no images."""
    if not isinstance(images, Tensor) or images.dim() < 2:
        found = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
        raise ValueError(f"images: expected a tensor of shape (n, ...), found {found}")
    if images.layout != torch.strided or images.is_meta:
        kind = "one on meta" if images.is_meta else f"one of layout {images.layout}"
        raise ValueError(f"images: expected a dense tensor with values, found {kind}; give images.to_dense()")
    if not images.is_floating_point():
        raise TypeError(f"images: expected floating point, found {images.dtype}; divide 8-bit images by 255")
    if not isinstance(labels, Tensor) or labels.shape != images.shape[:1]:
        found = tuple(labels.shape) if isinstance(labels, Tensor) else type(labels).__name__
        one_hot = isinstance(labels, Tensor) and labels.dim() == 2 and labels.shape[1] > 1
        advice = "; of one-hot rows give labels.argmax(1)" if one_hot else ""
        raise ValueError(f"labels: expected one label per image, shape ({images.shape[0]},), found {found}{advice}")
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise TypeError(f"labels: expected integers, found {labels.dtype}")
    if images.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"images: expected float32 or float64, found {images.dtype}; a model may still compute in half")
    if images.shape[0] == 0:
        return None
    if images[0].numel() == 0:
        raise ValueError(f"images: expected at least one entry each, found shape {tuple(images.shape)}")
    if not bool(torch.isfinite(images).all()):
        raise ValueError("images: expected finite values, found NaN or inf")
    lower, upper = classifier.bounds
    if bool((images < lower).any() or (images > upper).any()):
        low, high = float(images.min()), float(images.max())
        advice = "give bounds=, or images before normalisation with mean= and std= to Classifier"
        if (lower, upper) == (0, 1) and low >= 0 and LEVELS / 2 < high <= LEVELS:
            advice = f"these look like 8-bit values: divide by {LEVELS}, or give bounds= if the model takes them so"
        raise ValueError(
            f"images: expected values within bounds ({lower:g}, {upper:g}), found {low:g} to {high:g}; {advice}"
        )
    classes = count_classes(classifier, images)
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise ValueError(
            f"labels: expected 0 to {classes - 1} for a model with {classes} classes, "
            f"found {int(labels.min())} to {int(labels.max())}"
        )
    return classes


def count_classes(classifier: Classifier, images: Tensor) -> int:
    """How many classes the model has, by its logits of the first of images (n, ...): one forward pass."""
    first = images[:1].clone()
    try:
        with classifier.in_use(), torch.no_grad():
            before = None if first.is_inference() else first._version
            classes = classifier(first).shape[1]
        if before is not None and first._version != before:
            raise ValueError(
                "model: expected its input to stay as it is, found it changed in place; let it work on x.clone()"
            )
        return classes
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        if out_of_memory(error) or str(error).startswith(("model:", "mean:", "std:")):
            raise
        given = f"shape {tuple(first.shape)}, {first.dtype}, on {first.device}"
        raise ValueError(
            f"model: cannot take images of {given} ({describe_error(error)}); {_advice(classifier, first)}"
        ) from error


def _advice(classifier: Classifier, images: Tensor) -> str:
    """What is likely to be wrong where a model refuses images (1, ...)."""
    parameters = list(classifier.model.parameters()) if isinstance(classifier.model, nn.Module) else []
    weights = next((each for each in parameters if each.is_floating_point()), None)
    if weights is not None and weights.device != images.device:
        return f"the model is on {weights.device}: give images and labels on it, or move the model"
    if weights is not None and weights.dtype != images.dtype and weights.dtype.itemsize >= 4:
        return f"the model computes in {weights.dtype}: give images of it"
    if images.dim() == 4 and images.shape[3] in (1, 3) and images.shape[1] not in (1, 3):
        return "they look like channels last: give images.permute(0, 3, 1, 2)"
    return "give images as the model was trained on, (n, channels, height, width) for most"


def warnings_about(
    counted: CountedClassifier, images: Tensor, labels: Tensor, rows: int = ENOUGH, targeted: bool = False
) -> list[str]:
    """Sentences about what looks wrong with the model; none if nothing does.

    The first ``rows`` samples get two forward passes and one backward, the very first one forward more. ``targeted``:
    labels are the wanted classes.
    """
    x, y = images[:rows].clone(), labels[:rows]
    if x.shape[0] == 0:
        return []
    classifier, found = counted.classifier, list[str]()
    modules = classifier.model.modules() if isinstance(classifier.model, nn.Module) else ()
    if any(module.training and _has_modes(module) for module in modules):
        found.append("The model is in train mode; it is put in eval mode during the evaluation.")
    depends = []

    def look(some: slice) -> tuple[Tensor, Tensor, Tensor]:
        with torch.enable_grad():
            leaf = x[some].clone().requires_grad_(True)
            logits = classifier(leaf)
            value = (logits.gather(1, y[some].unsqueeze(1)).squeeze(1) - logits.mean(1)).sum()
            gradient = torch.autograd.grad(value, leaf, allow_unused=True)[0] if value.requires_grad else None
        depends.append(gradient is not None)
        return logits.detach(), torch.zeros_like(leaf) if gradient is None else gradient, again(some)

    def again(some: slice) -> Tensor:
        with torch.no_grad():
            return classifier(x[some])

    counted.passes.add(torch.arange(len(x)), forward=2, backward=1)
    counted.passes.add(torch.arange(1), forward=1)
    with classifier.in_use():
        # Where memory runs out with so many rows it halves the batch, for all that follows.
        logits, gradient, repeated = counted.in_batches(look, len(x))
        alone = again(slice(1))
    if not bool(torch.isfinite(logits).all()):
        found.append("The model returns NaN or inf for some of the images; these samples cannot be evaluated.")
        return found
    size = logits.abs().amax().clamp(min=1e-30)
    spread = float((repeated - logits).abs().amax() / size)
    if classifier.samples > 1:
        if spread > NOISY:
            found.append(
                f"The mean logits of {classifier.samples} calls still change by {spread:.0%} of the largest one: raise "
                "samples."
            )
    elif spread > 1e-3:
        found.append(
            "The model gives different logits for the same images: it is random, so one lucky pass counts as broken. "
            "Average over its randomness: Classifier(model, samples=16)."
        )
    elif bool((alone - logits[:1]).abs().amax() > 1e-3 * size):
        found.append("The logits of an image depend on the other images of the batch; answers depend on the batching.")
    total = logits.sum(1)
    if logits.shape[1] > 2 and bool(((logits >= 0) & (logits <= 1)).all()) and bool(((total - 1).abs() < 1e-3).all()):
        found.append("The outputs are probabilities (softmax): gradients vanish where it is sure. Return the logits.")
    if not any(depends):
        found.append("The logits do not depend on the input in a differentiable way: gradient attacks cannot see it.")
    else:
        flat = (gradient.flatten(1).abs().amax(1) == 0).double().mean().item()
        if flat >= 0.5:
            found.append(
                f"The gradient is exactly zero on {flat:.0%} of the images: it is masked, radii are too large."
            )
    if not targeted and bool((logits.argmax(1) != y).double().mean() > 0.9) and x.shape[0] >= 10:
        found.append("Nearly all images are misclassified as they are: check labels, bounds and normalisation.")
    return found


def _has_modes(module: nn.Module) -> bool:
    """Whether it computes something else in train mode."""
    return isinstance(module, (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm, nn.AlphaDropout))
