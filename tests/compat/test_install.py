"""Ours in the place of the package that RobustBench imports AutoAttack from."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from compat_models import EPS, Net, cheap, checked, samples
from pwcf.compat import AutoAttack, EvaluationState, install_as_autoattack

# The pattern of robustbench/eval.py.
EVAL = """
from autoattack import AutoAttack
from autoattack.state import EvaluationState

def benchmark(model, x, y, eps, settings, batch_size=8, aa_state_path=None):
    adversary = AutoAttack(model, norm='Linf', eps=eps, version='standard', device=torch.device('cpu'), log_path=None)
    settings(adversary)
    x_adv = adversary.run_standard_evaluation(x, y, bs=batch_size, state_path=aa_state_path)
    state = EvaluationState.from_disk(aa_state_path)
    assert set(state.attacks_to_run) >= state.run_attacks
    assert state.path == aa_state_path
    return state.robust_flags.mean().item(), x_adv
"""


def shims() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "autoattack"]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = {name: sys.modules[name] for name in shims()}
    yield
    for name in shims():
        del sys.modules[name]
    sys.modules.update(before)


def test_the_benchmark_of_robustbench_has_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "benchmark_here.py").write_text("import torch\n" + EVAL)
    monkeypatch.syspath_prepend(tmp_path)
    net = Net()
    images, labels = samples(net)
    with install_as_autoattack():
        module = importlib.import_module("benchmark_here")
    del sys.modules["benchmark_here"]
    assert module.AutoAttack is AutoAttack
    robust, x_adv = module.benchmark(net, images, labels, EPS, cheap, aa_state_path=tmp_path / "state")
    assert robust == pytest.approx(checked(net, images, labels, x_adv))
    assert 0 < robust < 1


def test_what_was_there_comes_back() -> None:
    original = ModuleType("autoattack")
    part = ModuleType("autoattack.state")
    sys.modules.update({"autoattack": original, "autoattack.state": part})
    installed = install_as_autoattack()
    assert importlib.import_module("autoattack").AutoAttack is AutoAttack
    assert importlib.import_module("autoattack.state").EvaluationState is EvaluationState
    assert importlib.import_module("autoattack.autoattack").AutoAttack is AutoAttack
    with install_as_autoattack():  # twice does no harm
        assert importlib.import_module("autoattack").AutoAttack is AutoAttack
    installed.undo()
    assert sys.modules["autoattack"] is original
    assert sys.modules["autoattack.state"] is part
    assert "autoattack.autoattack" not in sys.modules
    installed.undo()
    assert sys.modules["autoattack"] is original


def test_nothing_is_left_where_nothing_was() -> None:
    for name in shims():
        del sys.modules[name]
    with pytest.raises(RuntimeError), install_as_autoattack():
        raise RuntimeError
    assert shims() == []


def test_who_has_the_original_already_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    original, late = ModuleType("autoattack"), ModuleType("late_here")
    original.AutoAttack = late.AutoAttack = type("AutoAttack", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "autoattack", original)
    monkeypatch.setitem(sys.modules, "late_here", late)
    with pytest.warns(UserWarning, match="late_here: imported AutoAttack before install_as_autoattack"):
        installed = install_as_autoattack()
    installed.undo()


def test_what_the_shim_has_not_is_an_import_error() -> None:
    with install_as_autoattack(), pytest.raises(ModuleNotFoundError, match=r"autoattack\.other_utils"):
        importlib.import_module("autoattack.other_utils")
