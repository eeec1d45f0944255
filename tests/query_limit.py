"""A model that counts the queries of each sample, and past a limit answers the true class, as AttackBench's does.

A row of a call counts for the sample that it is nearest to, once forward and once backward. Past the limit a sample's
logits say its true class, and its gradients are zero. The nearest misclassified point of each sample is kept, which is
what AttackBench judges an attack by.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class QueryLimit(nn.Module):
    """Counts from ``start`` until ``stop``; before and after it is the model it wraps."""

    def __init__(self, model: nn.Module, limit: int, p: float) -> None:
        super().__init__()
        self.model, self.limit, self.p = model, limit, p
        self.counting = False

    def start(self, images: Tensor, labels: Tensor) -> None:
        with torch.no_grad():
            classes = self.model(images[:1]).shape[1]
        self.images, self.labels = images, labels
        self.true_class = nn.functional.one_hot(labels, classes).to(images)
        self.queries = torch.zeros(len(images), dtype=torch.int64)
        self.nearest = torch.full((len(images),), torch.inf)
        self.counting = True

    def stop(self) -> None:
        self.counting = False

    def forward(self, x: Tensor) -> Tensor:
        if not self.counting:
            return self.model(x)
        distance = self._distances(x.detach())
        nearest, sample = distance.min(1)
        left = self._count(sample).unsqueeze(1)
        if x.requires_grad:
            x = x.view_as(x)  # of this call alone
            x.register_hook(lambda gradient: self._gradient(gradient, sample))
        logits = torch.where(left, self.model(x), self.true_class[sample] + 0 * x.flatten(1)[:, :1])
        wrong = logits.detach().argmax(1) != self.labels[sample]
        self.nearest.scatter_reduce_(0, sample[wrong], nearest[wrong], "amin")
        return logits

    def _distances(self, x: Tensor) -> Tensor:
        """(rows, samples); zero entries may be counted as well."""
        if self.p:
            return torch.cdist(x.flatten(1), self.images.flatten(1), p=self.p)
        return (x.flatten(1).unsqueeze(1) != self.images.flatten(1)).sum(2).float()

    def _count(self, sample: Tensor) -> Tensor:
        """(rows,) whether each row may still be answered; those that are count."""
        same = sample.unsqueeze(1) == sample
        before = torch.tril(same, -1).sum(1)  # rows of the same sample earlier in this call
        left = self.queries[sample] + before < self.limit
        self.queries.index_add_(0, sample, left.long())
        return left

    def _gradient(self, gradient: Tensor, sample: Tensor) -> Tensor:
        left = self._count(sample)
        return torch.where(left.view(-1, *[1] * (gradient.dim() - 1)), gradient, 0.0)
