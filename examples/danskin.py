"""Why adversarial training needs good inner solutions: the paper's example in one dimension, solved numerically.

    python examples/danskin.py --out out/danskin.png

    min over theta of  g(theta) = max over -1 <= x <= 1 of  max(theta x, 0)^2

One ReLU, one sample (0, 0), squared loss. g(theta) = theta^2, so theta = 0 is the answer. Danskin's theorem: the slope
of g is that of the inner function at a maximiser x* (x* = 1 for theta > 0). At x = 0 the inner function is stationary
too, and for x < 0 it is flat: whoever takes such a point for the maximiser gets slope 0 and never moves.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import matplotlib
import torch
from torch import Tensor

import pwcf

matplotlib.use("Agg")
import matplotlib.pyplot as plt

THETA, RATE, OUTER = 1.0, 0.1, 40
# Of the inner ascent: where it begins, and how long its steps are.
START, STEP = 0.05, 0.25
Inner = Callable[[Tensor], Tensor]


def h(theta: Tensor, x: Tensor) -> Tensor:
    return torch.relu(theta * x).square()


def ascent(start: float, steps: int) -> Inner:
    """Projected gradient ascent in x."""

    def solve(theta: Tensor) -> Tensor:
        x = torch.tensor([start], dtype=torch.float64)
        for _ in range(steps):
            leaf = x.clone().requires_grad_(True)
            (slope,) = torch.autograd.grad(h(theta, leaf).sum(), leaf)
            x = (x + STEP * slope).clamp(-1, 1)
        return x

    return solve


def solver(theta: Tensor) -> Tensor:
    """The best of ten random starts of pwcf's solver, which keeps -1 <= x <= 1 as bounds."""
    start = torch.zeros(1, 1, dtype=torch.float64)
    restarts = pwcf.Restarts(pwcf.noisy_starts(start, 10, 1.0))
    found = pwcf.minimize(lambda x: -h(theta, x[:, 0]), start, bounds=(-1, 1), restarts=restarts)
    return found.x[:, 0]


INNER: dict[str, Inner] = {
    "ascent from x = 0: stationary, slope 0": ascent(0.0, 50),
    f"1 step of ascent from x = {START:g}": ascent(START, 1),
    f"5 steps from x = {START:g}": ascent(START, 5),
    f"50 steps from x = {START:g}": ascent(START, 50),
    "pwcf.minimize, 10 starts": solver,
}


def descent(inner: Inner) -> list[float]:
    """theta after every outer step, along the slope of h at what the inner solver calls the maximiser."""
    theta = torch.tensor([THETA], dtype=torch.float64)
    path = [float(theta)]
    for _ in range(OUTER):
        x = inner(theta.detach())
        leaf = theta.clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(h(leaf, x).sum(), leaf)
        theta = theta - RATE * slope
        path.append(float(theta))
    return path


def draw(paths: dict[str, list[float]], out: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
    x = torch.linspace(-1, 1, 401, dtype=torch.float64)
    left.plot(x, h(torch.tensor(THETA), x), color="black", label=r"$\max(\theta x', 0)^2$ at $\theta = 1$")
    left.plot([-1, 0], [0, 0], color="tab:red", linewidth=4, alpha=0.4, solid_capstyle="butt", label="flat: slope 0")
    left.plot([0], [0], "o", color="tab:red", label="x' = 0: stationary, no maximum")
    left.plot([1], [1], "o", color="tab:green", label="x' = 1: the maximum")
    left.set(xlabel="x'", ylabel="inner function", title="The inner problem at the start")
    left.legend(loc="upper left", frameon=False, fontsize=9)
    for number, (name, path) in enumerate(paths.items()):
        last = number == len(paths) - 1
        right.plot(path, "--" if last else "-", color="black" if last else f"C{(3, 1, 4, 2)[number]}", label=name)
    right.set(xlabel="outer step", ylabel=r"$\theta$", ylim=(-0.05, 1.05))
    right.set_title(r"The outer problem: $\theta = 0$ is right")
    right.legend(loc="lower left", bbox_to_anchor=(0.3, 0.3), frameon=False, fontsize=9)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/danskin.png"))
    out = parser.parse_args().out
    paths = {name: descent(inner) for name, inner in INNER.items()}
    print(f"{'inner solution':<40} x' at the start   theta after {OUTER} steps")
    for name, inner in INNER.items():
        x = float(inner(torch.tensor([THETA], dtype=torch.float64)))
        print(f"{name:<40} {x:>15.3f} {paths[name][-1]:>22.4f}")
    draw(paths, out)
    print(f"figure: {out}")


if __name__ == "__main__":
    main()
