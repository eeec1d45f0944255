"""Classifier(model, samples=k): the model with the mean logits of k calls; each counts, and points hold again."""

import warnings

import pytest
import torch
from torch import Tensor, nn

import pwcf
from pwcf import zoo

NET = zoo.load_network("fashion-linf")
IMAGES, LABELS = (each[:8] for each in zoo.load_images())


class Noisy(nn.Module):
    """A defence by noise; it counts its rows."""

    def __init__(self, sigma: float = 0.1) -> None:
        super().__init__()
        self.net, self.sigma, self.rows = NET, sigma, 0

    def forward(self, x: Tensor) -> Tensor:
        self.rows += len(x)
        return NET(x + self.sigma * torch.randn_like(x))


def evaluated(samples: int, problem: object = None, budget: int = 400, model: nn.Module | None = None) -> pwcf.Run:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pwcf.evaluate(
            pwcf.Classifier(model or Noisy(), samples=samples), IMAGES, LABELS, problem or pwcf.MinRadius("l2"),  # type: ignore[arg-type]
            budget=budget * samples,
        )  # fmt: skip


def holds(run: pwcf.Run) -> float:
    """Share of the points found that fresh means call misclassified."""
    torch.manual_seed(1)
    noisy = Noisy()
    found = run.adversarial & (run.radius > 0)
    with torch.no_grad():
        looks = [torch.stack([noisy(run.x_adv) for _ in range(16)]).mean(0).argmax(1) != LABELS for _ in range(10)]
    return float(torch.stack(looks)[:, found].double().mean())


def test_logits_and_gradients_are_means() -> None:
    x = IMAGES[:2].clone().requires_grad_(True)
    classifier = pwcf.Classifier(Noisy(), samples=3)
    torch.manual_seed(0)
    logits = classifier(x)
    (gradient,) = torch.autograd.grad(logits[:, 0].sum(), x)
    torch.manual_seed(0)
    single = [Noisy()(x) for _ in range(3)]
    assert torch.allclose(logits, torch.stack(single).mean(0), atol=1e-5)
    parts = [torch.autograd.grad(each[:, 0].sum(), x)[0] for each in single]
    assert torch.allclose(gradient, torch.stack(parts).mean(0), atol=1e-5)


def test_every_call_is_counted_and_the_budget_kept() -> None:
    for samples in (1, 4):
        model = Noisy()
        run = evaluated(samples, model=model)
        assert int(run.passes.forward.sum()) == model.rows
        assert int(run.passes.total.max()) <= 400 * samples
        (part,) = run.contributions
        assert bool((part.passes <= run.passes.total).all())
        assert run.asked.budgets == [400 * samples]


def test_points_hold_in_fresh_looks() -> None:
    averaged = evaluated(8)
    assert int((averaged.adversarial & (averaged.radius > 0)).sum()) >= 5
    assert holds(averaged) > 0.8 > holds(evaluated(1))


def test_max_loss_too() -> None:
    run = evaluated(4, pwcf.MaxLoss("l2", 2.0))
    assert bool((run.radius[run.adversarial] <= 2.0 * (1 + 1e-6)).all())
    assert holds(run) > 0.9


def test_a_model_that_is_not_random_gives_the_same_with_one_sample() -> None:
    run = pwcf.evaluate(pwcf.Classifier(NET, samples=1), IMAGES, LABELS, pwcf.MinRadius("l2"), budget=60)
    assert torch.equal(run.x_adv, pwcf.evaluate(NET, IMAGES, LABELS, pwcf.MinRadius("l2"), budget=60).x_adv)
    assert "classifier.samples" not in pwcf.Classifier(NET).state()
    assert "classifier.samples" in pwcf.Classifier(NET, samples=2).state()


@pytest.mark.filterwarnings("ignore:The model changed its answer")
def test_warnings_name_the_remedy() -> None:
    with pytest.warns(UserWarning, match=r"it is random.*Classifier\(model, samples=16\)"):
        pwcf.evaluate(Noisy(), IMAGES[:2], LABELS[:2], pwcf.MaxLoss("l2", 0.1), budget=60)
    with pytest.warns(UserWarning, match=r"mean logits of 2 calls still change by \d+%.*raise samples"):
        pwcf.evaluate(
            pwcf.Classifier(Noisy(1.0), samples=2), IMAGES[:2], LABELS[:2], pwcf.MaxLoss("l2", 0.1), budget=200
        )


@pytest.mark.parametrize("samples", [0, -1, 1.5, True, "2"])
def test_wrong_numbers_of_samples(samples: object) -> None:
    with pytest.raises(ValueError, match="samples: expected an integer >= 1"):
        pwcf.Classifier(NET, samples=samples)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="budget: expected an integer >= 800"):
        pwcf.evaluate(pwcf.Classifier(NET, samples=16), IMAGES, LABELS, pwcf.MinRadius("l2"), budget=100)
