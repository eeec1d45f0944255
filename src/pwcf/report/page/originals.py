"""The images of a run, which are not in its folder: read again from the data, and known by their digests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from pwcf.data import DataError, Source
from pwcf.runs import RecordedRun, RunError, Settings
from pwcf.runs.resolve import open_source
from pwcf.runs.shard import digest


@dataclass
class Originals:
    """Data that was opened, once for all runs that ask for the same."""

    given: str | None = None
    """another place of the data; tried before the one that the run names"""
    remarks: list[str] = field(default_factory=list)
    _opened: dict[tuple[object, ...], Source | str] = field(default_factory=dict)

    def images(self, run: RecordedRun, name: str, places: Sequence[int]) -> dict[int, Tensor]:
        """Those of the samples at these places of the run's rows that are what the run saw."""
        found: dict[int, Tensor] = {}
        reasons = []
        for spec in dict.fromkeys(filter(None, (self.given, run.header.settings.data))):
            source = self._open(replace(run.header.settings, data=spec))
            if isinstance(source, str):
                reasons.append(source)
                continue
            reason = _read(source, run, [place for place in places if place not in found], found)
            reasons += [f"{spec}: {reason}"] if reason else []
            if len(found) == len(places):
                return found
        missing = len(places) - len(found)
        whose = "all" if missing == len(places) else f"{missing} of {len(places)}"
        self.remarks.append(
            f"{name}: original images of {whose} samples in the gallery are missing ({'; '.join(reasons)}); "
            "--data names another place of the data"
        )
        return found

    def _open(self, settings: Settings) -> Source | str:
        """The source, or why there is none."""
        key = (settings.data, settings.labels, settings.resize, settings.crop, settings.split, *settings.bounds)
        if key not in self._opened:
            try:
                self._opened[key] = open_source(settings)
            except RunError as error:
                self._opened[key] = str(error)
            except Exception as error:  # a library of the user's choice: a report is made without it
                self._opened[key] = f"{settings.data}: cannot be opened ({type(error).__name__}: {error})"
        return self._opened[key]


def _read(source: Source, run: RecordedRun, places: Sequence[int], found: dict[int, Tensor]) -> str | None:
    """Into ``found``; what was wrong, if anything was."""
    indices, digests = run.rows["index"].to_pylist(), run.rows["image"].to_pylist()
    differing = 0
    for place in places:
        index = indices[place]
        if index >= len(source):
            differing += 1
            continue
        try:
            image = source.read(index, index + 1)[0][0]
        except DataError as error:
            return str(error)
        except Exception as error:  # as above
            return f"cannot be read ({type(error).__name__}: {error})"
        if digest(image) == digests[place]:
            found[place] = image
        else:
            differing += 1
    return "its images are not those of the run" if differing else None
