"""The exact l1 or linf radius of a ReLU network in the box [0, 1], by mixed-integer linear programming (HiGHS).

For every other class t:  min |d|_p  s.t.  f_t(x + d) >= f_y(x + d),  0 <= x + d <= 1.  A unit whose sign is not fixed
gets a binary variable a and the big-M description of z = max(v, 0), exact for any valid bounds l <= v <= u:
    z >= 0,  z >= v,  z <= v - l (1 - a),  z <= u a.
Bounds are over the box and the ball of a radius R that some misclassified point is known to have, tightened by two
LPs a unit. Moves are in units of R, so that the solver's absolute tolerances are relative to the radius.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from torch import Tensor, nn

Array = NDArray[np.float64]
Layers = list[tuple[Array, Array]]
GAP = 1e-7


class ExactRadius(NamedTuple):
    lower: float
    """proven by the solver, within its tolerances"""
    upper: float
    """that of ``point``, which the network itself misclassifies"""
    point: Array


@dataclass
class _Program:
    """A growing MILP: columns with bounds, rows low <= A v <= high."""

    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    integer: list[int] = field(default_factory=list)
    rows: list[tuple[dict[int, float], float, float]] = field(default_factory=list)

    def column(self, low: float, high: float, integer: int = 0) -> int:
        self.low.append(low)
        self.high.append(high)
        self.integer.append(integer)
        return len(self.low) - 1

    def row(self, terms: dict[int, float], low: float, high: float) -> None:
        self.rows.append((terms, low, high))

    def minimum(self, cost: dict[int, float], relaxed: bool = False) -> tuple[float, Array | None]:
        """(proven lower bound, point); (inf, None) where infeasible."""
        A = np.zeros((len(self.rows), len(self.low)))
        for i, (terms, _, _) in enumerate(self.rows):
            A[i, list(terms)] = list(terms.values())
        c = np.zeros(len(self.low))
        c[list(cost)] = list(cost.values())
        found = milp(
            c,
            integrality=None if relaxed else np.array(self.integer),
            bounds=Bounds(np.array(self.low), np.array(self.high)),
            constraints=[LinearConstraint(A, [r[1] for r in self.rows], [r[2] for r in self.rows])],
            options={"mip_rel_gap": GAP},
        )
        if found.status == 2:
            return math.inf, None
        if found.status != 0:
            raise RuntimeError(f"HiGHS: {found.message}")
        bound = found.fun if relaxed or found.mip_dual_bound is None else found.mip_dual_bound
        return float(bound), np.asarray(found.x)


def weights(net: nn.Sequential) -> Layers:
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    return [(layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()) for layer in linear]


def exact_radius(net: nn.Sequential, x: Tensor, label: int, p: float, others: Tensor) -> ExactRadius:
    """The radius of x (n,); ``others`` (k, n) are points of which some have another class: they give the first R."""
    point, R = _first_point(net, x, label, p, others)
    lower = R
    layers, centre = weights(net), x.double().numpy()
    for t in range(layers[-1][1].shape[0]):
        if t == label:
            continue
        bound, move = _towards(layers, centre, label, t, p, R)
        lower = min(lower, bound)
        if move is not None:
            found = _verified(net, x, label, torch.from_numpy(centre + move).clamp(0, 1))
            if found is not None and (reached := float(np.linalg.norm(found - centre, ord=p))) < R:
                point, R = found, reached
    return ExactRadius(min(lower, R), R, point)


def _towards(layers: Layers, x: Array, y: int, t: int, p: float, R: float) -> tuple[float, Array | None]:
    """(proven radius, move) for class t; (inf, None) where it is farther away than R."""
    program = _Program()
    # Moves d = R (e+ - e-): columns up to 2n; the radius of l1 is their sum, that of linf one more column.
    plus = [program.column(0.0, min(1.0, (1 - v) / R)) for v in x]
    minus = [program.column(0.0, min(1.0, v / R)) for v in x]
    size = program.column(0.0, 1 + 1e-6)
    if p == 1:
        program.row({**dict.fromkeys(plus + minus, 1.0), size: -1.0}, 0.0, 0.0)
    else:
        for i, j in zip(plus, minus, strict=True):
            program.row({i: 1.0, j: 1.0, size: -1.0}, -math.inf, 0.0)
    W, b = layers[0]
    inputs, W, b = plus + minus, np.hstack([R * W, -R * W]), W @ x + b
    for following, offset in layers[1:]:
        units = [_unit(program, inputs, w, float(v)) for w, v in zip(W, b, strict=True)]
        inputs, W, b = units, following, offset
    margin = W[t] - W[y]
    program.row(dict(zip(inputs, margin.tolist(), strict=True)), float(b[y] - b[t]), math.inf)
    bound, found = program.minimum({size: 1.0})
    return (math.inf, None) if found is None else (R * bound, R * (found[plus] - found[minus]))


def _unit(program: _Program, inputs: list[int], w: Array, b: float) -> int:
    """A column z = max(w'inputs + b, 0)."""
    terms = dict(zip(inputs, w.tolist(), strict=True))
    least = program.minimum(terms, relaxed=True)[0] + b
    most = b - program.minimum({i: -v for i, v in terms.items()}, relaxed=True)[0]
    # Room for the LP's own tolerance: bounds may be loose but never wrong.
    room = 1e-6 * (1 + abs(least) + abs(most))
    l, u = least - room, most + room
    if u <= 0:
        return program.column(0.0, 0.0)
    if l >= 0:
        z = program.column(0.0, u)
        program.row({z: 1.0, **{i: -v for i, v in terms.items()}}, b, b)
        return z
    z, a = program.column(0.0, u), program.column(0.0, 1.0, integer=1)
    back = {i: -v for i, v in terms.items()}
    program.row({z: 1.0, **back}, b, math.inf)
    program.row({z: 1.0, a: -l, **back}, -math.inf, b - l)
    program.row({z: 1.0, a: -u}, -math.inf, 0.0)
    return z


# ---- points the network itself judges -------------------------------------------------------------


def _first_point(net: nn.Sequential, x: Tensor, label: int, p: float, others: Tensor) -> tuple[Array, float]:
    """The nearest misclassified point on the segments from x to ``others``."""
    ends = others[net(others).argmax(1) != label]
    low, high = torch.zeros(len(ends), 1, dtype=x.dtype), torch.ones(len(ends), 1, dtype=x.dtype)
    for _ in range(40):
        middle = (low + high) / 2
        wrong = (net(x + middle * (ends - x)).argmax(1) != label).unsqueeze(1)
        low, high = torch.where(wrong, low, middle), torch.where(wrong, middle, high)
    points = x + high * (ends - x)
    radii = torch.linalg.vector_norm(points - x, ord=p, dim=1)
    best = int(radii.argmin())
    return points[best].numpy(), float(radii[best])


def _verified(net: nn.Sequential, x: Tensor, label: int, end: Tensor) -> Array | None:
    """The first misclassified point on the ray from x at or closely beyond ``end``: HiGHS's points may err by 1e-6."""
    for excess in (0.0, *np.geomspace(1e-9, 1e-4, 26)):
        point = (x + (1 + excess) * (end - x)).clamp(0, 1)
        logits = net(point.unsqueeze(0))[0]
        if bool((logits > logits[label]).any()):
            return np.asarray(point)
    return None
