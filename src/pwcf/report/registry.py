"""The registry of figures and tables: every kind by its name, as ``pwcf figure`` and ``pwcf table`` offer them.

A new analysis that shows in figure, table and page is registered here and nowhere else in this room: ``attacks`` is the
example. ``analysis.attack_scores`` makes records, ``figures/attacks.py`` draws them, ``_attacks_table`` gives their
attributes heads by ``Table.of``, and ``on_page=`` puts the table on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pwcf import analysis
from pwcf._common.usual_eps import eps_for
from pwcf.analysis import Trace, eps_text, metric_name, model_name, names_without_question
from pwcf.analysis.naming import asked_eps
from pwcf.evaluation import Run
from pwcf.problems import MaxLoss, MinRadius
from pwcf.report import tables
from pwcf.report.figures import accuracy, attacks, clipping, matrices, patterns, radii, searches
from pwcf.report.figures.canvas import NothingToShow
from pwcf.report.figures.radii import Pair
from pwcf.report.table_format import Table
from pwcf.runs import RecordedRun
from pwcf.runs.originals import original_images

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Runs = Mapping[str, RecordedRun]
Retrace = Callable[[RecordedRun, Sequence[int]], dict[str, list[Trace]]]


@dataclass(frozen=True)
class Choices:
    """What a person may say beside the runs; each kind takes what it needs."""

    eps: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """by metric; under "" for every metric"""
    sample: int | None = None
    """its place in the data"""
    samples: int = 50
    """how many are searched again for a histogram"""
    by: str = "passes"
    budget: int | None = None
    data: str | None = None
    """where the images are now, if not where they were"""
    retrace: Retrace | None = None
    """searches again; None: ``analysis.retrace``, silently"""

    def eps_for(self, metric: str) -> list[float]:
        return eps_for(self.eps, metric)


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure."""

    about: str
    """a line"""
    draw: Callable[[Runs, Choices], Figure]
    groups: Callable[[Runs], dict[str, Runs]] = lambda runs: {"": runs}
    """runs that belong into one figure, by what is added to its file's name: of many runs not all can be compared"""
    searches: bool = False
    """searches samples again, which takes as long as it took"""


@dataclass(frozen=True)
class TableKind:
    """A kind of table."""

    about: str
    """a line"""
    make: Callable[[Runs, Choices], Table]
    groups: Callable[[Runs], dict[str, Runs]] = lambda runs: {"": runs}
    on_page: Callable[[Runs], Runs] | None = None
    """the runs for which the HTML page has this table, too; None: it has not"""


def _radii(runs: Runs, choices: Choices) -> Figure:
    """Distribution of radii; unless eps are given, those of max-loss runs among the runs are marked."""
    metrics = {metric_name(run) for run in runs.values()}
    eps = {metric: choices.eps_for(metric) for metric in metrics}
    if not choices.eps:
        asked = [run.problem for run in runs.values() if isinstance(run.problem, MaxLoss)]
        for problem in asked:
            value = float(torch.as_tensor(problem.eps, dtype=torch.float64).max())
            if value not in eps[problem.metric.name]:
                eps[problem.metric.name].append(value)
    return radii.radius_distribution(runs, eps)


def _comparison(runs: Runs, choices: Choices) -> Figure:
    return radii.radius_comparisons(pairs_of(runs))


def pairs_of(runs: Runs) -> dict[str, Pair]:
    """Pairs of runs to compare, by title.

    Two runs are a pair. Of more, the first min-radius run of every model and metric is paired with each other one.
    """
    chosen = {name: run for name, run in runs.items() if isinstance(run.problem, MinRadius)}
    if len(chosen) < 2:
        raise NothingToShow("comparison: expected two min-radius runs, found fewer")
    if len(chosen) == 2:
        (first, a), (second, b) = chosen.items()
        return {"": Pair(first, a, second, b)}
    short = names_without_question(chosen)
    several = len({run.header.model.fingerprint for run in chosen.values()}) > 1
    pairs = {}
    for members in _comparable(chosen):
        (first, a), *others = members.items()
        for second, b in others:
            names = [short[name].removeprefix(f"{model_name(a)} · ") for name in (first, second)]
            title = f"{model_name(a)} · {metric_name(a)}" if several else metric_name(a)
            pairs[title if len(others) == 1 else f"{title} · {names[1]}"] = Pair(names[0], a, names[1], b)
    if not pairs:
        raise NothingToShow("comparison: expected two min-radius runs of one model in one metric, found none")
    return pairs


