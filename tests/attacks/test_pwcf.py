"""PWCF, the paper's method: exact radii of linear classifiers, every switch, budgets and counted passes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pwcf import MaxLoss, MinRadius, evaluate
from pwcf._common.rng import noise_of, seeds_of
from pwcf.attacks.base import Attack, Task
from pwcf.attacks.pwcf import Pwcf
from pwcf.attacks.pwcf import attack as pwcf_attack
from pwcf.attacks.pwcf.attack import best_of, into_ball
from pwcf.attacks.pwcf.formulation import BestSeen, Formulation, Techniques
from pwcf.metrics import Lp
from pwcf.models import Classifier, CountedClassifier
from pwcf.problems import Problem
from pwcf.solvers import minimize
from pwcf.verify import recheck

# More than 60 entries: the solver then leaves bundle steps out, which take most of the time of tiny problems.
ROWS, N, CLASSES = 5, 64, 4
NORMS = pytest.mark.parametrize("norm", ["l1", "l2", "linf"])


class Linear:
    """Logits W x + b, with rows counted on their way forward and backward."""

    def __init__(self, seed: int = 0, classes: int = CLASSES) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.W = torch.randn(classes, N, generator=generator)
        images = 0.5 + 0.05 * torch.randn(100, N, generator=generator)
        self.b = 0.5 * torch.randn(classes, generator=generator) - 0.5 * self.W.sum(1)
        self.forward_rows = self.backward_rows = 0
        two = self(images).topk(2).values
        self.images = images[(two[:, 0] - two[:, 1] > 0.8).nonzero().squeeze(1)[:ROWS]]  # not at the boundary already
        self.labels = self(self.images).argmax(1)

    def __call__(self, x: Tensor) -> Tensor:
        self.forward_rows += x.shape[0]
        y: Tensor = _Counting.apply(x, self)
        # Not a matrix product: its rounding depends on how many rows there are, and kinks make much of that.
        return (y.unsqueeze(1) * self.W).sum(2) + self.b

    def task(self, problem: Problem, budget: int = 400, **changes: object) -> Task:
        eps = problem.radii(ROWS) if isinstance(problem, MaxLoss) else None
        x = self.images
        everyone, model = torch.arange(ROWS), CountedClassifier(Classifier(self), ROWS)
        zero, one = torch.zeros_like(x), torch.ones_like(x)
        return replace(Task(model, problem, x, self.labels, everyone, zero, one, eps, budget, 0), **changes)

    def radii(self, dual: float, weight: float | Tensor = 1.0, labels: Tensor | None = None) -> Tensor:
        """Exact radii while the box is inactive: gap over the dual norm of the slope, the least over all classes."""
        y = self.labels if labels is None else labels
        logits = self.images.double() @ self.W.double().T + self.b.double()
        gap = logits.gather(1, self.labels[:, None]) - logits
        slope = (self.W[self.labels].unsqueeze(1) - self.W.unsqueeze(0)).double() * weight
        radii = gap / torch.linalg.vector_norm(slope, ord=dual, dim=2)
        return radii.scatter(1, y[:, None], torch.inf).amin(1)


class _Counting(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, owner):
        ctx.owner = owner
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        ctx.owner.backward_rows += gradient.shape[0]
        return gradient, None


def _checked(task: Task, points: Tensor):
    return recheck(task.model, task.problem, task.images, task.labels, points)


def test_it_is_an_attack() -> None:
    assert isinstance(Pwcf(), Attack)
    assert Pwcf().name == "pwcf"


# ---- radii ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("norm", "median"), [("l2", 1.002), ("linf", 1.25), ("l1", 1.1)])
def test_radii_of_linear_classifiers(norm: str, median: float) -> None:
    """l2 is exact; folds of linf and l1 slacks converge slowly, as published, but never to less than what exists."""
    net = Linear()
    task = net.task(MinRadius(norm), 350)
    checked = _checked(task, Pwcf()(task).points)
    assert checked.adversarial.all()
    assert isinstance(task.problem.metric, Lp)
    ratio = checked.distance / net.radii(task.problem.metric.dual)
    assert (ratio >= 1 - 1e-4).all()
    assert ratio.median() <= median
    if norm == "l2":
        assert (ratio <= 1.02).all()


@NORMS
def test_native_bounds_are_nearly_exact_where_folds_are_not(norm: str) -> None:
    net = Linear()
    task = net.task(MinRadius(norm), 800)
    checked = _checked(task, Pwcf()(task).points)
    assert checked.adversarial.all()
    assert isinstance(task.problem.metric, Lp)
    ratio = checked.distance / net.radii(task.problem.metric.dual)
    assert (ratio >= 1 - 1e-4).all()
    assert (ratio <= 1.01).all()


@NORMS
def test_every_technique_of_the_default_can_be_switched_off(norm: str) -> None:
    net = Linear()
    for problem in (MinRadius(norm), MaxLoss(norm, 1.5 * net.radii(MinRadius(norm).metric.dual))):
        for changes in ({"native": False}, {"linearise": False}, {"native": False, "linearise": False}):
            task = net.task(problem, 300)
            assert _checked(task, replace(Pwcf(), **changes)(task).points).adversarial.all(), changes


def test_the_solver_says_how_it_ended() -> None:
    net = Linear()
    run = evaluate(net, net.images, net.labels, MinRadius("l2"), attacks="pwcf", budget=600)
    said = [status.value for status in run.status]
    assert set(said) <= {"converged", "stationary", "stalled", "max-iterations", "budget"}
    stationary = torch.tensor([value == "stationary" for value in said])
    assert stationary.any()
    assert (run.evidence.stationarity[stationary] <= 1e-3).all()
    # What its solver saw is about one point; converged is said where searches agree alone.
    assert all((gain <= 0.01) == (value == "converged") for gain, value in zip(run.evidence.gain, said, strict=True))
    assert (run.evidence.violation < 1e-3).all()


def test_samples_that_are_all_broken_at_the_first_look_need_no_more() -> None:
    net = Linear()
    for clip in (True, False):
        task = net.task(MaxLoss("l2", 3 * net.radii(2.0), clip=clip), 2000)
        assert _checked(task, Pwcf()(task).points).adversarial.all()
        assert not clip or (task.model.passes.total < 400).all()


def test_the_largest_loss_is_searched_for_beyond_the_boundary() -> None:
    net = Linear()
    eps = 1.5 * net.radii(2.0)
    for attack in ("pwcf", "lmn", "apgd"):
        clipped, largest = (
            evaluate(net, net.images, net.labels, MaxLoss("l2", eps, "ce", clip=clip), attacks=attack, budget=600)
            for clip in (True, False)
        )
        assert largest.adversarial.all()
        at_answers = torch.nn.functional.cross_entropy(net(largest.x_adv), net.labels, reduction="none")
        torch.testing.assert_close(largest.loss.float(), at_answers, rtol=1e-4, atol=1e-4)
        assert (largest.loss >= clipped.loss - 1e-4).all()
        assert largest.loss.mean() > clipped.loss.mean() + 0.05, attack
        assert (largest.radius <= eps * (1 + 1e-6)).all()
    assert "largest ce" in str(largest.problem)


def test_any_other_norm_and_any_function() -> None:
    net = Linear(classes=2)
    weight = torch.linspace(0.5, 2, N)
    for metric, dual, scale in (("l1.5", 3.0, 1.0), (lambda x, y: (weight * (y - x)).norm(dim=1), 2.0, 1 / weight)):
        task = net.task(MinRadius(metric), 120)
        checked = _checked(task, Pwcf(starts=1)(task).points)
        assert checked.adversarial.all()
        ratio = checked.distance / net.radii(dual, scale)
        assert (ratio >= 1 - 1e-4).all()
        assert (ratio <= 1.02).all()


@NORMS
def test_targeted(norm: str) -> None:
    net = Linear(2)
    wanted = (net.labels + 1) % CLASSES
    task = net.task(MinRadius(norm, targeted=True), 120, labels=wanted)
    points = Pwcf()(task).points
    assert _checked(task, points).adversarial.all()
    assert torch.equal(net(points).argmax(1), wanted)
    if norm == "l2":
        # Between two classes alone the wanted one is at least this far away.
        gap = (net.images @ net.W.T + net.b).double()
        gap = (gap.gather(1, net.labels[:, None]) - gap.gather(1, wanted[:, None])).squeeze(1)
        least = gap / (net.W[net.labels] - net.W[wanted]).double().norm(dim=1)
        assert ((points - net.images).double().norm(dim=1) >= least * (1 - 1e-4)).all()


@NORMS
def test_entries_that_must_not_change_do_not(norm: str) -> None:
    net = Linear()
    free = torch.arange(N) % 3 == 0
    lower, upper = net.images.clone(), net.images.clone()
    lower[:, free], upper[:, free] = 0.0, 1.0
    task = net.task(MinRadius(norm), 300, lower=lower, upper=upper)
    points = Pwcf()(task).points
    assert torch.equal(points[:, ~free], net.images[:, ~free])
    assert ((points >= lower) & (points <= upper)).all()
    checked = _checked(task, points)
    assert checked.adversarial.all()
    if norm == "l2":
        ratio = checked.distance / net.radii(2.0, free.double())
        assert (ratio >= 1 - 1e-4).all()
        assert ratio.median() <= 1.02


def test_points_stay_in_an_active_box() -> None:
    net = Linear()
    lower, upper = net.images - 0.03, net.images + 0.03
    task = net.task(MinRadius("l2"), 150, lower=lower, upper=upper)
    points = Pwcf(starts=2)(task).points
    assert ((points >= lower) & (points <= upper)).all()
    assert ((points - net.images).abs().amax(1) > 0.0299).any()  # it was active
    assert _checked(task, points).adversarial.all()


# ---- max-loss -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("norm", "loss", "room"),
    [("l2", "margin", 1.05), ("l2", "ce", 1.3), ("l2", "dlr", 1.05), ("linf", "margin", 1.4), ("l1", "margin", 1.6)],
)
def test_max_loss_finds_what_is_there(norm: str, loss: str, room: float) -> None:
    """Cross-entropy is clipped at ln K, a tie of all classes, so that points near the boundary do not satisfy it."""
    net = Linear()
    metric = MinRadius(norm).metric
    assert isinstance(metric, Lp)
    radii = net.radii(metric.dual)
    task = net.task(MaxLoss(norm, room * radii, loss), 300)
    assert _checked(task, Pwcf()(task).points).adversarial.all()
    task = net.task(MaxLoss(norm, 0.98 * radii, loss), 100)
    points = Pwcf(starts=2)(task).points
    assert not _checked(task, points).adversarial.any()
    assert (metric(net.images.double(), points.double()) <= 0.98 * radii * (1 + 1e-6)).all()


def test_max_loss_targeted() -> None:
    net = Linear(2)
    wanted = (net.labels + 1) % CLASSES
    for loss in ("margin", "ce"):
        task = net.task(MaxLoss("l2", 3.0, loss, targeted=True), 100, labels=wanted)
        points = Pwcf(starts=2)(task).points
        assert _checked(task, points).adversarial.all()


def test_points_beyond_eps_are_pulled_back() -> None:
    net = Linear()
    for metric in ("l1", "linf", lambda x, y: (y - x).square().sum(1)):
        form = Formulation(net.task(MaxLoss(metric, 0.01)), Techniques())
        near, far = net.images + 1e-6, (net.images + 0.2).clamp(0, 1)
        assert torch.equal(into_ball(form, near), near)
        pulled = into_ball(form, far)
        distance = form.metric(net.images.double(), pulled.double())
        assert ((distance <= 0.01 * (1 + 1e-6)) & (distance >= 0.0099)).all()


# ---- switches -------------------------------------------------------------------------------------


def _form(problem: Problem, net: Linear | None = None, **how: bool) -> Formulation:
    return Formulation((net or Linear()).task(problem), Techniques(**how))


def _values(form: Formulation, points: Tensor) -> dict[str, Tensor]:
    z, rows = form.variables(points), torch.arange(ROWS)
    found = {c.name: c.function(z, rows) for c in form.constraints()}
    return found | {"objective": form.objective(z, rows)}


def test_fold() -> None:
    for problem in (MinRadius("linf"), MinRadius("l1"), MaxLoss("linf", 0.1)):
        groups = [c for c in _form(problem).constraints() if c.name in ("box", "slack", "ball")]
        assert len(groups) == 2
        assert all(c.fold == 2 for c in groups)
        assert all(c.fold is None for c in _form(problem, fold=False).constraints())
    net = Linear()
    values = _values(_form(MinRadius("linf"), net), net.images - 0.7)
    assert values["box"].shape == values["slack"].shape == (ROWS, 2 * N)
    torch.testing.assert_close(values["box"].clamp(min=0).sum(1), (0.7 - net.images).clamp(min=0).sum(1))


def test_without_folding_it_works_too() -> None:
    net = Linear()
    net.images, net.W = net.images[:, :4].repeat(1, 16)[:, :N], net.W  # keep N, only the cost is new
    task = net.task(MinRadius("l2"), 60, labels=net(net.images).argmax(1))
    attack = replace(Pwcf.as_published(), fold=False, starts=1)
    assert _checked(task, attack(task).points).adversarial.all()


@pytest.mark.parametrize(("norm", "slacks"), [("linf", 1), ("l1", N), ("l2", 0), ("l1.5", 0)])
def test_reformulate(norm: str, slacks: int) -> None:
    net, points = Linear(), torch.rand(ROWS, N)
    problem = MinRadius(norm)
    distance = problem.metric(net.images, points)
    for reformulate in (True, False):
        form = _form(problem, net, reformulate=reformulate, rescale=False)
        z = form.variables(points)
        assert z.shape == (ROWS, N + slacks * reformulate)
        assert (form.bounds is not None) == (slacks > 0 and reformulate)
        torch.testing.assert_close(form.objective(z, torch.arange(ROWS)), distance)
        assert (_values(form, points).get("slack", torch.zeros(1)) <= 1e-6).all()
    ball = _values(_form(MaxLoss(norm, 0.1), net), points)["ball"]
    assert ball.shape == ((ROWS, 2 * N) if norm == "linf" else (ROWS,))
    assert _values(_form(MaxLoss(norm, 0.1), net, reformulate=False), points)["ball"].shape == (ROWS,)


@pytest.mark.parametrize("norm", ["linf", "l1"])
def test_slacks_bind_on_both_sides_and_do_not_become_negative(norm: str) -> None:
    net = Linear()
    form = _form(MinRadius(norm), net)
    for sign in (1, -1):
        z = form.variables(net.images + sign * 0.1)
        z[:, N:] *= 0.5
        violated = form.constraints()[1].function(z, torch.arange(ROWS)) > 0.04
        assert violated.sum(1).eq(N).all()
        ball = _values(_form(MaxLoss("linf", 0.05), net), net.images + sign * 0.1)["ball"]
        assert (ball > 0.04).sum(1).eq(N).all()
    least = []

    class Watched(Formulation):
        def objective(self, z: Tensor, rows: Tensor) -> Tensor:
            least.append(z[:, N:].min())
            return super().objective(z, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pwcf_attack, "Formulation", Watched)
        replace(Pwcf.as_published(), starts=1)(net.task(MinRadius(norm), 100))
    assert len(least) > 20
    assert min(least) == 0


def test_rescale() -> None:
    net, points = Linear(), torch.rand(ROWS, N)
    for norm, factor in (("linf", math.sqrt(N)), ("l1", 1.0), ("l2", 1.0)):
        for reformulate in (True, False):
            with_it, without = (
                _values(_form(MinRadius(norm), net, rescale=rescale, reformulate=reformulate), points)
                for rescale in (True, False)
            )
            torch.testing.assert_close(with_it.pop("objective"), factor * without.pop("objective"))
            torch.testing.assert_close(with_it, without)


@pytest.mark.parametrize(("loss", "level"), [("margin", 0.01), ("ce", math.log(CLASSES)), ("dlr", 0.01)])
def test_clip(loss: str, level: float) -> None:
    net = Linear()
    wrong = net.images - 0.3 * net.W[net.labels]
    values = {
        clip: _values(_form(MaxLoss("l2", 1.0, loss), net, clip=clip), wrong)["objective"] for clip in (True, False)
    }
    torch.testing.assert_close(values[True], torch.full((ROWS,), -level))
    assert (values[False] < -level - 0.1).all()
    right = {clip: _values(_form(MaxLoss("l2", 1.0, loss), net, clip=clip), net.images) for clip in (True, False)}
    torch.testing.assert_close(right[True], right[False])


def test_clip_of_a_targeted_cross_entropy() -> None:
    """At a probability of 1/2 the wanted class has won."""
    net = Linear()
    problem = MaxLoss("l2", 1.0, "ce", targeted=True)
    values = _values(_form(problem, net), net.images + 0.3 * net.W[net.labels])
    torch.testing.assert_close(values["objective"], torch.full((ROWS,), math.log(2)))


def test_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that ends far away has still come by a point that is near."""
    net = Linear(classes=2)

    def ends_far_away(*arguments: object, **settings: object) -> object:
        solution = minimize(*arguments, **settings)
        return replace(solution, x=net.images - 0.3 * net.W[net.labels])  # and outside the box

    monkeypatch.setattr(pwcf_attack, "minimize", ends_far_away)
    for remember in (True, False):
        task = net.task(MinRadius("l2"), 100)
        points = Pwcf(remember=remember, starts=1)(task).points
        checked = _checked(task, points)
        assert checked.adversarial.all()
        ratio = checked.distance / net.radii(2.0)
        assert ((ratio <= 1.02) == remember).all()
        assert ((points >= 0) & (points <= 1)).all()


