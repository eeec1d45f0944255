"""The l0 "norm": the number of changed entries. Its gradient is 0 almost everywhere."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pwcf.metrics.metric import Metric, register


@dataclass(frozen=True)
class L0(Metric):
    """The number of changed entries per row. Each channel of a pixel is an entry."""

    differentiable = False

    @property
    def exponent(self) -> float:
        return 0.0

    @property
    def name(self) -> str:
        return "l0"

    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor:
        return (candidate != reference).flatten(1).sum(1).to(candidate.dtype)


register("l0", L0)
