"""Tables of runs that need more than a column for each attribute of an analysis; simple ones are in the registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import torch

from pwcf._common import statistics
from pwcf._common.usual_eps import eps_for
from pwcf._common.wording import number_text, share_text
from pwcf.analysis import (
    Agreement,
    CrossMetric,
    RunsLike,
    accuracy_of,
    agreement_of,
    attacked_in,
    attacks_name,
    by_topic,
    comparable_groups,
    compare,
    converged_in,
    cross_metric,
    eps_sweep,
    eps_text,
    found_in,
    metric_name,
    model_names,
    quantiles_of,
    question_name,
    robust_accuracy,
    robust_accuracy_at,
    robustness_by_class,
    takes_runs,
    usual_eps_of,
    wins_and_pairs,
)
from pwcf.analysis.masks import aligned, status_values
from pwcf.analysis.naming import asked_eps
from pwcf.evaluation import Run
from pwcf.problems import MaxLoss, MinRadius
from pwcf.report.figures.canvas import NothingToShow
from pwcf.report.table_format import Table, Value
from pwcf.runs import RecordedRun

NAN = float("nan")


@takes_runs
def overview_table(runs: Mapping[str, Run]) -> Table:
    """A row for every run.

    Robust accuracy is that of max-loss, with its 95 % interval for samples like these; the radius is the median over
    attacked samples with its quartiles. Unsettled: a longer search may yet make the model look worse. Of max-loss
    those that stand; of min-radius those whose search did not converge.

    Args:
        runs: by name, of either question.

    Returns:
        A row for each run.
    """
    if not runs:
        raise NothingToShow("overview: expected runs, found none")
    columns = (
        "run", "model", "question", "attacks", "samples", "clean", "robust [95%]", "median radius [quartiles]",
        "found", "converged", "unsettled", "passes", "seconds",
    )  # fmt: skip
    models = model_names(runs)
    return Table(columns, [_overview(name, run, models[name]) for name, run in runs.items()])


def _overview(name: str, run: Run, model: str) -> tuple[Value, ...]:
    attacked, found = attacked_in(run), found_in(run)
    n, clean_correct = len(run.status), int(attacked.sum())
    passes = statistics.mean_passes(status_values(run), run.passes.total.cpu().numpy())
    if isinstance(run.problem, MaxLoss):
        accuracy = accuracy_of(run)
        robust = (
            f"{share_text(accuracy.robust)} [{share_text(accuracy.low)}, {share_text(accuracy.high)}]" if n else "–"
        )
        radius, converged, unsettled = "–", NAN, accuracy.unsettled
    else:
        first, middle, third = quantiles_of(run, (0.25, 0.5, 0.75)).values()
        robust = "–"
        radius = f"{number_text(middle)} [{number_text(first)}, {number_text(third)}]" if clean_correct else "–"
        converged = int((attacked & converged_in(run)).sum())
        unsettled = clean_correct - converged
    return (
        name,
        model if isinstance(run, RecordedRun) else "–",
        question_name(run),
        attacks_name(run),
        n,
        # Labels of targeted runs are the wanted classes: how many inputs are right is not known.
        share_text(run.clean_accuracy) if not run.problem.targeted else "–",
        robust,
        radius,
        f"{int(found.sum())} of {clean_correct}",
        converged,
        unsettled,
        round(passes, 1),
        round(run.seconds, 1),
    )


@takes_runs
def sweep_table(runs: Mapping[str, Run], eps: Mapping[str, Sequence[float]] | None = None) -> Table:
    """Robust accuracy at several eps: one min-radius run answers for all of them, a max-loss run for its own.

    They are upper bounds. Open: samples that count as robust though their search did not converge; max-loss: all that
    count as robust.

    Args:
        runs: by name, of either question.
        eps: by metric, "" for every metric; default: the usual ones (``analysis.usual_eps_of``).

    Returns:
        A row for each run and eps, with the 95 % interval for samples like these.
    """
    columns = ("run", "metric", "question", "eps", "robust accuracy", "low", "high", "open", "clean", "samples")
    rows: list[tuple[Value, ...]] = []
    for members in by_topic(runs).values():
        for name, run in members.items():
            asked = eps_for(eps or {}, metric_name(run)) or usual_eps_of(members.values())
            question = "max-loss" if isinstance(run.problem, MaxLoss) else "min-radius"
            for at in eps_sweep(run, None if question == "max-loss" else asked):
                share = (at.robust, at.low, at.high, at.unsettled, at.clean, at.samples)
                rows.append((name, metric_name(run), question, eps_text(at.eps), *share))
    if not rows:
        raise NothingToShow("sweep: expected runs and eps, found none")
    return Table(columns, rows)


@takes_runs
def class_table(runs: Mapping[str, Run], eps: Mapping[str, Sequence[float]] | None = None) -> Table:
    """Robustness class by class: median radius of attacked samples or, in max-loss, robust accuracy.

    Args:
        runs: by name, of either question; recorded ones, which know the labels of their samples.
        eps: by metric, "" for every metric: robust accuracy of min-radius runs at them, in columns of their own.

    Returns:
        A row for each run and class; classes of a run by rising label.
    """
    about = [metric_name(run) for run in runs.values()]
    at = list(dict.fromkeys((metric, one) for metric in about for one in eps_for(eps or {}, metric)))
    rows: list[dict[str, Value]] = []
    for name, run in runs.items():
        own = [one for metric, one in at if metric == metric_name(run)]
        for each in robustness_by_class(run, eps=own):
            value = (
                {"robust accuracy": each.robust_accuracy}
                if asked_eps(run) is not None
                else {"median radius": each.median}
            )
            heads = (f"at {metric_name(run)} {eps_text(one)}" for one in own)
            rows.append({
                "run": name, "class": each.name, "samples": each.samples, "clean": each.clean_accuracy,
                "found": f"{each.found} of {each.attacked}", **value,
                **dict(zip(heads, each.robust_at, strict=False)),
            })  # fmt: skip
    if not rows:
        raise NothingToShow("classes: expected runs, found none")
    columns = list(dict.fromkeys(head for row in rows for head in row))
    return Table(tuple(columns), [tuple(row.get(head, NAN) for head in columns) for row in rows])


@takes_runs
def radius_table(runs: Mapping[str, Run]) -> Table:
    """The paper's statistical comparison of radii: every two min-radius runs of one metric that share samples.

    Means, medians and deviations are over the samples for which both have a point; their number is in the column
    "samples". Difference: the first's minus the second's, sample by sample; below zero the first is better.

    Args:
        runs: by name; those of max-loss are left out.

    Returns:
        A row for every two runs about one model, metric and data.
    """
    sides = ("first", "second", "difference")
    statistics = [f"{side} {what}" for side in sides for what in ("mean", "median", "std")]
    columns = ("metric", "first", "second", "samples", *statistics)
    rows: list[tuple[Value, ...]] = []
    for first_name, second_name, first, second in _pairs(runs):
        clean_correct = attacked_in(first) & attacked_in(second)
        found = compare(first.radius.cpu(), second.radius.cpu(), clean_correct)
        values = [
            value
            for side in (found.first, found.second, found.difference)
            for value in (side.mean, side.median_found, side.std)
        ]
        rows.append((metric_name(first), first_name, second_name, found.first.found, *values))
    if not rows:
        raise NothingToShow("radii: expected two min-radius runs of one model in one metric, found none")
    return Table(columns, rows)


def _pairs(runs: Mapping[str, Run]) -> Iterator[tuple[str, str, Run, Run]]:
    """Every two min-radius runs about one model, metric and data, on the samples they share."""
    chosen = {name: run for name, run in runs.items() if isinstance(run.problem, MinRadius)}
    for groups in comparable_groups(chosen).values():
        for members in groups:
            for (first, a), (second, b) in combinations(members.items(), 2):
                one, other = aligned((a, b))
                yield first, second, one, other


@takes_runs
def wins_table(runs: Mapping[str, Run]) -> Table:
    """Every two min-radius runs about one model, metric and data: on how many samples either radius is clearly smaller.

    Clearly: by more than 1 %. A point is better than none; where neither has one nobody wins.

    Args:
        runs: by name; those of max-loss are left out.

    Returns:
        A row for every two runs.
    """
    rows: list[tuple[Value, ...]] = []
    for first_name, second_name, first, second in _pairs(runs):
        clean_correct = attacked_in(first) & attacked_in(second)
        won, samples = wins_and_pairs([first.radius.cpu(), second.radius.cpu()], clean_correct)
        ahead, behind = int(won[0, 1]), int(won[1, 0])
        rows.append((metric_name(first), first_name, second_name, ahead, behind, samples - ahead - behind, samples))
    if not rows:
        raise NothingToShow("wins: expected two min-radius runs of one model in one metric, found none")
    return Table(("metric", "first", "second", "first wins", "second wins", "within 1%", "samples"), rows)


@takes_runs
def accuracy_table(runs: Mapping[str, Run]) -> Table:
    """Robust accuracy of every max-loss run, and what all of one model, metric and eps leave together.

    Beside it what the radii of the same attacks with the same budget say of this eps, if such a run is there.

    Args:
        runs: by name, of either question.

    Returns:
        A row for each max-loss run, and one for all of a group together.
    """
    columns = (
        "model", "metric", "eps", "budget", "attack", "robust accuracy", "low", "high", "by radii", "clean", "passes",
        "seconds per sample",
    )  # fmt: skip
    rows: list[tuple[Value, ...]] = []
    for (model, topic), groups in comparable_groups(runs, asked_eps).items():
        radii = [run for members in groups for run in members.values() if isinstance(run.problem, MinRadius)]
        for members in groups:
            asked = [run for run in members.values() if isinstance(run.problem, MaxLoss)]
            if not asked:
                continue
            where = model, topic, eps_text(accuracy_of(asked[0]).eps)
            lines = [(*where, *_accuracy(run, radii)) for run in asked]
            rows += sorted(lines, key=lambda line: (str(line[3]), line[5]))
            if len(asked) > 1:
                shared = aligned(asked)
                broken = torch.stack([run.adversarial.cpu() for run in shared]).any(0)
                clean_correct = torch.stack([attacked_in(run) for run in shared]).all(0)
                left = robust_accuracy(broken, clean_correct)
                clean = float(clean_correct.double().mean())
                rows.append((*where, "–", "all together", left, NAN, NAN, NAN, clean, NAN, NAN))
    if not rows:
        raise NothingToShow("accuracy: expected runs of max-loss, found none")
    return Table(columns, rows)


def _accuracy(run: Run, radii: Sequence[Run]) -> tuple[Value, ...]:
    accuracy, by_radii = accuracy_of(run), NAN
    for other in radii:
        if (_budget(other), attacks_name(other)) == (_budget(run), attacks_name(run)):
            here, there = aligned((run, other))
            by_radii = robust_accuracy_at(there.radius.cpu(), attacked_in(here) & attacked_in(there), accuracy.eps)
    passes = statistics.mean_passes(status_values(run), run.passes.total.cpu().numpy())
    seconds = run.seconds / max(accuracy.samples, 1)
    return (
        _budget(run), attacks_name(run), accuracy.robust, accuracy.low, accuracy.high, by_radii, accuracy.clean,
        round(passes, 1), round(seconds, 4),
    )  # fmt: skip


def _budget(run: Run) -> int | str:
    return run.header.budget if isinstance(run, RecordedRun) else "–"


def cross_metric_table(table: CrossMetric | RunsLike) -> Table:
    """Median radii, models by rows and metrics by columns.

    Args:
        table: runs, or ``analysis.cross_metric`` of them.

    Returns:
        A row for each model.
    """
    table = table if isinstance(table, CrossMetric) else cross_metric(table)
    if not table.models:
        raise NothingToShow("cross-metric: expected runs of min-radius, found none")
    rows = [(model, *table.median[i].tolist()) for i, model in enumerate(table.models)]
    return Table(("model", *table.metrics), list(rows))


def agreement_table(agreement: Agreement | RunsLike) -> Table:
    """What each attack breaks, breaks alone, and breaks that another one does not; the union comes last.

    Args:
        agreement: max-loss runs, ``analysis.agreement_of`` runs, or ``agreement_within`` one.

    Returns:
        A row for each attack, and one for all together.
    """
    agreement = agreement if isinstance(agreement, Agreement) else agreement_of(agreement)
    columns = ("attack", "broken", "alone", *(f"not by {name}" for name in agreement.names))
    pairs = agreement.only_first
    rows: list[tuple[Value, ...]] = []
    for i, name in enumerate(agreement.names):
        others: list[Value] = [NAN if i == j else int(pairs[i, j]) for j in range(len(agreement.names))]
        rows.append((name, int(agreement.counts[i]), int(agreement.alone[i]), *others))
    together = agreement.broken.any(0)
    left = [int((together & ~row).sum()) for row in agreement.broken]
    rows.append((f"all together, of {agreement.samples}", agreement.union, NAN, *left))
    return Table(columns, rows)
