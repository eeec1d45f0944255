"""Tables of runs: what each found, radii of two compared, metrics against models, sparsity, who breaks what."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pwcf.analysis import (
    Agreement,
    CrossMetric,
    accuracy_of,
    align,
    attacked_in,
    attacks_name,
    compare,
    converged_in,
    found_in,
    metric_name,
    model_name,
    quantiles_of,
    question_name,
    sparsity_table,
    termination_of,
)
from pwcf.evaluation import Run
from pwcf.problems import MaxLoss, MinRadius
from pwcf.report.figures.canvas import NothingToShow
from pwcf.report.table import Table, Value, number
from pwcf.runs import RecordedRun

NAN = float("nan")


def overview_table(runs: Mapping[str, Run]) -> Table:
    """A row for every run.

    Robust accuracy is that of max-loss, with its 95 % interval for samples like these; the radius is the median over
    attacked samples with its quartiles. Unsettled: a longer search may yet make the model look worse. Of max-loss
    those that stand; of min-radius those whose search did not converge.
    """
    if not runs:
        raise NothingToShow("overview: expected runs, found none")
    columns = (
        "run", "model", "question", "attacks", "samples", "clean", "robust [95 %]", "median radius [quartiles]",
        "found", "converged", "unsettled", "passes", "seconds",
    )  # fmt: skip
    return Table(columns, [_overview(name, run) for name, run in runs.items()])


def _overview(name: str, run: Run) -> tuple[Value, ...]:
    attacked, found = attacked_in(run), found_in(run)
    n, right = len(run.status), int(attacked.sum())
    ended = termination_of(run)
    passes = float(ended.passes.double().mean()) if right else NAN
    if isinstance(run.problem, MaxLoss):
        accuracy = accuracy_of(run)
        robust = f"{accuracy.robust:.1%} [{accuracy.low:.1%}, {accuracy.high:.1%}]" if n else "–"
        radius, converged, unsettled = "–", NAN, accuracy.unsettled
    else:
        low, middle, high = quantiles_of(run, (0.25, 0.5, 0.75)).values()
        robust = "–"
        radius = f"{_radius(middle)} [{_radius(low)}, {_radius(high)}]" if right else "–"
        converged = int((attacked & converged_in(run)).sum())
        unsettled = right - converged
    return (
        name,
        model_name(run) if isinstance(run, RecordedRun) else "–",
        question_name(run),
        attacks_name(run),
        n,
        # Labels of targeted runs are the wanted classes: how many inputs are right is not known.
        f"{right / n:.1%}" if n and not run.problem.targeted else "–",
        robust,
        radius,
        f"{int(found.sum())} of {right}",
        converged,
        unsettled,
        round(passes, 1),
        round(run.seconds, 1),
    )


def _radius(value: float) -> str:
    return "∞" if math.isinf(value) else number(value)


def radius_table(runs: Mapping[str, Run]) -> Table:
    """The paper's statistical comparison of radii: every two min-radius runs of one metric that share samples.

    Over samples for which both have a point. Difference: the first's minus the second's, sample by sample; below zero
    the first is better.
    """
    sides = ("first", "second", "difference")
    statistics = [f"{side} {what}" for side in sides for what in ("mean", "median", "std")]
    columns = ("metric", "first", "second", "samples", *statistics)
    rows: list[tuple[Value, ...]] = []
    chosen = [(name, run) for name, run in runs.items() if isinstance(run.problem, MinRadius)]
    for i, (name, run) in enumerate(chosen):
        for other_name, other in chosen[i + 1 :]:
            if metric_name(run) != metric_name(other) or _model(run) != _model(other):
                continue
            first, second = _aligned(run, other)
            right = attacked_in(first) & attacked_in(second)
            found = compare(first.radius.cpu(), second.radius.cpu(), right)
            values = [
                value
                for side in (found.first, found.second, found.difference)
                for value in (side.mean, side.median, side.std)
            ]
            rows.append((metric_name(run), name, other_name, found.first.found, *values))
    if not rows:
        raise NothingToShow("radii: expected two min-radius runs of one model in one metric, found none")
    return Table(columns, rows)


def _model(run: Run) -> str:
    """Runs that are not recorded do not tell: the caller has put together what belongs together."""
    return run.header.model.fingerprint if isinstance(run, RecordedRun) else ""


def _aligned(first: Run, second: Run) -> tuple[Run, Run]:
    if isinstance(first, RecordedRun) and isinstance(second, RecordedRun):
        one, other = align((first, second))
        return one, other
    if len(first.status) != len(second.status):
        raise ValueError(f"runs: expected the same samples, found {len(first.status)} and {len(second.status)} of them")
    return first, second


def cross_metric_table(table: CrossMetric) -> Table:
    """Median radii, models by rows and metrics by columns."""
    if not table.models:
        raise NothingToShow("cross-metric: expected runs of min-radius, found none")
    rows = [(model, *table.median[i].tolist()) for i, model in enumerate(table.models)]
    return Table(("model", *table.metrics), list(rows))


def sparsity_rows(runs: Mapping[str, Run]) -> Table:
    """Quartiles of ||d||_1 / ||d||_2 of every run."""
    if not runs:
        raise NothingToShow("sparsity: expected runs, found none")
    columns = ("run", "metric", "loss", "attacks", "found", "first quartile", "median", "third quartile")
    rows: list[tuple[Value, ...]] = [
        (row.name, row.metric, row.loss or "–", row.attacks, row.found, row.low, row.median, row.high)
        for row in sparsity_table(runs)
    ]
    return Table(columns, rows)


def agreement_table(agreement: Agreement) -> Table:
    """What each attack breaks, breaks alone, and breaks that another one does not; the union comes last."""
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
