"""Models of libraries and collections, by name: timm, torchvision, Hugging Face, RobustBench and pwcf's own zoo.

Each comes with its pretrained weights, or with a file of the user's own.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from pwcf._common.files import CHECKSUM_DIGITS
from pwcf._common.optional import name_and_version
from pwcf._common.text import describe_error, did_you_mean
from pwcf.models.loading.request import BuiltModel, ModelError, ModelRequest, PerChannel, import_library
from pwcf.models.loading.weights import (
    check_weights_file,
    classes_in,
    name_and_checksum,
    put_weights,
    read_weights,
)

# timm


# timm takes these from the hub or from a folder by itself; no list of names has them.
_TIMM_FOLDER = "local-dir:"
_TIMM_ELSEWHERE = ("hf-hub:", "hf_hub:", _TIMM_FOLDER)


def build_timm(request: ModelRequest) -> BuiltModel:
    """``timm:NAME``."""
    timm = import_library("timm", request.spec, "timm")
    name = request.name
    if not name.startswith(_TIMM_ELSEWHERE) and not timm.is_model(name):
        close = did_you_mean(name, timm.list_models()) or "; timm.list_models() has the names"
        raise ModelError(f"model {request.spec}: expected a model of timm, found none of that name{close}")
    if request.weights is None:
        cache = "the cache of huggingface_hub (HF_HOME) or of torch.hub (TORCH_HOME)"
        model = _fetch(request.spec, cache, lambda: timm.create_model(name, pretrained=True))
    else:
        model = _with_weights_file(
            request, request.weights, "timm", lambda **given: timm.create_model(name, pretrained=False, **given)
        )
    # Also for weights from a file: most are trained behind the same normalisation, and the record says so.
    config = getattr(model, "pretrained_cfg", None) or {}
    source = _source(request, f"pretrained weights {config.get('tag') or ''}".strip())
    # Of a folder only the last part is kept: the rest is nobody else's business, and it may move.
    shown = f"timm:{_TIMM_FOLDER}{Path(name).name}" if name.startswith(_TIMM_FOLDER) else request.spec
    about = (shown, name_and_version("timm"), source)
    return BuiltModel(_as_module(model, request.spec), shown, about, config.get("mean"), config.get("std"))


# torchvision


def build_torchvision(request: ModelRequest) -> BuiltModel:
    """``torchvision:NAME``."""
    models = import_library("torchvision.models", request.spec, "torchvision")
    name, known = request.name, models.list_models()
    if name not in known:
        close = did_you_mean(name, known) or "; torchvision.models.list_models() has the names"
        raise ModelError(f"model {request.spec}: expected a model of torchvision, found none of that name{close}")
    if request.weights is None:
        cache = "the cache of torch.hub (TORCH_HOME)"
        model = _fetch(request.spec, cache, lambda: models.get_model(name, weights="DEFAULT"))
    else:
        model = _with_weights_file(
            request, request.weights, "torchvision", lambda **given: models.get_model(name, weights=None, **given)
        )
    transforms = models.get_model_weights(name).DEFAULT.transforms()
    mean, std = getattr(transforms, "mean", None), getattr(transforms, "std", None)
    about = (request.spec, name_and_version("torchvision"), _source(request, "pretrained weights DEFAULT"))
    return BuiltModel(_as_module(model, request.spec), f"torchvision:{name}", about, mean, std)


# Hugging Face


_HF_CACHE = "the cache of huggingface_hub (HF_HOME); a folder that save_pretrained wrote is a NAME too"


class _OnlyLogits(nn.Module):
    """The logits of a model of transformers, which returns a record of several things.

    The names of this class and of its attribute are part of stored fingerprints.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(pixel_values=x).logits
        return logits


def build_hugging_face(request: ModelRequest) -> BuiltModel:
    """``hf:NAME``: an image classifier of transformers, from the Hugging Face hub or a folder."""
    transformers = import_library("transformers", request.spec, "hf")
    model = _fetch(request.spec, _HF_CACHE, lambda: _hf_model(transformers, request))
    inner = _as_module(model, request.spec)
    if request.weights is not None:
        put_weights(inner, read_weights(request.weights), request.weights)
    mean, std = _fetch(request.spec, _HF_CACHE, lambda: _hf_normalisation(transformers, request.name))
    # Of a folder only the last part is kept: the rest is nobody else's business, and it may move.
    name = f"hf:{Path(request.name).name if Path(request.name).is_dir() else request.name}"
    about = (name, name_and_version("transformers"), _source(request, "pretrained weights"))
    return BuiltModel(_OnlyLogits(inner), name, about, mean, std)


def _hf_model(transformers: Any, request: ModelRequest) -> Any:
    # A repository's own code is not run: who wants it loads the model in a Python factory.
    models = transformers.AutoModelForImageClassification
    if request.weights is None:
        return models.from_pretrained(request.name, trust_remote_code=False)
    config = transformers.AutoConfig.from_pretrained(request.name, trust_remote_code=False)
    model = models.from_config(config, trust_remote_code=False)
    if (classes := classes_in(model, read_weights(request.weights))) is not None:
        config.num_labels = classes
        model = models.from_config(config, trust_remote_code=False)
    return model


