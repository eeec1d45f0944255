"""How an eps, a question and a share are written, wherever they are shown. Without a network library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pwcf._common.statistics import ClassStatistics


def eps_text(eps: float) -> str:
    """An eps as papers write it: steps of 8-bit images as fractions (8/255), other numbers with up to four digits.

    Args:
        eps: >= 0.

    Returns:
        The text that terminal, page, tables and figures show.
    """
    steps = eps * 255
    if 0.5 < steps < 64 and abs(steps - round(steps)) < 1e-6 and float(f"{eps:.3g}") != eps:
        return f"{round(steps)}/255"
    return f"{eps:.4g}"


def question_text(
    metric: str, eps: float | None = None, loss: str | None = None, targeted: bool = False, *, per_sample: bool = False
) -> str:
    """A question in short: ``l2``, or ``linf ≤ 8/255, margin, targeted``.

    Args:
        metric: its name.
        eps: of max-loss.
        loss: of max-loss; None leaves it out, where it is the usual one.
        targeted: whether labels are wanted classes.
        per_sample: every sample has its own eps.

    Returns:
        The text that terminal, page, tables and figures show.
    """
    words = metric
    if per_sample or eps is not None:
        words += " ≤ eps per sample" if eps is None else f" ≤ {eps_text(eps)}"
        words += f", {loss}" if loss is not None else ""
    return words + (", targeted" if targeted else "")


def radius_text(radius: Mapping[str, float], found: int, attacked: int) -> str:
    """The radii of a run, with the samples that each number is over, wherever they are said.

    Args:
        radius: what ``statistics.radius_figures`` returns.
        found: samples with a point, which the mean is over.
        attacked: samples that were attacked, which the median is over: those without a point count as infinite.

    Returns:
        ``mean 0.0385 over 4 found, median ∞ over 10 attacked, least 0.021, largest 0.061``.
    """
    if not radius:
        return f"no point found for any of {attacked} attacked"
    shown = {name: number_text(value) for name, value in radius.items()}
    return (
        f"mean {shown['mean']} over {found} found, median {shown['median']} over {attacked} attacked, "
        f"least {shown['least']}, largest {shown['largest']}"
    )


def number_text(value: float) -> str:
    """A radius with four digits, ``∞`` where there is no point; a dash where it is not known."""
    return "–" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.4g}"


def clean_text(share: float, targeted: bool) -> str:
    """The share of samples to attack: ``clean accuracy 93.0%``, or ``93.0% not yet of the wanted class``."""
    return f"{share_text(share)} not yet of the wanted class" if targeted else f"clean accuracy {share_text(share)}"


def robust_text(targeted: bool) -> str:
    """What the share that withstands max-loss is called: of targeted attacks it is no accuracy."""
    return "wanted class not reached" if targeted else "robust accuracy"


def sweep_text(shares: Sequence[float], eps: Sequence[float], metric: str) -> str:
    """Robust accuracy at several eps: ``62.5% at 0.5, 27.5% at 1 (l2; upper bounds)``."""
    told = (f"{share_text(share)} at {eps_text(each)}" for share, each in zip(shares, eps, strict=True))
    return f"{', '.join(told)} ({metric}; upper bounds)"


def status_text(counts: Mapping[str, int], targeted: bool) -> str:
    """How many samples ended how: ``converged 18, already-misclassified 2``."""
    names = {"already-misclassified": "already-of-the-wanted-class"} if targeted else {}
    return ", ".join(f"{names.get(name, name)} {count}" for name, count in counts.items())


def gain_text(gain: float) -> str:
    """What the evidence of a run says, wherever it is said.

    Args:
        gain: the median of ``evidence.gain`` over the samples with a point; NaN where nobody can say.
    """
    if math.isnan(gain):
        return "not known how much a longer search would lower the radii: no two independent searches of a sample"
    return f"a much longer search is likely to lower a radius by at most {share_text(gain, 2)} (median)"


def nearest_text(near: Mapping[str, float]) -> str:
    """How near max-loss came to what it did not break, wherever it is said.

    Args:
        near: what ``statistics.nearest_seen`` returns, not empty.
    """
    return (
        f"nearest adversarial point {near['median']:.3g} eps away (median of {near['samples']:.0f} not broken; "
        f"least {near['least']:.3g}), {near['agreement']:.0f} of {near['searches']:.0f} searches ended there (median)"
    )


def largest_loss_text(seen: Mapping[str, float], loss: str, targeted: bool) -> str:
    """How far max-loss drove the loss of what it did not break, wherever it is said.

    Args:
        seen: what ``statistics.largest_loss`` returns, not empty.
        loss: its name.
        targeted: whether labels are wanted classes: there the loss falls.
    """
    side, limit = ("least", "at least") if targeted else ("largest", "at most")
    return (
        f"{side} {loss} seen within eps {seen['median']:.3g} (median of {seen['samples']:.0f} not broken; "
        f"{limit} {seen['nearest']:.3g})"
    )


def class_text(classes: Sequence[ClassStatistics], max_loss: bool, targeted: bool = False) -> str:
    """The worst classes, or the best, with their number: ``Coat (median radius 0.09666, 5 attacked)``.

    Args:
        classes: equally robust ones, at least one.
        max_loss: whether the question was max-loss.
        targeted: whether labels are wanted classes.
    """
    first = classes[0]
    names = first.name if len(classes) == 1 else f"{first.name} and {len(classes) - 1} more"
    if max_loss:
        return f"{names} ({robust_text(targeted)} {share_text(first.robust_accuracy)}, {first.samples} samples)"
    if not first.attacked:
        return f"{names} (none of {first.samples} attacked)"
    return f"{names} (median radius {number_text(first.median)}, {first.attacked} attacked)"


def share_text(share: float, digits: int = 1) -> str:
    """A share in percent, wherever one is shown: ``35.0%``.

    0 and 100 are said only where they are exact (else ``<0.1%`` and ``>99.9%``); a dash where the share is not known.

    Args:
        share: 0 to 1, or NaN.
        digits: after the point.
    """
    if math.isnan(share):
        return "–"
    text, step = f"{share:.{digits}%}", 10.0**-digits
    if share > 0 and text == f"{0:.{digits}%}":
        return f"<{step:.{digits}f}%"
    if share < 1 and text == f"{1:.{digits}%}":
        return f">{100 - step:.{digits}f}%"
    return text
