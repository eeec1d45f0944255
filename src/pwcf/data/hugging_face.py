"""Sets of the Hugging Face hub, by the library `datasets`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pwcf.data import checks
from pwcf.data.extras import library
from pwcf.data.indexed import Description, IndexedSource
from pwcf.data.pictures import Frame
from pwcf.data.source import DataError
from pwcf.data.wording import one_line

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "labels", "fine_label", "target")


@dataclass(frozen=True)
class HuggingFaceItems:
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
    name: str, config: str | None, split: str, frame: Frame, bounds: tuple[float, float]
) -> IndexedSource:
    # A folder of this machine is a set too; its path is nothing for the record.
    shown = Path(name).name if Path(name).is_dir() else name
    where = f"hf:{shown}" if config is None else f"hf:{shown}:{config}"
    hub = library("datasets", where, "datasets")
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
    items = HuggingFaceItems(pictures, labels, image, target)
    # Taken before columns were chosen, which changes it: the library makes it of name, version, files and split.
    described = Description(where, split, str(dataset._fingerprint))
    return IndexedSource(described, items, None if classes is None else list(classes), frame)


def _column(where: str, found: list[str], what: str, wanted: tuple[str, ...]) -> str:
    for name in wanted:
        if name in found:
            return name
    raise DataError(
        f"{where}: {what}: expected a column {', '.join(wanted)}, found {', '.join(found)}; rename it and save the set "
        "as a folder, or export it to npz"
    )
