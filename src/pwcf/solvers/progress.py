"""A progress bar over rows, when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from pwcf.solvers.status import Status


@contextmanager
def progress_bar(wanted: bool, rows: int) -> Iterator[Callable[[Tensor], None] | None]:
    """Yield a function to be called with the status codes of rows that ended, or None."""
    if not wanted:
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True needs tqdm: pip install 'pwcf[progress]'") from error
    converged = 0
    with tqdm(total=rows, desc="minimize", unit="row") as bar:

        def ended(codes: Tensor) -> None:
            nonlocal converged
            converged += int((codes == list(Status).index(Status.CONVERGED)).sum())
            bar.set_postfix(converged=converged, refresh=False)
            bar.update(codes.numel())

        yield ended
