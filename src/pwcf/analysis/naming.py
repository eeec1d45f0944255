"""What questions, models, attacks, data and runs are called, and which runs are about the same.

Terminal, page, figures, tables and file names all take their names from here (and from ``pwcf._common.wording``, which
commands that load no network library share).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar, cast

from pwcf._common.wording import eps_text, question_text
from pwcf.analysis.masks import needs_recording
from pwcf.evaluation import Run
from pwcf.problems import MaxLoss, MinRadius
from pwcf.runs import RecordedRun, RunLike, recorded

__all__ = [
    "NamedRuns",
    "RunLabel",
    "RunsLike",
    "asked_eps",
    "attacks_name",
    "by_topic",
    "comparable_groups",
    "data_groups",
    "data_name",
    "data_names",
    "eps_text",
    "gather",
    "list_runs",
    "metric_name",
    "model_key",
    "model_name",
    "model_names",
    "name_runs",
    "names_without_question",
    "question_name",
    "question_title",
    "run_labels",
    "takes_runs",
    "topics",
    "unique_names",
]

NamedRuns = Mapping[str, Run]
"""Runs by the names they have in tables and figures; ``name_runs`` makes short ones."""
P = ParamSpec("P")
R = TypeVar("R")
RunsLike = RunLike | Iterable[RunLike] | Mapping[str, RunLike]
"""one run or several, in memory, loaded or as paths of folders; by name or to be named"""
OURS = "lmn"
"""the attack whose line comes first and stands out"""
USUAL_LOSS = "margin"
"""said only where runs have several losses"""
NOT_RECORDED = "not recorded"
BETWEEN = " · "
"""joins the parts of a name"""


# ---- one run ----------------------------------------------------------------------------------------


def metric_name(run: Run) -> str:
    """Name of the metric of a run.

    Args:
        run: of either question.

    Returns:
        The name, such as ``l2``.
    """
    return run.problem.metric.name


def attacks_name(run: Run) -> str:
    """Names of the attacks of a run, joined by plus signs.

    Args:
        run: of either question.

    Returns:
        The names, such as ``lmn+fab``; ``none`` where there is no attack.
    """
    return "+".join(each.name for each in run.contributions) or "none"


def question_name(run: Run, loss: bool = True) -> str:
    """Question of a run in short: ``l2``, or ``linf ≤ 8/255, margin``.

    Args:
        run: of either question.
        loss: whether the loss of max-loss is said.

    Returns:
        The text that page, tables and figures show.
    """
    problem = run.problem
    if isinstance(problem, MinRadius):
        return question_text(problem.metric.name, targeted=problem.targeted)
    eps = problem.eps if isinstance(problem.eps, float) else None
    said = problem.loss if loss else None
    return question_text(problem.metric.name, eps, said, problem.targeted, per_sample=eps is None)


def question_title(run: Run) -> str:
    """Question of a run as the title of an answer.

    Args:
        run: of either question.

    Returns:
        A title without a full stop.
    """
    problem = run.problem
    if isinstance(problem, MinRadius):
        aim = "classified as wanted" if problem.targeted else "misclassified"
        return f"Distance to the nearest {aim} point, {problem.metric.name}"
    eps = eps_text(problem.eps) if isinstance(problem.eps, float) else "each sample's eps"
    within = f"within {problem.metric.name} {eps}"
    if problem.targeted:
        return f"Targeted: share that no attack turns into the wanted class {within}"
    return f"Accuracy under attack {within}"


def model_name(run: RecordedRun) -> str:
    """Name of the model of a run: as the command called it, without its folder or kind.

    Args:
        run: a recorded one.

    Returns:
        The name, followed by the weights' file where there is one.
    """
    spec = run.header.model.spec
    short = spec.rpartition("/")[2] if "/" in spec and "://" not in spec else spec
    stem = short.partition(":")[2] or short
    weights = run.header.settings.weights
    return f"{stem} {weights.rpartition('/')[2]}" if weights else stem


def asked_eps(run: Run) -> float | str | None:
    """The eps that a max-loss run was asked about, "per sample" where samples have their own; None for min-radius."""
    if not isinstance(run.problem, MaxLoss):
        return None
    return run.problem.eps if isinstance(run.problem.eps, float) else "per sample"


def model_key(name: str, run: Run) -> str:
    """Models are the same if their content is; of runs that were not recorded the run's name has to tell."""
    return run.header.model.fingerprint if isinstance(run, RecordedRun) else name


