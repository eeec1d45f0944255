"""Which runs a benchmark consists of, and what the folder of a benchmark says about them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pwcf._common.text import brief, first_line, parse_fraction
from pwcf._common.user_code import is_named_code
from pwcf.runs.folder import GRID, RunFolder, check_unused, read_grid, write_json
from pwcf.runs.settings import QUESTIONS, WITHOUT_INFLUENCE, RunError, Settings, settings_from

SCHEMA = 1
SEVERAL = ("model", "question", "metric", "attacks", "budget")
"""settings of which a grid has several values, one for each cell"""
NETS = "nets"
DEFAULTS: dict[str, Any] = {
    "model": ["zoo:fashion-linf", "zoo:fashion-l2"],
    "data": "zoo:fashion-mnist",
    "question": list(QUESTIONS),
    "metric": ["linf", "l2", "l1"],
    # One of each kind: ours, a max-loss method, a minimum-norm method, and one without gradients.
    "attacks": ["lmn", "apgd-t", "fab-t", "square"],
    "budget": [200, 2000],
    "limit": 100,
}
# What a name in a folder's path may have; all else becomes _.
_UNSAFE = re.compile(r"[^\w.+-]+")
_FILES = (".onnx", ".pt2")


@dataclass(frozen=True)
class Net:
    """A network and its data, as settings, and the values of eps it is asked about."""

    name: str
    settings: dict[str, Any]
    eps: dict[str, list[str]] = field(default_factory=dict)
    """by metric, as they were written: 8/255 stays 8/255"""


@dataclass(frozen=True)
class Cell:
    """One run of the grid."""

    net: str
    metric: str
    eps: str | None
    """as written; None: min-radius"""
    attack: str
    budget: int
    folder: str
    """within the benchmark's"""
    asked: dict[str, Any]
    """all settings of the run but ``out``"""

    def settings(self, out: str | os.PathLike[str]) -> Settings:
        """Those of the run, in the benchmark's folder ``out``."""
        return settings_from({**self.asked, "out": str(Path(out) / self.folder)})

    def __str__(self) -> str:
        within = "" if self.eps is None else f" within {self.eps}"
        return f"{self.net} {short_name(self.metric)}{within} {short_name(self.attack)} {self.budget}"


def make_cells(values: Mapping[str, Any], eps: Sequence[str] = ()) -> list[Cell]:
    """All cells of a grid: network by network, the cheap budgets first.

    Args:
        values: settings of runs under their names. Those in ``SEVERAL`` are lists. Either ``model`` names the networks,
            or ``nets`` has a table of settings for each, in which ``eps`` is a table of its own: metric -> eps or list.
        eps: texts METRIC=EPS, for all networks in place of their own.

    Raises:
        RunError: a value is not what its name needs, or there is no cell.
    """
    values = {str(name).replace("-", "_"): value for name, value in values.items()}
    shared = {name: value for name, value in values.items() if name not in (*SEVERAL, NETS, "eps", "out")}
    metrics = [_metric(name) for name in _texts("metric", values)]
    attacks, questions = _texts("attacks", values), _texts("question", values)
    budgets = sorted(set(_counts(values.get("budget", DEFAULTS["budget"]))))
    if strange := [name for name in questions if name not in QUESTIONS]:
        raise RunError(f"question: expected one of {', '.join(QUESTIONS)}; found {brief(strange[0])}")
    for_all = _eps_by_metric([*_table_of_eps("eps", values.get("eps", {})), *map(_split_eps, eps)])
    if stray := [metric for metric in for_all if metric not in metrics]:
        raise RunError(f"eps: {stray[0]} is not among the metrics {', '.join(metrics)}; add it to metric")
    cells: list[Cell] = []
    for net in _nets(values, shared):
        for budget in budgets:
            for metric in metrics:
                asked_eps: list[str | None] = [None] if "min-radius" in questions else []
                if "max-loss" in questions:
                    asked_eps += (for_all or net.eps).get(metric, [])
                cells += [_cell(net, metric, one, attack, budget) for one in asked_eps for attack in attacks]
    if not cells:
        raise RunError("question: max-loss alone needs an eps, such as linf=8/255; found none")
    folders = [cell.folder for cell in cells]
    if twice := next((each for each in folders if folders.count(each) > 1), None):
        raise RunError(f"attacks, metric: expected names that differ, found two cells {twice}; rename one of them")
    for cell in cells:
        cell.settings("")  # wrong values are told before anything is measured
    return cells


def record_grid(cells: Sequence[Cell], out: str | os.PathLike[str]) -> None:
    """Write into the folder of a benchmark which runs it has: those of this grid beside those of earlier ones.

    Raises:
        RunError: the folder is somebody's other one, or it has a network of the same name with other settings.
    """
    place = Path(out)
    check_unused(place, GRID, "benchmark")
    with RunFolder(place).locked():
        there: dict[str, Any] = {"schema": SCHEMA, "nets": {}, "cells": {}}
        if (place / GRID).exists():
            there = read_grid(place)
        if there.get("schema") != SCHEMA:
            found = there.get("schema")
            raise RunError(f"{place / GRID}: schema is {brief(found)}, this version of pwcf reads {SCHEMA}")
        nets = {cell.net: _of_net(cell) for cell in cells}
        for name, now in nets.items():
            then = there["nets"].get(name, now)
            changed = [each for each in {**then, **now} if then.get(each) != now.get(each)]
            if changed:
                told = "; ".join(f"{each} was {brief(then.get(each))}, now {brief(now.get(each))}" for each in changed)
                raise RunError(
                    f"{place}: holds another benchmark of {name}: {told}. "
                    "Give the old settings to go on, or another --out"
                )
        told_cells = {
            cell.folder: {"net": cell.net, "metric": cell.metric, "eps": cell.eps, "attack": cell.attack,
                          "budget": cell.budget}
            for cell in cells
        }  # fmt: skip
        write_json(
            place / GRID,
            {"schema": SCHEMA, "nets": there["nets"] | nets, "cells": there["cells"] | told_cells},
        )


