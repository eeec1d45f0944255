"""Distances that cannot be one are refused before the search, doubtful ones are warned of, all others go unnoticed."""

import sys
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import pwcf
from pwcf.metrics import Custom, as_metric
from pwcf.metrics.checks import check_metric
from pwcf.models import CountedClassifier

IMAGES = torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
BOX = (0.0, 1.0)


def moved(reference: Tensor, candidate: Tensor) -> Tensor:
    return (candidate - reference).flatten(1)


def by_the_batch(reference: Tensor, candidate: Tensor) -> Tensor:
    return moved(reference, candidate).norm(dim=1) / moved(reference, candidate).norm()


def centred(reference: Tensor, candidate: Tensor) -> Tensor:
    d = moved(reference, candidate)
    return (d - d.mean(0)).norm(dim=1)


norm = nn.BatchNorm2d(1)


def batch_norm(reference: Tensor, candidate: Tensor) -> Tensor:
    return (norm(candidate) - norm(reference)).flatten(1).norm(dim=1)


def similarity(reference: Tensor, candidate: Tensor) -> Tensor:
    return torch.cosine_similarity(reference.flatten(1), candidate.flatten(1))


def offset(reference: Tensor, candidate: Tensor) -> Tensor:
    return moved(reference, candidate).norm(dim=1) + 1


def negative(reference: Tensor, candidate: Tensor) -> Tensor:
    return -moved(reference, candidate).norm(dim=1)


def blind(reference: Tensor, candidate: Tensor) -> Tensor:
    return moved(reference, candidate).norm(dim=1) * 0


def smooth(reference: Tensor, candidate: Tensor) -> Tensor:
    return (moved(reference, candidate).square().sum(1) + 1e-6).sqrt()


def undefined_at_zero(reference: Tensor, candidate: Tensor) -> Tensor:
    d = moved(reference, candidate).abs()
    return d.sum(1) / (d / d).sum(1) * 16


def noisy(reference: Tensor, candidate: Tensor) -> Tensor:
    return nn.functional.dropout(moved(reference, candidate), 0.2).norm(dim=1)


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        (by_the_batch, "changes with the other rows of the batch"),
        (centred, "changes with the other rows of the batch"),
        (batch_norm, "changes with the other rows of the batch"),
        (similarity, r"expected d\(x, x\) = 0, found 1 .*take 1 - similarity"),
        (offset, r"expected d\(x, x\) = 0, found 1 "),
        (negative, r"expected distances >= 0, found -.*take 1 - similarity"),
    ],
)
@pytest.mark.parametrize("samples", [1, 5])
def test_no_distances_are_refused(metric: Callable[[Tensor, Tensor], Tensor], sentence: str, samples: int) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_metric(Custom(metric), IMAGES[:samples], BOX)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    with pytest.raises(ValueError, match=rf"metric {metric.__name__}: .*{sentence}"):
        pwcf.evaluate(net, IMAGES, torch.zeros(5).long(), pwcf.MinRadius(metric))


def test_randomness_is_warned_of_and_changes_no_random_number() -> None:
    state = torch.get_rng_state()
    (sentence,) = check_metric(Custom(noisy), IMAGES, BOX)
    assert "different distances for the same points" in sentence
    assert torch.equal(torch.get_rng_state(), state)


def test_a_distance_that_is_always_zero_is_warned_of() -> None:
    (sentence,) = check_metric(Custom(blind), IMAGES, BOX)
    assert "The metric blind is 0 between images and points far from them" in sentence


@pytest.mark.parametrize("metric", [smooth, undefined_at_zero, "ssim", "lab", "l0", "l1.5", "linf"])
def test_distances_go_unnoticed(metric: object) -> None:
    images = torch.rand(3, 3, 16, 16)
    for batch in (1, 2, 4):
        assert check_metric(as_metric(metric), images, BOX, batch) == []  # type: ignore[arg-type]
    assert check_metric(as_metric(metric), images[:0], BOX) == []  # type: ignore[arg-type]


def test_checks_belong_to_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes and bits of an evaluation are what they are without."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    labels = net(IMAGES).argmax(1)

    def run() -> pwcf.Run:
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pwcf.evaluate(net, IMAGES, labels, pwcf.MinRadius(noisy), budget=60)

    checked = run()
    monkeypatch.setattr(sys.modules["pwcf.evaluation.evaluate"], "check_metric", lambda *given: [])
    without = run()
    assert torch.equal(checked.x_adv, without.x_adv)
    assert torch.equal(checked.passes.total, without.passes.total)
    assert len(checked.warnings) == len(without.warnings) + 1


def test_metrics_of_the_classifier_are_looked_at_as_they_are_used() -> None:
    """Its batch norm is in eval mode then, as in the search."""
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(16), nn.Linear(16, 3))

    def features(reference: Tensor, candidate: Tensor) -> Tensor:
        return (net(candidate) - net(reference)).norm(dim=1)

    with pytest.warns(UserWarning, match="train mode"):
        run = pwcf.evaluate(net, IMAGES, torch.zeros(5).long(), pwcf.MinRadius(features), budget=60)
    assert len(run.status) == 5
    assert CountedClassifier(pwcf.Classifier(net), 1).batch  # train mode is given back
    assert net[1].training