def data_name(run: RecordedRun) -> str:
    """Name of the data of a run, without its folder.

    Args:
        run: a recorded one.

    Returns:
        The last part of the path or specification.
    """
    return _end(_data_spec(run), 1)


def _data_spec(run: RecordedRun) -> str:
    """Where its data are from; images that lie in the run's own folder are from Python."""
    return run.header.data.spec if run.header.saved else run.header.settings.data.rstrip("/")


# ---- several runs -----------------------------------------------------------------------------------


def unique_names(names: Iterable[str], form: str = "{} ({})") -> list[str]:
    """Make names unique: a name that comes again gets a number.

    Args:
        names: in their order.
        form: how name and number are joined.

    Returns:
        As many names as there were, all different.
    """
    seen: dict[str, None] = {}
    for name in names:
        again, count = name, 1
        while again in seen:
            count += 1
            again = form.format(name, count)
        seen[again] = None
    return list(seen)


def model_names(runs: NamedRuns) -> dict[str, str]:
    """Names of the models of several runs, one name for each different model.

    Different models of one name are told apart by their files (``a.py:net``), or else numbered (``net (2)``). Each run
    that was not recorded is taken for a model of its own.

    Args:
        runs: by name.

    Returns:
        By the run's name the model's.
    """
    first: dict[str, tuple[str, Run]] = {}
    for name, run in runs.items():
        first.setdefault(model_key(name, run), (name, run))
    short = {key: model_name(run) if isinstance(run, RecordedRun) else name for key, (name, run) in first.items()}
    count = Counter(short.values())
    longer = {key: _with_file(run) if count[short[key]] > 1 else short[key] for key, (_, run) in first.items()}
    distinct = longer if len(set(longer.values())) == len(longer) else short
    unique = dict(zip(distinct, unique_names(distinct.values()), strict=True))
    return {name: unique[model_key(name, run)] for name, run in runs.items()}


def _with_file(run: Run) -> str:
    assert isinstance(run, RecordedRun)
    if run.header.saved:
        return model_name(run)
    spec = run.header.model.spec
    before = spec.rpartition("/")[2].partition(":")[0] if ":" in spec else run.header.model.fingerprint[:6]
    return f"{before}:{model_name(run)}"


class RunLabel(NamedTuple):
    """What a run is called among others."""

    name: str
    """among all of them"""
    series: str
    """among those about the same question"""


ALWAYS = 2
"""the first so many parts of a name are said wherever they differ"""
QUESTION = 1
"""which part is the question"""


def run_labels(runs: Sequence[RecordedRun], folders: Sequence[str] = ()) -> list[RunLabel]:
    """Label runs by what differs: model and question, then attacks, data, budget, seed as far as it takes to tell.

    Args:
        runs: recorded ones.
        folders: names that are used where nothing else differs.

    Returns:
        A label for each run, in their order.
    """
    numbered = {str(i): needs_recording(run, "run_labels") for i, run in enumerate(runs)}
    losses = {run.header.settings.loss for run in runs if run.header.settings.eps is not None}
    say_loss = losses - {USUAL_LOSS} != set()
    models, data = model_names(numbered), data_names(numbered)
    parts = [
        (
            models[i],
            question_name(run, say_loss),
            attacks_name(run),
            # A run's own file where the set is called after another's.
            data[i] if data[i].endswith(data_name(run)) else data_name(run),
            f"budget {run.header.budget}",
            f"seed {run.header.settings.seed}",
            *folders[int(i) : int(i) + 1],
        )
        for i, run in numbered.items()
    ]
    differing: list[int] = []
    for i in range(len(parts[0]) if parts else 0):
        if i >= ALWAYS and len({tuple(each[j] for j in differing) for each in parts}) == len(parts):
            break
        if len({each[i] for each in parts}) > 1:
            differing.append(i)
    # One run, or several alike: the question says most.
    chosen = differing or [0, QUESTION]
    names = [BETWEEN.join(each[i] for i in chosen) for each in parts]
    series = [BETWEEN.join(each[i] for i in chosen if i != QUESTION) or each[0] for each in parts]
    return [
        # The number of a name that comes again belongs to its series, too.
        RunLabel(unique, short + unique.removeprefix(name))
        for name, short, unique in zip(names, series, unique_names(names), strict=True)
    ]


