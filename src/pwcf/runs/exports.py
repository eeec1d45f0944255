"""A run in other tools' formats. Files appear whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pwcf._common import atomic
from pwcf._common.text import csv_cell
from pwcf._common.wording import eps_text
from pwcf.runs.folder import RunFolder
from pwcf.runs.header import Header, header_from
from pwcf.runs.settings import RunError
from pwcf.runs.shard import tensors_of
from pwcf.runs.summary import summarize

THREATS = {"linf": "Linf", "l2": "L2", "l1": "L1"}
"""as RobustBench has them"""


def export(run: str | os.PathLike[str], to: Path, kind: str) -> int:
    """Write ``to``; how many samples are in it."""
    folder = RunFolder(run)
    header = header_from(folder.header(), str(folder.path))
    rows = folder.rows()
    if kind == "png":
        return _pictures(folder, header, to)
    if to.parent != Path() and not to.parent.is_dir():
        raise RunError(f"{to}: expected its folder to exist")
    atomic.write(to, _writers(folder, header, rows)[kind])
    return len(rows)


def _writers(folder: RunFolder, header: Header, rows: Any) -> dict[str, Callable[[Path], None]]:
    import pyarrow.csv
    import pyarrow.parquet

    def result(place: Path) -> None:
        place.write_text(json.dumps(robustbench(header, rows), indent=2) + "\n", encoding="utf-8")

    def safetensors(place: Path) -> None:
        from safetensors.torch import save

        place.write_bytes(save(_points(folder, header, rows)))

    def npz(place: Path) -> None:
        with place.open("wb") as file:  # given a name, NumPy adds an ending
            np.savez(file, **{name: value.numpy() for name, value in _points(folder, header, rows).items()})  # type: ignore[arg-type]

    def csv(place: Path) -> None:
        with place.open("wb") as stream:
            pyarrow.csv.write_csv(_for_csv(rows), stream)

    def parquet(place: Path) -> None:
        with place.open("wb") as stream:
            pyarrow.parquet.write_table(rows, stream)

    return {
        "csv": csv,
        "parquet": parquet,
        "json": result,
        "safetensors": safetensors,
        "npz": npz,
    }


def _for_csv(rows: Any) -> Any:
    """With texts that no spreadsheet computes."""
    import pyarrow

    columns = {
        csv_cell(name): pyarrow.array([csv_cell(value) for value in rows[name].to_pylist()])
        if pyarrow.types.is_string(rows.schema.field(name).type)
        else rows[name]
        for name in rows.column_names
    }
    return pyarrow.table(columns)


def robustbench(header: Header, rows: Any) -> dict[str, Any]:
    """The fields of RobustBench's model_info files, as far as a run knows them; numbers are texts in percent there."""
    summary = summarize(header, rows)
    asked = header.settings
    content: dict[str, Any] = {
        "name": header.model.spec,
        "dataset": header.data.spec,
        "threat_model": THREATS.get(asked.metric, asked.metric),
        "eps": None if asked.eps is None else eps_text(asked.eps),
        "clean_acc": f"{100 * summary.clean_accuracy:.2f}",
        "number_of_samples": summary.done,
        "attacks": [each.name for each in header.attacks],
        "evaluated_with": f"pwcf {header.made.get('packages', {}).get('pwcf', '')}",
        "model_fingerprint": header.model.fingerprint,
        "data_fingerprint": header.data.fingerprint,
    }
    if summary.robust_accuracy is not None:
        content["robust_acc"] = f"{100 * summary.robust_accuracy:.2f}"
    if summary.radius:
        content |= {"mean_radius": summary.radius["mean"], "median_radius": summary.radius["median"]}
    return content


def _points(folder: RunFolder, header: Header, rows: Any) -> dict[str, Tensor]:
    points = torch.cat([each["x_adv"] for each in tensors_of(folder, header, rows)])
    columns = {name: torch.from_numpy(rows[name].to_numpy().copy()) for name in ("index", "label", "adversarial_label")}
    found = torch.from_numpy(rows["adversarial"].to_numpy(zero_copy_only=False).copy())
    return {"x_adv": points, "adversarial": found, **columns}


def _pictures(folder: RunFolder, header: Header, to: Path) -> int:
    """One PNG for every adversarial point, shard by shard; 8 bits, so that they may no longer be adversarial."""
    try:
        from PIL import Image
    except ImportError as error:
        raise RunError(f"format png: needs Pillow: pip install 'pwcf[images]' ({error})") from error
    if len(header.shape) != 3 or header.shape[0] not in (1, 3):
        raise RunError(f"format png: expected inputs of shape (1 or 3, height, width), found {header.shape}")
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{to}: expected a folder, or a place for one ({error.strerror})") from error
    rows, count = folder.rows(["index", "label", "adversarial_label", "adversarial", "revision"]), 0
    lower, upper = header.settings.bounds
    told = {row["index"]: row for row in rows.to_pylist()}
    for tensors in tensors_of(folder, header, rows):
        levels = (255 * (tensors["x_adv"] - lower) / (upper - lower)).round().clamp(0, 255).to(torch.uint8)
        for index, picture in zip(tensors["index"].tolist(), levels, strict=True):
            row = told[index]
            if not row["adversarial"]:
                continue
            pixels = picture[0] if len(picture) == 1 else picture.permute(1, 2, 0)
            name = f"{index:06d}_{row['label']}_as_{row['adversarial_label']}.png"
            _write_picture(to / name, Image.fromarray(pixels.numpy()))
            count += 1
    return count


def _write_picture(to: Path, image: Any) -> None:
    atomic.write(to, lambda place: image.save(place, format="png"))
