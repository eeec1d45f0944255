"""The header of a run's folder: what was asked, of which model and data, with which attacks, in which environment."""

from __future__ import annotations

import datetime
import math
import os
import platform
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from pwcf._common.optional import installed_version
from pwcf._common.text import brief, describe_error, one_line
from pwcf._common.wording import eps_text
from pwcf.runs.folder import NAMED, SEALED
from pwcf.runs.settings import LARGEST, RunError, Settings

SCHEMA = 3
"""Of the folder. A newer number has more fields or columns; what an older one lacks gets its default when read.

2: every file is sealed, and fingerprints of the user's own code cover all that it reaches.
3: rows name their run and the file of their points, and fingerprints cover more of what Python can change.
"""
# From this schema on fingerprints cover all that the user's own code reaches.
WHOLE_CODE = 3
# Files are known by what is in them, wherever they lie.
BY_FINGERPRINT = ("model", "weights", "data", "labels", "classes")
# Settings that a run may be continued with: more samples, a larger budget.
CONTINUED = ("limit", "budget")
# In the folder of a run that was saved from Python: the images it was about, and their labels.
ORIGINALS = "originals.safetensors"
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
class Stage:
    """A run as it was before it was continued with more samples or a larger budget."""

    samples: int
    budget: int
    done: int
    """samples that were recorded when it was continued"""
    data: str
    """digest of its samples"""
    made: dict[str, Any]
    """its ``Environment``"""


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
    """its ``Environment``, of the last stage; older folders may have other fields"""
    earlier: tuple[Stage, ...] = ()
    """what the run was before it was continued, the first stage first"""
    schema: int = SCHEMA
    """of the version that began it"""
    run: str = ""
    """by which its rows name it: drawn when it was begun"""
    saved: bool = False
    """by ``Run.save``: nobody knows where model and attacks are from, and the images lie in the run's folder"""

    @property
    def chunks(self) -> int:
        return -(-self.samples // self.settings.chunk)

    @property
    def unchecked(self) -> str | None:
        """What cannot be checked of a folder of an earlier version, in a sentence."""
        if self.schema < SEALED:
            return "Files of this folder have no digests (an earlier version began it): changes in them go unnoticed."
        if self.schema < NAMED:
            return (
                "Rows of this folder do not name their files of points (an earlier version began it): whole files that "
                "were exchanged for another run's go unnoticed."
            )
        return None

    @property
    def first_budget(self) -> int:
        """Of rows that do not tell theirs: they are older than continued runs."""
        return self.earlier[0].budget if self.earlier else self.budget

    def to_json(self) -> dict[str, Any]:
        """What ``header_from`` reads."""
        return asdict(self)


def new_name() -> str:
    """By which rows name their run."""
    return secrets.token_hex(8)


def header_from(content: Mapping[str, Any], place: str) -> Header:
    """From what ``to_json`` gave, now or in an earlier version; ``place``: the run's folder."""
    schema = content.get("schema")
    if not isinstance(schema, int) or schema not in range(1, SCHEMA + 1):
        raise RunError(
            f"{place}: schema is {brief(schema)}, this version of pwcf reads 1 to {SCHEMA}; use a newer pwcf"
        )
    try:
        known = {each.name for each in fields(Settings)}
        # Runs of before there were orders are about the first samples, as they lie.
        said = {"order": "stored", **content["settings"]}
        settings = Settings(**{name: value for name, value in said.items() if name in known})
        if saved := content.get("saved") is True:
            settings = replace(settings, data=os.path.join(place, ORIGINALS))
        header = Header(
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
            tuple(Stage(**each) for each in content.get("earlier", ())),
            schema,
            run=str(content.get("run", "")),
            saved=saved,
        )
        for each in (settings, header, header.model, header.data, *header.attacks, *header.earlier):
            _check_types(each)
        if not header.samples > 0 or math.prod(header.shape) > LARGEST or min(header.shape, default=1) < 0:
            raise ValueError(f"samples {brief(header.samples)}, shape {brief(header.shape)}")
        return header
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(
            f"{place}: damaged header ({one_line(describe_error(error))}); restore it, or start anew"
        ) from None


_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}


def _check_types(record: Any) -> None:
    """Raise a TypeError where a field of numbers or texts, or of several, has something else."""
    for each in fields(record):
        value, kind = getattr(record, each.name), str(each.type).removesuffix(" | None")
        if match := re.fullmatch(r"(?:list|tuple)\[(\w+)(?:, \.\.\.)?\]", kind):
            kind, values = match[1], list(value)
        else:
            values = [] if value is None and kind != each.type else [value]
        for one in values:
            if kind in _KINDS and (not isinstance(one, _KINDS[kind]) or (isinstance(one, bool) and kind != "bool")):
                raise TypeError(f"{each.name}: expected {kind}, found {brief(value)}")


