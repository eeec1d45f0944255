"""A classifier as the rest of the package sees it: logits of inputs within bounds, passes counted."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

_MEMORY_RAN_OUT = ("out of memory", "can't allocate memory", "not enough memory", "failed to allocate")
REDUCED = (torch.bfloat16, torch.float16)
Logits = Callable[[Tensor], Tensor]


class Classifier:
    """Any callable that maps inputs (b, ...) to logits (b, classes), or to one logit whose sign decides.

    Args:
        model: the callable. A module is put in eval mode while it is used and given back as it was.
        bounds: smallest and largest value of an input entry. Adversarial points never leave them.
        mean, std: if given, the model is called with (x - mean) / std; numbers, or one value per channel.
        samples: of a random model, so many calls are averaged: the classifier is the one with the mean logits, and its
            gradients are means, too (EOT: expectation over transformation). Each call counts as a pass.
    """

    def __init__(
        self,
        model: Logits,
        bounds: tuple[float, float] = (0.0, 1.0),
        mean: float | Tensor | list[float] | None = None,
        std: float | Tensor | list[float] | None = None,
        samples: int = 1,
    ) -> None:
        if not callable(model):
            raise TypeError(f"model: expected a callable that returns logits, found {type(model).__name__}")
        if isinstance(model, type):
            name = model.__name__
            raise TypeError(f"model: expected a callable that returns logits, found the class {name}; give {name}()")
        lower, upper = _checked_bounds(bounds)
        if (mean is None) != (std is None):
            given = "mean" if std is None else "std"
            raise ValueError(f"mean, std: expected both or neither, found {given} alone")
        self.model, self.bounds = model, (lower, upper)
        self._mean, self._std = mean, std
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise ValueError(f"samples: expected an integer >= 1, found {samples!r}")
        self.samples = samples
        if std is not None and not bool((torch.as_tensor(std) > 0).all()):
            raise ValueError(f"std: expected positive values, found {std!r}")

    def __call__(self, x: Tensor) -> Tensor:
        """Logits (b, classes >= 2) of x (b, ...); the mean of ``samples`` calls."""
        logits = self._once(x)
        for _ in range(self.samples - 1):
            logits = logits + self._once(x)
        return logits if self.samples == 1 else logits / self.samples

    def _once(self, x: Tensor) -> Tensor:
        logits = self.model(self._as_computed(self._normalised(x)))
        if not isinstance(logits, Tensor) or not logits.is_floating_point():
            found = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
            raise TypeError(
                f"model: expected a floating-point tensor of logits, found {found}; wrap it in a function that returns "
                "the logits alone"
            )
        # Half precision is exact in the images' own: the answer is the model's, and what follows is not rounded again.
        logits = logits.to(x.dtype) if logits.dtype in REDUCED else logits
        if logits.dim() == 1:
            logits = logits.unsqueeze(1)
        if logits.dim() != 2 or logits.shape[0] != x.shape[0]:
            raise ValueError(
                f"model: expected logits of shape ({x.shape[0]}, classes) for {x.shape[0]} inputs, "
                f"found {tuple(logits.shape)}"
            )
        # One logit: class 1 where it is positive. Beside a constant 0 it is a classifier like any other.
        return torch.cat([torch.zeros_like(logits), logits], 1) if logits.shape[1] == 1 else logits

    def state(self) -> dict[str, Tensor]:
        """Whatever its logits are made of, as far as it can be seen: weights and buffers, bounds, normalisation."""
        owner = getattr(self.model, "__self__", self.model)
        held = owner.state_dict() if isinstance(owner, nn.Module) else {}
        own = {"bounds": self.bounds, "mean": self._mean, "std": self._std}
        if self.samples > 1:  # else a model is what it was before there were any
            own["samples"] = self.samples
        return {
            **{name: value for name, value in held.items() if isinstance(value, Tensor)},
            **{f"classifier.{name}": torch.as_tensor(value) for name, value in own.items() if value is not None},
        }

    def to(self, device: str | torch.device) -> Classifier:
        """The same, its module moved there; other callables go where their inputs are."""
        if isinstance(self.model, nn.Module):
            self.model.to(device)
        return self

    @property
    def normalisation(self) -> tuple[float | Tensor | list[float] | None, float | Tensor | list[float] | None]:
        """(mean, std), None where the model takes inputs as they are."""
        return self._mean, self._std

    @contextmanager
    def in_use(self) -> Iterator[Classifier]:
        """Modules in eval mode, parameters without gradients; afterwards everything is as it was.

        Threads may share a model: it is given back when the last of them has done.
        """
        model = self.model if isinstance(self.model, nn.Module) else nn.Module()
        with ExitStack() as held:
            held.enter_context(_set_false(list(model.modules()), "training"))
            held.enter_context(_set_false(list(model.parameters()), "requires_grad"))
            yield self

    def _as_computed(self, x: Tensor) -> Tensor:
        """Inputs for a module of half precision in its own arithmetic; searches keep theirs."""
        parameters = self.model.parameters() if isinstance(self.model, nn.Module) else iter(())
        first = next((each.dtype for each in parameters if each.is_floating_point()), x.dtype)
        return x.to(first) if first in REDUCED else x

    def _normalised(self, x: Tensor) -> Tensor:
        if self._mean is None or self._std is None:
            return x
        return (x - self._per_channel(self._mean, x, "mean")) / self._per_channel(self._std, x, "std")

    @staticmethod
    def _per_channel(value: float | Tensor | list[float], x: Tensor, name: str) -> Tensor:
        tensor = torch.as_tensor(value, dtype=x.dtype, device=x.device)
        if tensor.dim() == 1 and tensor.numel() > 1:
            if x.dim() < 2 or x.shape[1] != tensor.numel():
                raise ValueError(
                    f"{name}: expected a number or one value per channel, found {tensor.numel()} values for inputs "
                    f"of shape {tuple(x.shape)}"
                )
            tensor = tensor.view(1, -1, *(1 for _ in x.shape[2:]))
        return tensor


@dataclass
class Passes:
    """How often the model was called, and differentiated, for each sample. Counted where it is called."""

    forward: Tensor
    """(n,) int64"""
    backward: Tensor
    """(n,) int64"""

    @classmethod
    def none(cls, n: int) -> Passes:
        return cls(torch.zeros(n, dtype=torch.int64), torch.zeros(n, dtype=torch.int64))

    @property
    def total(self) -> Tensor:
        """What a budget counts: forward plus backward."""
        return self.forward + self.backward

    def select(self, rows: Tensor) -> Passes:
        """Those of some samples (m,)."""
        return Passes(self.forward[rows], self.backward[rows])

    def times(self, each: int) -> Passes:
        """The same, where what was counted were calls of so many passes each."""
        return Passes(self.forward * each, self.backward * each)

    def add(self, samples: Tensor, forward: int = 0, backward: int = 0) -> None:
        """Count one batch; a sample that fills several rows counts once for each."""
        samples = samples.cpu()
        self.forward.index_add_(0, samples, torch.full_like(samples, forward))
        self.backward.index_add_(0, samples, torch.full_like(samples, backward))


class CountedClassifier:
    """A classifier whose calls are counted for the samples they serve, in batches that fit the memory.

    Args:
        classifier: what is called.
        samples: how many samples there are to count for.
        batch: rows per call. A call that runs out of memory is repeated with half as many, and so are all that follow.
    """

    def __init__(self, classifier: Classifier, samples: int, batch: int = 256) -> None:
        self.classifier, self.passes, self.batch = classifier, Passes.none(samples), batch
        self.metric_passes = Passes.none(samples)
        """of the network that measures distances, where there is one; no part of a budget"""
        self.converged = torch.zeros(samples, dtype=torch.bool)
        """(n,) searches that an attack calls converged while it goes on with others: for progress alone"""

    @property
    def bounds(self) -> tuple[float, float]:
        return self.classifier.bounds

    def logits(self, x: Tensor, samples: Tensor, alone: bool = False) -> Tensor:
        """Logits without gradients: one forward pass per row.

        Args:
            x: (b, ...)
            samples: (b,) the numbers of the samples that the rows belong to.
            alone: every row in a call of its own, as somebody who checks one sample would make it.

        Returns:
            (b, classes)
        """

        def call(rows: slice) -> tuple[Tensor]:
            with torch.no_grad():
                return (self.classifier(x[rows]),)

        self.passes.add(samples, forward=1)
        return self.in_batches(call, x.shape[0], alone)[0]

    def value_and_gradient(
        self, x: Tensor, samples: Tensor, function: Callable[[Tensor, slice], Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, a function of them and its gradient in x: one forward and one backward pass per row.

        Args:
            x: (b, ...)
            samples: (b,) the numbers of the samples that the rows belong to.
            function: (logits, rows) -> (b',), called for some rows at a time; ``rows`` is the slice of x they are.

        Returns:
            Logits (b, classes), values (b,) and gradients (b, ...), 0 where the logits do not depend on x.
        """

        def call(rows: slice) -> tuple[Tensor, Tensor, Tensor]:
            with torch.enable_grad():
                leaf = x[rows].detach().requires_grad_(True)
                logits = self.classifier(leaf)
                value = function(logits, rows)
                gradient = None
                if value.requires_grad:
                    (gradient,) = torch.autograd.grad(value.sum(), leaf, allow_unused=True)
            gradient = torch.zeros_like(leaf) if gradient is None else gradient
            return logits.detach(), value.detach().to(x.dtype), gradient

        self.passes.add(samples, forward=1, backward=1)
        logits, value, gradient = self.in_batches(call, x.shape[0])
        return logits, value, gradient.detach()

    def differentiable(self, x: Tensor, samples: Tensor) -> Tensor:
        """(b, classes) with the graph of x, in one call. A backward pass is counted when it happens."""
        logits = self.classifier(x)
        self.passes.add(samples, forward=1)
        if logits.requires_grad:
            logits.register_hook(lambda _: self.passes.add(samples, backward=1))  # type: ignore[no-untyped-call]
        return logits

    def in_batches(self, call: Callable[[slice], tuple[Tensor, ...]], rows: int, alone: bool = False) -> list[Tensor]:
        """What ``call`` returns for some rows at a time, joined; with half as many from where memory runs out on."""
        parts: list[tuple[Tensor, ...]] = []
        start = 0
        while start < max(rows, 1):  # no rows are one empty batch: its shape is still known
            some = slice(start, start + (1 if alone else self.batch))
            try:
                parts.append(call(some))
            except RuntimeError as error:
                if self.batch == 1 or not out_of_memory(error):
                    raise
                self.batch //= 2
            else:
                start = some.stop
        return [torch.cat(part) if len(parts) > 1 else part[0] for part in zip(*parts, strict=True)]