def list_runs(runs: RunsLike) -> list[RunLike]:
    """Whatever stands for runs, as a list."""
    if isinstance(runs, Mapping):
        return [*runs.values()]
    if not isinstance(runs, (Run, str, os.PathLike, Iterable)):
        raise TypeError(f"runs: expected runs, or paths of their folders, found {type(runs).__name__}")
    return [runs] if isinstance(runs, (Run, str, os.PathLike)) else [*runs]


def gather(runs: RunsLike) -> dict[str, Run]:
    """Runs by name, whatever stands for them: what every figure and table takes.

    Args:
        runs: one or several, in memory, loaded, or paths of folders; under names of your own, or listed.

    Returns:
        By name, in their order: your names, or those of ``name_runs``. Each is recorded as far as it can be, so that
        models and samples are known by their content.
    """
    if isinstance(runs, Mapping):
        return {name: recorded(run) for name, run in runs.items()}
    return {**name_runs(runs)}


def takes_runs(function: Callable[Concatenate[NamedRuns, P], R]) -> Callable[Concatenate[RunsLike, P], R]:
    """Decorate a function of runs by name: it takes whatever ``gather`` takes.

    Args:
        function: its first argument are the runs.

    Returns:
        The same function of runs in memory, loaded ones, or paths of folders, by name or listed.
    """

    @wraps(function)
    def gathered(runs: RunsLike, *args: P.args, **kwargs: P.kwargs) -> R:
        return function(gather(runs), *args, **kwargs)

    return cast(Callable[Concatenate[RunsLike, P], R], gathered)  # which may be given runs= as well


def name_runs(runs: RunsLike) -> dict[str, RecordedRun]:
    """Give runs short names of what differs between them: see ``run_labels``.

    Args:
        runs: one or several, in memory, loaded, or paths of folders.

    Returns:
        The runs by their names, in their order.
    """
    listed = [needs_recording(recorded(run), "name_runs") for run in list_runs(runs)]
    return {label.name: run for label, run in zip(run_labels(listed), listed, strict=True)}


def names_without_question(runs: NamedRuns) -> dict[str, str]:
    """Shorten names for panels that say the question themselves, so that a model has one name in all of them.

    The question is left out only where ``name_runs`` has put it in, and where no two runs of one question would get the
    same name.

    Args:
        runs: by name.

    Returns:
        By the run's name the shorter one.
    """
    losses = {run.problem.loss for run in runs.values() if isinstance(run.problem, MaxLoss)}
    short = {name: _without_question(name, run, len(losses) > 1) for name, run in runs.items()}
    keys = [(question_name(run), short[name]) for name, run in runs.items()]
    return short if len(set(keys)) == len(keys) else {name: name for name in runs}


def _without_question(name: str, run: Run, say_loss: bool) -> str:
    """The loss stays if there are several: a panel does not say it."""
    loss = run.problem.loss if say_loss and isinstance(run.problem, MaxLoss) else ""
    asked = {question_name(run), question_name(run, loss=False)}
    parts = [loss if part in asked else part for part in name.split(BETWEEN)]
    model = model_name(run) if isinstance(run, RecordedRun) else attacks_name(run)
    return BETWEEN.join(filter(None, parts)) or model


# ---- data, and which runs belong together -----------------------------------------------------------
#
# There are two answers, and everything that groups runs asks one of them:
#   by_topic           runs that share a panel: one metric, targeted or not, one set of data; models may differ
#   comparable_groups  runs of one topic that are also about one model: attacks are compared sample by sample