def _hf_normalisation(transformers: Any, name: str) -> tuple[PerChannel, PerChannel]:
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


# RobustBench


def build_robustbench(request: ModelRequest) -> BuiltModel:
    """``robustbench:[DATASET/THREAT/]NAME``. These models take images in [0, 1] and normalise them themselves."""
    dataset, threat, name = _robustbench_parts(request)
    utils = import_library("robustbench.utils", request.spec, "robustbench")
    cache = f"models/{dataset}/{threat}/{name}.pt, where RobustBench looks for it"

    def load(folder: str | None) -> Any:
        place = {} if folder is None else {"model_dir": folder}
        return utils.load_model(model_name=name, dataset=dataset, threat_model=threat, **place)

    if request.weights is None:
        model = _fetch(request.spec, cache, lambda: load(None))
    else:
        check_weights_file(request.weights)
        with tempfile.TemporaryDirectory() as folder:
            # RobustBench knows how the names in its files fit its models, so it reads the file from a cache of its own.
            there = Path(folder) / dataset / threat / f"{name}.pt"
            there.parent.mkdir(parents=True)
            os.symlink(request.weights.resolve(), there)
            model = _fetch(request.spec, cache, lambda: load(folder))
    shown = f"robustbench:{dataset}/{threat}/{name}"
    about = (shown, name_and_version("robustbench"), _source(request, "pretrained weights"))
    return BuiltModel(_as_module(model, request.spec), shown, about)


def _robustbench_parts(request: ModelRequest) -> tuple[str, str, str]:
    """(dataset, threat model, name of the model)."""
    match request.name.split("/"):
        case [name] if name:
            return "cifar10", "Linf", name
        case [dataset, threat, name] if dataset and threat and name:
            return dataset, threat, name
    raise ModelError(
        f"model {request.spec}: expected robustbench:NAME or robustbench:DATASET/THREAT/NAME, "
        f"found {request.name!r}; write for instance robustbench:cifar10/L2/Standard"
    )


# The zoo


def build_zoo(request: ModelRequest) -> BuiltModel:
    """``zoo:NAME``: a network of the zoo, or with weights from a file one of its architectures."""
    from pwcf import zoo  # it imports safetensors, like all libraries of this file only when needed

    name, shipped = request.name, request.name in zoo.names()
    if not shipped and name not in zoo.architectures():
        known = [*zoo.names(), *zoo.architectures()]
        raise ModelError(
            f"model {request.spec}: expected a network of the zoo, {', '.join(zoo.names())}, or with --weights its "
            f"architecture {', '.join(zoo.architectures())}, found none of that name{did_you_mean(name, known)}"
        )
    if request.weights is not None:
        network = zoo.make(zoo.RECIPES[name].architecture if shipped else name).eval()
        put_weights(network, read_weights(request.weights), request.weights)
        source = name_and_checksum(request.weights)
    elif shipped:
        network = zoo.load_network(name)
        source = f"weights {name} {hashlib.sha256(zoo.weights_file(name)).hexdigest()[:CHECKSUM_DIGITS]}"
    else:
        raise ModelError(
            f"model {request.spec}: expected --weights, as an architecture has none of its own, found none; give the "
            f"file that pwcf train wrote, or name one of {', '.join(zoo.names())}"
        )
    return BuiltModel(network, request.spec, (request.spec, name_and_version("pwcf"), source))


# What they share


def _source(request: ModelRequest, pretrained: str) -> str:
    """For the record: which weights these are."""
    return pretrained if request.weights is None else name_and_checksum(request.weights)


def _with_weights_file(request: ModelRequest, path: Path, library: str, make: Callable[..., Any]) -> Any:
    """What ``make`` returns, with the weights of a file, and with as many classes as the file is for."""
    state = read_weights(path)
    try:
        model = make()
        if (classes := classes_in(model, state)) is not None:
            model = make(num_classes=classes)
    except Exception as error:
        raise ModelError(
            f"model {request.spec}: {library} cannot make it ({describe_error(error)}); name another model"
        ) from error
    put_weights(model, state, path)
    return model


def _fetch(spec: str, cache: str, load: Callable[[], Any]) -> Any:
    """What ``load`` returns; it may download, and unpickles nothing but tensors whatever it asks torch for."""
    try:
        with _only_tensors_unpickled():
            return load()
    except Exception as error:
        raise ModelError(
            f"model {spec}: its pretrained weights cannot be had ({describe_error(error)}); check its name, "
            f"connect to the network, give the file with --weights, or put it in {cache}"
        ) from error


@contextmanager
def _only_tensors_unpickled() -> Iterator[None]:
    """torch.load takes files of tensors only, also where a library asks for more."""
    force, forbid = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
    before = {name: os.environ.pop(name, None) for name in (force, forbid)}
    os.environ[force] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _as_module(model: object, spec: str) -> nn.Module:
    """The model, once it is known to be a module."""
    if not isinstance(model, nn.Module):
        raise ModelError(f"model {spec}: expected a torch.nn.Module, found {type(model).__name__}; name another model")
    return model