def differences(there: Header, asked: Header, data_fingerprint: Callable[[int], str]) -> list[str]:
    """What keeps a run from going on, in words: another question, model or data, fewer samples, a smaller budget.

    Args:
        there: the header in the folder.
        asked: that of the command.
        data_fingerprint: of the first so many samples of the data as they are now.
    """
    found = setting_differences(there.settings, asked.settings)
    fewer = asked.samples < there.samples
    # More samples are no other data: those of the record must be the same.
    digests = {"model": asked.model.fingerprint, "data": there.data.fingerprint}
    if not fewer:
        more = asked.samples > there.samples
        digests["data"] = data_fingerprint(there.samples) if more else asked.data.fingerprint
    for name, digest in digests.items():
        old, new = getattr(there, name), getattr(asked, name)
        if old.fingerprint != digest:
            renamed = f"{old.spec!r}, now {new.spec!r}" if old.spec != new.spec else f"{new.spec!r}, but its content"
            found.append(f"{name} was {renamed} has another digest ({old.fingerprint[:8]}, now {digest[:8]})")
            if name == "model" and there.schema < WHOLE_CODE:
                found.append(
                    "the run was begun by an earlier version of pwcf, which saw less of the user's own code: only that "
                    "version can go on with it"
                )
    if fewer:
        told = _changed("limit", there.settings.limit, asked.settings.limit)
        if there.settings.limit == asked.settings.limit:  # the data have fewer by now
            told = _changed("samples", there.samples, asked.samples)
        found.append(f"{told} (expected {there.samples} samples or more: those of the record stay)")
    if found:
        return found  # what follows from these need not be said as well
    for name in ("attacks", "metric"):
        if getattr(there, name) != getattr(asked, name):
            found.append(_changed(name, getattr(there, name), getattr(asked, name)))
    return found + _budget_differences(there, asked)


def _budget_differences(there: Header, asked: Header) -> list[str]:
    """Why a run cannot go on with the budget that is asked for, in words; nothing where it can."""
    old, new = there.settings.budget, asked.settings.budget
    if there.budget == asked.budget and (old is None) == (new is None):
        return []
    if old == new:  # both by default, and the defaults are others by now
        return [_changed("budget", there.budget, asked.budget)]
    if asked.budget <= there.budget:
        return [f"{_changed('budget', old, new)} (a run goes on with more than {there.budget} passes a sample)"]
    if there.settings.stop == "budget":
        return [
            f"{_changed('budget', old, new)} (with stop 'budget' every sample uses up the same budget: a larger one is "
            "another comparison)"
        ]
    return []


def continued_header(there: Header, asked: Header, done: int) -> Header:
    """The header of a run that goes on as ``asked``, between which and ``there`` there are no differences.

    Args:
        there: the header in the folder, returned unchanged where nothing is asked that it does not say.
        asked: that of the command.
        done: samples that are recorded.
    """
    if (levels := asked.settings.accuracy_at) and levels != there.settings.accuracy_at:  # other ones are told
        there = replace(there, settings=replace(there.settings, accuracy_at=levels))
    if (there.samples, there.budget) == (asked.samples, asked.budget):
        return there
    given = {name: value for name, value in there.asked.items() if name not in CONTINUED}
    return replace(
        there,
        settings=replace(there.settings, **{name: getattr(asked.settings, name) for name in CONTINUED}),
        asked=given | {name: value for name, value in asked.asked.items() if name in CONTINUED},
        data=replace(there.data, about=asked.data.about, fingerprint=asked.data.fingerprint),
        samples=asked.samples,
        classes=asked.classes,
        budget=asked.budget,
        made=asked.made,
        earlier=(*there.earlier, Stage(there.samples, there.budget, done, there.data.fingerprint, there.made)),
    )


def _changed(name: str, old: object, new: object) -> str:
    return f"{name} was {old!r}, now {new!r}"


def setting_differences(there: Settings, asked: Settings) -> list[str]:
    """Settings that decide the answers and are not as they were, in words, but for those of ``CONTINUED``.

    Files are compared by their content.
    """
    then, now = there.identity(), asked.identity()
    told = {name: (repr(then[name]), repr(now[name])) for name in now}
    if there.eps is not None and asked.eps is not None:
        as_written = eps_text(there.eps), eps_text(asked.eps)
        if as_written[0] != as_written[1]:  # digits that are left out may be all the difference
            told["eps"] = as_written
    return [
        f"{name} was {old}, now {new}"
        for name, (old, new) in told.items()
        if name not in (*BY_FINGERPRINT, *CONTINUED) and then[name] != now[name]
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
