"""A device that is none: an accelerator as the code sees it, on the CPU.

Tensors on ``sim`` wrap tensors of the CPU. As on a real accelerator, an operation on tensors of both is an error,
numbers come back by copies alone, and NumPy cannot read what lies there. torch's key for private use makes it a device
of its own for autograd and for ``tensor.device``. It is set up in a process for good: tests start one for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map

NAME = "sim"
aten = torch.ops.aten
# These take tensors of two devices: they copy between them.
COPIES = {aten._to_copy.default, aten.copy_.default}
# Indices may lie on the CPU: they are copied.
INDEXED = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default}
copies = Counter[str]()
"""how often tensors went to the device and back"""


def set_up() -> None:
    """Make the device known to torch; within ``simulation()`` tensors can be made there."""
    from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

    class Backend(_DummyBackendModule):
        """Without random numbers of its own: ours are drawn on the CPU."""

        def get_rng_state(self, device: Any = None) -> Tensor:
            return torch.zeros(0, dtype=torch.uint8)

        def set_rng_state(self, state: Tensor, device: Any = None) -> None:
            assert state.numel() == 0

    _setup_privateuseone_for_python_backend(NAME, Backend())
    # A module that is converted gets new parameters: torch would else exchange what it sees, and not what is held.
    torch.__future__.set_overwrite_module_params_on_conversion(True)


class OnDevice(torch.Tensor):
    """A tensor on the device."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> OnDevice:
        made = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            device=torch.device(NAME, 0),
        )  # fmt: skip
        made.held = held
        return made

    def __repr__(self, **_: Any) -> str:
        return f"OnDevice({self.held!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {})

    def tolist(self) -> Any:
        return self.cpu().tolist()

    # Copies of Python's, which torch makes through the storage; there is none here.
    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copied = self.detach().clone().requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, self.requires_grad)
        memo[id(self)] = copied
        return copied


class _Made(TorchFunctionMode):
    """What torch makes of lists and numbers it makes unseen by dispatch modes: on the CPU, then copied."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        if func in (torch.tensor, torch.as_tensor, torch.asarray) and device is not None:
            if torch.device(device).type == NAME and not isinstance(args[0], OnDevice):
                wanted = kwargs.pop("requires_grad", False)
                made = func(*args, **kwargs | {"device": "cpu"}).to(device)
                return made.requires_grad_(wanted) if wanted else made
        elif func is Tensor.new_tensor and isinstance(args[0], OnDevice):
            return torch.tensor(args[1], dtype=kwargs.get("dtype", args[0].dtype)).to(NAME)
        return func(*args, **kwargs)


@contextmanager
def simulation() -> Iterator[None]:
    """While it is active, tensors can be made on the device, and devices cannot be mixed."""
    with _Made(), _Dispatched():
        yield


class _Dispatched(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {})


def _compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, Tensor)]
    there = [each for each in tensors if isinstance(each, OnDevice)]
    device = kwargs.get("device")
    target = bool(there) if device is None else torch.device(device).type == NAME
    if not there and not target:
        return func(*args, **kwargs)
    if there and func not in COPIES:
        looked_at = tensors[:1] if func in INDEXED else tensors
        if func in INDEXED and len(args) > 2:
            looked_at = [args[0], args[2]]
        if any(not isinstance(each, OnDevice) and each.dim() > 0 for each in looked_at):
            raise RuntimeError(f"Expected all tensors to be on the same device, but found {NAME}:0 and cpu! ({func})")
    if func is aten.is_pinned.default:
        return False
    if func in COPIES:
        copies["there" if target and not there else "back" if there and not target else "within"] += 1
    inner_args, inner_kwargs = tree_map(lambda each: each.held if isinstance(each, OnDevice) else each, (args, kwargs))
    if "device" in inner_kwargs:
        inner_kwargs["device"] = torch.device("cpu")
    inner_kwargs.pop("pin_memory", None)
    if func in COPIES:
        inner_kwargs.pop("non_blocking", None) if func is aten._to_copy.default else None
    out = func(*inner_args, **inner_kwargs)
    if func is aten.copy_.default:
        return args[0]
    if not target:
        return out.clone() if isinstance(out, Tensor) and any(out is each.held for each in there) else out
    wrapped = tree_map(lambda each: OnDevice(each) if isinstance(each, Tensor) else each, out)
    if func is aten._to_copy.default or not there:
        return wrapped
    return return_and_correct_aliasing(func, args, kwargs, wrapped)
