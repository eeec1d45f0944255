"""Models of torchvision, with their best pretrained weights or a file of one's own."""

from __future__ import annotations

from typing import Any

from pwcf.models.loading.built import Built, Wanted
from pwcf.models.loading.errors import ModelError, meant, said
from pwcf.models.loading.library import fetched, library, must_be_module, named_with_version
from pwcf.models.loading.weights import classes_in, named_with_checksum, put_weights, read_weights


def build(wanted: Wanted) -> Built:
    models = library("torchvision.models", wanted.spec, "torchvision")
    known = models.list_models()
    if wanted.rest not in known:
        close = meant(wanted.rest, known) or "; torchvision.models.list_models() has the names"
        raise ModelError(f"model {wanted.spec}: expected a model of torchvision, found none of that name{close}")
    if wanted.weights is None:
        cache = "the cache of torch.hub (TORCH_HOME)"
        model = fetched(wanted.spec, cache, lambda: models.get_model(wanted.rest, weights="DEFAULT"))
    else:
        model = _with_file(models, wanted)
    transforms = models.get_model_weights(wanted.rest).DEFAULT.transforms()
    mean, std = getattr(transforms, "mean", None), getattr(transforms, "std", None)
    source = named_with_checksum(wanted.weights) if wanted.weights else "pretrained weights DEFAULT"
    about = (wanted.spec, named_with_version("torchvision"), source)
    return Built(must_be_module(model, wanted.spec), f"torchvision:{wanted.rest}", about, mean, std)


def _with_file(models: Any, wanted: Wanted) -> Any:
    assert wanted.weights is not None
    state = read_weights(wanted.weights)
    try:
        model = models.get_model(wanted.rest, weights=None)
        if (classes := classes_in(model, state)) is not None:
            model = models.get_model(wanted.rest, weights=None, num_classes=classes)
    except Exception as error:
        raise ModelError(f"model {wanted.spec}: torchvision cannot make it ({said(error)}); name another") from error
    put_weights(model, state, wanted.weights)
    return model
