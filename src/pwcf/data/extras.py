"""Libraries that only some kinds of data need: imported when such data is opened, never before."""

from __future__ import annotations

import importlib
from typing import Any

from pwcf.data.source import DataError
from pwcf.data.wording import one_line


def library(module: str, what: str, extra: str) -> Any:
    """The module, or an error that says what to install to read ``what``."""
    try:
        return importlib.import_module(module)
    # RuntimeError and OSError: libraries built for another torch fail like this.
    except (ImportError, RuntimeError, OSError) as error:
        package = {"PIL": "Pillow"}.get(name := module.partition(".")[0], name)
        raise DataError(f"{what}: needs {package}: pip install 'pwcf[{extra}]' ({one_line(error)})") from error
