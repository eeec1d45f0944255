"""Checks of a claim that do not trust the solver: is there a better feasible point within 1 % of x?

``linearised_gain`` takes one trust-region step of the linearised problem, ``random_gain`` tries random
directions, ``local_search_gain`` searches at random from one better point to the next. All go back to the
constraints by Newton steps and count only what the functions themselves confirm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from torch import Tensor

from pwcf.solvers.folding import violations
from pwcf.testproblems import TestProblem

RADIUS = 0.01
"""Of the step, relative to max(1, |x_i|), entry by entry."""
GAIN = 3e-4
"""What a step must gain, relative to max(1, |f|), for the claim to be false."""
SOLVED, FEASIBLE = 1e-4, 1e-6
ROUNDING = 1 + 1e-6
"""Room for the rounding of a batched against a single evaluation."""
SAMPLING = 1e-5
"""Radius of gradient sampling, relative to max(1, |x_i|)."""
HALVINGS = 6
NEWTON_STEPS = 5
DIRECTIONS = 200
MODELS = 5000
"""Most linear models of constraints in an LP with gradient sampling."""
ROUNDS, POINTS = 25, 400
"""Of the local search: rounds, and points of a round."""
SHRINK = 0.7
"""What the local search multiplies its radius by after a round without progress."""
PROGRESS = 1e-3 * GAIN
"""What a round must gain, relative to max(1, |f|), to be progress."""
STRAY = 1.5
"""How far the way back to the constraints may lead out of the box of the local search, in its radii."""

Array = NDArray[np.float64]


def jacobian(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Values (b, k) and Jacobians (b, k, n) of a function of rows; a derivative that is not finite becomes 0."""
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        values = function(x).reshape(x.shape[0], -1)
        rows = []
        for column in values.unbind(-1):
            if column.requires_grad:
                (row,) = torch.autograd.grad(column.sum(), x, retain_graph=True, allow_unused=True)
            else:
                row = None
            rows.append(torch.zeros_like(x) if row is None else row)
    derivative = torch.stack(rows, 1) if rows else x.new_zeros(x.shape[0], 0, x.shape[1])
    return values.detach(), derivative.detach().nan_to_num(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Unfolded:
    """A test problem with all its constraint columns side by side, none folded, and its bounds as tensors."""

    problem: TestProblem
    low: Tensor
    high: Tensor
    equality: Tensor
    """(k,) bool: which columns are equalities."""

    @classmethod
    def of(cls, problem: TestProblem) -> Unfolded:
        sides: tuple[Tensor, Tensor] = (torch.tensor(-torch.inf), torch.tensor(torch.inf))
        if problem.bounds is not None:
            sides = (torch.as_tensor(problem.bounds[0]), torch.as_tensor(problem.bounds[1]))
        low, high = (side.to(torch.float64).expand(problem.n) for side in sides)
        equality = []
        for constraint in problem.constraints:
            assert constraint.function is not None
            k = constraint.function(problem.start[None].double()).reshape(1, -1).shape[1]
            equality += [constraint.sense == "eq"] * k
        return cls(problem, low, high, torch.tensor(equality, dtype=torch.bool))

    def objective(self, x: Tensor) -> Tensor:
        """(b,) f."""
        with torch.no_grad():
            return self.problem.objective(x)

    def columns(self, x: Tensor) -> Tensor:
        """(b, k) all constraint columns."""
        parts = [c.function(x).reshape(x.shape[0], -1) for c in self.problem.constraints if c.function is not None]
        return torch.cat(parts, 1) if parts else x.new_zeros(x.shape[0], 0)

    def column_violations(self, values: Tensor) -> Tensor:
        return torch.where(self.equality, violations(values, "eq"), violations(values, "ineq"))

    def violation(self, x: Tensor) -> Tensor:
        """(b,) total violation of the columns and the bounds."""
        with torch.no_grad():
            outside = (self.low - x).clamp(min=0) + (x - self.high).clamp(min=0)
            return self.column_violations(self.columns(x)).sum(-1) + outside.sum(-1)

    def clip(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high)

    def starts(self, count: int, seed: int) -> Tensor:
        """(count, n): the standard start, then perturbed ones, all within the bounds.

        Every entry moves by up to the problem's spread. Where that is one number for all entries, an entry moves by
        up to a tenth of itself if that is more: large entries of a badly scaled problem would hardly move.
        """
        start, spread = self.problem.start.double(), torch.as_tensor(self.problem.spread, dtype=torch.float64)
        if spread.ndim == 0:
            spread = (0.1 * start.abs()).clamp(min=spread)
        generator = torch.Generator().manual_seed(seed)
        noise = 2 * torch.rand(count, self.problem.n, generator=generator, dtype=torch.float64) - 1
        noise[0] = 0
        return self.clip(start + spread * noise)


def judged(unfolded: Unfolded, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Objective, relative error, violation and whether solved, (b,) each, of points (b, n)."""
    optimum = unfolded.problem.optimum
    objective, violation = unfolded.objective(x), unfolded.violation(x)
    error = (objective - optimum) / max(1.0, abs(optimum))
    return objective, error, violation, (error <= SOLVED) & (violation <= FEASIBLE * ROUNDING)


def restore(unfolded: Unfolded, y: Tensor) -> Tensor:
    """Points (b, n) moved to the constraints by up to 5 minimum-norm Newton steps on the violated columns."""
    y = unfolded.clip(y)
    if not len(unfolded.equality):
        return y
    for _ in range(NEWTON_STEPS):
        values, J = jacobian(unfolded.columns, y)
        violated = unfolded.column_violations(values) > 1e-12
        finite = values.isfinite().all(-1)
        if not bool((violated.any(-1) & finite).any()):
            break
        residual = torch.where(violated & finite[:, None], values, 0.0)
        J = J * violated[..., None]
        step = -_least_norm(J, residual)
        # entries at a bound that the step would leave are held, and the others do the work
        held = ((y <= unfolded.low) & (step < 0)) | ((y >= unfolded.high) & (step > 0))
        if bool(held.any()):
            step = -_least_norm(J * ~held[:, None], residual)
        y = unfolded.clip(y + step)
    return y


def _least_norm(J: Tensor, residual: Tensor) -> Tensor:
    inverse = torch.linalg.pinv(J, rtol=1e-10)
    return (inverse @ residual[..., None]).squeeze(-1)


def largest_gain(unfolded: Unfolded, x: Tensor, trials: Tensor) -> float:
    """The most that a trial point (of (m, n)), after ``restore``, lowers f at x (n,), relative to max(1, |f|).

    A point counts if its violation is at most 1e-6 above that of x. 0 if none is better.
    """
    f = float(unfolded.objective(x[None]))
    points = restore(unfolded, trials)
    room = FEASIBLE + float(unfolded.violation(x[None]))
    gain = (f - unfolded.objective(points)) / max(1.0, abs(f))
    gain = torch.where((unfolded.violation(points) <= room) & gain.isfinite(), gain, 0.0)
    return max(float(gain.max()), 0.0) if len(gain) else 0.0


def radii(x: Tensor) -> Tensor:
    return x.abs().clamp(min=1.0)


def beside(unfolded: Unfolded, x: Tensor, seed: int) -> Tensor:
    """(3n + 1, n): x (n,) and 3n random points beside it, for gradient sampling."""
    generator = torch.Generator().manual_seed(seed)
    noise = 2 * torch.rand(3 * len(x) + 1, len(x), generator=generator, dtype=x.dtype) - 1
    noise[0] = 0
    return unfolded.clip(x + SAMPLING * radii(x) * noise)


def models_at(function: Callable[[Tensor], Tensor], x: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Linearisations at points (m, n): their values at x (m, k), and gradients (m, k, n)."""
    values, gradients = jacobian(function, points)
    return values + (gradients * (x - points)[:, None]).sum(-1), gradients


@dataclass(frozen=True)
class Linearised:
    """Linear models around x, in units of the radius: f <= t is ``models``, the constraints are ``columns``."""

    model_values: Array
    models: Array
    values: Array
    columns: Array
    equality: NDArray[np.bool_]

    @classmethod
    def at(cls, unfolded: Unfolded, x: Tensor, points: Tensor, sampled_columns: bool) -> Linearised:
        """f by its pieces where they are known, else by its linearisations at ``points``.

        Every constraint column by its linearisation at x; with ``sampled_columns``, inequalities at all points.
        """
        pieces = getattr(unfolded.problem, "pieces", None)
        if pieces is not None:
            values, gradients = models_at(pieces, x, x[None])
        else:
            values, gradients = models_at(unfolded.problem.objective, x, points)
        c, A = models_at(unfolded.columns, x, points if sampled_columns else x[None])
        equality = unfolded.equality.expand(c.shape)
        kept = c.isfinite() & ~(equality & (torch.arange(len(c)) > 0)[:, None])
        finite = values.isfinite()
        radius = RADIUS * radii(x)
        return cls(
            values[finite].numpy(),
            (gradients[finite] * radius).numpy(),
            c[kept].numpy(),
            (A[kept] * radius).numpy(),
            equality[kept].numpy(),
        )

    def step(self, low: Array, high: Array, relaxed: bool) -> Array | None:
        """The step in [low, high] that minimises the largest model of f subject to the linearised constraints.

        Args:
            low: (n,) in units of the radius.
            high: (n,).
            relaxed: violated constraints need not become less violated.

        Returns:
            (n,) in units of the radius. Constraints that cannot be met are met as well as possible, in the l1
            norm. None if HiGHS gives no answer.
        """
        n, m, k = len(low), len(self.models), len(self.values)
        scale = max(1.0, float(np.abs(self.models).max(initial=0.0)))
        # the scale of a row does not change the LP, but what HiGHS takes for feasible
        size = np.maximum(np.abs(self.columns).max(1, initial=0.0), 1e-8)
        target = -self.values
        if relaxed:
            target = np.where(self.equality, 0.0, np.maximum(target, 0.0))
        A = np.vstack(
            [
                np.hstack([self.models / scale, -np.ones((m, 1))]),
                np.hstack([self.columns / size[:, None], np.zeros((k, 1))]),
            ]
        )
        b = np.append((self.model_values.max(initial=-np.inf) - self.model_values) / scale, target / size)
        equality = np.append(np.zeros(m, dtype=bool), self.equality)
        cost = np.append(np.zeros(n), 1.0)
        limits = [*zip(low, high, strict=True), (None, None)]
        for elastic in (False, True):
            if elastic:
                eye = np.vstack([np.zeros((m, k)), np.eye(k)])
                A = np.hstack([A, -eye, eye * equality[:, None]])
                cost = np.append(cost, np.full(2 * k, 1e4))
                limits += [(0.0, None)] * (2 * k)
            result = linprog(
                cost, A_ub=A[~equality], b_ub=b[~equality], A_eq=A[equality], b_eq=b[equality], bounds=limits,
                method="highs",
            )  # fmt: skip
            if result.status == 0:
                step: Array = result.x[:n]
                return step
        return None


def linearised_steps(unfolded: Unfolded, x: Tensor, seed: int = 0) -> list[Tensor]:
    """Steps d (n,) that minimise the problem linearised at x within 1 %: |d_i| <= 0.01 max(1, |x_i|).

    The first asks every linearised constraint to hold. The second asks violated ones to become no worse: beside a
    complementarity constraint violated by rounding the first has no room. The third linearises inequalities
    beside x too, which may have kinks there.
    """
    radius = (RADIUS * radii(x)).numpy()
    low = np.maximum(-1.0, (unfolded.low - x).numpy() / radius)
    high = np.maximum(low, np.minimum(1.0, (unfolded.high - x).numpy() / radius))
    points = beside(unfolded, x, seed)
    linearised = Linearised.at(unfolded, x, points, sampled_columns=False)
    steps = [linearised.step(low, high, relaxed=False)]
    if len(linearised.values):
        steps.append(linearised.step(low, high, relaxed=True))
        if len(linearised.values) * len(points) <= MODELS:
            linearised = Linearised.at(unfolded, x, points, sampled_columns=True)
            steps.append(linearised.step(low, high, relaxed=True))
    return [torch.from_numpy(step * radius) for step in steps if step is not None]


def linearised_gain(problem: TestProblem, x: Tensor, seed: int = 0) -> float:
    """What a step of ``linearised_steps``, or a part of it down to 1/64, really gains; see ``largest_gain``."""
    unfolded = Unfolded.of(problem)
    factors = 0.5 ** torch.arange(HALVINGS + 1, dtype=x.dtype)
    trials = [x + factors[:, None] * step for step in linearised_steps(unfolded, x, seed)]
    return largest_gain(unfolded, x, torch.cat(trials)) if trials else 0.0


def random_gain(problem: TestProblem, x: Tensor, seed: int = 0) -> float:
    """What the best of 200 random directions, 1 % and .1 % long, really gains; see ``largest_gain``."""
    unfolded = Unfolded.of(problem)
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(DIRECTIONS, len(x), generator=generator, dtype=x.dtype)
    directions = directions / directions.abs().amax(-1, keepdim=True) * radii(x)
    trials = [x + radius * directions for radius in (RADIUS, RADIUS / 10)]
    return largest_gain(unfolded, x, torch.cat(trials))


def local_search_gain(problem: TestProblem, x: Tensor, seed: int = 0, within: float = RADIUS) -> float:
    """What a random search within 1 % of x really gains, relative to max(1, |f|); 0 if it finds nothing better.

    Each of 25 rounds tries 400 random points around the best one so far, at first up to 1 % away, and nearer by
    a factor of .7 after every round without progress. Points are moved into the box |y_i - x_i| <= .01 max(1, |x_i|),
    to the constraints by ``restore``, and count if they are then at most 1.5 radii from x, with a violation at most
    1e-6 above that of x. So it follows ways down that are too narrow for one random step or have bends, and, unlike a
    linear model, sides of a kink that points upwards. It is the slowest of the three. ``within`` is the radius.

    Like the others, it may find a lower minimum beside a local one. Where x is at a kink and no minimum, a smaller
    radius gains less in proportion; beside a minimum it gains nothing.
    """
    unfolded = Unfolded.of(problem)
    generator = torch.Generator().manual_seed(seed)
    radius = within * radii(x)
    f = float(unfolded.objective(x[None]))
    unit = max(1.0, abs(f))
    progress = PROGRESS * unit * within / RADIUS
    room = FEASIBLE + float(unfolded.violation(x[None]))
    best, lowest, scale = x, f, 1.0
    for _ in range(ROUNDS):
        directions = torch.randn(POINTS, len(x), generator=generator, dtype=x.dtype)
        directions = directions / directions.abs().amax(-1, keepdim=True)
        lengths = scale * torch.rand(POINTS, 1, generator=generator, dtype=x.dtype)
        points = restore(unfolded, (best + lengths * radius * directions).clamp(x - radius, x + radius))
        values = unfolded.objective(points)
        near = ((points - x).abs() <= STRAY * radius).all(-1)
        counts = near & (unfolded.violation(points) <= room) & values.isfinite()
        values = torch.where(counts, values, torch.inf)
        i = int(values.argmin())
        if float(values[i]) < lowest - progress:
            best, lowest = points[i], float(values[i])
        else:
            scale *= SHRINK
    return (f - lowest) / unit
