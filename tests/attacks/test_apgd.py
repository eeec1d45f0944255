"""APGD: exact answers on linear models, its budgets, its steps, and inputs of every kind."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from pwcf import Classifier, MaxLoss, MinRadius, evaluate
from pwcf.attacks import Task
from pwcf.attacks.apgd import Apgd
from pwcf.attacks.apgd.attack import ApgdSchedule, cost, phases
from pwcf.attacks.apgd.rules import ApgdBall, AscentState, HalvingRule, SparsityRule, checkpoints
from pwcf.metrics import distance64
from pwcf.models import CountedClassifier
from pwcf.problems import Problem, is_wrong

EPS = {"l1": 1.0, "l2": 0.3, "linf": 0.08}
DUAL = {"l1": math.inf, "l2": 2.0, "linf": 1.0}
METRICS = pytest.mark.parametrize("metric", list(DUAL))
ROWS, SHAPE = 8, (2, 3, 4)  # not square
N = math.prod(SHAPE)


class Linear(nn.Module):
    """Images about the middle of the box, so that it is inactive for small radii."""

    def __init__(self, classes: int = 5, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.W = nn.Parameter(torch.randn(classes, N, generator=generator))
        self.b = nn.Parameter(-0.5 * self.W.detach().sum(1))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.W.T + self.b

    def samples(self, rows: int = ROWS) -> tuple[Tensor, Tensor]:
        images = 0.5 + 0.02 * torch.randn(rows, *SHAPE, generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            return images, self(images).argmax(1)

    def radii(self, images: Tensor, labels: Tensor, metric: str) -> Tensor:
        """(n, classes) to every other class's side: margin over the dual norm; inf for the own one."""
        W, b = self.W.detach().double(), self.b.detach().double()
        f = images.flatten(1).double() @ W.T + b
        size = torch.linalg.vector_norm(W[labels].unsqueeze(1) - W.unsqueeze(0), ord=DUAL[metric], dim=2)
        return ((f.gather(1, labels[:, None]) - f) / size).scatter(1, labels[:, None], torch.inf)


