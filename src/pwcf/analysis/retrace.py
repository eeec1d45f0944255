"""Trajectories of a recorded run: its searches of some samples done once more, watched."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pwcf.analysis.trajectory import Trace, trace
from pwcf.runs import RecordedRun
from pwcf.runs.load import original_images
from pwcf.runs.resolve import open_model, resolve


def retrace(run: RecordedRun, samples: Sequence[int]) -> dict[str, list[Trace]]:
    """By attack, a trace for each of the samples, by their places in the run.

    Each attack searches by itself with an equal share of the budget, all of it for the search: it is not told what
    others found, and nothing is kept for checks, evidence or the grid of 8-bit images. Radii may differ from the run's.
    """
    settings = run.header.settings
    model = open_model(settings)
    some = run.select(torch.as_tensor(list(samples), dtype=torch.int64))
    device = settings.devices[0]
    images = original_images(some).to(device)
    labels = torch.from_numpy(some.rows["label"].to_numpy().copy()).to(device)
    with model.classifier.in_use(), torch.no_grad():
        classes = model.classifier(images[:1]).shape[1]
    plan = resolve(settings, model.classifier, classes)
    share = plan.budget // len(plan.attacks)
    return {
        attack.name: trace(model.classifier, images, labels, plan.problem, attack, budget=share, seed=settings.seed)
        for attack in plan.attacks
    }
