"""A random model as the average over its randomness (EOT: expectation over transformation)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from pwcf.models import Classifier


def in_its_own_mode(classifier: Classifier) -> Classifier:
    """The same, but a module stays in the mode it is in: what is random about it may be just its train mode."""
    return Classifier(classifier.__call__, classifier.bounds)


def averaged(classifier: Classifier, calls: int) -> Classifier:
    """The mean logits of so many calls, gradients included; one call: the classifier as it is."""
    if calls == 1:
        return classifier

    def mean_logits(x: Tensor) -> Tensor:
        total = classifier(x)
        for _ in range(calls - 1):
            total = total + classifier(x)
        return total / calls

    return Classifier(mean_logits, classifier.bounds)


@contextmanager
def knowingly_random(calls: int) -> Iterator[None]:
    """Whoever averages knows that the model is random, and is not told so."""
    with warnings.catch_warnings():
        if calls > 1:
            warnings.filterwarnings("ignore", message="The model gives different logits")
        yield
