"""How far evaluations are: progress bars by tqdm, an optional dependency, and a look at those under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Advance = Callable[..., None]
"""advance(count, **figures): ``count`` more units are done; the figures are shown beside the bar."""


@contextmanager
def progress_bar(wanted: bool, title: str, total: int, unit: str) -> Iterator[Advance | None]:
    """Show a progress bar while the context is open, if ``wanted``; yields its ``Advance``, or None without a bar."""
    if not wanted:
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True needs tqdm: pip install 'pwcf[progress]'") from error
    with tqdm(total=total, desc=title, unit=unit) as bar:

        def advance(count: int, **figures: object) -> None:
            bar.set_postfix(figures, refresh=False)
            bar.update(count)

        yield advance


@dataclass(frozen=True)
class UnderWay:
    """How far an evaluation of n samples is."""

    passes: list[int]
    """(n,) spent so far"""
    finished: list[bool]
    """(n,) answered, or all but verified"""
    converged: int
    """searches that have converged so far, as far as the attack tells it while it works"""
    budget: int
    """passes that a sample has at most"""


_looks: dict[int, Callable[[], UnderWay]] = {}


@contextmanager
def watched(look: Callable[[], UnderWay]) -> Iterator[None]:
    """While the context is open ``under_way`` in any thread of this process looks at an evaluation."""
    _looks[id(look)] = look
    try:
        yield
    finally:
        del _looks[id(look)]


def under_way() -> list[UnderWay]:
    """The evaluations of this process, now."""
    return [look() for look in list(_looks.values())]
