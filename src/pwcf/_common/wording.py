"""How an eps, a question and a share are written, wherever they are shown. Without a network library."""

from __future__ import annotations

import math
from collections.abc import Mapping


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
