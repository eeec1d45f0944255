"""A progress bar, when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[..., None]


@contextmanager
def progress_bar(wanted: bool, title: str, total: int, unit: str) -> Iterator[Advance | None]:
    """Yield ``advance(count, **figures)``, figures to be shown beside the bar, or None."""
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
