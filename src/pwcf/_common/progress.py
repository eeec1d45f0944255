"""Progress bars by tqdm, an optional dependency."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
