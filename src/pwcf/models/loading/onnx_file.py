"""ONNX models, turned into PyTorch by onnx2torch so that gradients flow through them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from pwcf.models.classifier import Logits
from pwcf.models.loading.batches import FixedBatch, told
from pwcf.models.loading.built import Built, Wanted
from pwcf.models.loading.errors import ModelError, said
from pwcf.models.loading.library import library, named_with_version
from pwcf.models.loading.onnx_converter import converter
from pwcf.models.loading.onnx_forms import OLDER, in_older_form
from pwcf.models.loading.weights import checksum

# ONNX's number for 32-bit floats.
_FLOAT = 1


def build(wanted: Wanted) -> Built:
    path = Path(wanted.spec)
    if wanted.weights is not None:
        raise ModelError(f"weights: expected none for {path.name}, which holds its own; leave them out")
    if not path.is_file():
        raise ModelError(f"model {path}: expected a file, found none; check the path")
    onnx = library("onnx", wanted.spec, "onnx")
    convert = converter(wanted.spec)
    try:
        described = onnx.load(
            str(path)
        )  # with the weights beside it, which the newer exporter puts in a file FILE.data
    except Exception as error:
        raise ModelError(
            f"model {path}: expected an ONNX model, found a file that cannot be read ({said(error)}); export it again, "
            "and keep the file of weights that belongs to it beside it"
        ) from error
    rows = _rows_taken(described.graph, path)
    try:
        described = in_older_form(onnx, described, str(path))
        module: nn.Module = convert(described)
        _try_out(module.eval(), described.graph, rows)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"model {path}: onnx2torch cannot convert it ({said(error)}); export it with opset_version={OLDER}, "
            "or with torch.export.save as FILE.pt2"
        ) from error
    about = (path.name, named_with_version("onnx2torch"), named_with_version("onnx"), f"file {checksum(path)}")
    model: Logits = module if rows is None else FixedBatch(module, rows)
    return Built(model, "onnx", about if rows is None else (*about, told(rows)), content=path.read_bytes())


def _rows_taken(graph: Any, path: Path) -> int | None:
    """How many rows its batches must have, None for any number; raise where it takes more than a batch of images."""
    inputs = _inputs(graph)
    for what, found in (("input, images", inputs), ("output, logits", list(graph.output))):
        if len(found) != 1:
            names = ", ".join(one.name for one in found) or "none"
            raise ModelError(f"model {path}: expected one {what}, found {names}; export a model with one")
    sizes = inputs[0].type.tensor_type.shape.dim
    return sizes[0].dim_value or None if sizes else None


def _inputs(graph: Any) -> list[Any]:
    held = {tensor.name for tensor in graph.initializer}  # old files list weights among the inputs
    return [one for one in graph.input if one.name not in held]


def _try_out(module: nn.Module, graph: Any, rows: int | None) -> None:
    """One call, where the file tells the size of images: some conversions fail only then."""
    kind = _inputs(graph)[0].type.tensor_type
    sizes = [size.dim_value for size in kind.shape.dim][1:]
    if sizes and all(sizes) and kind.elem_type == _FLOAT:
        with torch.no_grad():
            module(torch.zeros(rows or 1, *sizes))