def data_groups(runs: NamedRuns) -> dict[str, int]:
    """Tell which runs are about the same data: those that share an image, or share one with a third run.

    Files of one name may have nothing in common, and one set may lie in several places: images tell. Runs that were
    not recorded know nothing of their data and count as one.

    Args:
        runs: by name.

    Returns:
        By the run's name the number of its data.
    """
    group_of: dict[str, int] = {}
    found: dict[str, int] = {}
    for name, run in runs.items():
        images = set(run.rows["image"].to_pylist()) if isinstance(run, RecordedRun) else {""}
        met = {group_of[image] for image in images & group_of.keys()}
        number = min(met, default=len(found))
        for grouped in (group_of, found):  # what this run brings together
            grouped |= {key: number for key, value in grouped.items() if value in met}
        group_of |= dict.fromkeys(images, number)
        found[name] = number
    return found


def data_names(runs: NamedRuns) -> dict[str, str]:
    """Names of the data of several runs: the same for runs that share images, different for all others.

    Args:
        runs: by name.

    Returns:
        By the run's name the data's.
    """
    groups = data_groups(runs)
    specs: dict[int, str] = {}
    for name, group in groups.items():
        run = runs[name]
        specs.setdefault(group, _data_spec(run) if isinstance(run, RecordedRun) else NOT_RECORDED)
    names = {group: _end(spec, 1) for group, spec in specs.items()}
    for name in set(names.values()):
        alike = [group for group in names if names[group] == name]
        if len(alike) > 1:
            names |= _by_their_paths({group: specs[group] for group in alike})
    return {name: names[group] for name, group in groups.items()}


def _by_their_paths(specs: dict[int, str]) -> dict[int, str]:
    """By as much of the path as it takes; a file that has changed since has the same, and gets a number."""
    most = max(spec.count("/") for spec in specs.values()) + 1
    for parts in range(2, most + 1):
        names = {group: _end(spec, parts) for group, spec in specs.items()}
        if len(set(names.values())) == len(names):
            return names
    return {group: f"{_end(spec, 1)} ({i})" for i, (group, spec) in enumerate(specs.items(), 1)}


def _end(spec: str, parts: int) -> str:
    return "/".join(spec.split("/")[-parts:])


def topics(runs: NamedRuns) -> dict[str, str]:
    """Topics of several runs: metric, whether targeted, and the data where there are several.

    Radii and eps of one topic can share an axis.

    Args:
        runs: by name.

    Returns:
        By the run's name its topic, such as ``l2, targeted``.
    """
    data = data_names(runs)
    several = len(set(data.values())) > 1
    return {
        name: question_text(metric_name(run), targeted=run.problem.targeted)
        + (f"{BETWEEN}{data[name]}" if several else "")
        for name, run in runs.items()
    }


def by_topic(runs: NamedRuns) -> dict[str, dict[str, Run]]:
    """Group runs that can share a panel: those of one topic (see ``topics``), whatever their models.

    Args:
        runs: by name.

    Returns:
        By topic its runs by name; topics in the order of their first runs.
    """
    found: dict[str, dict[str, Run]] = {}
    for (name, run), topic in zip(runs.items(), topics(runs).values(), strict=True):
        found.setdefault(topic, {})[name] = run
    return found


def comparable_groups(
    runs: NamedRuns, also: Callable[[Run], object] = lambda run: None
) -> dict[tuple[str, str], list[dict[str, Run]]]:
    """Group runs that can be compared sample by sample: those about one model and one topic.

    Args:
        runs: by name; those that were not recorded are taken to be about one model.
        also: what else must be the same, such as eps; each value of it makes a group of its own.

    Returns:
        By the names of model and topic a list of groups of runs by name, one group for each value of ``also``.
    """
    about, models = topics(runs), model_names(runs)
    groups: dict[tuple[str, str], dict[object, dict[str, Run]]] = {}
    for name, run in runs.items():
        model = models[name] if isinstance(run, RecordedRun) else "–"
        groups.setdefault((model, about[name]), {}).setdefault(also(run), {})[name] = run
    return {key: list(parts.values()) for key, parts in groups.items()}
