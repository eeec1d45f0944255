"""Objects from the user's own Python: ``module:name``, or ``path/to/file.py:name``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from pwcf._common.errors import UserError
from pwcf._common.text import brief, describe_error, did_you_mean, first_few

USER_MODULE = re.compile(rb"(_pwcf_user_\w*?)_[0-9a-f]{12}")
"""the name under which a file is imported, which ends with a digest of its place"""


class UserCodeError(UserError):
    """The user's code cannot be imported, or does not have what was named."""


@contextmanager
def kept_alive() -> Iterator[None]:
    """The user's code may ask to end the process, with success even: that is an error here."""
    try:
        yield
    except SystemExit as end:
        raise UserCodeError(
            f"the user's own code ended the process (sys.exit({brief(end.code)})); let it raise an error, or return"
        ) from end
    except (Exception, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # what libraries in Rust raise where they fail, for one
        raise UserCodeError(f"the user's own code failed ({describe_error(error)}); mend it, or its library") from error


def is_named_code(spec: str) -> bool:
    """Whether a text is of the form ``module:name`` or ``file.py:name``."""
    where, colon, name = spec.rpartition(":")
    return bool(colon and where and name)


def load_named(spec: str) -> object:
    """Import what ``module:name`` or ``path/to/file.py:name`` names.

    A file is run anew each time and may import what lies beside it; a module is looked for in the current folder, too.

    Args:
        spec: the text; ``name`` may have dots.

    Raises:
        UserCodeError: the code cannot be imported, or has no such name.
    """
    where, _, name = spec.rpartition(":")
    module = _from_file(Path(where)) if where.lower().endswith(".py") else _from_name(where)
    found: object = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            held = [known for known in vars(found) if not known.startswith("_")] if hasattr(found, "__dict__") else []
            there = f", which has {first_few(held)}" if held else ""
            raise UserCodeError(
                f"expected {part!r} in {where}, found none{there}{did_you_mean(part, held) or '; check the name'}"
            ) from error
    return found


def _from_name(name: str) -> ModuleType:
    if not name or not all(part.isidentifier() for part in name.split(".")):
        raise UserCodeError(
            f"expected package.module:name or path/to/file.py:name, found {name!r} before the colon; write one of these"
        )
    # As uvicorn does: what lies in the folder one works in is found. It stays: code may import more when called.
    _make_importable(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserCodeError(
                f"expected a module {error.name}, found none in the current folder or among the installed packages; "
                "check its name, or give a file: path/to/file.py:name"
            ) from error
        raise _import_failed(name, error) from error
    except (Exception, SystemExit) as error:  # whatever the user's code raises while it is imported
        raise _import_failed(name, error) from error


def _import_failed(name: str, error: BaseException) -> UserCodeError:
    return UserCodeError(f"{name} cannot be imported ({describe_error(error)}); import it in Python to see where")


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UserCodeError(f"expected a Python file, found none at {path}; check the path")
    path = path.resolve()
    _make_importable(path.parent)
    # A name of its own, so that no file called like an installed package takes its place.
    name = f"_pwcf_user_{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise UserCodeError(f"expected a Python file, found {path.name}; give a file that ends in .py")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses and the like look their module up there
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _import_failed(path.name, error) from error
    return module


def _make_importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
