"""The settings of a run. The command line, configuration files and their help are generated from these fields."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any

from pwcf._common.errors import UserError
from pwcf._common.text import brief, parse_fraction

QUESTIONS = ("min-radius", "max-loss")
STOPS = ("converged", "budget")
ENGINES = ("process", "ray")
ORDERS = ("stored", "balanced")
LOSSES = ("margin", "ce", "dlr", "pm")
PATHS = ("model", "data", "out", "weights", "labels", "classes")
# Fields that say where and how fast, not what: another value of theirs goes on with the same run.
WITHOUT_INFLUENCE = ("out", "engine", "address", "workers", "tracker", "accuracy_at")
# The numbers are those of the attacks, which need a network library.
BUDGET_HELP = (
    "most forward + backward passes a sample, all attacks together (default: 10000 for lmn in min-radius, which stops "
    "earlier where it has converged; 2000 for every other attack; presets have their own: pwcf attacks)"
)

# More than any count here: what is larger is a slip, and does not fit the integers of torch.
LARGEST = 2**53
# Characters of a text: systems take no longer paths, and nothing here has a longer name.
LONGEST = 4096


class RunError(UserError):
    """A run cannot be made or read, in one sentence: what happened and what to do. What was recorded is intact."""


def _said(default: Any, group: str, help: str, **more: Any) -> Any:
    """A field with its help. ``more``: for the command line alone."""
    metadata = {"group": group, "help": help, **more}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Settings:
    """What is asked of which model about which data, and how."""

    model: str = _said(MISSING, "what", "package.module:callable, file.py:callable, file.onnx, timm:NAME, ...")
    data: str = _said(MISSING, "what", "file.npz, file.safetensors, a folder of images, hf:NAME, torchvision:NAME")
    out: str = _said(MISSING, "what", "the run's folder; the same command again goes on with what is there")
    question: str = _said("min-radius", "question", "min-radius: the nearest misclassified point; max-loss: within eps")
    metric: str = _said("linf", "question", "linf, l2, l1, l1.5, lpips, ssim, ... (pwcf metrics), or file.py:function")
    eps: float | None = _said(
        None, "question", "asks max-loss within it: a number or a fraction, 8/255; several with commas: one min-radius "
        "run, which tells the robust accuracy within each"
    )  # fmt: skip
    accuracy_at: list[float] = _said([], "question", "several eps, told by a min-radius run", option=False)
    loss: str = _said("margin", "question", "of max-loss: margin, ce, dlr or pm")
    targeted: bool = _said(False, "question", "labels are the wanted classes")
    attacks: list[str] = _said(["lmn"], "question", "attacks, presets (pwcf attacks), file.py:name; the best counts")
    budget: int | None = _said(None, "question", BUDGET_HELP)
    restarts: int = _said(1, "question", "so many searches with other seeds, each with the budget; the best counts")
    stop: str = _said("converged", "question", "converged: a sample stops when its search has converged; budget: never")
    tol: float = _said(1e-2, "question", "a search has converged where it is likely to gain no more of the radius")
    eight_bit: bool = _said(False, "question", "answers on the grid of 8-bit images")
    seed: int = _said(0, "question", "of all randomness; a sample's answer does not depend on its company")
    limit: int | None = _said(None, "what", "only so many samples, in their order")
    order: str | None = _said(
        None, "what", "of samples. stored: as they lie; balanced: every class in turn, drawn by the seed. Default: "
        "stored, or with a limit balanced where the data lie class by class"
    )  # fmt: skip
    weights: str | None = _said(None, "model", "state dict of the model, .safetensors or .pt")
    bounds: list[float] = _said([0.0, 1.0], "model", "smallest and largest value of an input entry")
    mean: list[float] = _said([], "model", "the model is called with (x - mean) / std: one value, or one a channel")
    std: list[float] = _said([], "model", "see mean")
    labels: str | None = _said(None, "data", "CSV with columns file,label for a folder of images without class folders")
    classes: str | None = _said(
        None, "data", "class names of a folder of images in the order of the model's outputs: a,b,c, or a file with "
        "one a line; default: sorted by name"
    )  # fmt: skip
    resize: int | None = _said(None, "data", "shorter side of images, in pixels")
    crop: int | None = _said(None, "data", "side of the square cut out of their middle, after resizing")
    split: str = _said("test", "data", "of a data set by name")
    device: str = _said("cpu", "how", "cpu, cuda, cuda:1, mps; several with commas share the work")
    threads: int | None = _said(None, "how", "of torch in each worker; default: torch's own, with several workers 1")
    batch: int | None = _said(None, "how", "rows per call of the model; default by the size of an input")
    chunk: int = _said(32, "how", "samples that are worked on and recorded together: what a crash may cost")
    engine: str = _said("process", "how", "process: here; ray: on the machines of a Ray cluster")
    address: str | None = _said(None, "how", "of the Ray cluster; auto: the running one; default: one of this machine")
    workers: int | None = _said(None, "how", "of --engine ray; default: one for each core (with a GPU: each GPU)")
    tracker: str | None = _said(None, "how", "tensorboard: curves of the run in OUT/tensorboard")

    def __post_init__(self) -> None:
        self._one_of("question", QUESTIONS)
        self._one_of("loss", LOSSES)
        self._one_of("stop", STOPS)
        self._one_of("engine", ENGINES)
        self._one_of("order", (None, *ORDERS))
        self._one_of("tracker", (None, "tensorboard"))
        if (self.question == "max-loss") != (self.eps is not None):
            if self.eps is None:
                raise RunError(
                    "eps: expected a number or a fraction like 8/255, which max-loss asks within; found none"
                )
            raise RunError(f"eps: expected none, min-radius has no eps; found {brief(self.eps)}")
        for name in ("budget", "limit", "resize", "crop", "threads", "batch", "chunk", "workers", "restarts"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= LARGEST:
                most = "" if value < 1 else " (at most 2^53)"
                raise RunError(f"{name}: expected an integer > 0{most}, found {brief(value)}")
        for name in PATHS:
            if "\0" in (getattr(self, name) or ""):
                raise RunError(f"{name}: expected a path, found one with a NUL character: {brief(getattr(self, name))}")
        if not 0 < self.tol < math.inf:
            raise RunError(f"tol: expected a finite number > 0, found {brief(self.tol)}")
        if not -(2**63) <= self.seed < 2**63:
            raise RunError(f"seed: expected an integer of 64 bits, found {brief(self.seed)}")
        if self.threads is not None and self.threads > 4096:
            raise RunError(f"threads: expected at most 4096, found {self.threads}")
        if len(self.bounds) != 2 or not self.bounds[0] < self.bounds[1]:
            raise RunError(f"bounds: expected two numbers, the smaller first, found {brief(self.bounds)}")
        if bool(self.mean) != bool(self.std):
            raise RunError(f"mean, std: expected both or neither, found {'mean' if self.mean else 'std'} alone")
        if not self.attacks:
            raise RunError("attacks: expected at least one, found none")

    def _one_of(self, name: str, known: tuple[str | None, ...]) -> None:
        if getattr(self, name) not in known:
            names = ", ".join(filter(None, known))
            raise RunError(f"{name}: expected one of {names}; found {brief(getattr(self, name))}")

    @property
    def devices(self) -> list[str]:
        return [device.strip() for device in self.device.split(",") if device.strip()]

    def identity(self) -> dict[str, Any]:
        """What the answers depend on."""
        return {name: value for name, value in asdict(self).items() if name not in WITHOUT_INFLUENCE}


def settings_from(values: Mapping[str, Any]) -> Settings:
    """From names and values as a person writes them: of a file, or of a command line."""
    known = {each.name: each for each in fields(Settings)}
    read: dict[str, Any] = {}
    for name, value in _with_question({str(raw).replace("-", "_"): value for raw, value in values.items()}).items():
        if name not in known:
            raise RunError(f"{brief(name)}: expected one of {', '.join(known)}; there is no such field")
        read[name] = _as(name, str(known[name].type), value)
        if name in PATHS and isinstance(read[name], str):
            read[name] = os.path.expanduser(read[name])
    for name, each in known.items():
        if name not in read and each.default is MISSING and each.default_factory is MISSING:
            raise RunError(f"{name}: expected {each.metadata['help']}; found nothing (--{name}, or in the file)")
    settings = Settings(**read)
    for name in ("workers", "address"):  # not of old headers, which are read without this
        if getattr(settings, name) is not None and settings.engine != "ray":
            raise RunError(
                f"{name}: expected it beside engine ray, found engine {settings.engine!r}, which does not use it; add "
                "--engine ray (pip install 'pwcf[ray]'), or share the work among devices: --device cuda:0,cuda:1"
            )
    return settings


def _with_question(values: dict[str, Any]) -> dict[str, Any]:
    """The values with the question that an eps asks: one eps max-loss; several min-radius, which answers them all."""
    eps = values.get("eps")
    if eps is None:
        return values
    levels = [_stripped(part) for one in (eps if isinstance(eps, (list, tuple)) else [eps])
              for part in (one.split(",") if isinstance(one, str) else [one])]  # fmt: skip
    question = values.get("question") or ("max-loss" if len(levels) == 1 else "min-radius")
    if question == "min-radius":
        levels = sorted({_as("eps", "float", level) for level in levels})
        if levels[0] < 0:
            raise RunError(f"eps: expected numbers >= 0, found {brief(levels[0])}")
        return {**values, "question": question, "eps": None, "accuracy_at": levels}
    if len(levels) > 1:
        raise RunError(
            f"eps: expected one number for max-loss, found {brief(eps)}; leave out question: a min-radius run tells "
            "the robust accuracy within each of several"
        )
    return {**values, "question": question, "eps": levels[0]}


def _as(name: str, kind: str, value: Any) -> Any:
    """A value as its field's type; fractions are numbers."""
    if value is None and "None" in kind:
        return None
    if kind.startswith("list"):
        several = value if isinstance(value, (list, tuple)) else [value]
        items = [part for item in several for part in (item.split(",") if isinstance(item, str) else [item])]
        return [_as(name, kind.removeprefix("list[").removesuffix("]"), _stripped(item)) for item in items]
    plain = kind.removesuffix(" | None")
    if plain == "bool" and isinstance(value, bool):
        return value
    if plain == "str" and isinstance(value, str) and value:
        if len(value) > LONGEST:
            raise RunError(f"{name}: expected at most {LONGEST} characters, found {len(value)}: {brief(value)}")
        return value
    if plain == "int" and isinstance(value, int) and not isinstance(value, bool):
        return value
    if plain == "float" and not isinstance(value, bool) and isinstance(value, (int, float, str)):
        number = parse_fraction(value)
        if math.isfinite(number):
            return number
    raise RunError(f"{name}: expected {_WORDS[plain]}, found {brief(value)}")


_WORDS = {"bool": "true or false", "str": "a text", "int": "an integer", "float": "a number, or a fraction like 8/255"}


def _stripped(item: Any) -> Any:
    return item.strip() if isinstance(item, str) else item
