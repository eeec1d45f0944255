"""What the command lines of the rivals have in common."""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from . import nets

NORMS = ("linf", "l2", "l1")


def parser(about: str | None, rivals: Iterable[str]) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--nets", nargs="+", choices=nets.DATASETS, default=list(nets.DATASETS), metavar="NET")
    made.add_argument("--norms", nargs="+", choices=NORMS, default=list(NORMS))
    made.add_argument("--rivals", nargs="+", choices=list(rivals), default=list(rivals))
    made.add_argument("--images", type=int, default=100)
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--out", type=Path, required=True)
    return made


class Runs:
    """Runs that each leave a file. One that fails leaves none, so that the next start tries again; the others go on."""

    def __init__(self, images: int) -> None:
        self.images, self.failures = images, 0
        self.task: nets.Task | None = None

    def attempt(self, net: str, path: Path, run: Callable[[nets.Task], None]) -> None:
        """Unless its file is there. The net of the run before is kept loaded."""
        if path.exists():
            return
        try:
            if self.task is None or self.task.name != net:
                self.task = nets.load(net, self.images)
            run(self.task)
        except Exception:
            self.failures += 1
            print(f"{path.stem} failed:\n{traceback.format_exc()}", flush=True)

    def end(self) -> None:
        if self.failures:
            raise SystemExit(f"{self.failures} run(s) failed")
