"""Restarts until independent searches agree: an image stops when a much longer search is unlikely to gain anything."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from pwcf.attacks.agreement import FAR, HOP, NEAR, Searches, agreement_of
from pwcf.attacks.base import Answer, Diagnostics
from pwcf.attacks.linearised.schedule import EndlessPlan, Stage
from pwcf.attacks.linearised.search import LinearisedSearch
from pwcf.attacks.linearised.starts import LANDMARKS

NOISE, DARK, BRIGHT, GREY, INVERTED = range(1 + len(LANDMARKS))
# What the first restarts begin at: these kinds of starts in turn, and between them (None) the kind that has led nearest
# so far. Further ones take the two that have led nearest in turn.
KINDS = (NOISE, GREY, None, BRIGHT, None, INVERTED, None, DARK)
# Nearer by less than this is as near.
CLEARLY = 0.999
# Gradients at the image and at the point that differ by less than this share (l1) are those of a linear model.
SAME_SLOPE = 1e-3
# Numbers of restarts beyond those that any budget allows.
SPARE = 10**6


def until_converged(search: LinearisedSearch, parts: EndlessPlan, limit: Tensor) -> Answer:
    """Restart each image until its searches agree to ``task.tol``, or ``limit`` (n,) passes are used up.

    Args:
        search: at its beginning.
        parts: what it is made of.
        limit: (n,) passes in all, those before the search included.

    Returns:
        The nearest points, and the ends of all searches.
    """
    unknown = torch.full_like(search.centre[:, 0], torch.inf)
    found_by = unknown.unsqueeze(1).repeat(1, 1 + len(LANDMARKS))
    """(n, kinds) the least radius that each kind of start has led to"""
    polished = unknown
    nobody = torch.zeros_like(search.working)
    seeks_linear = search.task.stop == "converged" and search.table.targets.shape[1] == 1
    solved = nobody
    if seeks_linear and parts.straight is not None:
        search.stage(parts.straight, 0)
        solved = _is_linear(search)
    search.working = ~solved
    columns = torch.arange(parts.first[0].targets, device=search.centre.device)
    ends = [search.stage(stage, number, None if number else columns) for number, stage in enumerate(parts.first)][-1:]
    linear = _is_linear(search) if seeks_linear and parts.straight is None else solved
    began = [torch.full_like(search.task.labels, NEAR)]
    working, number = ~linear, 0
    ready = linear
    while True:
        search.task.model.converged[search.task.samples[ready].cpu()] = True
        left = (limit - search.passes()).to(working.device)
        working = working & (left >= parts.restart_passes + parts.last_passes)
        if not bool(working.any()):
            break
        search.working, number = working, number + 1
        stage = parts.restart(number)
        kinds = _kinds_of(stage, _next_kinds(number, found_by))
        end = search.stage(stage, number, None, kinds)
        ends.append(torch.where(working, end, torch.nan))
        began.append(torch.where(search.began_far, FAR, HOP if stage.start == "hop" else NEAR))
        if stage.start != "hop":
            here = found_by.gather(1, kinds.unsqueeze(1)).squeeze(1)
            found_by = found_by.scatter(1, kinds.unsqueeze(1), torch.minimum(here, end).unsqueeze(1))
        radius = search.table.best()[0]
        if search.task.stop == "budget":
            continue
        ready = working & _has_converged(search, ends, began)
        search.working = ready & (radius < CLEARLY * polished)
        if bool(search.working.any()):
            polished = _polish(search, parts, polished)
            ready = ready & _has_converged(search, ends, began)
        working = working & ~ready
    search.working = ~solved & (search.table.best()[0] < CLEARLY * polished)
    _polish(search, parts, polished)
    if search.task.stop == "budget":
        _use_up(search, parts, limit, found_by)
    radius, points = search.table.best()
    searches = Searches(torch.stack(ends, 1), torch.stack(began, 1))
    diagnostics = Diagnostics(searches=searches, linear=linear, seen=torch.isfinite(radius))
    return Answer(points.view(-1, *search.shape), diagnostics)


def _is_linear(search: LinearisedSearch) -> Tensor:
    """(n,) where the model has the same gradient at the image and at the point found: two linearisations.

    For images with a single target: of several, each would have to be looked at.
    """
    radius, point = search.table.best()
    everyone, target = torch.arange(len(radius), device=radius.device), search.table.targets[:, 0]
    slopes = [search.linearise(everyone, x, target)[3] for x in (search.centre, point)]
    change = (slopes[0] - slopes[1]).abs().sum(1) / slopes[0].abs().sum(1)
    return torch.isfinite(radius) & (change <= SAME_SLOPE)


def _use_up(search: LinearisedSearch, parts: EndlessPlan, limit: Tensor, found_by: Tensor) -> None:
    """Spend what is left on restarts of one row."""
    small = replace(parts, targets=1)
    for number in range(1, SPARE):
        left = (limit - search.passes()).to(found_by.device)
        search.working = left >= small.restart_passes
        if not bool(search.working.any()):
            break
        stage = small.restart(number)
        search.stage(stage, SPARE + number, None, _kinds_of(stage, found_by.argmin(1)))


def _polish(search: LinearisedSearch, parts: EndlessPlan, polished: Tensor) -> Tensor:
    """Polish the working images; (n,) the radii of all that are polished."""
    for stage in parts.last:
        search.stage(stage, 0)
    return torch.where(search.working, search.table.best()[0], polished)


def _kinds_of(stage: Stage, kinds: Tensor) -> Tensor:
    """Hops begin around the best point, with noise; other restarts at these kinds (n,) of places."""
    return torch.full_like(kinds, NOISE) if stage.start == "hop" else kinds


def _next_kinds(number: int, found_by: Tensor) -> Tensor:
    """(n,) the kinds of starts of restart ``number``."""
    order = found_by.argsort(dim=1, stable=True)
    if number > len(KINDS):
        return order[:, number % 2]
    kind = KINDS[number - 1]
    return order[:, 0] if kind is None else torch.full_like(order[:, 0], kind)


def _has_converged(search: LinearisedSearch, ends: list[Tensor], began: list[Tensor]) -> Tensor:
    """(n,) whether so many searches agree that hardly anything is left to gain."""
    radius = search.table.best()[0]
    found = agreement_of(Searches(torch.stack(ends, 1), torch.stack(began, 1)), radius, search.metric)
    return torch.isfinite(radius) & (found.gain <= search.task.tol)
