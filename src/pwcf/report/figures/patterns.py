"""What perturbations look like: pictures of them, how large their entries are, how sparse they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from pwcf._common import statistics
from pwcf._common.wording import share_text
from pwcf.analysis import (
    attacks_name,
    found_in,
    magnitudes_of,
    model_name,
    perturbations_of,
    sparsity_of,
    takes_runs,
)
from pwcf.evaluation import Run
from pwcf.problems import MaxLoss
from pwcf.report.figures.canvas import (
    COLUMN,
    PAGE,
    SMALL,
    NothingToShow,
    bins_for,
    drawn,
    edges_of,
    in_lines,
    legend_below,
    line_handle,
    metric_label,
    numbers,
    plain,
    sheet,
)
from pwcf.report.figures.pictures import draw_input, draw_perturbation
from pwcf.report.style import BLACK, BLUE, COLOURS, plot_styles
from pwcf.runs import RecordedRun
from pwcf.runs.comparison import sample_places
from pwcf.runs.originals import original_images

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABREAST = 6
"""runs beside each other; more go below"""


@drawn
@takes_runs
def perturbations(runs: Mapping[str, Run], images: Tensor | None = None, sample: int | None = None) -> Figure:
    """One sample under several runs: the adversarial input, the perturbation made visible, the sizes of its entries.

    Args:
        runs: of any metric, loss or attack; recorded ones may have their samples in different orders.
        images: (n, ...) the first run's. Default: as the run has them, or its folder's data.
        sample: a place in the first run. Default: the first for which every run has a point.

    Returns:
        A figure with a column for each run, after one for the image itself.
    """
    first, images = _first(runs, images, "perturbations")
    places = _places(runs)
    if sample is None:
        sample = _first_for_all(runs, places)
    if not 0 <= sample < len(images):
        raise ValueError(f"sample: expected 0 to {len(images) - 1}, found {sample}")
    shown = {name: _answer(name, run, places[name], images, sample) for name, run in runs.items()}
    blocks = math.ceil(len(shown) / ABREAST)
    columns = 1 + math.ceil(len(shown) / blocks)
    width = min(PAGE, 1.3 * columns)
    figure, axes = sheet(3 * blocks, columns, width=width, height=max(width / columns, 1.0) * 0.98)
    bounds = _bounds(first, images)
    listed = list(shown.items())
    for block in range(blocks):
        rows = axes[3 * block : 3 * block + 3]
        for row in rows:
            for axis in row:
                axis.set_visible(False)
        if block == 0:
            _original(rows[0][0], images[sample], bounds, first, sample)
        for column, (name, answer) in enumerate(listed[block * (columns - 1) : (block + 1) * (columns - 1)], start=1):
            _column([row[column] for row in rows], name, answer, images[sample], bounds)
            if column == 1:
                rows[2][column].set_ylabel("share of entries", fontsize=SMALL)
    return figure


class _Answer(NamedTuple):
    x_adv: Tensor
    perturbation: Tensor
    edges: Tensor
    share: Tensor
    untouched: float
    caption: str


def _answer(name: str, run: Run, places: Mapping[int, int], images: Tensor, sample: int) -> _Answer:
    if sample not in places:
        raise ValueError(f"sample: expected one that all runs have, {name} has none like {sample}")
    one = run.select(torch.tensor([places[sample]]))
    if not bool(found_in(one)[0]):
        raise NothingToShow(f"perturbations: expected a point of sample {sample} in every run, {name} has none")
    image = images[sample : sample + 1].detach().cpu()
    found = magnitudes_of(one, image, [0], bins=25)
    d = perturbations_of(one, image)[0]
    return _Answer(one.x_adv[0].detach().cpu(), d, found.edges, found.share, found.untouched, _caption(one))


def _caption(one: Run) -> str:
    """What the model says of the point, and how far it is."""
    metric = metric_label(one.problem.metric.name)
    distance = f"{metric} {float(one.radius[0]):.3g}"
    if not isinstance(one, RecordedRun):
        return distance
    label = int(one.rows["adversarial_label"][0].as_py())
    return f"{_class(one, label)}, {distance}"


def _class(run: RecordedRun, label: int) -> str:
    return plain(run.header.classes[label], 14) if label < len(run.header.classes) else f"class {label}"


def _original(axis: Axes, image: Tensor, bounds: tuple[float, float], run: Run, sample: int) -> None:
    axis.set_visible(True)
    draw_input(axis, image, bounds)
    place = int(run.index[sample]) if isinstance(run, RecordedRun) else sample
    axis.set_title(f"sample {place}", fontsize=SMALL)
    if isinstance(run, RecordedRun):
        axis.set_xlabel(_class(run, int(run.rows["label"][sample].as_py())), fontsize=SMALL)


def _column(axes: list[Axes], name: str, answer: _Answer, image: Tensor, bounds: tuple[float, float]) -> None:
    for axis in axes:
        axis.set_visible(True)
    axes[0].set_title(in_lines(name, 18), fontsize=SMALL)
    draw_input(axes[0], answer.x_adv, bounds, image)
    axes[0].set_xlabel(answer.caption, fontsize=SMALL)
    full = draw_perturbation(axes[1], answer.perturbation)
    axes[1].set_xlabel(f"± {full:.2g}", fontsize=SMALL)
    width = float(answer.edges[1] - answer.edges[0])
    axes[2].bar(numbers(answer.edges[:-1]), numbers(answer.share), width=width, align="edge", color=BLUE, linewidth=0)
    axes[2].set_yscale("log")
    axes[2].set_ylim(0.5 / answer.perturbation.numel(), 1.3)
    axes[2].set_xlim(0, 1.05 * float(answer.edges[-1]))
    # The ends are enough, and labels of more would run into each other.
    largest = float(answer.edges[-1])
    axes[2].set_xticks([0, largest], ["0", f"{largest:.2g}"])
    axes[2].set_xlabel(f"|d|, {share_text(answer.untouched, 0)} zero", fontsize=SMALL)


@drawn
@takes_runs
def magnitudes(runs: Mapping[str, Run], images: Tensor | None = None) -> Figure:
    """How large the entries of perturbations are, over all samples for which a run has a point.

    For every run the share of entries that move by more than a value: far to the right, few entries move much; flat
    and then steep, all move alike.

    Args:
        runs: of any metric, loss or attack.
        images: (n, ...) the first run's. Default: as the run has them, or its folder's data.

    Returns:
        A figure with one panel, a line for each run.
    """
    _, images = _first(runs, images, "magnitudes")
    styles = plot_styles(runs, colours=(*COLOURS, BLACK))
    figure, axes = sheet(1, 1, width=COLUMN * 1.2, height=2.2)
    axis = axes[0][0]
    places = _places(runs)
    shown = 0
    for name, run in runs.items():
        here = [(mine, its) for mine, its in places[name].items() if bool(found_in(run)[its])]
        if not here:
            continue
        some = run.select(torch.tensor([its for _, its in here]))
        found = magnitudes_of(some, images[[mine for mine, _ in here]], bins=400)
        # Entries above the left edge of each bin, and none above the last edge.
        above = torch.cat((found.share.flip(0).cumsum(0).flip(0), found.share.new_zeros(1)))
        above[0] = 1 - found.untouched
        keep = above > 0
        axis.plot(
            numbers(found.edges[keep]), numbers(above[keep]), color=styles[name].colour, linestyle=styles[name].line,
            label=name,
        )  # fmt: skip
        shown += 1
    if not shown:
        raise NothingToShow("magnitudes: expected a run with a point, found none")
    axis.set(yscale="log", xlabel="|d|, change of an entry", ylabel="share of entries above")
    axis.set_ylim(top=1.2)
    axis.set_xlim(left=0)
    legend_below(figure, [line_handle(style) for style in styles.values()], [plain(name) for name in styles])
    return figure


@drawn
@takes_runs
def sparsity(runs: Mapping[str, Run]) -> Figure:
    """Histograms of ||d||_1 / ||d||_2: 1 where one entry moves, sqrt(entries) where all move alike.

    A row for every metric (and model, if there are several), a column for every loss and attack; bins are shared,
    dashed lines are medians. Runs that share a place are drawn over each other.

    Args:
        runs: recorded ones by name, of either question.

    Returns:
        A figure with metrics by rows, losses and attacks by columns.
    """
    if not runs:
        raise NothingToShow("sparsity: expected runs, found none")
    values = {name: sparsity_of(run) for name, run in runs.items()}
    values = {name: each[torch.isfinite(each)] for name, each in values.items()}
    values = {name: each for name, each in values.items() if len(each)}
    if not values:
        raise NothingToShow("sparsity: expected a run with a point, found none")
    models = {model_name(run) for run in runs.values() if isinstance(run, RecordedRun)}
    questions = {type(run.problem) for run in runs.values()}
    cells: dict[tuple[str, str], list[str]] = {}
    for name in values:
        key = _row(runs[name], len(models) > 1), _kind(runs[name], len(questions) > 1)
        cells.setdefault(key, []).append(name)
    rows = list(dict.fromkeys(row for row, _ in cells))
    columns = list(dict.fromkeys(column for _, column in cells))
    edges = edges_of(torch.cat(list(values.values())), bins_for(2 * max(map(len, values.values()))))
    width = COLUMN if len(columns) == 1 else min(PAGE, 2.3 * len(columns))
    figure, axes = sheet(len(rows), len(columns), width=width, height=1.25 if len(rows) > 1 else 1.8)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            axis = axes[i][j]
            if (row, column) not in cells:
                axis.set_visible(False)
            else:
                _sparsity_panel(axis, {name: values[name] for name in cells[row, column]}, edges)
            if (row, column) in cells and all((above, column) not in cells for above in rows[:i]):
                axis.set_title(plain(column))
            lowest = all((below, column) not in cells for below in rows[i + 1 :])
            if lowest:
                axis.set_xlabel(r"$\|d\|_1\,/\,\|d\|_2$")
        left = next(j for j, column in enumerate(columns) if (row, column) in cells)
        axes[i][left].set_ylabel(f"{row}\nsamples")
    return figure


def _sparsity_panel(axis: Axes, values: Mapping[str, Tensor], edges: list[float]) -> None:
    styles = plot_styles(values)
    for name, each in values.items():
        middle = statistics.median(each.numpy())
        colour = styles[name].colour
        alpha = 0.8 if len(values) == 1 else 0.45
        axis.hist(numbers(each), edges, color=colour, alpha=alpha, linewidth=0, label=plain(name, 26))
        axis.axvline(
            middle, color="black" if len(values) == 1 else colour, linestyle=(0, (4, 2)), linewidth=1, ymax=0.64
        )
        if len(values) == 1:
            # Beside the bars, which stand around the median.
            left = middle > (edges[0] + edges[-1]) / 2
            axis.text(
                0.03 if left else 0.98,
                0.95,
                f"median {middle:.3g}\n{len(each)} samples",
                transform=axis.transAxes,
                ha="left" if left else "right",
                va="top",
                fontsize=SMALL,
            )
    if len(values) > 1:
        axis.legend(loc="upper right", fontsize=SMALL, handlelength=1)
    axis.set_xlim(edges[0], edges[-1])
    axis.set_ylim(top=1.5 * axis.get_ylim()[1])  # room for words
    axis.locator_params(axis="y", integer=True, nbins=4)


def _row(run: Run, model_too: bool) -> str:
    metric = metric_label(run.problem.metric.name)
    return f"{plain(model_name(run), 20)}, {metric}" if model_too and isinstance(run, RecordedRun) else metric


def _kind(run: Run, question_too: bool) -> str:
    """Attacks, and the loss where one is maximised and the attack's name does not say it."""
    attacks = attacks_name(run)
    if not isinstance(run.problem, MaxLoss):
        return f"{attacks}, min-radius" if question_too else attacks
    return attacks if attacks.endswith(f"-{run.problem.loss}") else f"{attacks}, {run.problem.loss}"