def _by_sample(runs: Runs, choices: Choices) -> Figure:
    return radii.radii_by_sample(runs)


def _termination(runs: Runs, choices: Choices) -> Figure:
    if choices.by not in ("passes", "seconds"):
        raise ValueError(f"by: expected passes or seconds, found {choices.by!r}")
    return searches.termination(runs, "passes" if choices.by == "passes" else "seconds")


def _best_found(runs: Runs, choices: Choices) -> Figure:
    def first(run: RecordedRun) -> list[int]:
        attacked = analysis.attacked_in(run).nonzero().squeeze(1).tolist()
        return [int(place) for place in attacked[: choices.samples]]

    return searches.best_found(_traces(runs, choices, first), choices.budget)


def _trajectories(runs: Runs, choices: Choices) -> Figure:
    def one(run: RecordedRun) -> list[int]:
        if choices.sample is not None:
            return [place_of(run, choices.sample)]
        attacked = analysis.attacked_in(run).nonzero().squeeze(1).tolist()
        if not attacked:
            raise NothingToShow(
                "trajectories: expected attacked samples, found none: all are misclassified as they are"
            )
        return [int(attacked[0])]

    return searches.trajectories(_traces(runs, choices, one))


def _traces(runs: Runs, choices: Choices, which: Callable[[RecordedRun], list[int]]) -> dict[str, list[Trace]]:
    """Traces of chosen samples, by run and attack."""
    search = choices.retrace or analysis.retrace
    found: dict[str, list[Trace]] = {}
    for name, run in runs.items():
        for attack, each in search(run, which(run)).items():
            named = attack in name.split(" · ")
            found[attack if len(runs) == 1 else name if named else f"{name} · {attack}"] = each
    return found


def place_of(run: RecordedRun, sample: int) -> int:
    """Place in the run of a sample that is known by its place in the data."""
    places = (run.index == sample).nonzero().flatten().tolist()
    if not places:
        raise ValueError(f"sample: expected one that the run has, up to {int(run.index.max())}; found {sample}")
    return int(places[0])


def _perturbations(runs: Runs, choices: Choices) -> Figure:
    name, first = _first(runs)
    if choices.sample is not None:
        # One image is enough, and its data may be large.
        one = first.select(torch.tensor([place_of(first, choices.sample)]))
        others: Runs = {**runs, name: one}
        return patterns.perturbations(others, original_images(one, choices.data), 0)
    return patterns.perturbations(runs, original_images(first, choices.data))


def _magnitudes(runs: Runs, choices: Choices) -> Figure:
    return patterns.magnitudes(runs, _images(runs, choices))


def _images(runs: Runs, choices: Choices) -> Tensor:
    return original_images(_first(runs)[1], choices.data)


def _first(runs: Runs) -> tuple[str, RecordedRun]:
    if not runs:
        raise NothingToShow("runs: expected at least one, found none")
    return next(iter(runs.items()))


def _agreement(runs: Runs, choices: Choices) -> Figure:
    return matrices.agreement(_who_breaks_what(runs, choices))


def _who_breaks_what(runs: Runs, choices: Choices) -> analysis.Agreement:
    """Agreement of several runs, or of the attacks of one."""
    name, first = _first(runs)
    metrics = {metric_name(run) for run in runs.values()}
    eps = [value for metric in sorted(metrics) for value in choices.eps_for(metric)]
    if any(isinstance(run.problem, MinRadius) for run in runs.values()):
        if len(set(eps)) != 1:
            raise NothingToShow("agreement: expected one eps for runs of min-radius (--eps)")
        if len(metrics) > 1:
            raise NothingToShow("agreement: expected one metric for one eps, found several")
    if len(runs) > 1:
        return analysis.agreement_of(runs, eps[0] if eps else None)
    if isinstance(first.problem, MaxLoss) or len(first.contributions) < 2:
        raise NothingToShow(
            f"agreement: expected several runs, or one of min-radius with several attacks; found {name}"
        )
    return analysis.agreement_within(first, eps[0])


