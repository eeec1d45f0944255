"""Sets that torchvision knows by name. Nothing is downloaded that was not asked for."""

from __future__ import annotations

import difflib
import inspect
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pwcf.data import checks
from pwcf.data.extras import library
from pwcf.data.indexed import Description, IndexedSource
from pwcf.data.pictures import Frame
from pwcf.data.source import DataError
from pwcf.data.wording import a_few, one_line

ROOT_VARIABLE = "PWCF_DATA"
DEFAULT_ROOT = "~/.cache/pwcf/data"


@dataclass(frozen=True)
class TorchvisionItems:
    """A set of torchvision's."""

    dataset: Any

    def __len__(self) -> int:
        return len(self.dataset)

    def item(self, index: int) -> tuple[Any, Any]:
        picture, label = self.dataset[index]
        return picture, label

    def label(self, index: int) -> Any:
        # Most sets hold their labels in a list, which saves decoding the picture.
        for held in (getattr(self.dataset, name, None) for name in ("targets", "labels")):
            if held is not None and len(held) == len(self.dataset):
                return held[index]
        return self.dataset[index][1]


def open_torchvision(name: str, split: str, frame: Frame, bounds: tuple[float, float]) -> IndexedSource:
    where = f"torchvision:{name}"
    sets = library("torchvision.datasets", where, "datasets")
    checks.check_eight_bit(where, bounds)
    made: Any = getattr(sets, name, None)
    if not isinstance(made, type):
        known = [other for other in dir(sets) if isinstance(getattr(sets, other), type) and other != "VisionDataset"]
        close = difflib.get_close_matches(name, known, cutoff=0.4) or known
        raise DataError(f"{where}: torchvision has no such set; expected a name such as {a_few(close)}")
    root = Path(os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT).expanduser()
    parameters = inspect.signature(made).parameters
    arguments, part = _part(where, parameters, split)
    never = {"download": False} if "download" in parameters else {}
    try:
        dataset = made(root=str(root), **arguments, **never)
    except ValueError as error:
        raise DataError(f"{where}: split {split!r}: {one_line(error)}; choose another split") from error
    except (RuntimeError, OSError) as error:
        raise DataError(_absent(where, name, root, arguments, bool(never), error)) from error
    except (TypeError, ImportError) as error:
        raise DataError(
            f"{where}: cannot be opened by name: {one_line(error)}; export it to a folder or npz"
        ) from error
    classes = getattr(dataset, "classes", None)
    named = [str(each) for each in classes] if isinstance(classes, (list, tuple)) else None
    described = Description(where, part, str(getattr(made, "tgz_md5", "")))
    return IndexedSource(described, TorchvisionItems(dataset), named, frame)


def _part(where: str, parameters: Any, split: str) -> tuple[dict[str, Any], str]:
    """How this set is told which part is wanted, and what that part is called."""
    if "split" in parameters:
        return {"split": split}, split
    if "train" in parameters:
        if split not in ("train", "test"):
            raise DataError(f"{where}: split: expected train or test, found {split!r}; choose one of them")
        return {"train": split == "train"}, split
    if split != "test":  # that is only what open_data takes where nothing is said
        raise DataError(f"{where}: split: this set has no splits, found {split!r}; leave it out")
    return {}, "whole set"


def _absent(where: str, name: str, root: Path, arguments: dict[str, Any], loads: bool, error: Exception) -> str:
    given = "".join(f", {key}={value!r}" for key, value in arguments.items())
    fetch = (
        f'fetch it with: python -c "import torchvision.datasets as d; d.{name}({str(root)!r}{given}, download=True)"'
        if loads
        else "torchvision cannot download it: put it there by hand"
    )
    return (
        f"{where}: not found in {root} ({one_line(error)}); set {ROOT_VARIABLE} to the folder that has it, or {fetch}"
    )