def _first(runs: Mapping[str, Run], images: Tensor | None, what: str) -> tuple[Run, Tensor]:
    """The run that images belong to, and these; all runs need their points."""
    if not runs:
        raise NothingToShow(f"{what}: expected runs, found none")
    for name, run in runs.items():
        if len(run.x_adv) != len(run.status):
            raise ValueError(f"{what}: expected the points of {name}, found none; load it with tensors=True")
    first = next(iter(runs.values()))
    if images is None and isinstance(first, RecordedRun):
        images = original_images(first)
    if images is None or len(images) != len(first.status):
        found = "none" if images is None else len(images)
        raise ValueError(f"images: expected the first run's {len(first.status)}, found {found}")
    return first, images


def _places(runs: Mapping[str, Run]) -> dict[str, dict[int, int]]:
    """For every run, from places in the first run to its own: recorded samples are known by image and label."""
    first = next(iter(runs.values()))
    known = sample_places(first.rows) if isinstance(first, RecordedRun) else {}
    found = {}
    for name, run in runs.items():
        if isinstance(run, RecordedRun) and isinstance(first, RecordedRun):
            own = sample_places(run.rows)
            found[name] = {place: own[key] for key, place in known.items() if key in own}
        else:
            found[name] = {place: place for place in range(min(len(run.status), len(first.status)))}
    return found


def _first_for_all(runs: Mapping[str, Run], places: Mapping[str, Mapping[int, int]]) -> int:
    found = {name: found_in(run) for name, run in runs.items()}
    for sample in places[next(iter(runs))]:
        if all(sample in places[name] and bool(found[name][places[name][sample]]) for name in runs):
            return sample
    raise NothingToShow("perturbations: expected a sample for which every run has a point, found none")


def _bounds(run: Run, images: Tensor) -> tuple[float, float]:
    if isinstance(run, RecordedRun):
        return run.header.settings.bounds[0], run.header.settings.bounds[1]
    return min(0.0, float(images.min())), max(1.0, float(images.max()))
