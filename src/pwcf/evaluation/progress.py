"""A progress bar over samples, when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(wanted: bool, title: str, samples: int) -> Iterator[Callable[[int, int, float], None] | None]:
    """Yield a function to be called with (samples done, broken among them, passes per sample), or None."""
    if not wanted:
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True needs tqdm: pip install 'pwcf[progress]'") from error
    found = 0
    with tqdm(total=samples, desc=title, unit="sample") as bar:

        def done(count: int, broken: int, passes: float) -> None:
            nonlocal found
            found += broken
            bar.set_postfix(found=found, passes=f"{passes:.0f}", refresh=False)
            bar.update(count)

        yield done
