"""Sets of images by name: torchvision's, those of the Hugging Face hub, and the one that comes with the package."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from pwcf import zoo
from pwcf._common.optional import import_optional
from pwcf._common.text import first_few, format_shape, one_line
from pwcf.data import checks
from pwcf.data.arrays import ArraySource, MemoryArray, as_inputs
from pwcf.data.checks import sample_name
from pwcf.data.images import GREY, ResizeCrop, pillow, to_pixels, unreadable_image
from pwcf.data.source import DataError

# Whether a set is grey is read from this many images, spread over the set: one alone may be the exception.
MODES_PROBED = 16


class LabelledImages(Protocol):
    """A library's set of images with a label each, by index."""

    def __len__(self) -> int: ...

    def item(self, index: int) -> tuple[Any, Any]:
        """The picture and its label."""

    def label(self, index: int) -> Any:
        """The label alone, where that is cheaper."""


@dataclass(frozen=True)
class DatasetVersion:
    """What identifies a set: its name, its split, its version."""

    name: str
    split: str
    revision: str


class DatasetSource:
    """A Source of images that a library hands out by index; only those that are read are decoded."""

    names = None
    remarks: tuple[str, ...] = ()

    def __init__(
        self, version: DatasetVersion, items: LabelledImages, classes: list[str] | None, transform: ResizeCrop
    ) -> None:
        self.classes = classes
        self._items, self._version, self._transform = items, version, transform
        self._where = f"{version.name} ({version.split})"
        if len(items) == 0:
            raise DataError(f"{self._where}: expected at least one sample, found none; choose another split")
        self._channels = 1 if self._all_grey() else 3
        self._shape = self._pixels(0).shape
        steps = f", {transform.about}" if transform.about else ""
        revision = f", version {version.revision}" if version.revision else ""
        self.about = f"{self._where}: {len(self)} images, shape {format_shape(self._shape)}{steps}{revision}"

    def __len__(self) -> int:
        return len(self._items)

    def read(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        checks.check_range(self._where, start, stop, len(self))
        pixels = np.empty((stop - start, *self._shape), dtype=np.uint8)
        labels = []
        for row, index in enumerate(range(start, stop)):
            picture, label = self._item(index)
            one = self._pixels(index, picture)
            if one.shape != self._shape:
                raise DataError(
                    f"{self._where}: images differ in size: sample 0 has shape {format_shape(self._shape)}, "
                    f"sample {index} {format_shape(one.shape)}; give resize and crop to bring them to one size"
                )
            pixels[row] = one
            labels.append(self._number(index, label))
        tensor = torch.tensor(labels, dtype=torch.int64)
        checks.check_labels(self._where, tensor, start)
        return as_inputs(torch.from_numpy(pixels)), tensor

    def labels(self, index: Sequence[int]) -> list[int]:
        """Of these samples, as far as the library can tell them without the pictures."""
        return [self._number(i, self._items.label(i)) for i in index]

    def fingerprint(self, count: int) -> str:
        """Over what the set is called and its labels: the library answers for the pictures of a version."""
        checks.check_count(self._where, count, len(self))
        named = self._version
        what = [named.name, named.split, named.revision, self._transform.resize, self._transform.crop, self._shape]
        digest = hashlib.sha256(json.dumps(what).encode() + b"\n")
        for index in range(count):
            digest.update(f"{self._number(index, self._items.label(index))}\n".encode())
        return digest.hexdigest()

    def close(self) -> None:
        """Nothing of ours is open."""

    def _all_grey(self) -> bool:
        count = min(len(self), MODES_PROBED)
        # The last index too, as sets are often sorted.
        spread = {round(i * (len(self) - 1) / max(1, count - 1)) for i in range(count)}
        return all(self._item(index)[0].mode in GREY for index in sorted(spread))

    def _item(self, index: int) -> tuple[Any, Any]:
        where = f"{self._where}: {sample_name(index)}"
        try:
            picture, label = self._items.item(index)
        except MemoryError:
            raise
        except Exception as error:  # whatever the library, or its decoder, does on a damaged file
            raise unreadable_image(where, error) from error
        if not isinstance(picture, pillow(where).Image):
            raise DataError(
                f"{where}: expected a picture (PIL.Image), found {type(picture).__name__}; this set is not one of "
                "images with a class each"
            )
        return picture, label

    def _pixels(self, index: int, picture: Any = None) -> np.ndarray[Any, np.dtype[np.uint8]]:
        where = f"{self._where}: {sample_name(index)}"
        picture = self._item(index)[0] if picture is None else picture
        if self._channels == 1 and picture.mode not in GREY:
            raise DataError(
                f"{where}: expected a grey image like those looked at before, found mode {picture.mode}; export the "
                "set to a folder of images"
            )
        try:
            return to_pixels(where, picture, self._channels, self._transform)
        except (DataError, MemoryError):
            raise
        except Exception as error:
            raise unreadable_image(where, error) from error

    def _number(self, index: int, label: Any) -> int:
        try:
            return operator.index(label)
        except TypeError:
            raise DataError(
                f"{self._where}: {sample_name(index)}: expected an integer label, found {label!r}; "
                "choose a set with one class number per image"
            ) from None


# torchvision. Nothing is downloaded that was not asked for


ROOT_VARIABLE = "PWCF_DATA"
DEFAULT_ROOT = "~/.cache/pwcf/data"


@dataclass(frozen=True)
class TorchvisionImages:
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


def open_torchvision(name: str, split: str, transform: ResizeCrop, bounds: tuple[float, float]) -> DatasetSource:
    """``torchvision:NAME``."""
    where = f"torchvision:{name}"
    sets = import_optional("torchvision.datasets", where, "datasets", error=DataError)
    checks.check_eight_bit(where, bounds)
    factory: Any = getattr(sets, name, None)
    if not isinstance(factory, type):
        known = [other for other in dir(sets) if isinstance(getattr(sets, other), type) and other != "VisionDataset"]
        close = difflib.get_close_matches(name, known, cutoff=0.4) or known
        raise DataError(f"{where}: torchvision has no such set; expected a name such as {first_few(close)}")
    root = Path(os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT).expanduser()
    parameters = inspect.signature(factory).parameters
    arguments, part = _split_arguments(where, parameters, split)
    never = {"download": False} if "download" in parameters else {}
    try:
        dataset = factory(root=str(root), **arguments, **never)
    except ValueError as error:
        raise DataError(f"{where}: split {split!r}: {one_line(error)}; choose another split") from error
    except (RuntimeError, OSError) as error:
        raise DataError(_how_to_fetch(where, name, root, arguments, bool(never), error)) from error
    except (TypeError, ImportError) as error:
        raise DataError(
            f"{where}: cannot be opened by name: {one_line(error)}; export it to a folder or npz"
        ) from error
    classes = getattr(dataset, "classes", None)
    named = [str(each) for each in classes] if isinstance(classes, (list, tuple)) else None
    version = DatasetVersion(where, part, str(getattr(factory, "tgz_md5", "")))
    return DatasetSource(version, TorchvisionImages(dataset), named, transform)


def _split_arguments(where: str, parameters: Any, split: str) -> tuple[dict[str, Any], str]:
    """(arguments that select the split, how the split is called)."""
    if "split" in parameters:
        return {"split": split}, split
    if "train" in parameters:
        if split not in ("train", "test"):
            raise DataError(f"{where}: split: expected train or test, found {split!r}; choose one of them")
        return {"train": split == "train"}, split
    if split != "test":  # that is only what open_data takes where nothing is said
        raise DataError(f"{where}: split: this set has no splits, found {split!r}; leave it out")
    return {}, "whole set"


def _how_to_fetch(where: str, name: str, root: Path, arguments: dict[str, Any], loads: bool, error: Exception) -> str:
    given = "".join(f", {key}={value!r}" for key, value in arguments.items())
    fetch = (
        f'fetch it with: python -c "import torchvision.datasets as d; d.{name}({str(root)!r}{given}, download=True)"'
        if loads
        else "torchvision cannot download it: put it there by hand"
    )
    return (
        f"{where}: not found in {root} ({one_line(error)}); set {ROOT_VARIABLE} to the folder that has it, or {fetch}"
    )


# The Hugging Face hub, by the library `datasets`


IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "labels", "fine_label", "target")


