"""The nearest misclassified points in several distances, side by side: l2, linf, two of one's own, SSIM, colour, PD.

    python examples/distances.py --out out/distances.png

A small network learns to tell discs, squares, rings and crosses apart, all drawn here; then every distance is asked for
the nearest point that it gets wrong.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import matplotlib
import torch
from torch import Tensor, nn

import pwcf

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SIDE, CLASSES = 32, ("disc", "square", "ring", "cross")
TRAIN, EPOCHS, BATCH = 4000, 15, 50
BUDGET = 1000
# Grey values that neighbouring pixels differ by at an edge; grain makes .15 of it.
EDGE = 0.2
# What a perturbation is multiplied by is chosen so that its largest entry is this bright.
BRIGHT = 0.5
Metric = str | Callable[[Tensor, Tensor], Tensor]


def blurred_l2(reference: Tensor, candidate: Tensor) -> Tensor:
    """l2 after a blur: fine grain hardly counts, smooth changes count fully."""
    move = candidate - reference
    channels, width = move.shape[1], 2
    line = torch.exp(-torch.arange(-3, 4, dtype=move.dtype, device=move.device).square() / (2 * width))
    kernel = (line.outer(line) / line.sum() ** 2).expand(channels, 1, 7, 7)
    return nn.functional.conv2d(move, kernel, padding=3, groups=channels).flatten(1).norm(dim=1)


def cheap_at_edges(reference: Tensor, candidate: Tensor) -> Tensor:
    """l2 in which a change costs ten times as much where the image is smooth as where it has edges."""
    grey = reference.mean(1, keepdim=True)
    spread = nn.functional.max_pool2d(grey, 3, stride=1, padding=1) + nn.functional.max_pool2d(-grey, 3, 1, 1)
    weight = torch.where(spread > EDGE, 0.1, 1.0).to(reference)
    return (weight * (candidate - reference)).flatten(1).norm(dim=1)


METRICS: dict[str, Metric] = {
    "l2": "l2",
    "linf": "linf",
    "l2 after a blur": blurred_l2,
    "l2, cheap at edges": cheap_at_edges,
    "SSIM": "ssim",
    "CIELAB": "lab",
    "PD (own features)": "pd-self",
}


def draw(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """(count, 3, SIDE, SIDE) shapes of random colour, size and place on a background of another colour; labels."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(count, *shape, generator=generator)

    line = torch.linspace(-1, 1, SIDE)
    y, x = line.view(1, -1, 1) - uniform(-0.3, 0.3, 1, 1), line.view(1, 1, -1) - uniform(-0.3, 0.3, 1, 1)
    size, turn = uniform(0.35, 0.6, 1, 1), uniform(0, math.pi / 2, 1, 1)
    a, b = turn.cos() * x + turn.sin() * y, turn.cos() * y - turn.sin() * x
    round_, straight = (x.square() + y.square()).sqrt() / size, torch.maximum(a.abs(), b.abs()) / size
    arms = torch.minimum(a.abs(), b.abs()) / size
    shapes = torch.stack([
        1 - round_, 0.9 - straight, 0.25 - (round_ - 0.8).abs(), torch.minimum(0.25 - arms, 1 - straight)
    ], 1)  # fmt: skip
    labels = torch.randint(len(CLASSES), (count,), generator=generator)
    inside = torch.sigmoid(20 * shapes[torch.arange(count), labels]).unsqueeze(1)
    images = torch.lerp(uniform(0.1, 0.5, 3, 1, 1), uniform(0.4, 0.9, 3, 1, 1), inside)
    grain = 0.04 * torch.randn(images.shape, generator=generator)
    return (images + grain).clamp(0, 1), labels


def train() -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(32, 32, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(512, len(CLASSES)),
    )  # fmt: skip
    images, labels = draw(TRAIN, seed=1)
    optimiser = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(TRAIN).split(BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(images[rows]), labels[rows]).backward()
            optimiser.step()
    return net.eval()


def picture(images: Tensor, runs: dict[str, pwcf.Run], path: Path) -> None:
    """A row for every image: the image, then in every distance the perturbation and its radius."""
    fig, axes = plt.subplots(len(images), 1 + len(runs), figsize=(1.5 * (1 + len(runs)), 1.72 * len(images)))
    for i, image in enumerate(images):
        axes[i][0].imshow(image.permute(1, 2, 0))
        axes[i][0].set_title("image" if i == 0 else "", fontsize=8)
        for axis, (name, run) in zip(axes[i][1:], runs.items(), strict=True):
            move = run.x_adv[i] - image
            size = float(move.abs().max())
            axis.imshow((0.5 + BRIGHT * move / size).permute(1, 2, 0).clamp(0, 1))
            axis.set_title(name if i == 0 else "", fontsize=8)
            axis.set_xlabel(f"d {float(run.radius[i]):.2g}, x {BRIGHT / size:.0f}", fontsize=7, labelpad=2)
        for axis in axes[i]:
            axis.set_xticks([])
            axis.set_yticks([])
    fig.tight_layout(pad=0.5)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/distances.png"))
    parser.add_argument("--images", type=int, default=4)
    args = parser.parse_args()
    net = train()
    images, labels = draw(400, seed=2)
    with torch.no_grad():
        right = net(images).argmax(1) == labels
    print(f"clean accuracy {float(right.double().mean()):.3f}")
    chosen = torch.stack([(right & (labels == c)).nonzero().squeeze(1)[3] for c in range(len(CLASSES))])[: args.images]
    images, labels = images[chosen], labels[chosen]
    runs = {}
    for name, metric in METRICS.items():
        runs[name] = pwcf.evaluate(net, images, labels, pwcf.MinRadius(metric), budget=BUDGET)
        print(f"{name}: radii {', '.join(f'{radius:.3g}' for radius in runs[name].radius.tolist())}")
    picture(images, runs, args.out)
    print(args.out)


if __name__ == "__main__":
    main()
