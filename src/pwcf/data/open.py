"""Data by its spec: arrays in files, folders of images, sets by name."""

from __future__ import annotations

import os
from pathlib import Path

from pwcf import zoo
from pwcf.data.array_files import open_npz, open_safetensors
from pwcf.data.checks import check_bounds
from pwcf.data.folder import open_folder
from pwcf.data.idx import is_idx, open_idx
from pwcf.data.images import ResizeCrop
from pwcf.data.named_sets import DEFAULT_ROOT, ROOT_VARIABLE, open_hugging_face, open_torchvision, open_zoo
from pwcf.data.source import DataError, Source

DEFAULT_SPLIT = "test"
# Written by pickle, which runs whatever code a file brings along.
PICKLED = (".pt", ".pth", ".pkl", ".pickle", ".ckpt")


def list_kinds() -> list[tuple[str, str]]:
    """(form, one-line help) of every kind of data, for help texts."""
    return [
        ("FILE.npz", "arrays images (n, channels, height, width) and labels (n,); 8-bit, or floats within bounds"),
        ("FILE.safetensors", "the same arrays as tensors"),
        ("FILE-images-idx3-ubyte[.gz]", "8-bit images as MNIST has them, with FILE-labels-idx1-ubyte[.gz] beside them"),
        ("FOLDER", "images in class folders, or any images with labels from a CSV file,label; needs pwcf[images]"),
        (
            "torchvision:NAME",
            f"such as CIFAR10, already in {ROOT_VARIABLE} or {DEFAULT_ROOT}, not downloaded; needs pwcf[datasets]",
        ),
        ("hf:NAME[:CONFIG]", "a set of the Hugging Face hub, fetched unless it is cached; needs pwcf[datasets]"),
        (f"zoo:{zoo.DATA}", "200 test images of Fashion-MNIST that come with pwcf"),
    ]


def open_data(
    spec: str,
    *,
    labels: str | Path | None = None,
    classes: str | None = None,
    resize: int | tuple[int, int] | None = None,
    crop: int | None = None,
    split: str = DEFAULT_SPLIT,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Source:
    """Open the data that a spec names, checked as far as that is possible without reading all of it.

    Args:
        spec: one of the forms of list_kinds().
        labels: of a folder, a CSV file with columns file and label.
        classes: of a folder whose classes have names, these in the order of their numbers: with commas between, or a
            file with one a line; names that no image has may be among them. Default: sorted.
        resize: of pictures, pixels of the shorter side, or (height, width).
        crop: of pictures, pixels a side of the square cut from their middle, after resize.
        split: of torchvision's and the hub's sets, which part.
        bounds: smallest and largest pixel. 8-bit pixels become 0 to 1.

    Returns:
        A Source of images (n, ...), float32 within bounds, and labels (n,), int64.

    Raises:
        DataError: whatever is wrong, in one line.
    """
    limits, transform = check_bounds(bounds), ResizeCrop(resize, crop)
    kind, _, name = spec.partition(":")
    if kind in ("torchvision", "hf"):
        _refuse_unused(spec, labels=labels, classes=classes)
        if not name:
            raise DataError(f"{spec}: expected the name of a set after the colon, found none; see the forms of data")
        if kind == "torchvision":
            return open_torchvision(name, split, transform, limits)
        # Not the colon of a drive: C:\data is a folder.
        drive, rest = os.path.splitdrive(name)
        plain, _, config = rest.partition(":")
        return open_hugging_face(drive + plain, config or None, split, transform, limits)
    if kind == "zoo":
        _refuse_unused(
            spec,
            labels=labels,
            classes=classes,
            resize=resize,
            crop=crop,
            split=None if split == DEFAULT_SPLIT else split,
        )
        return open_zoo(name, limits)
    path = Path(spec).expanduser()
    _refuse_unused(path.name, split=None if split == DEFAULT_SPLIT else split)
    if path.is_dir():
        table = None if labels is None else Path(labels).expanduser()
        return open_folder(path.resolve(), table, classes, transform, limits)
    _refuse_unused(path.name, labels=labels, classes=classes, resize=resize, crop=crop)
    if path.suffix.lower() == ".npz":
        return open_npz(path, limits)
    if path.suffix.lower() == ".safetensors":
        return open_safetensors(path, limits)
    if is_idx(path):
        return open_idx(path, limits)
    forms = ", ".join(form for form, _ in list_kinds())
    if not path.exists():
        raise DataError(f"{spec}: no such file or folder; expected one of {forms}")
    if path.suffix.lower() in PICKLED:
        raise DataError(f"{spec}: not opened, as pickled files can run code; save it as npz or safetensors")
    raise DataError(f"{spec}: unknown kind of file; expected one of {forms}")


def _refuse_unused(where: str, **given: object) -> None:
    """Raise where an argument is given that would silently do nothing."""
    reasons = {
        "labels": "only a folder of images takes them from elsewhere",
        "classes": "only those of a folder of images have names to be put in order",
        "resize": "only pictures are resized, arrays are taken as they are",
        "crop": "only pictures are cropped, arrays are taken as they are",
        "split": "files, folders and the zoo have none; give the file or folder of that part",
    }
    for name, value in given.items():
        if value is not None:
            raise DataError(f"{where}: {name}: found {value!r}, but {reasons[name]}; leave it out")
