"""The header of a run's folder: what was asked, of which model and data, with which attacks, in which environment."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pwcf._common.optional import installed_version
from pwcf._common.wording import eps_text
from pwcf.runs.settings import RunError, Settings

SCHEMA = 1
"""Of the folder. A newer number has more fields or columns; what an older one lacks gets its default when read."""
# Files are known by what is in them, wherever they lie.
BY_FINGERPRINT = ("model", "weights", "data", "labels")
PACKAGES = ("pwcf", "torch", "numpy", "pyarrow", "safetensors", "adv-lib", "timm", "onnx2torch", "ray")


@dataclass(frozen=True)
class About:
    """A model, or data: what it was called, what it turned out to be, and a digest of it."""

    spec: str
    about: str
    fingerprint: str


@dataclass(frozen=True)
class AttackAbout:
    """An attack: its name, which implementation and settings it is, and whether it goes without gradients."""

    name: str
    about: str
    black_box: bool


@dataclass(frozen=True)
class Header:
    """All that a run's folder says beside its rows."""

    settings: Settings
    """as resolved: defaults filled in"""
    asked: dict[str, Any]
    """as passed: an eps of 8/255 is the text 8/255 here"""
    model: About
    data: About
    samples: int
    shape: tuple[int, ...]
    """of one input"""
    classes: list[str]
    """their names, where they have any"""
    attacks: tuple[AttackAbout, ...]
    budget: int
    metric: str
    """which network measured, if one did"""
    made: dict[str, Any]
    """its ``Environment``; older folders may have other fields"""

    @property
    def chunks(self) -> int:
        return -(-self.samples // self.settings.chunk)

    def to_json(self) -> dict[str, Any]:
        """What ``header_from`` reads."""
        return {"schema": SCHEMA, **asdict(self)}


def header_from(content: Mapping[str, Any], place: str) -> Header:
    """From what ``to_json`` gave, now or in an earlier version."""
    schema = content.get("schema")
    if schema not in range(1, SCHEMA + 1):
        raise RunError(f"{place}: schema is {schema!r}, this version of pwcf reads 1 to {SCHEMA}; use a newer pwcf")
    try:
        known = {each.name for each in fields(Settings)}
        settings = Settings(**{name: value for name, value in content["settings"].items() if name in known})
        return Header(
            settings,
            dict(content["asked"]),
            About(**content["model"]),
            About(**content["data"]),
            int(content["samples"]),
            tuple(content["shape"]),
            list(content["classes"]),
            tuple(AttackAbout(**each) for each in content["attacks"]),
            int(content["budget"]),
            str(content.get("metric", "")),
            dict(content["made"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(
            f"{place}: damaged header ({type(error).__name__}: {error}); restore it, or start anew"
        ) from None


def differences(there: Header, asked: Header) -> list[str]:
    """What keeps a run from going on, in words: another question, model or data."""
    found = setting_differences(there.settings, asked.settings)
    for name in ("model", "data"):
        old, new = getattr(there, name), getattr(asked, name)
        if old.fingerprint != new.fingerprint:
            renamed = f"{old.spec!r}, now {new.spec!r}" if old.spec != new.spec else f"{new.spec!r}, but its content"
            found.append(f"{name} was {renamed} has another digest ({old.fingerprint[:8]}, now {new.fingerprint[:8]})")
    if found:
        return found  # what follows from these need not be said as well
    for name in ("samples", "budget", "attacks", "metric"):
        if getattr(there, name) != getattr(asked, name):
            found.append(f"{name} was {getattr(there, name)!r}, now {getattr(asked, name)!r}")
    return found


def setting_differences(there: Settings, asked: Settings) -> list[str]:
    """Settings that decide the answers and are not as they were, in words. Files are compared by their content."""
    then, now = there.identity(), asked.identity()
    told = {name: (repr(then[name]), repr(now[name])) for name in now}
    if there.eps is not None and asked.eps is not None:
        as_written = eps_text(there.eps), eps_text(asked.eps)
        if as_written[0] != as_written[1]:  # digits that are left out may be all the difference
            told["eps"] = as_written
    return [
        f"{name} was {old}, now {new}"
        for name, (old, new) in told.items()
        if name not in BY_FINGERPRINT and then[name] != now[name]
    ]


@dataclass(frozen=True)
class Environment:
    """When, with which packages and on what machine. As far as one knows, of no influence on the answers."""

    created: str
    packages: dict[str, str]
    python: str
    system: str
    processor: str
    cores: int | None
    threads: int

    @classmethod
    def current(cls, threads: int) -> Environment:
        """That of this process, now."""
        return cls(
            datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            {name: version for name in PACKAGES if (version := installed_version(name)) is not None},
            platform.python_version(),
            platform.platform(),
            _processor(),
            os.cpu_count(),
            threads,
        )


def _processor() -> str:
    """Its name, where the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor()
