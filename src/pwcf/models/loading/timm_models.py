"""Models of timm, with their pretrained weights or a file of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pwcf.models.loading.built import Built, Wanted
from pwcf.models.loading.errors import ModelError, meant, said
from pwcf.models.loading.library import fetched, library, must_be_module, named_with_version
from pwcf.models.loading.weights import classes_in, named_with_checksum, put_weights, read_weights

# timm takes these from the hub or from a folder by itself; no list of names has them.
_FOLDER = "local-dir:"
_ELSEWHERE = ("hf-hub:", "hf_hub:", _FOLDER)


def build(wanted: Wanted) -> Built:
    timm = library("timm", wanted.spec, "timm")
    name = wanted.rest
    if not name.startswith(_ELSEWHERE) and not timm.is_model(name):
        close = meant(name, timm.list_models()) or "; timm.list_models() has the names"
        raise ModelError(f"model {wanted.spec}: expected a model of timm, found none of that name{close}")
    model = _with_file(timm, wanted) if wanted.weights else _pretrained(timm, wanted)
    # Also for weights from a file: most are trained behind the same normalisation, and the record says so.
    config = getattr(model, "pretrained_cfg", None) or {}
    mean, std = config.get("mean"), config.get("std")
    tag = f"pretrained weights {config.get('tag') or ''}".strip()
    source = named_with_checksum(wanted.weights) if wanted.weights else tag
    # Of a folder only the last part is kept: the rest is nobody else's business, and it may move.
    shown = f"timm:{_FOLDER}{Path(name).name}" if name.startswith(_FOLDER) else wanted.spec
    about = (shown, named_with_version("timm"), source)
    return Built(must_be_module(model, wanted.spec), shown, about, mean, std)


def _pretrained(timm: Any, wanted: Wanted) -> Any:
    cache = "the cache of huggingface_hub (HF_HOME) or of torch.hub (TORCH_HOME)"
    return fetched(wanted.spec, cache, lambda: timm.create_model(wanted.rest, pretrained=True))


def _with_file(timm: Any, wanted: Wanted) -> Any:
    assert wanted.weights is not None
    state = read_weights(wanted.weights)
    try:
        model = timm.create_model(wanted.rest, pretrained=False)
        if (classes := classes_in(model, state)) is not None:
            model = timm.create_model(wanted.rest, pretrained=False, num_classes=classes)
    except Exception as error:
        raise ModelError(f"model {wanted.spec}: timm cannot make it ({said(error)}); name another model") from error
    put_weights(model, state, wanted.weights)
    return model
