"""Robustness taken apart: at the eps that papers use, and class by class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from pwcf._common import statistics
from pwcf._common.statistics import ClassStatistics
from pwcf._common.usual_eps import usual_eps
from pwcf.analysis.curves import Accuracy, accuracy_of
from pwcf.analysis.masks import attacked_in, one_metric, status_values
from pwcf.analysis.naming import metric_name
from pwcf.evaluation import Run
from pwcf.problems import MaxLoss, MinRadius
from pwcf.runs import RecordedRun


def usual_eps_of(runs: Iterable[Run]) -> list[float]:
    """Choose the eps at which the robust accuracy of runs in one metric is told.

    Those that papers use for this metric and kind of image. Where they tell little of the models, or where there are
    none, round numbers near the quartiles of the radii are added. The eps of max-loss runs are among them, and those
    that min-radius runs were asked for.

    Args:
        runs: of either question, in one metric.

    Returns:
        Rising eps.
    """
    listed = list(runs)
    one_metric(listed, "usual_eps_of")
    asked = [run for run in listed if isinstance(run.problem, MinRadius)]
    own = [accuracy_of(run).eps for run in listed if isinstance(run.problem, MaxLoss) and len(run.status)]
    own += [eps for run in asked if isinstance(run, RecordedRun) for eps in run.header.settings.accuracy_at]
    usual: list[float] = []
    if asked:
        radii = [run.radius.cpu()[attacked_in(run)].numpy() for run in asked]
        usual = usual_eps(metric_name(asked[0]), *_kind(asked[0]), radii)
    return sorted({*usual, *(eps for eps in own if not any(abs(eps - each) < 1e-9 for each in usual))})


def _kind(run: Run) -> tuple[tuple[int, ...], tuple[float, float]]:
    """Shape and bounds of an input; images in [0, 1] where the run does not know them."""
    if isinstance(run, RecordedRun):
        lower, upper = run.header.settings.bounds
        return run.header.shape, (lower, upper)
    bounds = (0.0, 1.0) if run.asked is None else run.asked.bounds
    return tuple(run.x_adv.shape[1:]), bounds


def eps_sweep(run: Run, eps: Sequence[float] | None = None) -> list[Accuracy]:
    """Robust accuracy of a run at several eps: a min-radius run answers for all of them.

    Args:
        run: of either question, about n samples.
        eps: >= 0; default: ``usual_eps_of``. A max-loss run answers for its own eps alone.

    Returns:
        ``Accuracy`` at each eps. They are upper bounds: a longer search may break more samples.
    """
    if isinstance(run.problem, MaxLoss):
        own = accuracy_of(run)
        return [own] if eps is None or any(abs(own.eps - each) < 1e-9 for each in eps) else []
    return [accuracy_of(run, each) for each in (usual_eps_of([run]) if eps is None else eps)]


def robustness_by_class(
    run: Run, labels: Tensor | None = None, eps: Sequence[float] = (), names: Sequence[str] = ()
) -> list[ClassStatistics]:
    """How robust a model is on the samples of each class; of a targeted run for each wanted class.

    Args:
        run: of either question, about n samples.
        labels: (n,) default: the run's own.
        eps: min-radius: where robust accuracy is told as well.
        names: of the classes; default: those that were recorded, if any.

    Returns:
        For each class that has samples their number, clean accuracy, how many were attacked and found, and the median
        radius of attacked samples or, in max-loss, the robust accuracy. ``statistics.extremes`` names the worst and
        the best.
    """
    if labels is None:
        if isinstance(run, RecordedRun):
            listed = run.rows["label"].to_pylist()
        elif run.asked is not None:
            listed = run.asked.labels.tolist()
        else:
            raise ValueError("labels: expected those of the samples, found none; the run does not know its own")
    else:
        listed = labels.tolist()
    if len(listed) != len(run.status):
        raise ValueError(f"labels: expected {len(run.status)} of them, found {len(listed)}")
    return statistics.by_class(
        status_values(run), run.adversarial.cpu().numpy(), run.radius.cpu().numpy(), listed,
        names=names or (run.header.classes if isinstance(run, RecordedRun) else ()),
        max_loss=isinstance(run.problem, MaxLoss), eps=eps,
    )  # fmt: skip