def _cross_metric(runs: Runs, choices: Choices) -> Figure:
    return matrices.cross_metric(analysis.cross_metric(runs))


def _comparable(runs: Runs, also: Callable[[Run], object] = lambda run: None) -> list[Runs]:
    """The groups of ``analysis.comparable_groups`` in one list."""
    groups = [group for parts in analysis.comparable_groups(runs, also).values() for group in parts]
    return [{name: runs[name] for name in group} for group in groups]


def by_model(runs: Runs) -> dict[str, Runs]:
    """Runs that share a figure of one model: the same model and data, in any metric; keys are parts of file names."""
    data = analysis.data_groups(runs)
    found: dict[object, dict[str, RecordedRun]] = {}
    for name, run in runs.items():
        found.setdefault((run.header.model.fingerprint, data[name]), {})[name] = run
    groups = [_renamed(group, runs) for group in found.values()]
    return _named(groups, [model_name(next(iter(group.values()))) for group in groups])


def by_question(runs: Runs) -> dict[str, Runs]:
    """Max-loss runs about one model, metric and eps: their agreement can be shown."""
    asked = {name: run for name, run in runs.items() if isinstance(run.problem, MaxLoss)}
    groups = [_renamed(group, runs) for group in _comparable(asked, asked_eps) if len(group) > 1]
    firsts = [next(iter(group.values())) for group in groups]
    return _named(
        groups, [f"{model_name(run)}-{metric_name(run)}-{eps_text(run.header.settings.eps or 0.0)}" for run in firsts]
    )


def rivals(runs: Runs) -> Runs:
    """Min-radius runs about a model, metric and data that another one is about as well."""
    asked = {name: run for name, run in runs.items() if isinstance(run.problem, MinRadius)}
    several = {name for members in _comparable(asked) if len(members) > 1 for name in members}
    return {name: run for name, run in runs.items() if name in several}


def page_tables(runs: Runs) -> dict[str, tuple[str, Table]]:
    """The tables that the HTML page shows about these runs, with a line about each."""
    found = {}
    for name, kind in TABLES.items():
        if kind.on_page is not None and (members := kind.on_page(runs)):
            found[name] = kind.about, kind.make(members, Choices())
    return found


def _renamed(group: Runs, runs: Runs) -> Runs:
    """By what differs within the group, unless somebody has chosen the names."""
    ours = list(runs) == list(analysis.name_runs(runs.values()))
    return analysis.name_runs(group.values()) if ours else group


def _named(groups: Sequence[Runs], names: Sequence[str]) -> dict[str, Runs]:
    """Without names where there is one; numbered where names are alike."""
    if len(groups) == 1:
        return {"": groups[0]}
    return dict(zip(analysis.unique_names(names, "{}-{}"), groups, strict=True))


def _attacks_table(runs: Runs, choices: Choices) -> Table:
    """Every min-radius run against the others about the same model, metric and data; the best of each budget first.

    xi is AttackBench's local optimality, 1 = as good as all these runs together. Lines are ordered by the mean with
    missing points counted as the largest radius that any of the runs found.
    """
    columns = {
        "model": "model", "metric": "topic", "budget": "budget", "attack": "attack", "found": "found", "of": "attacked",
        "mean radius": "mean", "median radius": "median", "xi": "xi", "passes": "passes",
        "seconds per sample": "seconds",
    }  # fmt: skip
    return _rows(analysis.attack_scores(runs), columns, "attacks: expected runs of min-radius, found none")


def _sparsity_table(runs: Runs, choices: Choices) -> Table:
    """Quartiles of ||d||_1 / ||d||_2 of every run."""
    columns = {
        "run": "name", "metric": "metric", "loss": "loss", "attacks": "attacks", "found": "found",
        "first quartile": "low", "median": "median", "third quartile": "high",
    }  # fmt: skip
    return _rows(analysis.sparsity_table(runs), columns, "sparsity: expected runs, found none")


