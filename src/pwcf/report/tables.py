"""The tables of a benchmark, from its groups."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pwcf.analysis import best, compare, describe, robust_accuracy, robust_accuracy_at, spread, wins_and_pairs
from pwcf.attacks import PRESETS
from pwcf.records import Record
from pwcf.report.groups import OURS, Group
from pwcf.report.table import Table, Value, number

NAN = float("nan")


def radius_table(groups: Sequence[Group]) -> Table:
    """Every min-radius cell; the best at each net, norm and budget first."""
    columns = ("net", "norm", "budget", "attack", "mean", "median", "std", "found", "of", "xi")
    rows: list[tuple[Value, ...]] = []
    for group in groups:
        for budget in group.budgets:
            cells = {name: cell for (name, at), cell in group.radius_cells.items() if at == budget}
            for name in sorted(cells, key=lambda name: _rank(group, cells[name])):
                cell = cells[name]
                s = spread(cell.radius, group.right)
                figures = (s.mean, s.median, s.std, s.found, s.right, group.xi(cell.radius))
                rows.append((group.net, group.norm, budget, name, *figures, *_effort(cell), _stationarity(cell)))
    return Table((*columns, *EFFORT, "stationarity"), rows)


EFFORT = ("mean passes", "most passes", "seconds an image", "CPU s an image")


def _effort(cell: Record) -> tuple[Value, ...]:
    """Passes and time of a cell."""
    attacked, n = cell.right, max(len(cell.status), 1)
    passes = cell.passes[attacked]
    return (
        round(float(passes.double().mean()), 1) if len(passes) else NAN,
        int(passes.max()) if len(passes) else 0,
        round(cell.header.made.seconds / n, 4),
        round(cell.header.made.cpu_seconds / n, 4),
    )


def _stationarity(cell: Record) -> float:
    """Median of the evidence over the attacked samples with a point."""
    judged = cell.stationarity[cell.right & torch.isfinite(cell.stationarity)]
    return describe(judged)[1]


def _rank(group: Group, cell: Record) -> float:
    """Small is good."""
    value = group.fair_mean(cell.radius)
    return value if value == value else float("inf")


def headline(groups: Sequence[Group]) -> tuple[Table, str]:
    """Ours against the others, and a sentence that counts."""
    columns = ("net", "norm", "budget", OURS, "best other", "all others together", f"xi of {OURS}", "xi of best other")
    rows: list[tuple[Value, ...]] = []
    below_best = below_all = counted = 0
    for group in groups:
        for budget in group.budgets:
            radii = group.radii(budget)
            ours = radii.pop(OURS, None)
            radii = {name: radius for name, radius in radii.items() if name not in PRESETS}  # ours is in most of them
            if ours is None or not radii:
                continue
            name = min(radii, key=lambda name: _rank(group, group.radius_cells[name, budget]))
            together = best(list(radii.values()))
            means = [group.fair_mean(radius) for radius in (ours, radii[name], together)]
            counted += 1
            below_best += means[0] <= means[1]
            below_all += means[0] <= means[2]
            texts = [mean_text(group, radius) for radius in (ours, radii[name], together)]
            if means[0] <= means[1]:
                texts[0] = f"**{texts[0]}**"
            else:
                texts[1] = f"**{texts[1]}**"
            xis = group.xi(ours), group.xi(radii[name])
            rows.append((group.net, group.norm, budget, texts[0], f"{texts[1]} {name}", texts[2], *xis))
    sentence = (
        f"Mean radii of the samples with a point. Which is better (bold) is decided with missing points counted as "
        f"the largest radius found: {OURS} is no larger than the best other on {below_best} of {counted}, and no "
        f"larger than all others together on {below_all} of {counted}. Presets are not among the others."
    )
    return Table(columns, rows), sentence


def mean_text(group: Group, radius: torch.Tensor) -> str:
    """A mean radius; how many have a point where not all have."""
    s = spread(radius, group.right)
    return number(s.mean) + ("" if s.found == s.right else f" ({s.found} of {s.right})")


def accuracy_table(groups: Sequence[Group]) -> Table:
    """Every max-loss cell, and what all attacks together leave; beside it what the attack's radii say of this eps."""
    columns = ("net", "norm", "eps", "budget", "attack", "robust accuracy", "by its radii", "clean accuracy")
    rows: list[tuple[Value, ...]] = []
    for group in groups:
        clean = float(group.right.double().mean())
        for eps, budget in sorted({(eps, budget) for eps, _, budget in group.loss_cells}):
            cells = {n: cell for (at, n, b), cell in group.loss_cells.items() if (at, b) == (eps, budget)}
            accuracy = {name: robust_accuracy(cell.adversarial, group.right) for name, cell in cells.items()}
            where = group.net, group.norm, eps, budget
            for name in sorted(cells, key=accuracy.__getitem__):
                own = group.radius_cells.get((name, budget))
                by_radii = NAN if own is None else robust_accuracy_at(own.radius, group.right, eps)
                rows.append((*where, name, accuracy[name], by_radii, clean, *_effort(cells[name])))
            if len(cells) > 1:
                broken = torch.stack([cell.adversarial for cell in cells.values()]).any(0)
                together = robust_accuracy(broken, group.right)
                rows.append((*where, "all together", together, NAN, clean, NAN, NAN, NAN, NAN))
    return Table(columns + EFFORT, rows)


