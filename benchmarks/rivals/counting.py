"""Forward and backward passes, counted per row of the batch."""

from __future__ import annotations

from torch import Tensor, nn


class Counted(nn.Module):
    """A classifier that counts the rows it evaluates and the rows gradients flow back through."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.forward_rows = 0
        self.backward_rows = 0

    def forward(self, images: Tensor) -> Tensor:
        self.forward_rows += len(images)
        logits: Tensor = self.net(images)
        if logits.requires_grad:
            # On the logits and not on the module: fires once per backward, also when a graph is used again (FAB),
            # and not for derivatives that stop before the net (ALMA's multiplier update).
            logits.register_hook(self._count_backward)
        return logits

    def _count_backward(self, gradient: Tensor) -> None:
        self.backward_rows += len(gradient)