def short_name(spec: str) -> str:
    """What a folder calls a model, a metric or an attack: its name without the place it comes from."""
    name = spec.rpartition(":")[2]
    if name.lower().endswith(_FILES):
        name = Path(name).stem
    return _UNSAFE.sub("_", name).strip("_.") or "unnamed"


def _cell(net: Net, metric: str, eps: str | None, attack: str, budget: int) -> Cell:
    # Attacks are compared at equal budgets: nobody stops before.
    asked: dict[str, Any] = {"stop": "budget", **net.settings, "metric": metric, "attacks": [attack], "budget": budget}
    asked["question"] = "min-radius" if eps is None else "max-loss"
    if eps is not None:
        asked["eps"] = eps
    within = "" if eps is None else f"-eps-{_UNSAFE.sub('_', eps)}"
    folder = f"{net.name}/{short_name(metric)}{within}/{short_name(attack)}-{budget}"
    return Cell(net.name, metric, eps, attack, budget, folder, asked)


def _nets(values: Mapping[str, Any], shared: Mapping[str, Any]) -> list[Net]:
    tables = values.get(NETS)
    if tables is None:
        models = _texts("model", values)
        common = {"data": DEFAULTS["data"], "limit": DEFAULTS["limit"], **shared}
        names = [short_name(model) for model in models]
        if len(set(names)) < len(names):
            names = [_UNSAFE.sub("_", model) for model in models]
        if len(set(names)) < len(names):
            raise RunError(f"model: expected models that differ, found {', '.join(models)}")
        return [Net(name, {**common, "model": model}) for name, model in zip(names, models, strict=True)]
    if "model" in values:
        raise RunError("model: expected none beside the nets of the file; add it to them, or leave the file out")
    if not isinstance(tables, Mapping) or not tables or not all(isinstance(one, Mapping) for one in tables.values()):
        raise RunError(f"nets: expected a table of settings for each network, found {brief(tables)}")
    found = []
    for name, table in tables.items():
        own = {str(key).replace("-", "_"): value for key, value in table.items()}
        known = {each.name for each in fields(Settings)} - {*SEVERAL, "out"} | {"model", "eps"}
        if strange := [key for key in own if key not in known]:
            raise RunError(f"nets.{name}: expected some of {', '.join(sorted(known))}; found {brief(strange[0])}")
        eps = _eps_by_metric(_table_of_eps(f"nets.{name}.eps", own.pop("eps", {})))
        if _UNSAFE.search(str(name)):
            raise RunError(f"nets.{name}: expected a name of letters, digits, - and _, for a folder is called by it")
        found.append(Net(str(name), {"limit": DEFAULTS["limit"], **shared, **own}, eps))
    return found


def _of_net(cell: Cell) -> dict[str, Any]:
    """What all cells of a network share and what decides their answers."""
    per_cell = {"metric", "attacks", "budget", "question", "eps", *WITHOUT_INFLUENCE}
    return {name: value for name, value in cell.asked.items() if name not in per_cell}


def _texts(name: str, values: Mapping[str, Any]) -> list[str]:
    """A list of names, in which commas separate, too."""
    given = values.get(name, DEFAULTS[name])
    several = given if isinstance(given, (list, tuple)) else [given]
    if not all(isinstance(one, str) for one in several):
        raise RunError(f"{name}: expected names, found {brief(given)}")
    # A path of a model may have commas.
    parts = several if name == "model" else [part.strip() for one in several for part in one.split(",")]
    found = list(dict.fromkeys(part for part in parts if part))
    if not found:
        raise RunError(f"{name}: expected at least one, found none")
    return found


def _counts(given: Any) -> list[int]:
    several = given if isinstance(given, (list, tuple)) else [given]
    for one in several:
        if isinstance(one, bool) or not isinstance(one, int) or one < 1:
            raise RunError(f"budget: expected an integer > 0, found {brief(one)}")
    if not several:
        raise RunError("budget: expected at least one, found none")
    return list(several)


def _metric(name: str) -> str:
    """As the metric calls itself: Linf is linf."""
    if is_named_code(name):
        return name
    from pwcf.metrics import as_metric

    try:
        return as_metric(name).name
    except (TypeError, ValueError, ImportError, FileNotFoundError) as error:
        raise RunError(first_line(error)) from error


def _split_eps(text: str) -> tuple[str, Any]:
    metric, equals, value = text.rpartition("=")
    if not equals or not metric:
        raise RunError(f"eps: expected METRIC=EPS, such as linf=8/255; found {brief(text)}")
    return metric.strip(), value.strip()


def _table_of_eps(place: str, table: Any) -> list[tuple[str, Any]]:
    if not isinstance(table, Mapping):
        raise RunError(f'{place}: expected a table, such as {{linf = "8/255", l2 = 0.5}}; found {brief(table)}')
    pairs = []
    for metric, given in table.items():
        pairs += [(str(metric), one) for one in (given if isinstance(given, (list, tuple)) else [given])]
    return pairs


def _eps_by_metric(pairs: Iterable[tuple[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for metric, value in pairs:
        if isinstance(value, bool) or not 0 < parse_fraction(value) < math.inf:
            raise RunError(f"eps: expected METRIC=EPS with EPS > 0, such as linf=8/255; found {metric}={value}")
        known = found.setdefault(_metric(metric), [])
        if str(value) not in known:
            known.append(str(value))
    return found