def comparison_table(groups: Sequence[Group]) -> Table:
    """The paper's table: ours against each other attack at the largest budget, where both have a point."""
    statistics = ("mean", "median", "std")
    sides = (OURS, "other", "difference")
    columns = (
        "net",
        "norm",
        "budget",
        "other",
        "samples",
        *(f"{side} {what}" for side in sides for what in statistics),
    )
    rows: list[tuple[Value, ...]] = []
    for group in groups:
        budget = group.budgets[-1] if group.budgets else 0
        radii = group.radii(budget)
        ours = radii.pop(OURS, None)
        if ours is None:
            continue
        for name, radius in radii.items():
            found = compare(ours, radius, group.right)
            sides_found = (found.first, found.second, found.difference)
            values = [value for side in sides_found for value in (side.mean, side.median, side.std)]
            rows.append((group.net, group.norm, budget, name, found.first.found, *values))
    return Table(columns, rows)


def pooled_wins(groups: Sequence[Group], norm: str) -> tuple[list[str], torch.Tensor]:
    """Attacks, and (a, a) the share of samples of all nets on which one clearly beats another, largest budgets.

    NaN on the diagonal, and where two attacks have no net in common.
    """
    chosen = [group for group in groups if group.norm == norm and group.radius_cells]
    names = list(dict.fromkeys(name for group in chosen for name in group.radii(group.budgets[-1])))
    names.sort(key=lambda name: (name != OURS, name))
    won = torch.zeros(len(names), len(names), dtype=torch.float64)
    pairs = torch.zeros_like(won)
    for group in chosen:
        radii = group.radii(group.budgets[-1])
        places = torch.tensor([names.index(name) for name in radii])
        counts, n = wins_and_pairs(list(radii.values()), group.right)
        won[places[:, None], places] += counts
        pairs[places[:, None], places] += n
    share = won / pairs
    share.fill_diagonal_(NAN)
    return names, share


def wins_table(groups: Sequence[Group]) -> Table:
    """Long form, per net and norm at the largest budget."""
    rows: list[tuple[Value, ...]] = []
    for group in groups:
        if not group.radius_cells:
            continue
        budget = group.budgets[-1]
        names, share = pooled_wins([group], group.norm)
        for i, winner in enumerate(names):
            for j, loser in enumerate(names):
                if i != j:
                    rows.append((group.net, group.norm, budget, winner, loser, float(share[i, j])))
    return Table(("net", "norm", "budget", "attack", "against", "share won"), rows)


def wins_matrix(names: Sequence[str], share: torch.Tensor) -> Table:
    """For people: row beats column, in percent."""
    rows: list[tuple[Value, ...]] = []
    for i, name in enumerate(names):
        cells = ["" if i == j else _percent(float(share[i, j])) for j in range(len(names))]
        rows.append((name, *cells))
    return Table(("", *names), rows)


def _percent(value: float) -> str:
    return "–" if value != value else f"{value:.0%}"
