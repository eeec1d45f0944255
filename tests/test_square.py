"""Square: linear classifiers with known radii, budgets, independence of the batch, inputs of all shapes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import pwcf
from pwcf import Classifier, MaxLoss, MinRadius
from pwcf.attacks import Attack, Task
from pwcf.attacks.square import Square
from pwcf.attacks.square.ball import Ball
from pwcf.attacks.square.bumps import bump_pairs
from pwcf.attacks.square.draws import Draws
from pwcf.attacks.square.schedule import stages
from pwcf.attacks.square.search import MOVES
from pwcf.attacks.square.windows import Grid, Reach
from pwcf.metrics import L1, as_metric, distance64
from pwcf.models import CountedClassifier
from pwcf.problems import Problem

ROWS, CLASSES = 6, 4
NORMS = pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
EPS = {"l1": 1.5, "l2": 0.5, "linf": 0.1}
BEYOND = {"l1": 5.0, "l2": 3.5, "linf": 2.0}
"""Times the exact radius at which windows of any kind do: of l1 and l2 they have three entries a side at least."""


class Linear:
    """Images about the middle of the box, which is inactive for small radii; logits in float64."""

    def __init__(self, shape: tuple[int, ...] = (2, 4, 5), classes: int = CLASSES, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.W = torch.randn(classes, math.prod(shape), generator=generator, dtype=torch.float64)
        self.images = 0.5 + 0.02 * torch.randn(ROWS, *shape, generator=generator)
        self.labels = self(self.images).argmax(1)

    def __call__(self, x: Tensor) -> Tensor:
        return (x.reshape(len(x), -1).double() - 0.5) @ self.W.T

    def exact(self, metric: str) -> Tensor:
        """(n,) distances to the nearest half-space, by the dual norm."""
        p = float(metric[1:])
        dual = math.inf if p == 1 else 1.0 if math.isinf(p) else 2.0
        f = self(self.images)
        size = torch.linalg.vector_norm(self.W[self.labels].unsqueeze(1) - self.W.unsqueeze(0), ord=dual, dim=2)
        return ((f.gather(1, self.labels[:, None]) - f) / size).scatter(1, self.labels[:, None], torch.inf).amin(1)


def _task(
    model: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, problem: Problem, budget: int, seed: int = 0
) -> Task:
    n = len(images)
    lower, upper = torch.zeros_like(images), torch.ones_like(images)
    eps = problem.radii(n) if isinstance(problem, MaxLoss) else None
    counted = CountedClassifier(Classifier(model), n)
    return Task(counted, problem, images, labels, torch.arange(n), lower, upper, eps, budget, seed)


def _check(task: Task, points: Tensor) -> Tensor:
    """(n,) which are broken. All are where they may be, the others are the images, and no pass was one too many."""
    assert points.shape == task.images.shape
    assert points.dtype == task.images.dtype
    assert (points >= task.lower).all()
    assert (points <= task.upper).all()
    if task.eps is not None:
        assert (distance64(task.problem.metric, task.images, points) <= task.eps * (1 + 1e-6)).all()
        assert (task.model.passes.backward == 0).all()
    assert (task.model.passes.total <= task.budget).all()
    said = task.model.classifier(points).argmax(1)
    changed = (points != task.images).reshape(len(points), -1).any(1)
    broken = ((said == task.labels) == task.problem.targeted) & changed
    assert torch.equal(broken, changed)
    return broken


@NORMS
@pytest.mark.parametrize("shape", [(40,), (2, 4, 5)])
def test_linear_classifiers_break_well_beyond_their_radii_and_never_below(norm: str, shape: tuple[int, ...]) -> None:
    net = Linear(shape)
    exact = net.exact(norm)
    beyond = _task(net, net.images, net.labels, MaxLoss(norm, BEYOND[norm] * exact), 300)
    assert _check(beyond, Square()(beyond).points).all()
    below = _task(net, net.images, net.labels, MaxLoss(norm, 0.99 * exact), 100)
    assert not _check(below, Square()(below).points).any()
    assert (below.model.passes.total == 100).all()


@NORMS
def test_radii_are_those_of_the_nearest_ball_something_was_found_in(norm: str) -> None:
    net = Linear()
    task = _task(net, net.images, net.labels, MinRadius(norm), 500)
    points = Square()(task).points
    assert _check(task, points).all()
    ratio = distance64(task.problem.metric, net.images, points) / net.exact(norm)
    assert (ratio > 1 - 1e-6).all()
    assert ratio.max() < BEYOND[norm]


def test_evaluate_takes_its_answers() -> None:
    net = Linear()
    eps = BEYOND["l2"] * net.exact("l2")
    for problem in (MaxLoss("l2", eps), MinRadius("l2")):
        run = pwcf.evaluate(net, net.images, net.labels, problem, attacks=[Square()], budget=300)
        assert run.attack == ["square"] * ROWS
        assert (run.radius <= (eps if isinstance(problem, MaxLoss) else 2 * eps) * (1 + 1e-6)).all()


@NORMS
@pytest.mark.parametrize("budget", [25, 60])
def test_no_pass_more_than_the_budget(norm: str, budget: int) -> None:
    net = Linear()
    problem = MaxLoss(norm, 0.5 * net.exact(norm))
    for queries, expected in ((None, budget), (20, 20), (1, 1), (1000, budget)):
        task = _task(net, net.images, net.labels, problem, budget)
        assert not _check(task, Square(queries)(task).points).any()
        assert (task.model.passes.total == expected).all()
    task = _task(net, net.images, net.labels, MinRadius(norm), budget)
    _check(task, Square()(task).points)


@NORMS
def test_a_sample_has_the_same_answer_in_any_company(norm: str) -> None:
    net = Linear()
    images = net.images.double()
    eps = BEYOND[norm] * net.exact(norm)

    def points(rows: Tensor, seed: int = 0) -> Tensor:
        task = _task(net, images[rows], net.labels[rows], MaxLoss(norm, eps[rows]), 200, seed)
        return Square()(task).points

    everyone = torch.arange(ROWS)
    before = torch.get_rng_state()
    together = points(everyone)
    assert torch.equal(torch.get_rng_state(), before)
    assert (together != images).flatten(1).any(1).sum() > ROWS // 2
    torch.testing.assert_close(points(everyone.flip(0)).flip(0), together, rtol=0, atol=1e-12)
    for row in (1, 4):
        torch.testing.assert_close(points(everyone[[row]]), together[[row]], rtol=0, atol=1e-12)
    assert torch.equal(points(everyone), together)
    assert (points(everyone, seed=1) != together).flatten(1).any(1).sum() > ROWS // 2


@NORMS
def test_rows_that_are_broken_leave(norm: str) -> None:
    net = Linear()
    hard = torch.arange(ROWS) % 2 == 0
    eps = net.exact(norm) * torch.where(hard, 0.5, 1.5 * BEYOND[norm])
    task = _task(net, net.images, net.labels, MaxLoss(norm, eps), 150)
    assert torch.equal(_check(task, Square()(task).points), ~hard)
    assert (task.model.passes.total[hard] == 150).all()
    assert (task.model.passes.total[~hard] < 75).all()


@NORMS
@pytest.mark.parametrize("shape", [(1,), (2,), (40,), (6, 6), (3, 7), (3, 5, 4), (1, 1, 1), (2, 1, 1), (2, 3, 4, 5)])
def test_inputs_of_any_shape(norm: str, shape: tuple[int, ...]) -> None:
    net = Linear(shape, seed=1)
    eps = 2 * BEYOND[norm] * net.exact(norm).clamp(min=1e-3)
    eps[0] = 0  # one may not change at all
    task = _task(net, net.images, net.labels, MaxLoss(norm, eps), 100)
    broken = _check(task, Square()(task).points)
    assert broken.sum() >= ROWS - 2
    assert task.model.passes.total[0] == 0


@NORMS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e-3, 1.0])
def test_rounding_never_leads_out_of_the_ball(norm: str, dtype: torch.dtype, size: float) -> None:
    """Everything counts as broken at the last query, when windows have added up; the box is active."""
    generator = torch.Generator().manual_seed(3)
    images = torch.rand(ROWS, 3, 12, 10, generator=generator).round(decimals=1).to(dtype)
    direction = torch.randn(360, generator=generator, dtype=torch.float64)
    asked = []

    def at_last(x: Tensor) -> Tensor:
        asked.append(x.clone())
        score = x.reshape(len(x), -1).double() @ direction
        return torch.stack([1e4 - score, score + 2e4 * (len(asked) >= 70)], 1)

    task = _task(at_last, images, torch.zeros(ROWS, dtype=torch.int64), MaxLoss(norm, size * EPS[norm]), 70)
    points = Square()(task).points
    assert _check(task, points).all()
    assert torch.equal(points, asked[69])  # not drawn back afterwards
    distances = torch.stack([distance64(task.problem.metric, images, x) for x in asked[:70]])
    assert (distances <= size * EPS[norm] * (1 + 1e-6)).all()
    assert (distances.amax(0) >= 0.95 * size * EPS[norm]).all()


@NORMS
@pytest.mark.parametrize("classes", [2, 100])
def test_any_number_of_classes(norm: str, classes: int) -> None:
    net = Linear(classes=classes)
    task = _task(net, net.images, net.labels, MaxLoss(norm, BEYOND[norm] * net.exact(norm)), 300)
    assert _check(task, Square()(task).points).all()


def test_a_model_of_one_logit() -> None:
    net = Linear(classes=2)
    problem = MaxLoss("linf", BEYOND["linf"] * net.exact("linf"))
    task = _task(lambda x: net(x)[:, 1] - net(x)[:, 0], net.images, net.labels, problem, 300)
    assert _check(task, Square()(task).points).all()


@NORMS
def test_targeted_points_have_the_wanted_class(norm: str) -> None:
    net = Linear()
    wanted = (net.labels + 1) % CLASSES
    for problem in (MaxLoss(norm, 4 * EPS[norm], targeted=True), MinRadius(norm, targeted=True)):
        task = _task(net, net.images, wanted, problem, 200)
        assert _check(task, Square()(task).points).all()


@NORMS
def test_masked_entries_stay_and_windows_go_where_something_may_change(norm: str) -> None:
    """A patch of 2 x 3 in 20 x 20: windows all over the image would miss it nearly always."""
    generator = torch.Generator().manual_seed(0)
    W = torch.randn(800, generator=generator, dtype=torch.float64)
    images = 0.5 + 0.001 * torch.randn(ROWS, 2, 20, 20, generator=generator)
    mask = torch.zeros(2, 20, 20, dtype=torch.bool)
    mask[0, 17:19, 15:18] = True

    def net(x: Tensor) -> Tensor:
        score = (x.flatten(1).double() - 0.5) @ W
        return torch.stack([torch.zeros_like(score), score], 1)

    dual = {"l1": math.inf, "l2": 2.0, "linf": 1.0}[norm]
    radius = net(images)[:, 1].abs() / torch.linalg.vector_norm(W.view(2, 20, 20)[mask], ord=dual)
    easy = torch.arange(ROWS) % 2 == 0
    task = _task(net, images, net(images).argmax(1), MaxLoss(norm, radius * torch.where(easy, 1.8, 0.9)), 150)
    task = replace(task, lower=torch.where(mask, task.lower, images), upper=torch.where(mask, task.upper, images))
    points = Square()(task).points
    assert torch.equal(points[:, ~mask], images[:, ~mask])
    assert torch.equal(_check(task, points), easy)
    frozen = replace(task, lower=images, upper=images)
    assert torch.equal(Square()(frozen).points, images)


@NORMS
def test_nan_logits_are_no_answers_and_no_end(norm: str) -> None:
    """At every other point, as good as at random."""
    net = Linear()

    def half_nan(x: Tensor) -> Tensor:
        odd = (x.flatten(1).double().sum(1) * 1e5).long() % 2 == 1
        return torch.where(odd.unsqueeze(1), torch.nan, net(x))

    task = _task(half_nan, net.images, net.labels, MaxLoss(norm, 1.5 * BEYOND[norm] * net.exact(norm)), 300)
    points = Square()(task).points
    assert not half_nan(points)[(points != net.images).flatten(1).any(1)].isnan().any()
    assert (net(points).argmax(1) != net.labels).sum() >= ROWS - 1
    for undefined in (torch.nan, torch.inf):
        task = _task(lambda x, u=undefined: net(x) * 0 + u, net.images, net.labels, MaxLoss(norm, EPS[norm]), 30)
        assert torch.equal(Square()(task).points, net.images)
        assert (task.model.passes.total == 30).all()


@NORMS
@pytest.mark.parametrize("shape", [(9,), (7, 9), (3, 11, 8), (2, 1, 1)])
def test_every_query_stays_in_its_windows_and_can_be_taken_back(norm: str, shape: tuple[int, ...]) -> None:
    """And uses the ball up: linf in every entry, l2 and l1 in all. The box is out of reach, so nothing is cut off."""
    p = as_metric(norm).p  # type: ignore[attr-defined]
    images = torch.full((ROWS, *shape), 0.5, dtype=torch.float64)
    eps = torch.full((ROWS,), 0.2, dtype=torch.float64)
    ball = Ball.of(p, images, images - 9, images + 9, eps)
    moves = MOVES[p](ball, Draws(range(ROWS), images.device))
    radius = eps if norm == "linf" else ball.inner
    changed_rows = 0
    for share, queries in stages(40, 0.8):
        sides = ball.grid.sides(share, moves.least)
        moves.draw(sides, queries)
        for query in range(queries):
            before = moves.points.clone()
            moves.propose(query)
            tried = moves.points.clone()
            size = torch.linalg.vector_norm((tried - ball.centre).flatten(1), ord=p, dim=1)
            torch.testing.assert_close(size, radius, rtol=1e-9, atol=0)
            if norm == "linf":
                torch.testing.assert_close((tried - ball.centre).abs(), torch.full_like(tried, 0.2))
            if norm != "l1" or ball.grid.channels == 1:
                windows = 1 if norm == "linf" else 2
                assert ((tried != before).any(1).sum(1) <= windows * sides[0] * sides[1]).all()
            changed_rows += int((tried != before).flatten(1).any(1).sum())
            moves.settle(torch.zeros(ROWS, dtype=torch.bool))
            assert torch.equal(moves.points, before)
            moves.propose(query)
            better = torch.arange(ROWS) % 2 == query % 2
            moves.settle(better)
            assert torch.equal(moves.points[better], tried[better])
            assert torch.equal(moves.points[~better], before[~better])
    assert changed_rows > 0.3 * 40 * ROWS


def test_nothing_of_the_ball_is_spent_on_entries_that_must_not_change() -> None:
    images = torch.full((ROWS, 2, 8, 8), 0.5, dtype=torch.float64)
    far = 9.0 * ((torch.arange(8).unsqueeze(1) + torch.arange(8)) % 2)  # a chessboard: every window has free entries
    ball = Ball.of(2.0, images, images - far, images + far, torch.full((ROWS,), 0.2, dtype=torch.float64))
    moves = MOVES[2.0](ball, Draws(range(ROWS), images.device))
    for share, queries in stages(20, 0.8):
        moves.draw(ball.grid.sides(share, moves.least), queries)
        for query in range(queries):
            moves.propose(query)
            change = moves.points - ball.centre
            torch.testing.assert_close(change.flatten(1).norm(dim=1), ball.inner)
            assert (change[:, :, far.flatten() == 0] == 0).all()
            moves.settle(torch.ones(ROWS, dtype=torch.bool))


def test_in_l1_only_entries_that_change_are_projected_and_that_is_exact() -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(ROWS, 3, 6, 5, generator=generator, dtype=torch.float64)
    eps = torch.linspace(0.2, 4, ROWS, dtype=torch.float64)
    ball = Ball.of(1.0, images, torch.zeros_like(images), torch.ones_like(images), eps)
    moves = MOVES[1.0](ball, Draws(range(ROWS), images.device))
    changes = torch.randn(ROWS, 3, 30, generator=generator, dtype=torch.float64)
    changes[torch.rand(changes.shape, generator=generator) < 0.7] = 0
    changes[3] = 0
    box = ball.lower.flatten(1), ball.upper.flatten(1)
    expected = L1().project((ball.centre + changes).flatten(1), ball.centre.flatten(1), ball.inner, *box)
    torch.testing.assert_close(moves._projected(changes).flatten(1), expected)  # type: ignore[attr-defined]


@pytest.mark.parametrize("steps", [1, 24, 999, 4999, 10_000])
def test_windows_are_halved_as_published(steps: int) -> None:
    shares = [share for share, count in stages(steps, 0.8) for _ in range(count)]
    assert len(shares) == steps
    ends = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
    for step, share in enumerate(shares):
        assert share == 0.8 / 2 ** sum(int(step / steps * 10_000) > end for end in ends)
    assert stages(0, 0.8) == []


@pytest.mark.parametrize(
    ("shape", "share", "least", "sides"),
    [
        ((3, 32, 32), 0.8, 1, (29, 29)),
        ((3, 32, 32), 0.05, 1, (7, 7)),
        ((3, 32, 32), 0.001, 1, (1, 1)),
        ((3, 32, 32), 0.1, 3, (11, 11)),
        ((3, 32, 32), 0.001, 3, (3, 3)),
        ((1, 28, 28), 1.0, 3, (28, 28)),
        ((4, 100), 0.5, 1, (4, 50)),
        ((100, 4), 0.5, 1, (50, 4)),
        ((4, 100), 0.5, 3, (4, 51)),
        ((60,), 0.8, 1, (1, 48)),
        ((60,), 0.05, 1, (1, 3)),
        ((60,), 0.001, 1, (1, 1)),
        ((2,), 0.5, 3, (1, 2)),
        ((), 0.5, 3, (1, 1)),
    ],
)
def test_sides_of_windows(shape: tuple[int, ...], share: float, least: int, sides: tuple[int, int]) -> None:
    assert Grid.of(torch.Size(shape)).sides(share, least) == sides


def test_all_places_are_as_likely_and_none_is_out_of_reach() -> None:
    grid = Grid(1, 5, 9)
    free = torch.zeros(2, 1, 5, 9, dtype=torch.bool)
    free[0] = True
    free[1, 0, 3, 6:8] = True
    uniform = torch.rand(2, 30_000, 2, generator=torch.Generator().manual_seed(0))
    lines, columns = Reach.of(free).places(uniform, (2, 3), grid)
    places = [Counter(zip(*(t[row].tolist() for t in (lines, columns)), strict=True)) for row in (0, 1)]
    assert set(places[0]) == {(line, column) for line in range(4) for column in range(7)}
    assert set(places[1]) == {(line, column) for line in (2, 3) for column in (4, 5, 6)}
    for counts in places:
        assert min(counts.values()) > 0.85 * 30_000 / len(counts)


def test_large_images_keep_their_last_line_and_column_unless_nothing_else_is_free() -> None:
    grid, free = Grid(1, 16, 20), torch.zeros(2, 1, 16, 20, dtype=torch.bool)
    free[0] = True
    free[1, 0, 15, 19] = True
    uniform = torch.rand(2, 3000, 2, generator=torch.Generator().manual_seed(0))
    lines, columns = Reach.of(free).places(uniform, (3, 5), grid)
    assert (int(lines[0].max()), int(columns[0].max())) == (12, 14)
    assert set(lines[1].tolist()) == {13}
    assert set(columns[1].tolist()) == {15}


@pytest.mark.parametrize(("p", "power"), [(2.0, 2), (1.0, 4)])
@pytest.mark.parametrize("sides", [(5, 5), (3, 3), (6, 6), (3, 8), (1, 7), (7, 1), (1, 1), (1, 2)])
def test_bumps_are_sums_of_squares_about_a_middle(p: float, power: int, sides: tuple[int, int]) -> None:
    def bump(high: int, wide: int) -> Tensor:
        total = torch.zeros(high, wide, dtype=torch.float64)
        line, column = high // 2, wide // 2
        for k in range(max(line, column) + 1):
            total[max(line - k, 0) : line + k + 1, max(column - k, 0) : column + k + 1] += 1 / (k + 1) ** power
        return total / torch.linalg.vector_norm(total, ord=p)

    def pair(high: int, wide: int) -> Tensor:
        upper = [bump(high // 2, wide)] if high > 1 else []
        both = torch.cat([*upper, -bump(high - high // 2, wide)])
        return both / torch.linalg.vector_norm(both, ord=p)

    stacked, beside = bump_pairs(sides, p).view(2, *sides)
    high, wide = sides
    torch.testing.assert_close(stacked, pair(high, wide) if high > 1 else pair(wide, high).T)
    torch.testing.assert_close(beside, pair(wide, high).T if wide > 1 else pair(high, wide))


def test_what_it_is_and_what_it_cannot_do() -> None:
    square = Square()
    assert isinstance(square, Attack)
    assert (square.name, square.black_box, square.queries, square.p) == ("square", True, None, 0.8)
    assert square.about.startswith("pwcf's own Square")
    assert "5000 queries" in Square(queries=5000).about
    for norm in ("l1", "l2", "linf"):
        assert square.unsupported_reason(MaxLoss(norm, 0.1), 10) is None
        assert square.unsupported_reason(MinRadius(norm), 2) is None
    for metric in ("l1.5", lambda a, b: (a - b).flatten(1).norm(dim=1)):
        sentence = square.unsupported_reason(MinRadius(metric), 10)
        assert sentence is not None
        assert "l1, l2 and linf" in sentence
    net = Linear()
    with pytest.raises(ValueError, match="l1, l2 and linf"):
        square(_task(net, net.images, net.labels, MaxLoss("l1.5", 0.1), 100))
    for arguments in ({"queries": 0}, {"queries": True}, {"p": 0.0}, {"p": 1.5}, {"p": "a"}):
        with pytest.raises(ValueError, match="expected"):
            Square(**arguments)  # type: ignore[arg-type]