def _deep(classes: int = 6, seed: int = 0) -> nn.Module:
    """Not convex, and images in which many entries are at their bounds."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(N, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, classes))
    with torch.no_grad():
        for layer in net[1::2]:
            layer.weight *= 3
    return net


def _images(rows: int = ROWS) -> Tensor:
    return (2 * torch.rand(rows, *SHAPE, generator=torch.Generator().manual_seed(3)) - 0.5).clamp(0, 1)


def _task(
    model: CountedClassifier, problem: Problem, images: Tensor, labels: Tensor, budget: int, mask: Tensor | None = None
) -> Task:
    eps = problem.radii(len(images)) if isinstance(problem, MaxLoss) else None
    lower, upper = (torch.full_like(images, side) for side in model.bounds)
    if mask is not None:
        lower, upper = torch.where(mask, lower, images), torch.where(mask, upper, images)
    return Task(model, problem, images, labels, torch.arange(len(images)), lower, upper, eps, budget, 0)


def _ball(metric: str, x: Tensor, eps: float, sequential: bool = False) -> ApgdBall:
    model = CountedClassifier(Classifier(Linear()), len(x))
    task = _task(model, MaxLoss(metric, eps), x, torch.zeros(len(x), dtype=torch.int64), 100)
    return ApgdBall.of(task, torch.arange(len(x)), 1.0, sequential)


# ---- answers ----------------------------------------------------------------------------------------


def _attacks() -> list[tuple[int, Apgd]]:
    """Away from the label where there are two classes; with more, which one is reached depends on the start."""
    two = [Apgd(), Apgd(loss="ce", steps=40, restarts=2), Apgd(loss="dlr", steps=30, targets=9)]
    return [(2, attack) for attack in two] + [(5, Apgd(loss=loss, targets=4, steps=25)) for loss in ("margin", "dlr")]


@METRICS
@pytest.mark.parametrize(("classes", "attack"), _attacks())
def test_max_loss_breaks_what_can_be_broken_and_nothing_else(metric: str, classes: int, attack: Apgd) -> None:
    net = Linear(classes)
    images, labels = net.samples()
    exact = net.radii(images, labels, metric).amin(1)
    eps = torch.where(torch.arange(ROWS) % 2 == 0, 1.02, 0.99) * exact
    run = evaluate(net, images, labels, MaxLoss(metric, eps), attacks=[attack], budget=250)
    assert run.adversarial.tolist() == [i % 2 == 0 for i in range(ROWS)]
    assert torch.equal(run.x_adv[1::2], images[1::2])


@METRICS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_min_radius_of_a_linear_model(metric: str, dtype: torch.dtype) -> None:
    net = Linear(2, seed=1)
    images, labels = net.samples()
    run = evaluate(net.to(dtype), images.to(dtype), labels, MinRadius(metric), attacks=[Apgd()], budget=400)
    ratio = run.radius / net.radii(images, labels, metric).amin(1)
    assert (ratio >= 1 - 1e-5).all()
    assert (ratio <= 1.02).all()
    assert (run.passes.total <= 400).all()


@METRICS
@pytest.mark.parametrize("sequential", [False, True])
def test_points_are_within_eps_and_box(metric: str, sequential: bool) -> None:
    """Of the attack itself, before anybody repairs them, and as judged in float64."""
    net, images = _deep(), _images()
    labels = net(images).argmax(1)
    radius = evaluate(net, images, labels, MinRadius(metric), budget=300).radius
    problem = MaxLoss(metric, 1.25 * radius)
    counted = CountedClassifier(Classifier(net), ROWS)
    points = Apgd(sequential=sequential)(_task(counted, problem, images, labels, 300)).points
    wrong = is_wrong(net(points), labels, False)
    assert wrong.sum() >= ROWS - 1
    assert torch.equal(points[~wrong], images[~wrong])
    assert problem.allows(distance64(problem.metric, images, points)).all()
    assert (points >= 0).all()
    assert (points <= 1).all()


@METRICS
@pytest.mark.parametrize("attack", [Apgd(loss="ce"), Apgd(loss="dlr", targets=2)], ids=["ce", "dlr"])
def test_targeted_problems_end_at_the_wanted_class(metric: str, attack: Apgd) -> None:
    net = Linear(seed=2)
    images, labels = net.samples()
    # With W_t - W_y the nearest point of class t need not be just beyond class y's side: it is no nearer.
    wanted = (labels + 1) % 5
    least = net.radii(images, labels, metric).gather(1, wanted[:, None]).squeeze(1)
    run = evaluate(net, images, wanted, MinRadius(metric, targeted=True), attacks=[attack], budget=300)
    assert torch.equal(net(run.x_adv).argmax(1), wanted)
    assert (run.radius >= least * (1 - 1e-5)).all()
    assert attack.loss == "ce" or (run.radius / least).median() <= 1.1  # likely is not the same as near
    again = MaxLoss(metric, 1.3 * run.radius, targeted=True)
    run = evaluate(net, images, wanted, again, attacks=[attack], budget=150)
    assert torch.equal(net(run.x_adv).argmax(1), wanted)


@METRICS
def test_masked_entries_stay_as_they_are(metric: str) -> None:
    net = Linear(2, seed=3)
    images, labels = net.samples()
    mask = torch.zeros(SHAPE, dtype=torch.bool)
    mask[0] = True
    f, W = net(images).detach().double(), net.W.detach().double()[:, : N // 2]
    size = torch.linalg.vector_norm(W[labels].unsqueeze(1) - W.unsqueeze(0), ord=DUAL[metric], dim=2)
    exact = ((f.gather(1, labels[:, None]) - f) / size).scatter(1, labels[:, None], torch.inf).amin(1)
    run = evaluate(net, images, labels, MinRadius(metric), attacks=[Apgd()], budget=400, mask=mask)
    assert run.adversarial.all()
    assert torch.equal(run.x_adv[:, 1], images[:, 1])
    inactive = (run.x_adv - images).flatten(1).abs().amax(1) < 0.4  # the box
    assert inactive.sum() >= ROWS // 2
    assert (run.radius / exact)[inactive].max() <= 1.05


# ---- budgets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["l1", "linf"])
@pytest.mark.parametrize("budget", [25, 61, 100])
def test_budgets_are_kept_and_used(metric: str, budget: int) -> None:
    net, images = _deep(classes=12), _images()
    labels = net(images).argmax(1)
    for attack in (Apgd(), Apgd(targets=9), Apgd(steps=7), Apgd("ce", 3, None, 3)):
        for problem in (MinRadius(metric), MaxLoss(metric, 1e-4)):  # within 1e-4 there is nothing
            counted = CountedClassifier(Classifier(net), ROWS)
            points = attack(_task(counted, problem, images, labels, budget)).points
            assert points.shape == images.shape
            assert (counted.passes.total <= budget).all()
        assert (counted.passes.total >= 0.6 * budget).all()


def test_plans() -> None:
    assert cost(2.0, 100) == 201
    assert cost(1.0, 100) == 205  # every phase begins with a look of its own
    assert [(phase.factor, phase.steps) for phase in phases(1.0, 100)] == [(3, 30), (2, 30), (1, 40)]
    assert sum(phase.steps for phase in phases(1.0, 11)) == 11
    assert ApgdSchedule.within(2000, 2.0, None, None) == ApgdSchedule(10, 99)
    assert ApgdSchedule.within(2000, 2.0, 100, None) == ApgdSchedule(9, 100)
    assert ApgdSchedule.within(2000, 2.0, 100, 1) == ApgdSchedule(1, 100)
    assert ApgdSchedule.within(500, 2.0, 100, 5) == ApgdSchedule(2, 100)  # fewer restarts first
    assert ApgdSchedule.within(150, 2.0, 100, 5) == ApgdSchedule(1, 74)  # then fewer steps
    assert ApgdSchedule.within(1010, 2.0, None, 5) == ApgdSchedule(5, 100)
    assert ApgdSchedule.within(2, 2.0, None, None).steps == 0


def test_samples_that_are_broken_cost_no_more() -> None:
    net = Linear()
    images, labels = net.samples()
    eps = torch.full((ROWS,), 1e-3)
    eps[0] = 2.0
    counted = CountedClassifier(Classifier(net), ROWS)
    Apgd()(_task(counted, MaxLoss("l2", eps), images, labels, 300))
    assert counted.passes.total[0] <= 6
    assert (counted.passes.total[1:] > 250).all()


# ---- the method -------------------------------------------------------------------------------------


def test_checkpoints_are_the_published_ones() -> None:
    assert checkpoints(100) == [0, 22, 41, 57, 70, 80, 87, 93, 99]


def test_steps_are_halved_where_they_do_not_help() -> None:
    x = torch.full((3, N), 0.5)
    ball = _ball("l2", x, 0.1)
    state = AscentState.at(x, torch.arange(3), torch.full((3,), -1))
    state.learn(torch.zeros(3), torch.ones(3, N))
    rule = HalvingRule.begin(state, ball, 100)
    for number in range(1, 42):
        state.move(torch.full((3, N), 0.5 + 1e-3 * number))
        # Row 0 rises all the time, row 1 never, row 2 every other time but in all.
        value = torch.tensor([float(number), -1.0, number + 3.0 * (number % 2)])
        risen = value > state.value
        state.learn(value, torch.zeros(3, N))
        rule.learn(state, ball, risen, number)
        if number == 22:
            torch.testing.assert_close(rule.size, torch.tensor([0.2, 0.1, 0.1]))
            torch.testing.assert_close(state.x[:, 0], torch.tensor([0.522, 0.5, 0.521]))  # the best points
            assert torch.equal(state.gradient[1], torch.ones(N))
    # Row 1 has not risen either time: a window without rises is enough, whatever the last checkpoint did.
    torch.testing.assert_close(rule.size, torch.tensor([0.2, 0.05, 0.05]))


def test_sparse_steps_move_the_steepest_entries_by_as_much_each() -> None:
    x = torch.full((2, N), 0.5)
    ball = _ball("l1", x, 0.3)
    state = AscentState.at(x, torch.arange(2), torch.full((2,), -1))
    gradient = torch.stack([torch.arange(1.0, N + 1), -torch.arange(1.0, N + 1)])
    state.learn(torch.zeros(2), gradient)
    rule = SparsityRule.begin(state, ball, 100, first=True)
    move = rule.step(state, ball) - x
    k = int(0.2 * N)
    expected = torch.zeros(2, N)
    expected[0, -k:], expected[1, -k:] = 0.3 / k, -0.3 / k
    torch.testing.assert_close(move, expected)
    state.move(x + move)
    state.learn(torch.ones(2), gradient)
    rule.learn(state, ball, torch.ones(2, dtype=torch.bool), rule.window)
    assert rule.k.tolist() == [int(k / 1.5)] * 2
    torch.testing.assert_close(rule.size, torch.full((2,), 0.3))  # sparser than before: full steps again
    rule.learn(state, ball, torch.ones(2, dtype=torch.bool), 2 * rule.window)
    torch.testing.assert_close(rule.size, torch.full((2,), 0.2))


@METRICS
def test_starts_fill_the_ball_and_differ(metric: str) -> None:
    x = _images(4).flatten(1)
    ball = _ball(metric, x, 0.3)
    starts = ball.start([1, 2, 3, 3])
    assert torch.equal(ball.start([1])[:0], starts[:0])
    length = distance64(MaxLoss(metric, 0.3).metric, x, starts)
    assert (length <= 0.3 * (1 + 1e-6)).all()
    assert (length > 0.15).all()
    assert not torch.equal(starts[0] - x[0], starts[1] - x[1])


def test_exact_projections_are_nearer_than_sequential_ones() -> None:
    x = _images().flatten(1)
    points = x + torch.randn(ROWS, N, generator=torch.Generator().manual_seed(0))
    exact, sequential = (_ball("l2", x, 0.8, way).project(points) for way in (False, True))
    assert ((exact - points).norm(dim=1) < (sequential - points).norm(dim=1) - 1e-3).all()
    for found in (exact, sequential):
        assert ((found - x).norm(dim=1) <= 0.8 * (1 + 1e-6)).all()
        assert torch.equal(found.clamp(0, 1), found)
    inside = x + 0.01 * (0.5 - x)
    torch.testing.assert_close(_ball("l2", x, 0.8).project(inside), inside)


@METRICS
def test_projected_points_are_within_tiny_radii_too(metric: str) -> None:
    """A unit in the last place of 0.7 is 7e-8, much of a radius of 1e-6 and too much of one of 0.01."""
    x = 0.5 + 0.5 * torch.rand(200, N, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(200, N, generator=torch.Generator().manual_seed(1))
    for eps in (1e-5, 1e-3, 1e-2):
        projected = _ball(metric, x, eps).project(x + 3 * eps * noise)
        distance = distance64(MaxLoss(metric, eps).metric, x, projected)
        assert (distance <= eps * (1 + 1e-6)).all()
        assert (distance > 0.8 * eps).all()


@METRICS
@pytest.mark.parametrize("attack", [Apgd(), Apgd(targets=3)], ids=["untargeted", "targets"])
def test_a_sample_has_the_same_answer_whatever_is_beside_it(metric: str, attack: Apgd) -> None:
    net, images = _deep().double(), _images(10).double()
    labels = net(images).argmax(1)
    order = torch.tensor([7, 2, 9])
    for problem, budget in ((MinRadius(metric), 100), (MaxLoss(metric, EPS[metric]), 60)):
        together, apart = CountedClassifier(Classifier(net), 10), CountedClassifier(Classifier(net), 3, batch=2)
        points = attack(_task(together, problem, images, labels, budget)).points
        alone = attack(_task(apart, problem, images[order], labels[order], budget)).points
        torch.testing.assert_close(alone, points[order], rtol=0, atol=1e-6)
        assert torch.equal(apart.passes.total, together.passes.total[order])
        assert not torch.equal(points[order], images[order])


# ---- inputs of every kind ---------------------------------------------------------------------------


@METRICS
@pytest.mark.parametrize("classes", [2, 3, 100])
@pytest.mark.parametrize("loss", ["ce", "dlr"])
def test_any_number_of_classes(metric: str, classes: int, loss: str) -> None:
    net = Linear(classes=classes)
    images, labels = net.samples()
    exact = net.radii(images, labels, metric).amin(1)
    for attack in (Apgd(loss=loss, steps=25), Apgd(loss=loss, targets=5, steps=25)):
        run = evaluate(net, images, labels, MaxLoss(metric, 8 * exact), attacks=[attack], budget=150)
        assert run.adversarial.all()
    wanted = (labels + 1) % classes
    least = evaluate(net, images, wanted, MinRadius(metric, targeted=True), attacks=[Apgd(loss=loss)], budget=100)
    assert torch.equal(net(least.x_adv).argmax(1), wanted)


def test_vectors_and_one_logit() -> None:
    w = torch.randn(7, generator=torch.Generator().manual_seed(0))
    model = Classifier(lambda z: (z - 0.52) @ w, bounds=(-3.0, 5.0))
    x = torch.full((3, 7), 0.5) + 0.05 * torch.arange(3).view(3, 1)
    labels = model(x).argmax(1)
    exact = (((x - 0.52) @ w).abs() / w.norm()).double()
    run = evaluate(model, x, labels, MinRadius("l2"), attacks=[Apgd()], budget=500)
    torch.testing.assert_close(run.radius, exact, rtol=2e-2, atol=1e-6)


@METRICS
def test_undefined_points_are_no_answers_and_no_ends(metric: str) -> None:
    """All but the surroundings of the image is undefined: random starts (l1: in the larger ball), first steps."""
    net = Linear(2, seed=4)
    for row in range(3):
        image, label = (tensor[row : row + 1] for tensor in net.samples())
        problem = MaxLoss(metric, 4 * net.radii(image, label, metric).amin(1))

        def walled(x: Tensor, image: Tensor = image, problem: MaxLoss = problem) -> Tensor:
            beyond = problem.metric(image, x) > (1.5 if metric == "l1" else 0.8) * problem.eps
            return torch.where(beyond.unsqueeze(1), x.flatten(1)[:, :1] * torch.nan, net(x))

        run = evaluate(walled, image, label, problem, attacks=[Apgd()], budget=200)
        assert run.adversarial.all()
        assert torch.isfinite(walled(run.x_adv)).all()


@METRICS
def test_without_slope_nothing_is_found_and_nothing_breaks(metric: str) -> None:
    images = _images()
    labels = torch.zeros(ROWS, dtype=torch.int64)

    def flat(x: Tensor) -> Tensor:
        return torch.stack([0 * x.flatten(1).sum(1) + 1, 0 * x.flatten(1).sum(1)], 1)

    for problem in (MaxLoss(metric, 0.3), MinRadius(metric)):
        points = Apgd()(_task(CountedClassifier(Classifier(flat), ROWS), problem, images, labels, 60)).points
        assert torch.equal(points, images)


def test_tiny_slopes_still_lead_somewhere() -> None:
    """Squares of 1e-30 are 0 in float32."""
    net = Linear(2)
    images, labels = net.samples()
    eps = 1.05 * net.radii(images, labels, "l2").amin(1)
    run = evaluate(lambda x: 1e-30 * net(x), images, labels, MaxLoss("l2", eps), attacks=[Apgd()], budget=500)
    assert run.adversarial.all()


def test_eps_of_zero_and_no_samples() -> None:
    net = Linear()
    images, labels = net.samples()
    for metric in DUAL:
        counted = CountedClassifier(Classifier(net), ROWS)
        assert torch.equal(Apgd()(_task(counted, MaxLoss(metric, 0.0), images, labels, 60)).points, images)
        assert Apgd()(_task(counted, MinRadius(metric), images[:0], labels[:0], 60)).points.shape == (0, *SHAPE)


def test_what_is_unbracketed_is_reported() -> None:
    images, labels = _images(), torch.zeros(ROWS, dtype=torch.int64)
    net = nn.Sequential(nn.Flatten(), nn.Linear(N, 2))
    with torch.no_grad():
        net[1].bias.copy_(torch.tensor([1e3, 0.0]))
    answer = Apgd()(_task(CountedClassifier(Classifier(net), ROWS), MinRadius("l2"), images, labels, 300))
    assert answer.diagnostics.unbracketed is not None
    assert answer.diagnostics.unbracketed.all()


# ---- settings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hinge"}, "loss: expected one of"),
        ({"steps": 0}, "steps: expected an integer >= 1"),
        ({"restarts": 1.5}, "restarts: expected an integer >= 1"),
        ({"targets": True}, "targets: expected an integer >= 1"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Apgd(**settings)  # type: ignore[arg-type]


def test_what_it_says_of_itself() -> None:
    assert Apgd().about == "pwcf's own APGD, the problem's loss, untargeted, steps by budget, restarts by budget"
    assert "dlr, 9 targets, 100 steps, 1 restart(s)" in Apgd("dlr", 9, 100, 1).about
    assert Apgd().unsupported_reason(MinRadius("l1"), 10) is None
    assert "l1.5" in str(Apgd().unsupported_reason(MinRadius("l1.5"), 10))
    assert Apgd().unsupported_reason(MaxLoss(lambda a, b: (a - b).flatten(1).norm(dim=1), 1.0), 10) is not None
