"""Minimum-norm attacks of adv-lib (BSD-3) as their authors set them: DDN, FMN, ALMA, PDGD, PDPGD, sigma-zero.

Two things of adv-lib need help. Its packages import visdom (live plots) and torchvision (backbones of LPIPS)
unconditionally, and no attack here uses either: where one cannot be imported, an empty module stands in for it while
adv-lib is being imported, and no longer. And ALMA doubles its first step until it moves the image by a given distance,
which never happens where the box does not let it go so far: here that search ends, and takes any distance.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module, metadata, util
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from pwcf._common.rows import bisect, per_row
from pwcf.attacks.base import Answer, Attack, Task, check_settings
from pwcf.attacks.external.tracked_model import TrackedModel, run_external
from pwcf.metrics import Metric, ReferenceDistance
from pwcf.problems import Problem

INSTALL = "adv-lib is not installed: pip install --no-deps adv-lib tqdm"
ORDERS = {"l0": 0, "l1": 1, "l2": 2, "linf": math.inf}
# A step is one forward and one backward pass, of each of them.
STEP = 2
# PDGD and PDPGD divide by the steps after the first one.
LEAST_STEPS = 2
# ALMA's alpha, its paper's pair: 0.9 for 1000 steps, 0.5 for 100; and how far its first step goes.
ALMA_LONG, ALMA_MEMORY, ALMA_SHORT_MEMORY = 500, 0.9, 0.5
ALMA_FIRST = {"l1": 0.5, "l2": 0.1, "pd": 0.01, "lpips": 0.01**2, "ssim": 1e-4}
# FMN's first step size, larger for linf as its authors set it, in AttackBench too.
FMN_STEP, FMN_STEP_LINF = 1.0, 10.0
# Names in adv-lib's module of ALMA: the search for the first step, and the table of distances.
SEARCH, DISTANCES = "init_lr_finder", "_distances"
# What is under this name in their table is called with ``target=images`` and returns the distance from them.
ABOUT_A_TARGET = "lpips"
# 2^100 times any gradient worth the name crosses the box, and times 10^8 it is still a float32.
DOUBLINGS, HALVINGS = 100, 20
# Where nothing moves at all: ALMA's step size without the search.
ALMA_DEFAULT_STEP = 0.1
NEEDLESS: dict[str, dict[str, tuple[str, ...]]] = {
    "visdom": {"visdom": ("Visdom",)},
    "torchvision": {"torchvision": ("models",), "torchvision.models": ()},
}
"""Packages, the modules of theirs that adv-lib imports, and the names it takes from these."""


class _Call(NamedTuple):
    """What all of them are called with, in adv-lib's words."""

    attacks: Any
    """the module"""
    given: tuple[TrackedModel, Tensor, Tensor]
    """model, images, labels"""
    norm: str
    theirs: bool
    """whether the norm is what they call so"""
    distance: Callable[[Tensor], Tensor]
    """of points (n, ...) in [0, 1] from the images: (n,) with their graph"""
    steps: int
    targeted: bool


@dataclass(frozen=True)
class _Method:
    norms: tuple[str, ...]
    """by name; ALMA takes any other distance that has a slope too"""
    run: Callable[[_Call], Tensor]
    settings: str
    classes: int = 2
    """the least number of classes its loss is defined for"""
    classes_targeted: int | None = 2
    """the same with a target; None where it takes no target"""


def _ddn(c: _Call) -> Any:
    # levels=None: rounding to 256 grey values, its default, could only make the radii larger.
    return c.attacks.ddn(*c.given, targeted=c.targeted, steps=c.steps, levels=None)


def _fmn(c: _Call) -> Any:
    step_size = FMN_STEP_LINF if c.norm == "linf" else FMN_STEP
    return c.attacks.fmn(*c.given, norm=ORDERS[c.norm], targeted=c.targeted, steps=c.steps, α_init=step_size)


def _alma(c: _Call) -> Any:
    memory = ALMA_MEMORY if c.steps >= ALMA_LONG else ALMA_SHORT_MEMORY
    return with_first_step_that_ends(c.attacks.alma, None if c.theirs else c.distance)(
        *c.given,
        targeted=c.targeted,
        num_steps=c.steps,
        distance=c.norm if c.theirs else ABOUT_A_TARGET,
        init_lr_distance=ALMA_FIRST.get(c.norm),
        α=memory,
    )


