"""Robust accuracy at a few eps, and class by class, against the run's own numbers."""

import numpy as np
import pytest
import torch

import pwcf
from pwcf import analysis, load_run
from runfolders import Place
from runs_by_hand import run_of


def test_a_sweep_is_the_curve_at_some_eps(place: Place) -> None:
    run = load_run(place.path / "l2")
    for point in analysis.eps_sweep(run, [0.05, 0.2, 1.0]):
        assert point.robust == run.robust_accuracy_at(point.eps)
        assert point.low <= point.robust <= point.high
    usual = analysis.usual_eps_of([run])
    assert [point.eps for point in analysis.eps_sweep(run)] == usual
    assert {0.5, 1.0, 2.0} <= set(usual)


def test_a_max_loss_run_answers_for_its_own_eps(place: Place) -> None:
    run = load_run(place.path / "loss")
    (point,) = analysis.eps_sweep(run)
    assert (point.eps, point.robust) == (0.2, run.robust_accuracy)
    assert analysis.eps_sweep(run, [0.1]) == []
    assert [each.robust for each in analysis.eps_sweep(run, [0.1, 0.2])] == [run.robust_accuracy]
    both = analysis.usual_eps_of([load_run(place.path / "l2"), run])
    assert 0.2 in both
    assert both == sorted(set(both))


def test_runs_in_memory_are_taken_for_images() -> None:
    run = run_of("cccc", [0.1, 0.6, 1.5, 3.0], x_adv=torch.zeros(4, 3, 8, 8))
    assert analysis.usual_eps_of([run]) == [0.25, 0.5, 1.0]
    other = run_of("cccc", [0.1, 0.6, 1.5, 3.0], pwcf.MinRadius("l1"))
    with pytest.raises(ValueError, match="one metric"):
        analysis.usual_eps_of([run, other])


def test_classes_are_taken_apart_by_their_labels(place: Place) -> None:
    run = load_run(place.path / "l2")
    labels = np.array(run.rows["label"].to_pylist())
    classes = analysis.robustness_by_class(run, eps=[0.2])
    assert [each.label for each in classes] == sorted(set(labels))
    assert sum(each.samples for each in classes) == len(labels)
    attacked, found = analysis.attacked_in(run).numpy(), analysis.found_in(run).numpy()
    for each in classes:
        here = labels == each.label
        assert (each.attacked, each.found) == (attacked[here].sum(), found[here].sum())
        if each.found == each.attacked > 0:
            assert each.median == pytest.approx(np.median(run.radius.numpy()[here & attacked]))
        assert each.robust_at == [pytest.approx((attacked & (run.radius.numpy() > 0.2))[here].mean())]
    (within,) = {each.robust_accuracy for each in analysis.robustness_by_class(load_run(place.path / "loss"))[:1]}
    assert 0 <= within <= 1


def test_labels_are_needed_and_as_many_as_samples() -> None:
    run = run_of("ccw", [1, 2, 0])
    classes = analysis.robustness_by_class(run, torch.tensor([1, 0, 1]), names=["a", "b"])
    assert [(each.name, each.samples, each.median) for each in classes] == [("a", 1, 2.0), ("b", 2, 1.0)]
    with pytest.raises(ValueError, match="labels: expected those of the samples"):
        analysis.robustness_by_class(run)
    with pytest.raises(ValueError, match="labels: expected 3 of them, found 2"):
        analysis.robustness_by_class(run, torch.tensor([1, 0]))
