"""What a careful user would try: other batches, 8-bit grids, models that say nothing, odd dtypes, tight budgets."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pwcf import MaxLoss, MinRadius, Status, evaluate
from pwcf.attacks import Answer, Attack, Lmn, Task


def _linear(n: int, classes: int, seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    net = nn.Linear(n, classes)
    net.weight.data = torch.randn(classes, n)
    net.bias.data = -net.weight.data.sum(1) / 2
    return net


def _near_middle(net: nn.Linear, rows: int) -> tuple[Tensor, Tensor]:
    images = (0.5 + 0.01 * torch.randn(rows, net.in_features)).clamp(0, 1)
    return images, net(images).argmax(1)


@pytest.mark.parametrize("metric", ["l1", "l2", "linf"])
def test_points_hold_when_the_model_is_called_on_one_sample(metric: str) -> None:
    """Logits of 3072 terms: their rounding, another in every batch, is larger than theirs alone would tell."""
    net = _linear(3072, 10)
    images, labels = _near_middle(net, 30)
    run = evaluate(net, images, labels, MinRadius(metric), budget=200)
    assert run.adversarial.all()
    alone = torch.cat([net(point.unsqueeze(0)).argmax(1) for point in run.x_adv])
    assert (alone != labels).all()
    assert (net(run.x_adv).argmax(1) != labels).all()


@pytest.mark.parametrize("levels", [1, 2, 4, 8])
def test_eight_bit_max_loss_finds_the_corners_that_exist(levels: int) -> None:
    torch.manual_seed(0)
    net = nn.Linear(192, 2, bias=False)
    net.weight.data = torch.randn(2, 192)
    k = (torch.rand(20, 192) * 255).round()
    images = k / 255
    labels = net(images).argmax(1)
    gap = net.weight.data[1 - labels] - net.weight.data[labels]
    corners = (k + levels * gap.sign()).clamp(0, 255) / 255
    exist = net(corners).argmax(1) != labels
    run = evaluate(net, images, labels, MaxLoss("linf", levels / 255), eight_bit=True, budget=300)
    assert exist.any()
    assert (run.adversarial >= exist).all()
    points = run.x_adv[run.adversarial]
    grid = (points.double() * 255).round()
    assert torch.equal((grid / 255).float(), points)  # bit by bit what an 8-bit file would give back
    assert (grid - k[run.adversarial]).abs().max() <= levels


def test_no_claim_for_a_badly_conditioned_metric_far_from_its_optimum() -> None:
    w = 1e-4
    weights = torch.tensor([1.0, w])

    def metric(reference: Tensor, candidate: Tensor) -> Tensor:
        return (weights * (candidate - reference)).norm(dim=1)

    def model(z: Tensor) -> Tensor:
        return torch.stack([0 * z[:, 0], (z[:, 0] - 0.5) + 2 * w * (z[:, 1] - 0.5) - 0.4 * w], 1)

    run = evaluate(model, torch.full((1, 2), 0.5), torch.tensor([0]), MinRadius(metric), budget=200)
    exact = 0.4 * w / 5**0.5
    assert run.status[0] is not Status.CONVERGED or run.radius[0] <= 1.02 * exact


def test_a_model_that_says_nothing_is_neither_right_nor_robust() -> None:
    images, labels = torch.rand(4, 5), torch.zeros(4, dtype=torch.int64)
    with pytest.warns(UserWarning, match="NaN"):
        run = evaluate(lambda z: torch.full((len(z), 3), torch.nan) + 0 * z[:, :1], images, labels, MaxLoss("l2", 1.0))
    assert run.clean_accuracy == 0
    assert run.robust_accuracy == 0
    assert set(run.status) == {Status.NONFINITE}
    with pytest.warns(UserWarning, match="gradient"):
        run = evaluate(lambda z: 0 * z[:, :3], images, labels + 2, MinRadius("l2"))
    assert run.clean_accuracy == 0  # all logits tie: class 0 is the model's


def test_a_class_that_is_ruled_out_does_no_harm() -> None:
    net = _linear(20, 3)
    images, labels = _near_middle(net, 6)
    labels = net(images)[:, :2].argmax(1)

    def without_third(z: Tensor) -> Tensor:
        return torch.cat([net(z)[:, :2], torch.full((len(z), 1), -torch.inf)], 1)

    with pytest.warns(UserWarning, match="NaN or inf"):
        run = evaluate(without_third, images, labels, MinRadius("l2"), budget=200)
    assert run.adversarial.all()


def test_an_attack_cannot_move_what_it_is_measured_from() -> None:
    net = _linear(20, 3)
    images, labels = _near_middle(net, 6)
    kept = images.clone()

    class Vandal(Attack):
        name = "vandal"

        def __call__(self, task: Task) -> Answer:
            task.images.copy_(1 - task.images)
            task.labels.zero_()
            return Answer(task.images)

    run = evaluate(net, images, labels, MinRadius("l2"), attacks=[Vandal(), "lmn"], budget=400)
    assert torch.equal(images, kept)
    assert (run.radius > 0).all()
    torch.testing.assert_close(run.radius, (run.x_adv - images).double().norm(dim=1), rtol=1e-5, atol=0)


@pytest.mark.parametrize("metric", ["l1", "l1.5", "l2", "linf"])
def test_logits_may_be_of_another_dtype_or_size(metric: str) -> None:
    net = _linear(20, 3)
    images, labels = _near_middle(net, 5)
    usual = evaluate(net, images, labels, MinRadius(metric), budget=400)
    double = evaluate(lambda z: net(z).double(), images, labels, MinRadius(metric), budget=400)
    torch.testing.assert_close(double.radius, usual.radius, rtol=0.02, atol=0)
    huge = evaluate(lambda z: 1e15 * net(z), images, labels, MinRadius(metric), budget=400)
    torch.testing.assert_close(huge.radius, usual.radius, rtol=0.02, atol=0)


def test_a_metric_may_compute_in_double() -> None:
    net = _linear(20, 3)
    images, labels = _near_middle(net, 5)
    run = evaluate(net, images, labels, MinRadius(lambda a, b: (b.double() - a.double()).norm(dim=1)), budget=500)
    usual = evaluate(net, images, labels, MinRadius("l2"), budget=500)
    torch.testing.assert_close(run.radius, usual.radius, rtol=0.02, atol=0)


@pytest.mark.parametrize("metric", ["l1", "l2", "linf", "l3"])
@pytest.mark.parametrize("attacks", [1, 2, 4])
@pytest.mark.parametrize("eight_bit", [False, True])
@pytest.mark.filterwarnings("ignore:No misclassified point")  # with the least budgets there may be none
def test_a_budget_is_kept_or_refused(metric: str, attacks: int, eight_bit: bool) -> None:
    net = _linear(12, 4)
    images, labels = _near_middle(net, 3)
    several = [Lmn(name=f"pwcf {number}") for number in range(attacks)]
    answered = 0
    for budget in (50, 53, 60, 75, 120, 200):
        try:
            run = evaluate(net, images, labels, MinRadius(metric), attacks=several, budget=budget, eight_bit=eight_bit)
        except ValueError as error:
            least = int(str(error).split("at least ")[1].split()[0])
            assert least > budget
            run = evaluate(net, images, labels, MinRadius(metric), attacks=several, budget=least, eight_bit=eight_bit)
            budget = least
        answered += 1
        assert (run.passes.total <= budget).all()
    assert answered == 6


def test_budgets_hold_with_many_classes_too() -> None:
    net = _linear(12, 120)
    images, labels = _near_middle(net, 2)
    for budget in (100, 400, 1000):
        run = evaluate(net, images, labels, MinRadius("l2"), budget=budget)
        assert (run.passes.total <= budget).all()


def test_another_seed_is_another_search() -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 5))
    images = torch.rand(4, 30)
    labels = net(images).argmax(1)
    runs = [evaluate(net, images, labels, MinRadius("l1"), budget=400, seed=seed) for seed in (0, 0, 1)]
    assert torch.equal(runs[0].x_adv, runs[1].x_adv)
    assert not torch.equal(runs[0].x_adv, runs[2].x_adv)


def test_eps_beyond_single_precision() -> None:
    net = _linear(20, 3)
    images, labels = _near_middle(net, 4)
    with pytest.warns(UserWarning, match="contains every image"):
        assert evaluate(net, images, labels, MaxLoss("linf", 1e39)).robust_accuracy == 0


@pytest.mark.filterwarnings("ignore:No misclassified point")  # by luck
def test_a_random_model_is_warned_about_and_answered() -> None:
    net = _linear(20, 3)
    images, labels = _near_middle(net, 12)
    with pytest.warns(UserWarning, match="random"):
        run = evaluate(lambda z: net(z) + 0.02 * torch.randn(len(z), 3), images, labels, MinRadius("l1.5"), budget=400)
    assert run.radius.shape == (12,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": 2**63}, "seed: expected"),
        ({"seed": None}, "seed: expected"),
        ({"bounds": (0.0, float("inf"))}, "bounds: expected finite"),
        ({"images": torch.rand(4, 20).half()}, "images: expected float32 or float64"),
        ({"images": torch.rand(4, 0)}, "images: expected at least one entry"),
        ({"model": lambda z: z[:, :3].long()}, "model: expected a floating-point tensor"),
    ],
)
def test_more_bad_input_is_named(arguments: dict[str, object], message: str) -> None:
    net = _linear(20, 3)
    images, labels = _near_middle(net, 4)
    call: dict[str, object] = {"model": net, "images": images, "labels": labels, "problem": MinRadius("l2")}
    with pytest.raises((TypeError, ValueError), match=message):
        evaluate(**{**call, **arguments})  # type: ignore[arg-type]


def test_an_attack_that_returns_something_else_is_named() -> None:
    net = _linear(20, 3)
    images, labels = _near_middle(net, 4)

    class Odd(Attack):
        name = "odd"

        def __call__(self, task: Task) -> Answer:
            return Answer(task.images[:1])

    with pytest.raises(ValueError, match="attack odd: expected points of shape"):
        evaluate(net, images, labels, MinRadius("l2"), attacks=[Odd()])


def test_a_step_to_where_the_model_says_nothing_is_taken_back() -> None:
    """The linear model at the image leads beyond u = .09, where logits are NaN; the boundary is at u = .05."""

    def model(x: Tensor) -> Tensor:
        u = x[:, 0] - 0.5
        nothing = 0 * (0.09 - u).sqrt()  # value and slope are NaN beyond
        return torch.stack([0.1 + 0 * u, u + 20 * u * u + nothing], 1)

    run = evaluate(model, torch.full((1, 2), 0.5), torch.tensor([0]), MinRadius("l2"), budget=100)
    assert run.adversarial.all()
    assert abs(run.radius[0] - 0.05) < 0.005