def _pdgd(c: _Call) -> Any:
    return c.attacks.pdgd(*c.given, targeted=c.targeted, num_steps=c.steps)


def _pdpgd(c: _Call) -> Any:
    return c.attacks.pdpgd(*c.given, norm=ORDERS[c.norm], targeted=c.targeted, num_steps=c.steps)


def _sigma_zero(c: _Call) -> Any:
    return c.attacks.sigma_zero(*c.given, num_steps=c.steps)


_METHODS = {
    "ddn": _Method(("l2",), _ddn, "gamma 0.05, no quantisation"),
    "fmn": _Method(("l0", "l1", "l2", "linf"), _fmn, "alpha 1, for linf 10, gamma 0.05"),
    "alma": _Method(("l1", "l2"), _alma, "penalty P2, first step 0.5 (l1), 0.1 (l2) or 0.01 (PD), alpha 0.9", 3, 4),
    "pdgd": _Method(("l2",), _pdgd, "defaults"),
    "pdpgd": _Method(("l1", "l2", "linf"), _pdpgd, "defaults"),
    "sigma-zero": _Method(("l0",), _sigma_zero, "defaults", classes_targeted=None),
}
NAMES = tuple(_METHODS)


@dataclass(frozen=True)
class AdvLib(Attack):
    """One of adv-lib's attacks, by name. It minimises the distance; within an eps it counts what is near enough."""

    name: str
    steps: int | None = None
    """None: as many as the budget pays for, two passes each. More than that are cut; 1000 are the published ones."""

    def __post_init__(self) -> None:
        if self.name not in _METHODS:
            raise ValueError(f"name: expected one of {', '.join(NAMES)}, found {self.name!r}")
        check_settings(self, "steps", least=LEAST_STEPS)

    @property
    def about(self) -> str:
        steps = "as many steps as there are passes for" if self.steps is None else f"{self.steps} steps"
        return f"adv-lib {version()} {self.name}, {steps}, {_METHODS[self.name].settings}"

    def unsupported_reason(self, problem: Problem, classes: int | None) -> str | None:
        """Why it cannot answer, in a sentence; None if it can."""
        method = _METHODS[self.name]
        if not available():
            return INSTALL
        metric = problem.metric
        if not _is_named(metric, method.norms) and not (self.name == "alma" and _is_any(metric)):
            others = " and distances without a norm" if self.name == "alma" else ""
            return f"{self.name} is there for {', '.join(method.norms)}{others}, not for {metric.name}"
        least = method.classes_targeted if problem.targeted else method.classes
        if least is None:
            return f"{self.name} takes no target"
        if classes is not None and classes < least:
            targeted = " with a target" if problem.targeted else ""
            return f"the loss of {self.name}{targeted} needs {least} classes, the model has {classes}"
        return None

    def __call__(self, task: Task) -> Answer:
        if not available():
            raise ImportError(INSTALL)
        problem, method = task.problem, _METHODS[self.name]
        reason = self.unsupported_reason(problem, None)
        if reason is not None:
            raise ValueError(f"attack {self.name}: {reason}")
        attacks = adv_lib_module("adv_lib.attacks")
        affordable = max(LEAST_STEPS, task.budget // STEP)
        steps = affordable if self.steps is None else min(self.steps, affordable)

        def call(model: TrackedModel, images: Tensor, labels: Tensor) -> Tensor:
            # Some of their state is float32 whatever the images are; the model takes either.
            given = (model, images.float(), labels)
            distance = partial(_distance, task.measure(), model)
            theirs = _is_named(problem.metric, method.norms)
            return method.run(_Call(attacks, given, problem.metric.name, theirs, distance, steps, problem.targeted))

        return run_external(call, task, self.name)


def _is_named(metric: Metric, norms: tuple[str, ...]) -> bool:
    """Whether it is one of these norms: a function may have any name."""
    return metric.exponent is not None and metric.name in norms


def _is_any(metric: Metric) -> bool:
    """Whether it is no l_p but has a slope."""
    return metric.differentiable and metric.exponent is None


def _distance(measure: ReferenceDistance, model: TrackedModel, z: Tensor) -> Tensor:
    everyone = torch.arange(len(z), device=z.device)
    parts = [everyone[start : start + measure.batch] for start in range(0, len(z), measure.batch)]
    points = model.points(z, everyone)
    # Where a norm is 0 it has no slope, and one NaN would stay in the attack's state for ever.
    if points.requires_grad:
        points.register_hook(torch.nan_to_num)  # type: ignore[no-untyped-call]
    return torch.cat([measure(points[rows], rows) for rows in parts]).to(z.dtype)


# ---- ALMA's first step --------------------------------------------------------------------------------------------


def with_first_step_that_ends(
    alma: Callable[..., Any], distance: Callable[[Tensor], Tensor] | None = None
) -> Callable[..., Any]:
    """The same function with another search. adv-lib's own is left as it is, for whoever else uses it.

    With a ``distance`` of points (n, ...) from the images, that is what it takes for ``distance=ABOUT_A_TARGET``.
    """
    if not isinstance(alma, FunctionType) or SEARCH not in alma.__globals__:
        return alma
    names = {**alma.__globals__, SEARCH: first_step}
    if distance is not None:
        names[DISTANCES] = {ABOUT_A_TARGET: lambda target: distance}
    copy = FunctionType(alma.__code__, names, alma.__name__, alma.__defaults__, alma.__closure__)
    copy.__kwdefaults__ = alma.__kwdefaults__
    return cast(Callable[..., Any], copy)


def first_step(
    inputs: Tensor, grad: Tensor, distance_function: Callable[[Tensor], Tensor], target_distance: float
) -> Tensor:
    """(n,) step sizes against the gradient that move by the distance, or by half of what the box allows if less."""

    def moved(step: Tensor) -> Tensor:
        return distance_function((inputs - per_row(step, inputs) * grad).clamp(0, 1))

    high = torch.ones(inputs.shape[0], device=inputs.device)
    reach = moved(high * 2.0**DOUBLINGS)
    target = torch.where(reach > target_distance, torch.full_like(reach, target_distance), 0.5 * reach)
    low = torch.zeros_like(high)
    for _ in range(DOUBLINGS):
        short = moved(high) <= target
        if not bool(short.any()):
            break
        low, high = torch.where(short, high, low), torch.where(short, 2 * high, high)
    low, high = bisect(lambda step: ~(moved(step) > target), low, high, HALVINGS)
    return torch.where(reach > 0, 0.5 * (low + high), torch.full_like(high, ALMA_DEFAULT_STEP))


# ---- importing adv-lib --------------------------------------------------------------------------------------------


def available() -> bool:
    """Whether adv-lib is installed. It is not imported to find out."""
    return util.find_spec("adv_lib") is not None


def version() -> str:
    """Of the adv-lib that is installed."""
    try:
        return metadata.version("adv-lib")
    except metadata.PackageNotFoundError:
        return "of unknown version"


def adv_lib_module(name: str) -> ModuleType:
    """``adv_lib.attacks``, or another module of adv-lib."""
    if name in sys.modules:
        return sys.modules[name]
    with _stand_ins(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it compares versions by a module that is going away; no user can help that
        return import_module(name)


@contextmanager
def _stand_ins() -> Iterator[None]:
    missing = [package for package in NEEDLESS if not _importable(package)]
    stubs = {name: ModuleType(name) for package in missing for name in NEEDLESS[package]}
    for package in missing:
        for name, attributes in NEEDLESS[package].items():
            for attribute in attributes:
                setattr(stubs[name], attribute, stubs.get(f"{name}.{attribute}", object))
    sys.modules.update(stubs)
    try:
        yield
    finally:
        for name in stubs:
            del sys.modules[name]


def _importable(package: str) -> bool:
    """Whether it is there and works; what a failed attempt leaves behind is taken away."""
    before = set(sys.modules)
    try:
        for name in NEEDLESS[package]:
            import_module(name)
    except Exception:  # torchvision beside another build of torch: "operator torchvision::nms does not exist"
        for name in set(sys.modules) - before:
            if name.split(".")[0] == package:
                del sys.modules[name]
        return False
    return True
