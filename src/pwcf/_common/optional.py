"""Optional libraries: imported when something needs them, never before."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Any

from pwcf._common.text import describe_error

# Packages that are installed under another name than they are imported by.
_INSTALLED_AS = {"PIL": "Pillow"}
_SENTENCE = "{needed_by}: needs {package}: pip install {install} ({reason})"


def import_optional(
    module: str,
    needed_by: str,
    extra: str | None = None,
    *,
    error: type[Exception] = ImportError,
    sentence: str = _SENTENCE,
) -> Any:
    """Import a module of a library that only some features need.

    Args:
        module: dotted name, such as ``"PIL.Image"``.
        needed_by: what cannot be had without it; the error begins with it.
        extra: the extra of pwcf that installs the library; None if it has none, then the library itself is named.
        error: class of the exception that is raised where the import fails.
        sentence: its message, with the fields needed_by, package, install and reason.
    """
    try:
        return importlib.import_module(module)
    except Exception as failure:  # a library built for another torch raises RuntimeError or OSError
        name = module.partition(".")[0]
        package = _INSTALLED_AS.get(name, name)
        install = package if extra is None else f"'pwcf[{extra}]'"
        reason = describe_error(failure)
        message = sentence.format(needed_by=needed_by, package=package, install=install, reason=reason)
        raise error(message) from failure


def name_and_version(package: str) -> str:
    """``"timm 1.0.9"`` for the record, as results may differ between versions; the name alone if it is unknown."""
    version = installed_version(package)
    return package if version is None else f"{package} {version}"


def installed_version(package: str) -> str | None:
    """The version of a package by the name it is installed under; None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
