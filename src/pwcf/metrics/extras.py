"""Libraries that only some metrics need: imported when such a metric is made, never before."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Any


def library(module: str, metric: str, extra: str) -> Any:
    """The module, or an ImportError that says what to install for this metric."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"metric {metric}: needs {package}: pip install 'pwcf[{extra}]' ({error})") from error


def named_with_version(package: str) -> str:
    """For the record: results may move between versions."""
    return f"{package} {importlib.metadata.version(package)}"
