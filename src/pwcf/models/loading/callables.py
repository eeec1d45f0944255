"""What a name in somebody's Python stands for: the model itself, or something that makes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from torch import nn

from pwcf.models.classifier import Classifier, Logits
from pwcf.models.loading.errors import ModelError, said


def model_from(found: object, spec: str) -> Logits | Classifier:
    """A module and a classifier are models; of other callables the number of arguments they need decides.

    None: a factory, called once. One: the model itself, from images to logits. Classes are factories.
    """
    if isinstance(found, (Classifier, nn.Module)):
        return found
    if not callable(found):
        raise ModelError(
            f"model {spec}: expected a module, a function or a factory, found {type(found).__name__}; name a callable"
        )
    needed = _needed(found)
    if needed != [] and not isinstance(found, type) and _takes_images(found):
        return found
    if needed:
        raise ModelError(
            f"model {spec}: expected a factory without arguments, found one that needs {', '.join(needed)}; "
            "write a function without arguments that returns the model, and name that"
        )
    try:
        made: object = found()
    except Exception as error:
        raise ModelError(f"model {spec}: the factory raised {said(error)}; call it in Python to see where") from error
    if isinstance(made, (Classifier, nn.Module)):
        return made
    if isinstance(made, type) or not callable(made) or not _takes_images(made):
        raise ModelError(
            f"model {spec}: expected the factory to return a module or a function of one argument, images to logits, "
            f"found {made.__name__ if isinstance(made, type) else type(made).__name__}; return the model itself"
        )
    return made


def _needed(function: Callable[..., object]) -> list[str] | None:
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
