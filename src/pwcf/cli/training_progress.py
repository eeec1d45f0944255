"""What one sees of a training while it works: a line on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pwcf.cli.progress import WIDE
from pwcf.training import Epoch


@contextmanager
def shown(wanted: bool, epochs: int) -> Iterator[Callable[[Epoch, float], None] | None]:
    """Yields what ``train`` is to call after every batch: epoch, loss, accuracies so far, time left."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    out = Console(stderr=True)
    wide = [BarColumn(), TimeElapsedColumn()] if out.width >= WIDE else []
    ends = [TextColumn("{task.fields[figures]}"), TextColumn("left"), TimeRemainingColumn()]
    with Progress(TextColumn("{task.description}"), *wide, *ends, console=out) as bar:
        task = bar.add_task(f"epoch 1/{epochs}", total=epochs, figures="")

        def on_batch(epoch: Epoch, share: float) -> None:
            robust = "" if epoch.robust_accuracy is None else f", robust {epoch.robust_accuracy:.1%}"
            bar.update(
                task,
                completed=epoch.number - 1 + share,
                description=f"epoch {epoch.number}/{epochs}",
                figures=f"loss {epoch.loss:.3f}, clean {epoch.clean_accuracy:.1%}{robust}",
            )

        yield on_batch
