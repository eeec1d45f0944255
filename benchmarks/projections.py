"""Exact projections onto ball and box against a general-purpose solver, and against projecting in turn.

    python benchmarks/projections.py --out docs/benchmarks

Random cases of 2 to 20 entries: points up to several radii away, centres inside the box and at its corners, balls that
the box cuts and balls that hold it. The oracle is SciPy's SLSQP on the problem as it stands (l1 with the positive and
negative parts of the move as variables), started at the centre. "In turn" is what most attacks do: onto the ball, then
onto the box.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from pwcf.metrics import lp

STEM = "projections"
CASES = 1000
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    point: Vector
    centre: Vector
    radius: float


def cases(count: int, seed: int) -> list[Case]:
    generator = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        n = int(generator.integers(2, 21))
        centre = generator.random(n)
        if generator.random() < 0.3:
            centre = np.where(generator.random(n) < 0.5, centre.round(), centre)
        point = centre + generator.exponential(0.7) * generator.standard_normal(n)
        made.append(Case(point, centre, float(generator.exponential(0.7))))
    return made


def oracle(case: Case, p: float) -> Vector:
    """The nearest point by SLSQP, in the variables a, b >= 0 with z = centre + a - b for l1, in z otherwise."""
    n, r = len(case.point), case.radius
    if p == 1:
        target, sides = case.point - case.centre, np.concatenate([np.eye(n), -np.eye(n)], 1)
        found = minimize(
            lambda v: 0.5 * np.sum((sides @ v - target) ** 2),
            np.zeros(2 * n),
            jac=lambda v: sides.T @ (sides @ v - target),
            bounds=[(0, 1 - c) for c in case.centre] + [(0, c) for c in case.centre],
            constraints=[{"type": "ineq", "fun": lambda v: r - v.sum(), "jac": lambda v: -np.ones(2 * n)}],
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 2000},
        )
        move: Vector = sides @ found.x
        return case.centre + move
    bounds = [(0.0, 1.0)] * n
    constraints = []
    if p == 2:
        constraints = [
            {
                "type": "ineq",
                "fun": lambda z: r * r - np.sum((z - case.centre) ** 2),
                "jac": lambda z: -2 * (z - case.centre),
            }
        ]
    else:
        bounds = [(max(0.0, c - r), min(1.0, c + r)) for c in case.centre]
    found = minimize(
        lambda z: 0.5 * np.sum((z - case.point) ** 2),
        case.centre,
        jac=lambda z: z - case.point,
        bounds=bounds,
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 2000},
    )
    z: Vector = found.x
    return z


def ours(case: Case, p: float, bounds: tuple[float, float] = (0.0, 1.0)) -> Vector:
    point, centre = torch.tensor(case.point)[None], torch.tensor(case.centre)[None]
    z = lp(p).project(
        point, centre, torch.tensor([case.radius], dtype=torch.float64), *torch.tensor(bounds, dtype=torch.float64)
    )
    return np.asarray(z[0].numpy())


def in_turn(case: Case, p: float) -> Vector:
    """Onto the ball as if there were no box, then onto the box."""
    return np.clip(ours(case, p, (-np.inf, np.inf)), 0.0, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    lines = [
        "| norm | cases | largest distance to the oracle's point | above 1e-6 | in turn: off by more than 1e-6 | "
        "largest such error | mean |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, p in (("l1", 1.0), ("l2", 2.0), ("linf", np.inf)):
        errors, gaps = [], []
        for case in cases(args.cases, args.seed):
            z = ours(case, p)
            errors.append(np.abs(z - oracle(case, p)).max())
            gaps.append(np.linalg.norm(z - in_turn(case, p)))
        e, g = np.array(errors), np.array(gaps)
        far = g[g > 1e-6]
        mean = f"{far.mean():.2g}" if len(far) else "0"
        lines.append(
            f"| {name} | {len(e)} | {e.max():.1e} | {(e > 1e-6).sum()} | {len(far)} | {g.max():.2g} | {mean} |"
        )
    print("\n".join(lines))
    head = ["# Projections onto ball and box", "", "Made by `python benchmarks/projections.py`.", ""]
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"{STEM}.md").write_text("\n".join([*head, *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
