"""What a training leaves behind beside the weights."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Epoch:
    """Means over the samples of an epoch, or of its part so far, each as the model was when its batch came up."""

    number: int
    """from 1"""
    loss: float
    """what was minimised: cross-entropy at the worst points that were found, without a problem at the images"""
    clean_accuracy: float
    """in eval mode; without a problem in train mode, from the very pass that the weights learn from"""
    robust_accuracy: float | None
    """at the worst points, in eval mode as they were found; None without a problem"""
    inner_gain: float | None
    """by how much the inner problem raised the cross-entropy above that of the images; None without a problem"""
    seconds: float


@dataclass
class TrainingLog:
    """How a training went."""

    problem: str
    """in words"""
    settings: dict[str, int | float]
    epochs: list[Epoch] = field(default_factory=list)
    """the complete ones"""

    def summary(self) -> str:
        lines = [f"{self.problem}, {len(self.epochs)} of {self.settings['epochs']} epochs"]
        for epoch in self.epochs[-1:]:
            robust = (
                "" if epoch.robust_accuracy is None else f" and {epoch.robust_accuracy:.1%} of the worst points found"
            )
            right = f"right on {epoch.clean_accuracy:.1%} of the images{robust}"
            lines.append(f"last epoch: loss {epoch.loss:.3f}, {right}")
        return "\n".join(lines)