@dataclass(frozen=True)
class HuggingFaceImages:
    """A set of the hub's, of which rows are read from disk as they are asked for."""

    dataset: Any
    labels: Any  # the same without the pictures: a row of it costs no decoding
    image: str
    target: str

    def __len__(self) -> int:
        return len(self.dataset)

    def item(self, index: int) -> tuple[Any, Any]:
        row = self.dataset[index]
        return row[self.image], row[self.target]

    def label(self, index: int) -> Any:
        return self.labels[index][self.target]


def open_hugging_face(
    name: str, config: str | None, split: str, transform: ResizeCrop, bounds: tuple[float, float]
) -> DatasetSource:
    """``hf:NAME`` or ``hf:NAME:CONFIG``."""
    # A folder of this machine is a set too; its path is nothing for the record.
    shown = Path(name).name if Path(name).is_dir() else name
    where = f"hf:{shown}" if config is None else f"hf:{shown}:{config}"
    hub = import_optional("datasets", where, "datasets", error=DataError)
    checks.check_eight_bit(where, bounds)
    try:
        dataset = hub.load_dataset(name, config, split=split)
    except ValueError as error:  # an unknown split or config; the library lists those there are
        raise DataError(f"{where}: split {split!r}: {one_line(error)}; choose one of them") from error
    except FileNotFoundError as error:
        raise DataError(f"{where}: no such set ({one_line(error)}); check its name on the hub") from error
    except OSError as error:  # what it raises without a network, too
        raise DataError(
            f"{where}: neither in the cache nor reachable ({one_line(error)}); open it once with a network, or copy "
            "the cache and set HF_HOME"
        ) from error
    except Exception as error:  # the library passes on whatever its many parts raise
        raise DataError(f"{where}: the library datasets cannot open it: {one_line(error)}") from error
    columns = list(dataset.column_names)
    image, target = _column(where, columns, "images", IMAGE_COLUMNS), _column(where, columns, "labels", LABEL_COLUMNS)
    classes = getattr(dataset.features[target], "names", None)
    pictures, labels = dataset.select_columns([image, target]), dataset.select_columns([target])
    items = HuggingFaceImages(pictures, labels, image, target)
    # Taken before columns were chosen, which changes it: the library makes it of name, version, files and split.
    version = DatasetVersion(where, split, str(dataset._fingerprint))
    return DatasetSource(version, items, None if classes is None else list(classes), transform)


def _column(where: str, found: list[str], what: str, wanted: tuple[str, ...]) -> str:
    for name in wanted:
        if name in found:
            return name
    raise DataError(
        f"{where}: {what}: expected a column {', '.join(wanted)}, found {', '.join(found)}; rename it and save the set "
        "as a folder, or export it to npz"
    )


# The images that come with the package


def open_zoo(name: str, bounds: tuple[float, float]) -> ArraySource:
    """``zoo:NAME``."""
    where = f"zoo:{zoo.DATA}"
    if name != zoo.DATA:
        raise DataError(f"zoo:{name}: expected {where}, the only images of the zoo, found {name!r}")
    images, labels = zoo.stored_images()
    source = ArraySource(where, MemoryArray(images), MemoryArray(labels), bounds)
    source.classes = list(zoo.CLASSES)
    return source
