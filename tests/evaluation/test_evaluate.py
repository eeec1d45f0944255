"""``evaluate``: the contract of its Run, budgets, masks, grids, portfolios, bad input."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import pwcf
from pwcf import Classifier, MaxLoss, MinRadius, Status, evaluate
from pwcf.attacks import Answer, Attack, Task
from pwcf.attacks.linearised import farthest_points
from pwcf.metrics import as_metric

ROWS, N, CLASSES = 10, 24, 4
METRICS = pytest.mark.parametrize("metric", ["l1", "l1.5", "l2", "l4", "linf"])


class Linear(nn.Module):
    """Images about the middle of the box; the box is inactive for small radii."""

    def __init__(self, classes: int = CLASSES, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.W = nn.Parameter(torch.randn(classes, N, generator=generator))
        self.b = nn.Parameter(-0.5 * self.W.detach().sum(1))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += x.shape[0]
        return x.flatten(1) @ self.W.T + self.b

    def samples(self) -> tuple[Tensor, Tensor]:
        images = 0.5 + 0.02 * torch.randn(ROWS, 2, 3, 4, generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            return images, self(images).argmax(1)

    def exact(self, images: Tensor, labels: Tensor, q: float) -> Tensor:
        W, b = self.W.detach().double(), self.b.detach().double()
        f = images.flatten(1).double() @ W.T + b
        size = torch.linalg.vector_norm(W[labels].unsqueeze(1) - W.unsqueeze(0), ord=q, dim=2)
        return ((f.gather(1, labels[:, None]) - f) / size).scatter(1, labels[:, None], torch.inf).amin(1)


def _dual(metric: str) -> float:
    p = float(metric[1:])
    return math.inf if p == 1 else 1.0 if math.isinf(p) else p / (p - 1)


@METRICS
@pytest.mark.parametrize("budget", [200, 700])
def test_radii_of_a_linear_model_with_all_that_a_run_promises(metric: str, budget: int) -> None:
    net = Linear()
    images, labels = net.samples()
    labels[0] = (labels[0] + 1) % CLASSES  # wrong as it is
    net.calls = 0
    run = evaluate(net, images, labels, MinRadius(metric), budget=budget)
    assert run.radius.dtype == torch.float64
    assert run.radius[0] == 0
    assert run.status[0] is Status.ALREADY_MISCLASSIFIED
    assert torch.equal(run.x_adv[0], images[0])
    ratio = run.radius[1:] / net.exact(images, labels, _dual(metric))[1:]
    assert (ratio >= 1 - 1e-5).all()  # the model itself computes in float32
    assert (ratio <= 1.02).all()
    assert run.adversarial.all()
    assert (net(run.x_adv).argmax(1) != labels).all()
    assert (run.x_adv >= 0).all()
    assert (run.x_adv <= 1).all()
    distance = pwcf.metrics.as_metric(metric)(images.double(), run.x_adv.double())
    torch.testing.assert_close(distance, run.radius)
    assert (run.passes.total <= budget).all()
    assert run.passes.forward.sum() == net.calls - ROWS  # the line with argmax above was one more call
    assert run.attack[1:] == ["lmn"] * (ROWS - 1)
    # Models of a linear classifier are exact: the evidence must bound the excess.
    assert (2 * run.evidence.stationarity[1:] >= (1 - 1 / ratio) - 1e-5).all()  # gradients are float32
    assert run.evidence.violation.abs().max() == 0
    for status, excess in zip(run.status[1:], ratio, strict=True):
        assert status in (Status.CONVERGED, Status.BUDGET)
        assert status is Status.BUDGET or excess <= 1.01
    assert "mean" in run.summary()


@METRICS
def test_max_loss_finds_what_is_within_eps_and_nothing_else(metric: str) -> None:
    net = Linear(seed=2)
    images, labels = net.samples()
    exact = net.exact(images, labels, _dual(metric))
    eps = torch.where(torch.arange(ROWS) % 2 == 0, 1.05 * exact, 0.98 * exact)
    run = evaluate(net, images, labels, MaxLoss(metric, eps))
    assert run.adversarial.tolist() == [i % 2 == 0 for i in range(ROWS)]
    assert run.robust_accuracy == 0.5
    assert (run.radius[::2] <= eps[::2] * (1 + 1e-6)).all()
    assert run.radius[1::2].isinf().all()
    assert torch.equal(run.x_adv[1::2], images[1::2])
    assert run.status[:2] == [Status.FOUND, Status.NOT_FOUND]
    # What is found early costs little.
    assert run.passes.total[::2].double().mean() < 0.3 * run.passes.total[1::2].double().mean()


@METRICS
def test_max_loss_goes_the_way_of_min_radius(metric: str) -> None:
    """What one finds at some radius the other finds at an eps just above it, also where minima are many.

    It needs a few passes more, for its first steps.
    """
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(N, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 6)).double()
    with torch.no_grad():
        for layer in net[::2]:
            layer.weight *= 4
    images = torch.rand(40, N, dtype=torch.float64)
    labels = net(images).argmax(1)
    radius = evaluate(net, images, labels, MinRadius(metric), budget=700).radius
    budget = 700 + farthest_points.passes(as_metric(metric))
    run = evaluate(net, images, labels, MaxLoss(metric, eps=1.001 * radius), budget=budget)
    assert run.adversarial.all()


def test_a_sample_has_the_same_answer_whatever_is_beside_it() -> None:
    net = Linear(seed=3)
    images, labels = net.samples()
    net, images = net.double(), images.double()
    together = evaluate(net, images, labels, MinRadius("l2"), budget=600, seed=5)
    order = torch.tensor([7, 2, 9])
    apart = evaluate(net, images[order], labels[order], MinRadius("l2"), budget=600, seed=5, batch=4)
    torch.testing.assert_close(apart.radius, together.radius[order], rtol=1e-9, atol=0)
    torch.testing.assert_close(apart.x_adv, together.x_adv[order], rtol=0, atol=1e-7)


@METRICS
def test_masked_entries_stay_as_they_are(metric: str) -> None:
    net = Linear(seed=4)
    images, labels = net.samples()
    mask = torch.zeros(2, 3, 4, dtype=torch.bool)
    mask[0] = True
    run = evaluate(net, images, labels, MinRadius(metric), budget=300, mask=mask)
    assert run.adversarial.all()
    assert torch.equal(run.x_adv[:, 1], images[:, 1])
    free = evaluate(net, images, labels, MinRadius(metric), budget=300)
    assert (run.radius > free.radius * 0.999).all()


@pytest.mark.parametrize("problem", [MinRadius("linf"), MinRadius("l2"), MaxLoss("linf", 0.2)])
def test_eight_bit_answers_lie_on_the_grid(problem: pwcf.problems.Problem) -> None:
    net = Linear(seed=5)
    images, labels = net.samples()
    images = (images * 255).round() / 255
    labels = net(images).argmax(1)
    run = evaluate(net, images, labels, problem, budget=400, eight_bit=True)
    assert run.adversarial.all()
    levels = run.x_adv.double() * 255
    assert (levels - levels.round()).abs().max() < 1e-4
    assert (net(run.x_adv).argmax(1) != labels).all()


def test_max_loss_at_a_small_budget_keeps_all_its_passes_for_the_search() -> None:
    net = Linear(classes=10)
    images, labels = net.samples()
    run = evaluate(net, images, labels, MaxLoss("l2", eps=2.0), budget=50, eight_bit=True)
    assert (run.passes.total <= 50).all()
    assert run.adversarial.double().mean() >= 0.5


def test_targeted_answers_have_the_wanted_class() -> None:
    net = Linear(seed=6)
    images, labels = net.samples()
    wanted = (labels + 1) % CLASSES
    wanted[0] = labels[0]
    run = evaluate(net, images, wanted, MinRadius("l2", targeted=True), budget=300)
    assert torch.equal(net(run.x_adv).argmax(1), wanted)
    assert run.radius[0] == 0
    assert run.status[0] is Status.ALREADY_MISCLASSIFIED


def test_a_metric_of_ones_own_and_what_it_means() -> None:
    weights = torch.linspace(0.5, 2, N).view(2, 3, 4)

    def weighted(reference: Tensor, candidate: Tensor) -> Tensor:
        return (weights * (candidate - reference)).flatten(1).norm(dim=1)

    net = Linear(seed=7)
    images, labels = net.samples()
    run = evaluate(net, images, labels, MinRadius(weighted))
    scaled = Linear(seed=7)
    scaled.W.data /= weights.flatten()  # the same problem in the variables weights * x
    scaled.b.data = (net(images) - images.flatten(1) @ net.W.T).detach()[0]
    moved = images * weights
    exact = scaled.exact(moved, labels, 2.0)
    assert (run.radius >= exact * (1 - 1e-5)).all()
    assert (run.radius / exact).max() <= 1.01


def test_the_best_point_of_all_attacks_counts() -> None:
    net = Linear(seed=8)
    images, labels = net.samples()

    class Far(Attack):
        name = "far"

        def __call__(self, task: Task) -> Answer:
            assert task.budget <= 500
            return Answer((task.images > 0.5).to(task.images))

    run = evaluate(net, images, labels, MinRadius("linf"), attacks=[Far(), "lmn"], budget=1000)
    assert run.attack == ["lmn"] * ROWS
    assert (run.passes.total <= 1000).all()


def test_points_of_an_attack_that_are_not_adversarial_do_not_count() -> None:
    net = Linear(seed=9)
    images, labels = net.samples()

    class Liar(Attack):
        name = "liar"

        def __call__(self, task: Task) -> Answer:
            return Answer(task.images + 1e-4)

    with pytest.warns(UserWarning, match="No misclassified point at any distance"):
        run = evaluate(net, images, labels, MinRadius("l2"), attacks=[Liar()])
    assert not run.adversarial.any()
    assert run.radius.isinf().all()
    assert torch.equal(run.x_adv, images)
    assert run.attack == [""] * ROWS
    assert set(run.status) == {Status.NOT_FOUND}
    assert (run.evidence.violation > 0).all()


def test_models_of_any_shape() -> None:
    W = torch.randn(7, generator=torch.Generator().manual_seed(0))
    x = torch.full((3, 7), 0.5) + 0.05 * torch.arange(3).view(3, 1)
    one_logit = Classifier(lambda z: (z - 0.52) @ W)
    labels = one_logit(x).argmax(1)
    run = evaluate(one_logit, x, labels, MinRadius("l2"), budget=200)
    exact = ((x - 0.52) @ W).abs() / W.norm()
    torch.testing.assert_close(run.radius, exact.double(), rtol=1e-2, atol=1e-6)
    nothing = evaluate(one_logit, x[:0], labels[:0], MinRadius("l2"))
    assert nothing.radius.shape == (0,)
    assert "0 samples" in nothing.summary()


def test_nan_logits_spoil_only_their_own_samples() -> None:
    net = Linear(seed=10)
    images, labels = net.samples()
    images[0] = 0.9

    def sometimes_nan(x: Tensor) -> Tensor:
        return torch.where((x.flatten(1).mean(1) > 0.8).unsqueeze(1), torch.nan, net(x))

    with pytest.warns(UserWarning, match="NaN"):
        run = evaluate(sometimes_nan, images, labels, MinRadius("l2"), budget=200)
    assert run.status[0] is Status.NONFINITE
    assert not run.adversarial[0]
    assert run.adversarial[1:].all()


def test_memory_that_runs_out_halves_the_batch() -> None:
    net = Linear(seed=11)
    images, labels = net.samples()
    sizes = []

    def greedy(x: Tensor) -> Tensor:
        sizes.append(x.shape[0])
        if x.shape[0] > 6:  # from the first check on
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return net(x)

    run = evaluate(greedy, images, labels, MinRadius("l2"), budget=200)
    assert run.adversarial.all()
    assert max(sizes[-20:]) <= 6


def test_the_model_comes_back_as_it_was() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(N, 3))
    net.train()
    images, labels = torch.rand(4, 2, 3, 4), torch.zeros(4, dtype=torch.int64)
    with pytest.warns(UserWarning, match="train mode"):
        evaluate(net, images, labels, MinRadius("l2"), budget=100)
    assert all(module.training for module in net.modules())
    assert all(parameter.requires_grad for parameter in net.parameters())


def test_inference_mode_is_no_obstacle() -> None:
    net = Linear(seed=12)
    images, labels = net.samples()
    outside = evaluate(net, images, labels, MinRadius("l2"), budget=200)
    with torch.inference_mode():
        inside = evaluate(net, images.clone(), net(images).argmax(1), MinRadius("l2"), budget=200)
    assert torch.equal(inside.radius, outside.radius)


def test_some_answers_of_a_run() -> None:
    net = Linear(seed=12)
    images, labels = net.samples()
    run = evaluate(net, images, labels, MinRadius("l2"), budget=200)
    some = run.select(torch.tensor([4, 1]))
    assert torch.equal(some.radius, run.radius[[4, 1]])
    assert torch.equal(some.x_adv, run.x_adv[[4, 1]])
    assert torch.equal(some.contributions[0].radius, run.radius[[4, 1]])
    assert some.status == [run.status[4], run.status[1]]
    assert "2 samples" in some.summary()


def test_wanted_classes_are_not_taken_for_wrong_labels() -> None:
    net = Linear(seed=6)
    images, labels = net.samples()
    run = evaluate(net, images, (labels + 1) % CLASSES, MinRadius("l2", targeted=True), budget=200)
    assert run.warnings == []


def test_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    net = Linear()
    images, labels = net.samples()
    evaluate(net, images, labels, MinRadius("l2"), budget=100, progress=True)
    shown = capsys.readouterr().err
    assert "10/10" in shown
    assert "found=10" in shown


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"budget": 10}, ValueError, "budget: expected an integer >= 50, found 10"),
        ({"batch": 0}, ValueError, "batch: expected"),
        ({"tol": 0}, ValueError, "tol: expected"),
        ({"attacks": []}, ValueError, "attacks: expected at least one"),
        ({"attacks": ["nonsense"]}, ValueError, "attacks: expected names"),
        ({"attacks": [3]}, TypeError, "attacks: expected names"),
        ({"problem": "l2"}, TypeError, "problem: expected MinRadius.*, found 'l2'"),
        ({"mask": torch.ones(N)}, TypeError, "mask: expected a bool"),
        ({"mask": torch.ones(5, dtype=torch.bool)}, ValueError, "mask: expected a shape"),
        ({"images": 2 * torch.ones(ROWS, 2, 3, 4)}, ValueError, "images: expected values within bounds"),
        ({"labels": torch.full((ROWS,), 9)}, ValueError, "labels: expected 0 to 3"),
        ({"model": Classifier(Linear()), "bounds": (0.0, 1.0)}, ValueError, "bounds: the Classifier has its own"),
        ({"problem": MaxLoss("l2", torch.ones(3))}, ValueError, "eps: expected a number or 10 values"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, object], error: type[Exception], message: str) -> None:
    net = Linear()
    images, labels = net.samples()
    call: dict[str, object] = {"model": net, "images": images, "labels": labels, "problem": MinRadius("l2")}
    with pytest.raises(error, match=message):
        evaluate(**{**call, **arguments})  # type: ignore[arg-type]


def test_robust_accuracy_needs_an_eps() -> None:
    net = Linear()
    images, labels = net.samples()
    run = evaluate(net, images, labels, MinRadius("l2"), budget=200)
    with pytest.raises(AttributeError, match="robust_accuracy_at"):
        _ = run.robust_accuracy
    middle = float(run.radius.median()) + 1e-9
    assert run.robust_accuracy_at(middle) == 0.5
    with pytest.raises(TypeError, match="eps: expected a number, found '8/255'"):
        run.robust_accuracy_at("8/255")  # type: ignore[arg-type]


@pytest.mark.parametrize("problem", [MinRadius("l2"), MaxLoss("linf", 0.02)])
def test_logits_are_those_the_verification_has_seen(problem: MinRadius | MaxLoss) -> None:
    """They say of every point what the verdict says, and keep in step with the samples that are selected."""
    net = Linear(seed=4)
    images, labels = net.samples()
    labels = labels.clone()
    labels[0] = (labels[0] + 1) % net(images).shape[1]  # wrong as it is
    calls = []

    def counting(x: Tensor) -> Tensor:
        calls.append(len(x))
        return net(x)

    run = evaluate(counting, images, labels, problem, attacks="apgd", budget=300)
    assert sum(calls) == int(run.passes.forward.sum())  # nobody asks beside what is counted
    assert torch.equal(run.clean_logits, net(images))
    assert run.logits.shape == run.clean_logits.shape
    assert int(run.adversarial.sum()) > 1
    for i in range(ROWS):
        attacked = run.attack[i] == "apgd"
        assert torch.equal(run.logits[i], net(run.x_adv[i : i + 1])[0] if attacked else run.clean_logits[i])
    assert torch.equal(run.logits.argmax(1) != labels, run.adversarial)
    rows = torch.tensor([3, 1])
    assert torch.equal(run.select(rows).logits, run.logits[rows])
    assert torch.equal(run.select(rows).clean_logits, run.clean_logits[rows])
