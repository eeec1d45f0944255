"""Programs saved by torch.export.save, read without unpickling or evaluating anything."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.export import passes

from pwcf.models.classifier import Logits
from pwcf.models.loading.batches import FixedBatch, told
from pwcf.models.loading.built import Built, Wanted
from pwcf.models.loading.errors import ModelError, said
from pwcf.models.loading.exported_archive import clean_archive
from pwcf.models.loading.weights import checksum


def build(wanted: Wanted) -> Built:
    path = Path(wanted.spec)
    if wanted.weights is not None:
        raise ModelError(f"weights: expected none for {path.name}, which holds its own; leave them out")
    if not path.is_file():
        raise ModelError(f"model {path}: expected a file, found none; check the path")
    archive, rows = clean_archive(path)
    try:
        program = torch.export.load(archive)
        if wanted.device != "cpu":
            # A program names the device of every tensor it makes; moving its weights alone would not do.
            program = passes.move_to_device_pass(program, wanted.device)
        module: Logits = program.module()
    except Exception as error:
        raise ModelError(
            f"model {path}: torch {torch.__version__} cannot read this program ({said(error)}); "
            "export it again with this version of torch"
        ) from error
    about = (path.name, f"torch {torch.__version__}", f"file {checksum(path)}")
    if rows is not None:
        return Built(FixedBatch(module, rows), "pt2", (*about, told(rows)), content=path.read_bytes())
    return Built(module, "pt2", about, content=path.read_bytes())
