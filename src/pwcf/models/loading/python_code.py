"""Models from the user's own Python: a module by its name or a file by its path, and something callable in it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from pwcf._common.optional import name_and_version
from pwcf._common.text import describe_error
from pwcf._common.user_code import UserCodeError, kept_alive, load_named
from pwcf.models.classifier import Classifier, Logits
from pwcf.models.loading.reached import syntax
from pwcf.models.loading.request import BuiltModel, ModelError, ModelRequest
from pwcf.models.loading.weights import name_and_checksum, put_weights, read_weights


def build(request: ModelRequest) -> BuiltModel:
    """``package.module:callable`` or ``path/to/file.py:callable``."""
    where, _, name = request.spec.rpartition(":")
    is_file = where.lower().endswith(".py")
    try:
        found = load_named(request.spec)
    except UserCodeError as error:
        raise ModelError(f"model {request.spec}: {error}") from error
    model = _model_from(found, request.spec)
    # A folder's name is nobody else's business, and the file may move: only its own name is kept.
    shown = f"{Path(where).name}:{name}" if is_file else request.spec
    about = [shown, f"torch {torch.__version__}"]
    if not is_file and (version := name_and_version(where.partition(".")[0])) != where.partition(".")[0]:
        about.append(version)
    if request.weights is not None:
        put_weights(_module_in(model, request.spec), read_weights(request.weights), request.weights)
        about.append(name_and_checksum(request.weights))
    # The file that was named counts also where the model is made in another one.
    content = syntax(Path(where)) if is_file else b""
    return BuiltModel(model, f"python:{name}", tuple(about), content=content, own=True)


def _module_in(model: object, spec: str) -> nn.Module:
    inner = model.model if isinstance(model, Classifier) else model
    if not isinstance(inner, nn.Module):
        raise ModelError(
            f"weights: expected {spec} to give a torch.nn.Module to load them into, found {type(inner).__name__}; "
            "name a factory that returns the module"
        )
    return inner


def _model_from(found: object, spec: str) -> Logits | Classifier:
    """The model that a name in somebody's Python stands for.

    A module and a Classifier are models. A callable that needs no arguments, or a class, is a factory and called once.
    A callable of one argument is the model itself, from images to logits.
    """
    if isinstance(found, (Classifier, nn.Module)):
        return found
    if not callable(found):
        raise ModelError(
            f"model {spec}: expected a module, a function or a factory, found {type(found).__name__}; name a callable"
        )
    needed = _required_arguments(found)
    if needed != [] and not isinstance(found, type) and _takes_images(found):
        return found
    if needed:
        raise ModelError(
            f"model {spec}: expected a factory without arguments, found one that needs {', '.join(needed)}; "
            "write a function without arguments that returns the model, and name that"
        )
    try:
        with kept_alive():
            made: object = found()
    except Exception as error:
        raise ModelError(
            f"model {spec}: the factory raised {describe_error(error)}; call it in Python to see where"
        ) from error
    if isinstance(made, (Classifier, nn.Module)):
        return made
    if isinstance(made, type) or not callable(made) or not _takes_images(made):
        raise ModelError(
            f"model {spec}: expected the factory to return a module or a function of one argument, images to logits, "
            f"found {made.__name__ if isinstance(made, type) else type(made).__name__}; return the model itself"
        )
    return made


def _required_arguments(function: Callable[..., object]) -> list[str] | None:
    """Names of the arguments it cannot be called without; None where Python does not know them (built-in functions)."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is inspect.Parameter.empty and each.kind not in free]


def _takes_images(function: Callable[..., object]) -> bool:
    """Whether it can be called with one argument, as far as Python knows."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:
        return True
    return True
