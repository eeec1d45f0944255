"""What is computed on the CPU and on the simulated device, one after the other: run as a program, prints JSON.

A process of its own, as torch cannot forget the device: ``{check: null or what is wrong}``.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

import pwcf
from pwcf.attacks import ATTACKS
from pwcf.attacks.external import available
from pwcf.attacks.registry import ADV_LIB
from pwcf.cli import main
from pwcf.metrics import perceptual
from pwcf.training import train
from runfolders import make_place
from simulated_device import NAME, set_up, simulation

Answers = dict[str, Tensor]
BUDGET, N = 100, 2


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(48, 4)).eval()


def _data(device: str) -> tuple[nn.Module, Tensor, Tensor]:
    net = _net()
    images = torch.rand(N, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        labels = net(images).argmax(1)
    return net.to(device), images.to(device), labels.to(device)


def _evaluated(device: str, problem: pwcf.MinRadius | pwcf.MaxLoss, budget: int = BUDGET, **more: object) -> Answers:
    net, images, labels = _data(device)
    run = pwcf.evaluate(net, images, labels, problem, budget=budget, **more)  # type: ignore[arg-type]
    assert run.x_adv.device == images.device
    return {"radius": run.radius, "x_adv": run.x_adv.cpu(), "gain": run.evidence.gain}


def _own(reference: Tensor, candidate: Tensor) -> Tensor:
    weights = torch.linspace(0.5, 1.5, 6, device=candidate.device)
    return (weights * (candidate - reference)).flatten(1).norm(dim=1)


def _pd(device: str) -> pwcf.metrics.Metric:
    torch.manual_seed(0)
    return perceptual(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Softplus(), nn.Flatten()).to(device))


def _question(attack: str, device: str, max_loss: bool) -> pwcf.MinRadius | pwcf.MaxLoss:
    perceptual_only = attack in ("lpa", "fast-lpa", "ppgd", "alma-lpips")
    metric = _pd(device) if perceptual_only else "l0" if attack == "sigma-zero" else "l2"
    return pwcf.MaxLoss(metric, 1.0) if max_loss else pwcf.MinRadius(metric)


def _attack(name: str, max_loss: bool) -> Callable[[str], Answers]:
    return lambda device: _evaluated(device, _question(name, device, max_loss), attacks=name)


def _minimized(device: str) -> Answers:
    x0 = torch.linspace(-1, 1, 12).view(4, 3).to(device)
    found = pwcf.minimize(lambda x: (x - 0.3).abs().sum(1), x0, constraints=[pwcf.ineq(lambda x: x[:, :1] - 0.1)],
                          bounds=(-1, 1))  # fmt: skip
    assert found.x.device == x0.device
    return {"x": found.x.cpu(), "objective": found.objective.cpu()}


def _trained(device: str) -> Answers:
    net, images, labels = _data(device)
    train(net, images, labels, pwcf.MaxLoss("linf", 0.05), epochs=2, batch=2, inner_steps=2)
    return {name: value.detach().cpu() for name, value in net.state_dict().items()}


def _recorded(device: str) -> Answers:
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        place = make_place(Path(folder), 6)
        for _ in range(2):  # the second time it is resumed
            assert place.run("out", device=device, metric="l2", budget=80, chunk=3) == 0
        words = ["verify", str(place.path / "out"), "--model", f"{folder}/net.py:net", "--device", device]
        assert main(words) == 0
        run = pwcf.load_run(place.path / "out")
        return {"radius": run.radius, "x_adv": run.x_adv}


CHECKS: dict[str, Callable[[str], Answers]] = {
    **{f"{name}, min-radius": _attack(name, False) for name in ATTACKS},
    **{f"{name}, max-loss": _attack(name, True) for name in ATTACKS},
    **{
        f"{metric}, {question.__name__}": lambda device, metric=metric, question=question: _evaluated(
            device, question(metric) if question is pwcf.MinRadius else question(metric, 0.5)
        )
        for metric in ("l1", "linf", "l1.5")
        for question in (pwcf.MinRadius, pwcf.MaxLoss)
    },
    "a metric of one's own": lambda device: _evaluated(device, pwcf.MinRadius(_own)),
    "a metric of one's own, max-loss": lambda device: _evaluated(device, pwcf.MaxLoss(_own, 0.5)),
    "a perceptual metric": lambda device: _evaluated(device, pwcf.MinRadius(_pd(device))),
    "targeted, 8-bit, with a mask": lambda device: _evaluated(
        device, pwcf.MinRadius("l2"), eight_bit=True, mask=torch.arange(6) > 0
    ),
    "until converged": lambda device: _evaluated(device, pwcf.MinRadius("l2"), 300, stop="converged"),
    "several attacks": lambda device: _evaluated(device, pwcf.MinRadius("l2"), 240, attacks=["lmn", "fab", "square"]),
    "minimize": _minimized,
    "training": _trained,
    "a run folder": _recorded,
}


def _difference(name: str) -> str | None:
    """What is wrong on the device, if anything is."""
    check = CHECKS[name]
    try:
        here = check("cpu")
    except (ValueError, ImportError) as error:
        return f"skipped: {error}"
    try:
        there = check(NAME)
    except Exception as error:
        steps = traceback.extract_tb(error.__traceback__)[-4:]
        where = " > ".join(f"{each.filename.rpartition('pwcf/')[2]}:{each.lineno}" for each in steps)
        return f"{type(error).__name__}: {str(error)[:300]} ({where})"
    if name.partition(",")[0] in ADV_LIB:  # another's code, which need not compute the same everywhere
        same = torch.isfinite(here["radius"]) == torch.isfinite(there["radius"])
        return None if bool(same.all()) else f"radius: {here['radius']} on the CPU, {there['radius']} on the device"
    for what, value in here.items():
        other = there[what].to(value)
        if not torch.allclose(value, other, rtol=1e-3, atol=1e-4, equal_nan=True):
            return f"{what}: {value.flatten()[:6].tolist()} on the CPU, {other.flatten()[:6].tolist()} on the device"
    return None


def _all(names: list[str]) -> Iterator[tuple[str, str | None, float]]:
    for name in names:
        began = time.perf_counter()
        yield name, _difference(name), time.perf_counter() - began


if __name__ == "__main__":
    torch.set_num_threads(1)
    set_up()
    warnings.simplefilter("ignore")
    absent = () if available() else ADV_LIB
    asked = sys.argv[1:] or [name for name in CHECKS if name.partition(",")[0] not in absent]
    with simulation():
        found = {}
        for name, what, seconds in _all(asked):
            found[name] = what
            print(f"{seconds:5.1f} s {name}: {what}", file=sys.stderr, flush=True)
    print(json.dumps(found))