# Of every object that is held false, by its id: by how many, and what it was before the first of them.
_held: dict[tuple[int, str], tuple[int, bool]] = {}
_holding = threading.Lock()


@contextmanager
def _set_false(objects: Sequence[object], attribute: str) -> Iterator[None]:
    """An attribute of some objects is False; what it was comes back when nobody holds it any longer."""
    keys = [(id(each), attribute) for each in objects]
    with _holding:
        for key, each in zip(keys, objects, strict=True):
            count, before = _held.get(key, (0, getattr(each, attribute)))
            _held[key] = count + 1, before
            setattr(each, attribute, False)
    try:
        yield
    finally:
        with _holding:
            for key, each in zip(keys, objects, strict=True):
                count, before = _held.pop(key)
                if count > 1:
                    _held[key] = count - 1, before
                else:
                    setattr(each, attribute, before)


def out_of_memory(error: Exception) -> bool:
    """CUDA has a class for it; on the CPU and elsewhere only the message tells."""
    said = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError) or any(words in said for words in _MEMORY_RAN_OUT)


def _checked_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    try:
        if isinstance(bounds, str):  # two digits would do
            raise TypeError
        lower, upper = (float(side) for side in bounds)
    except (TypeError, ValueError):
        raise TypeError(f"bounds: expected two numbers (lowest, highest), found {bounds!r}") from None
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise ValueError(f"bounds: expected finite numbers, lowest < highest, found {bounds!r}")
    return lower, upper