def test_a_hopeless_answer_is_in_the_box_too(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Linear(classes=2)
    monkeypatch.setattr(pwcf_attack, "minimize", lambda f, x0, *_, **__: replace(minimize(f, x0), x=x0 - 2))
    points = Pwcf(starts=1)(
        net.task(MinRadius("l2"), 20, model=CountedClassifier(Classifier(lambda x: 0 * net(x)), ROWS))
    ).points
    assert ((points >= 0) & (points <= 1)).all()


# ---- what is kept and what is repaired ------------------------------------------------------------


def test_seen_keeps_the_nearest_of_every_sample() -> None:
    net = Linear()
    form = _form(MinRadius("l2"), net)
    seen = BestSeen(form)
    step = net.W[net.labels]
    rows = torch.tensor([1, 0, 1, 1, 0])
    length = torch.tensor([0.2, 0.3, 0.15, 0.0, 0.25])
    points = net.images[rows] - length[:, None] * step[rows] / step[rows].norm(dim=1, keepdim=True) * 8
    points = points.clamp(0, 1)
    wrong = net(points).argmax(1) != net.labels[rows]
    assert wrong.tolist() == [True, True, True, False, True]
    seen.note(points, rows, net(points))
    assert torch.equal(seen.points[1], points[2])
    assert torch.equal(seen.points[0], points[4])
    assert torch.isinf(seen.best[2:]).all()
    seen.note(points[:2], rows[:2], net(points[:2]))
    assert torch.equal(seen.points[1], points[2])  # what is farther does not take its place
    seen, outside = BestSeen(form), points[4:].clone()
    outside[:, 0] = -0.5
    seen.note(outside, rows[4:], net(points[4:]))
    assert torch.isinf(seen.best).all()  # nor is what is outside the box of use


def test_seen_are_points_of_the_solver_alone() -> None:
    net = Linear()
    form = _form(MinRadius("l2"), net)
    condition, wrong = form.constraints()[0].function, net.images - 0.1 * net.W[net.labels]
    condition(wrong, torch.arange(ROWS))
    assert torch.isinf(form.seen.best).all()
    condition(wrong.requires_grad_(), torch.arange(ROWS))
    assert torch.isfinite(form.seen.best).all()


def test_seen_keeps_what_is_within_eps() -> None:
    net = Linear()
    step = net.W[net.labels] / net.W[net.labels].norm(dim=1, keepdim=True)
    near, far = net.images - 0.9 * step, net.images - 1.2 * step
    assert (net(near).argmax(1) != net.labels).all()
    seen = BestSeen(_form(MaxLoss("l2", 1.0), net))
    seen.note(near, torch.arange(ROWS), net(near))
    seen.note(far, torch.arange(ROWS), net(far))
    assert torch.equal(seen.points, near)


def test_points_just_short_of_the_boundary_are_pushed_over_it() -> None:
    net = Linear(classes=2)
    slope = net.W[net.labels] - net.W[1 - net.labels]
    radius = net.radii(2.0).float()[:, None]
    there = radius * slope / slope.norm(dim=1, keepdim=True)
    task = net.task(MinRadius("l2"))
    form = Formulation(task, Techniques())
    short = net.images - 0.9995 * there
    assert not _checked(task, short).adversarial.any()
    pushed = best_of(form, [short])
    assert _checked(task, pushed).adversarial.all()
    assert ((pushed - net.images).norm(dim=1) <= 1.0011 * radius.squeeze(1)).all()
    far = net.images - 1.04 * there
    for candidates in ([far, short], [short, far]):
        assert torch.equal(best_of(form, candidates), pushed)  # the nearer of two
    hopeless = net.images - 0.5 * there
    assert torch.equal(best_of(form, [hopeless]), hopeless)


# ---- budget and starts ----------------------------------------------------------------------------


@NORMS
@pytest.mark.parametrize("budget", [0, 13, 90])
@pytest.mark.parametrize("attack", [Pwcf(), Pwcf.as_published()], ids=lambda attack: attack.name)
def test_budget_and_counted_passes(attack: Pwcf, norm: str, budget: int) -> None:
    for problem in (MinRadius(norm), MaxLoss(norm, 0.01)):
        net = Linear()
        task = net.task(problem, budget)
        net.forward_rows = net.backward_rows = 0
        points = attack(task).points
        passes = task.model.passes
        assert (passes.total <= budget).all()
        assert passes.forward.sum() == net.forward_rows
        assert passes.backward.sum() == net.backward_rows
        if budget == 0:
            assert torch.equal(points, net.images)
        elif isinstance(problem, MaxLoss) and not attack.native:  # nothing to be found
            assert passes.total.max() >= budget - 8


def test_passes_are_counted_under_the_samples_numbers() -> None:
    net = Linear()
    samples = torch.arange(ROWS) * 2 + 1
    task = net.task(MinRadius("l2"), 60, samples=samples, model=CountedClassifier(Classifier(net), 2 * ROWS))
    Pwcf()(task)
    assert (task.model.passes.total[samples] >= 20).all()
    assert (task.model.passes.total[samples - 1] == 0).all()


def test_slots_bound_the_rows_of_a_call() -> None:
    net, sizes = Linear(), []

    def watched(x: Tensor) -> Tensor:
        sizes.append(x.shape[0])
        return net(x)

    Pwcf()(net.task(MinRadius("l2"), 100, model=CountedClassifier(Classifier(watched), ROWS, batch=4)))
    assert max(sizes) == 4


@NORMS
def test_a_sample_has_the_same_answer_in_any_company(norm: str) -> None:
    net = Linear(1)

    def radii(rows: Tensor) -> Tensor:
        task = net.task(MinRadius(norm), 80)
        picked = {k: getattr(task, k)[rows] for k in ("images", "labels", "lower", "upper", "samples")}
        points = Pwcf()(replace(task, **picked)).points
        return task.problem.metric(net.images[rows].double(), points.double())

    together = radii(torch.arange(ROWS))
    torch.testing.assert_close(radii(torch.tensor([3, 1])), together[[3, 1]], rtol=1e-3, atol=0)


def test_starts() -> None:
    net = Linear()
    task = net.task(MinRadius("l2"))
    form = Formulation(task, Techniques())
    points = Pwcf(noise=0.1)._starts(task, form, 3)
    assert points.shape == (3, ROWS, N)
    size = (points - net.images).abs()
    assert size.max() <= 0.1 + 1e-6
    assert (size.amax(2) > 0.08).all()
    assert not torch.equal(points[0], points[1])
    assert not torch.equal(points, Pwcf(noise=0.1)._starts(replace(task, seed=1), form, 3))
    part = replace(task, images=task.images[2:4], lower=task.lower[2:4], upper=task.upper[2:4])
    assert torch.equal(points[:, 2:4], Pwcf(noise=0.1)._starts(part, Formulation(part, Techniques()), 3))
    task = net.task(MaxLoss("l2", 0.01))
    points = Pwcf(noise=0.1)._starts(task, Formulation(task, Techniques()), 3)
    assert ((points - net.images).norm(dim=2) <= 0.01 + 1e-6).all()
    assert ((points - net.images).norm(dim=2) > 0.009).all()


def test_more_starts_find_nearer_points() -> None:
    """Half of the space is far from its boundary: from there a single start sees only the far side."""

    def two_sided(
        x: Tensor,
    ) -> Tensor:  # misclassified at 0.1 below and 0.3 above the image, nearer side the less steep
        s = x[:, 0] - 0.5
        return torch.stack([torch.zeros_like(s), torch.maximum(s - 0.3, -0.2 * (s + 0.1))], 1)

    images = torch.full((ROWS, N), 0.5) + 1e-3 * torch.arange(ROWS)[:, None]
    box = torch.zeros_like(images), torch.ones_like(images)
    labels, everyone = torch.zeros(ROWS, dtype=torch.int64), torch.arange(ROWS)

    def mean(starts: int) -> float:
        model = CountedClassifier(Classifier(two_sided), ROWS)
        task = Task(model, MinRadius("l2"), images, labels, everyone, *box, None, 300, 0)
        attack = replace(Pwcf.as_published(), starts=starts, noise=0.4)
        distance = _checked(task, attack(task).points).distance
        return distance.mean().item()

    assert mean(10) < 0.9 * mean(1)


def test_seeds_belong_to_images() -> None:
    images = torch.rand(3, 2, 5)
    seeds = seeds_of(images, 7)
    assert len(set(seeds)) == 3
    assert seeds_of(images.flip(0), 7) == seeds[::-1]
    assert not set(seeds) & set(seeds_of(images, 8))
    drawn = noise_of(seeds, 6, images.flatten(1))
    assert drawn.shape == (6, 10)
    assert drawn.abs().max() <= 1
    assert drawn.min() < -0.5
    torch.testing.assert_close(noise_of(seeds[1:2], 2, images.flatten(1)), drawn[2:4])


def test_samples_whose_states_do_not_fit_go_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    net, sizes = Linear(), []

    def watched(objective: object, x0: Tensor, *arguments: object, **settings: object) -> object:
        sizes.append(x0.shape[0])
        return minimize(objective, x0, *arguments, **settings)

    monkeypatch.setattr(pwcf_attack, "minimize", watched)
    points = []
    for states in (2e9, 2 * 2 * N * 4 * (2 * pwcf_attack.PAIRS + pwcf_attack.VECTORS)):
        monkeypatch.setattr(pwcf_attack, "STATES", states)
        points.append(replace(Pwcf.as_published(), starts=1)(net.task(MinRadius("l2"), 40)).points)
    assert sizes == [ROWS, 2, 2, 1]
    torch.testing.assert_close(*points)
