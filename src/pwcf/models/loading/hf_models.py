"""Image classifiers of transformers, from the Hugging Face hub or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from pwcf.models.loading.built import Built, Normal, Wanted
from pwcf.models.loading.library import fetched, library, must_be_module, named_with_version
from pwcf.models.loading.weights import classes_in, named_with_checksum, put_weights, read_weights

_CACHE = "the cache of huggingface_hub (HF_HOME); a folder that save_pretrained wrote is a NAME too"


class _OnlyLogits(nn.Module):
    """These models return a record of several things."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(pixel_values=x).logits
        return logits


def build(wanted: Wanted) -> Built:
    transformers = library("transformers", wanted.spec, "hf")
    model = fetched(wanted.spec, _CACHE, lambda: _made(transformers, wanted))
    inner = must_be_module(model, wanted.spec)
    if wanted.weights is not None:
        put_weights(inner, read_weights(wanted.weights), wanted.weights)
    mean, std = fetched(wanted.spec, _CACHE, lambda: _normalisation(transformers, wanted.rest))
    source = named_with_checksum(wanted.weights) if wanted.weights else "pretrained weights"
    # Of a folder only the last part is kept: the rest is nobody else's business, and it may move.
    name = f"hf:{Path(wanted.rest).name if Path(wanted.rest).is_dir() else wanted.rest}"
    return Built(_OnlyLogits(inner), name, (name, named_with_version("transformers"), source), mean, std)


def _made(transformers: Any, wanted: Wanted) -> Any:
    # A repository's own code is not run: who wants it loads the model in a Python factory.
    models = transformers.AutoModelForImageClassification
    if wanted.weights is None:
        return models.from_pretrained(wanted.rest, trust_remote_code=False)
    config = transformers.AutoConfig.from_pretrained(wanted.rest, trust_remote_code=False)
    model = models.from_config(config, trust_remote_code=False)
    if (classes := classes_in(model, read_weights(wanted.weights))) is not None:
        config.num_labels = classes
        model = models.from_config(config, trust_remote_code=False)
    return model


def _normalisation(transformers: Any, name: str) -> tuple[Normal, Normal]:
    """From the processor's settings alone: the processor itself may need more libraries than the model."""
    try:
        settings, _ = transformers.ImageProcessingMixin.get_image_processor_dict(name)
    except OSError as error:
        if "preprocessor_config.json" in str(error) and "connect" not in str(error):
            return None, None  # the model has none
        raise
    if not settings.get("do_normalize", True) or "image_mean" not in settings or "image_std" not in settings:
        return None, None
    return settings["image_mean"], settings["image_std"]