def _rows(records: Sequence[object], columns: Mapping[str, str], missing: str) -> Table:
    """``Table.of``, or ``NothingToShow`` with the sentence ``missing`` where there are no records."""
    if not records:
        raise NothingToShow(missing)
    return Table.of(records, columns)


FIGURES = {
    "accuracy": FigureKind(
        "robust accuracy over eps by metric, crossings of models, max-loss runs as points",
        lambda runs, choices: accuracy.accuracy_curves(runs),
    ),
    "radii": FigureKind("distribution of radii by metric, and the share that each --eps breaks", _radii),
    "comparison": FigureKind("two runs sample by sample: radii of the first, difference of the second", _comparison),
    "by-sample": FigureKind("radii of several runs over the samples they share", _by_sample, by_model),
    "termination": FigureKind("when searches end and how, --by passes or seconds", _termination),
    "best-found": FigureKind(
        "at which pass attacks find their best point (searches again)", _best_found, searches=True
    ),
    "trajectories": FigureKind("how one --sample was searched (searches again)", _trajectories, searches=True),
    "perturbations": FigureKind(
        "one --sample: adversarial input, perturbation, its magnitudes", _perturbations, by_model
    ),
    "magnitudes": FigureKind("how large the entries of perturbations are", _magnitudes, by_model),
    "sparsity": FigureKind(
        "histograms of ||d||_1 / ||d||_2, metrics by losses and attacks",
        lambda runs, choices: patterns.sparsity(runs),
        by_model,
    ),
    "agreement": FigureKind("who breaks what: pairs, alone, together (min-radius: at --eps)", _agreement, by_question),
    "cross-metric": FigureKind("median radii, models by metrics", _cross_metric),
    "radius-over-budget": FigureKind(
        "mean radii of attacks over the budget, a panel for every model and metric",
        lambda runs, choices: attacks.radius_over_budget(analysis.attack_scores(runs)),
    ),
    "xi": FigureKind(
        "local optimality of attacks on every model and metric, as a heat map",
        lambda runs, choices: attacks.local_optimality(analysis.attack_scores(runs)),
    ),
    "loss-clipping": FigureKind(
        "cross-entropy and margin with their clipped forms (needs no run)",
        lambda runs, choices: clipping.loss_clipping(),
    ),
}

TABLES = {
    "overview": TableKind(
        "a row for every run: accuracy or radius, found, converged, unsettled, cost",
        lambda runs, choices: tables.overview_table(runs),
    ),
    "radii": TableKind(
        "statistical comparison of the radii of every two runs", lambda runs, choices: tables.radius_table(runs)
    ),
    "sweep": TableKind(
        "robust accuracy at the usual eps, or at --eps, from min-radius runs; max-loss runs at theirs",
        lambda runs, choices: tables.sweep_table(runs, choices.eps),
    ),
    "classes": TableKind(
        "class by class: clean accuracy, median radius or robust accuracy, and that at --eps",
        lambda runs, choices: tables.class_table(runs, choices.eps),
    ),
    "attacks": TableKind(
        "attacks on every model, metric and budget: found, radii, local optimality xi, passes, seconds",
        _attacks_table,
        on_page=rivals,
    ),
    "wins": TableKind(
        "every two runs: samples on which either radius is smaller by more than 1%",
        lambda runs, choices: tables.wins_table(runs),
        on_page=rivals,
    ),
    "accuracy": TableKind(
        "max-loss: robust accuracy of every attack, and of all together",
        lambda runs, choices: tables.accuracy_table(runs),
    ),
    "cross-metric": TableKind(
        "median radii, models by metrics",
        lambda runs, choices: tables.cross_metric_table(analysis.cross_metric(runs)),
    ),
    "sparsity": TableKind("quartiles of ||d||_1 / ||d||_2", _sparsity_table),
    "agreement": TableKind(
        "who breaks what (min-radius: at --eps)",
        lambda runs, choices: tables.agreement_table(_who_breaks_what(runs, choices)),
        by_question,
    ),
}
