"""Five families of constrained nonsmooth problems, n from 2 to 3000, for comparing general solvers.

A family holds the data of all its instances as tensors with a leading instance dimension. Its functions
take points ``x`` (b, n) and ``rows`` (b,), the instance each point belongs to, and return (b,). A solver for
one problem at a time gets the very same functions with ``rows`` fixed (:meth:`Family.single`).

Four families have a known optimal value: a point is drawn first and the data are completed so that the
optimality conditions hold there (convex families: it is then a global minimum), or it follows by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

Batched = Callable[[Tensor, Tensor], Tensor]
"""(b, n) points and (b,) instance indices -> (b,) values."""


@dataclass(frozen=True)
class Family:
    """Minimise ``objective`` subject to every one of ``constraints`` <= 0, for each row of ``starts``."""

    name: str
    title: str
    objective: Batched
    constraints: tuple[Batched, ...]
    starts: Tensor
    optimum: Tensor | None
    """(instances,) optimal values, or None where they are unknown."""

    @property
    def n(self) -> int:
        return self.starts.shape[1]

    @property
    def instances(self) -> int:
        return self.starts.shape[0]

    def single(self, row: int) -> tuple[Callable[[Tensor], Tensor], list[Callable[[Tensor], Tensor]]]:
        """Objective and constraints of instance ``row`` as functions (n,) -> ()."""
        rows = torch.tensor([row])

        def fixed(function: Batched) -> Callable[[Tensor], Tensor]:
            return lambda x: function(x.reshape(1, -1), rows).squeeze(0)

        return fixed(self.objective), [fixed(constraint) for constraint in self.constraints]

    def value(self, x: Tensor) -> Tensor:
        """(instances,) objective at one point per instance; NaN where the point is NaN."""
        with torch.no_grad():
            return self.objective(x, torch.arange(self.instances))

    def violation(self, x: Tensor) -> Tensor:
        """(instances,) largest violated constraint value, 0 if feasible; NaN where the point is NaN."""
        rows = torch.arange(self.instances)
        with torch.no_grad():
            values = torch.stack([constraint(x, rows) for constraint in self.constraints])
        return values.amax(dim=0).clamp_min(0)


def _generator(seed: int, family: int) -> torch.Generator:
    return torch.Generator().manual_seed(1_000_003 * seed + family)


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _uniform(generator: torch.Generator, low: float, high: float, *shape: int) -> Tensor:
    return low + (high - low) * torch.rand(*shape, generator=generator, dtype=torch.float64)


def rosenbrock(instances: int, seed: int) -> Family:
    """n = 2, two inequalities: the nonsmooth constrained Rosenbrock function of the GRANSO paper.

    min w |x1^2 - x2| + (1 - x1)^2  s.t.  a x1 <= 1,  b x2 <= 1, with w, a, b drawn around the paper's
    8, sqrt 2, 2. For w above (1 - s) / s, s = min(1/a, b^-1/2), the optimum is x = (s, s^2).
    """
    g = _generator(seed, 1)
    w = _uniform(g, 4, 16, instances)
    a = _uniform(g, 1.1, 1.9, instances)
    b = _uniform(g, 1.2, 3.2, instances)
    corner = torch.minimum(1 / a, b.rsqrt())

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        return w[rows] * (x[:, 0].square() - x[:, 1]).abs() + (1 - x[:, 0]).square()

    def first(x: Tensor, rows: Tensor) -> Tensor:
        return a[rows] * x[:, 0] - 1

    def second(x: Tensor, rows: Tensor) -> Tensor:
        return b[rows] * x[:, 1] - 1

    return Family(
        name="rosenbrock",
        title="nonsmooth Rosenbrock",
        objective=objective,
        constraints=(first, second),
        starts=_normal(g, instances, 2),
        optimum=(1 - corner).square(),
    )


def max_affine(instances: int, seed: int, n: int = 50, pieces: int = 40, active: int = 10) -> Family:
    """n = 50, one inequality, convex: a maximum of affine functions plus a quadratic over an l1 ball.

    min max_j (a_j'x + b_j) + 1/2 |x - z|^2  s.t.  |x|_1 <= r. ``active`` pieces are active at the optimum
    and half of its coordinates are 0, so it sits on kinks of both the objective and the constraint.
    """
    g = _generator(seed, 2)
    slopes = _normal(g, instances, pieces, n)
    best = _normal(g, instances, n)
    best[:, n // 2 :] = 0
    level = _normal(g, instances, 1)
    slack = _uniform(g, 0.1, 1, instances, pieces)
    slack[:, :active] = 0
    offsets = level - slack - (slopes @ best[:, :, None]).squeeze(2)
    weights = _uniform(g, 0.5, 1.5, instances, active)
    weights = weights / weights.sum(1, keepdim=True)
    nu = _uniform(g, 0.5, 1.5, instances, 1)
    sign = torch.where(best != 0, best.sign(), _uniform(g, -0.8, 0.8, instances, n))
    subgradient = (weights[:, :, None] * slopes[:, :active]).sum(1)
    centre = best + subgradient + nu * sign
    radius = best.abs().sum(1)

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        planes = torch.einsum("bpn,bn->bp", slopes[rows], x) + offsets[rows]
        return planes.amax(1) + 0.5 * (x - centre[rows]).square().sum(1)

    def ball(x: Tensor, rows: Tensor) -> Tensor:
        return x.abs().sum(1) - radius[rows]

    return Family(
        name="max_affine",
        title="max of affine + quadratic, l1 ball",
        objective=objective,
        constraints=(ball,),
        starts=_normal(g, instances, n),
        optimum=objective(best, torch.arange(instances)),
    )


def lasso(instances: int, seed: int, n: int = 200, m: int = 100, support: int = 40) -> Family:
    """n = 200, two inequalities, convex: l1-regularised least squares in a ball and a half-space.

    min 1/2 |A x - y|^2 + lam |x|_1  s.t.  |x|_2 <= r,  w'x <= beta, both active at the optimum. Each
    column of A gets the component along the optimal residual that the optimality conditions ask for.
    """
    g = _generator(seed, 3)
    lam = 0.1
    best = torch.zeros(instances, n, dtype=torch.float64)
    best[:, :support] = _normal(g, instances, support) + _normal(g, instances, support).sign()
    order = torch.rand(instances, n, generator=g).argsort(1)
    best = best.gather(1, order)
    normal = _normal(g, instances, n) / sqrt(n)
    radius = best.norm(dim=1)
    nu, eta = _uniform(g, 0.1, 0.5, instances, 1), _uniform(g, 0.1, 0.5, instances, 1)
    sign = torch.where(best != 0, best.sign(), _uniform(g, -0.8, 0.8, instances, n))
    residual = _normal(g, instances, m)
    residual = residual / residual.norm(dim=1, keepdim=True)
    target = -(lam * sign + nu * best / radius[:, None] + eta * normal)
    matrix = _normal(g, instances, m, n) / sqrt(m)
    along = target - torch.einsum("imn,im->in", matrix, residual)
    matrix = matrix + residual[:, :, None] * along[:, None, :]
    observed = torch.einsum("imn,in->im", matrix, best) - residual
    beta = (normal * best).sum(1)

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        misfit = torch.einsum("bmn,bn->bm", matrix[rows], x) - observed[rows]
        return 0.5 * misfit.square().sum(1) + lam * x.abs().sum(1)

    def ball(x: Tensor, rows: Tensor) -> Tensor:
        return torch.linalg.vector_norm(x, dim=1) - radius[rows]

    def half_space(x: Tensor, rows: Tensor) -> Tensor:
        return (normal[rows] * x).sum(1) - beta[rows]

    return Family(
        name="lasso",
        title="l1 least squares, ball and half-space",
        objective=objective,
        constraints=(ball, half_space),
        starts=_normal(g, instances, n),
        optimum=objective(best, torch.arange(instances)),
    )


def relu_margin(instances: int, seed: int, n: int = 784, hidden: int = 64, classes: int = 10) -> Family:
    """n = 784, two inequalities, nonconvex: the nearest point that a ReLU network decides differently.

    min |x - a|_2  s.t.  logit_y(x) - max_{k != y} logit_k(x) <= 0  and the box [0, 1]^n, folded into
    |max(-x, x - 1, 0)|_2 <= 0. One random network for all instances, y its decision at a. A third of the
    entries of a is 0, so that the box matters. The start is a moved by a small random step inside the box.
    """
    g = _generator(seed, 4)
    first = _normal(g, n, hidden) * sqrt(2 / n)
    bias = 0.1 * _normal(g, hidden)
    second = _normal(g, hidden, classes) * sqrt(2 / hidden)
    anchor = _uniform(g, -0.5, 1, instances, n).clamp_min(0)

    def logits(x: Tensor) -> Tensor:
        return torch.relu(x @ first + bias) @ second

    label = logits(anchor).argmax(1)

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        return torch.linalg.vector_norm(x - anchor[rows], dim=1)

    def margin(x: Tensor, rows: Tensor) -> Tensor:
        scores, own = logits(x), label[rows][:, None]
        others = scores.scatter(1, own, float("-inf"))
        return scores.gather(1, own).squeeze(1) - others.amax(1)

    def box(x: Tensor, rows: Tensor) -> Tensor:
        return torch.linalg.vector_norm(torch.relu(torch.maximum(-x, x - 1)), dim=1)

    return Family(
        name="relu_margin",
        title="nearest ReLU decision change, folded box",
        objective=objective,
        constraints=(margin, box),
        starts=(anchor + 0.01 * _normal(g, instances, n)).clamp(0, 1),
        optimum=None,
    )


def chained_lq(instances: int, seed: int, n: int = 3000, kinks: int = 10) -> Family:
    """n = 3000, one inequality, convex: a tilted chained LQ function in a ball.

    min sum_i max(l_i, l_i + x_i^2 + x_{i+1}^2 - 1) + p'x,  l_i = -x_i - x_{i+1},  s.t.  |x - c|_2 <= r.
    At the optimum ``kinks`` neighbouring pairs, at a random place, have x_i = x_{i+1} = 2^-1/2 and are on
    their kink; elsewhere the quadratic branch is active. The tilt p makes that point optimal. The kinks are
    kept fewer than the 20 pairs of limited memory: with about 300 of them, in a trial on two instances,
    PyGRANSO was still infeasible by 6e-2 and 2e-1 after 60 s.
    """
    g = _generator(seed, 5)
    begin = torch.randint(0, n - kinks, (instances, 1), generator=g)
    place = torch.arange(n)
    on_kink = (place >= begin) & (place <= begin + kinks)
    best = torch.where(on_kink, torch.full((), sqrt(0.5)).double(), _uniform(g, 0.8, 1.5, instances, n))
    both = on_kink[:, :-1] & on_kink[:, 1:]
    theta = torch.where(both, _uniform(g, 0.2, 0.8, instances, n - 1), torch.ones(()).double())
    gradient = torch.zeros_like(best)
    gradient[:, :-1] += -1 + 2 * theta * best[:, :-1]
    gradient[:, 1:] += -1 + 2 * theta * best[:, 1:]
    centre = best + 0.2 * _normal(g, instances, n)
    radius = (best - centre).norm(dim=1)
    nu = _uniform(g, 1, 5, instances, 1)
    tilt = -(gradient + nu * (best - centre) / radius[:, None])

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        left, right = x[:, :-1], x[:, 1:]
        bulge = torch.relu(left.square() + right.square() - 1)
        return (bulge - left - right).sum(1) + (tilt[rows] * x).sum(1)

    def ball(x: Tensor, rows: Tensor) -> Tensor:
        return torch.linalg.vector_norm(x - centre[rows], dim=1) - radius[rows]

    return Family(
        name="chained_lq",
        title="tilted chained LQ, ball",
        objective=objective,
        constraints=(ball,),
        starts=1 + _normal(g, instances, n),
        optimum=objective(best, torch.arange(instances)),
    )


FAMILIES: dict[str, Callable[[int, int], Family]] = {
    "rosenbrock": rosenbrock,
    "max_affine": max_affine,
    "lasso": lasso,
    "relu_margin": relu_margin,
    "chained_lq": chained_lq,
}
