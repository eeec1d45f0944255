"""Interrupted evaluations of AutoAttack: they go on from ``state_path`` to the result they would have had."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from compat_models import EPS, N, Net, cheap, samples
from pwcf.compat import AutoAttack, EvaluationState
from pwcf.compat.state import EARLIER, MAGIC, Saver


def resumable(net: Callable[[Tensor], Tensor], seed: int | None = 0, **given: Any) -> AutoAttack:
    adversary = AutoAttack(net, **{"eps": EPS, "version": "custom", "verbose": False, "seed": seed, **given})
    adversary.attacks_to_run = ["apgd-ce", "square", "apgd-t"]
    return cheap(adversary)


@pytest.fixture(scope="module")
def uninterrupted() -> tuple[Tensor, Tensor, list[str], int]:
    net = Net()
    images, labels = samples(net)
    net.calls = 0
    adversary = resumable(net)
    x_adv, y_adv = adversary.run_standard_evaluation(images, labels, bs=4, return_labels=True)
    assert len(set(adversary.found_by)) >= 3
    return x_adv, y_adv, adversary.found_by, net.calls


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.9])
def test_an_interrupted_evaluation_ends_as_if_it_had_not_been(
    share: float, uninterrupted: tuple[Tensor, Tensor, list[str], int], tmp_path: Path
) -> None:
    x_expected, y_expected, found_by, calls = uninterrupted
    net = Net()
    images, labels = samples(net)
    net.calls, net.fail_at = 0, share * calls
    path = tmp_path / "state"
    with pytest.raises(ConnectionError):
        resumable(net).run_standard_evaluation(images, labels, bs=4, state_path=path)
    net.calls, net.fail_at = 0, math.inf
    adversary = resumable(net)
    x_adv, y_adv = adversary.run_standard_evaluation(images, labels, bs=4, return_labels=True, state_path=str(path))
    assert torch.equal(x_adv, x_expected)
    assert torch.equal(y_adv, y_expected)
    assert adversary.found_by == found_by
    if share >= 0.6:
        assert net.calls < (1.3 - 0.7 * share) * calls  # what was done is not done again
    net.calls = 0
    x_again = resumable(net).run_standard_evaluation(images, labels, bs=4, state_path=path)
    assert torch.equal(x_again, x_expected)
    assert net.calls <= 8  # the look at the clean images, batch by batch
    assert list(tmp_path.iterdir()) == [path]


def test_a_seed_that_was_drawn_is_drawn_once(
    tmp_path: Path, uninterrupted: tuple[Tensor, Tensor, list[str], int]
) -> None:
    net = Net()
    images, labels = samples(net)
    net.calls, net.fail_at = 0, 0.5 * uninterrupted[3]
    path = tmp_path / "state"
    with pytest.raises(ConnectionError):
        resumable(net, seed=None).run_standard_evaluation(images, labels, bs=4, state_path=path)
    seed = EvaluationState.from_disk(path).seed
    net.fail_at = math.inf
    x_adv = resumable(net, seed=None).run_standard_evaluation(images, labels, bs=4, state_path=path)
    assert torch.equal(x_adv, resumable(net, seed=seed).run_standard_evaluation(images, labels, bs=4))
    state = EvaluationState.from_disk(path)
    assert state.seed == seed
    assert state.run_attacks == {"apgd-ce", "square", "apgd-t"}
    assert state.clean_accuracy == pytest.approx(1 - 2 / N)
    assert state.robust_accuracy == pytest.approx(state.robust_flags.mean().item())
    drawn = [resumable(net, seed=None).run_standard_evaluation(images, labels) for _ in range(2)]
    assert not torch.equal(*drawn)


def test_batches_that_were_tried_are_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pwcf.compat.state.SAVING", math.inf)  # after every batch
    net = Net()
    images, labels = samples(net)
    path, adversary = tmp_path / "state", resumable(net)
    adversary.attacks_to_run = ["apgd-ce"]

    def fails(line: str) -> None:
        if line.startswith("apgd-ce - 2/3"):
            raise ConnectionError

    monkeypatch.setattr(adversary, "_log", fails)
    with pytest.raises(ConnectionError):
        adversary.run_standard_evaluation(images, labels, bs=4, state_path=path)
    assert EvaluationState.from_disk(path).tried.tolist() == [True] * 8 + [False] * (N - 8)
    monkeypatch.undo()
    adversary.run_standard_evaluation(images, labels, bs=4, state_path=path)
    assert [attempt.tried for attempt in adversary.last_runs] == [4]


@pytest.mark.parametrize("length", [5, len(MAGIC), -10])
def test_a_file_that_is_cut_off_is_begun_again(
    length: int, tmp_path: Path, uninterrupted: tuple[Tensor, Tensor, list[str], int]
) -> None:
    net = Net()
    images, labels = samples(net)
    path = tmp_path / "state"
    resumable(net).run_standard_evaluation(images, labels, bs=4, state_path=path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.warns(UserWarning, match="cut off or damaged; the evaluation begins again|no state of pwcf"):
        x_adv = resumable(net).run_standard_evaluation(images, labels, bs=4, state_path=path)
    assert torch.equal(x_adv, uninterrupted[0])
    assert EvaluationState.from_disk(path).done == ["apgd-ce", "square", "apgd-t"]


def test_somebody_elses_file_is_left_alone(tmp_path: Path) -> None:
    net = Net()
    images, labels = samples(net)
    path = tmp_path / "state.json"
    path.write_text('{"_robust_flags": [true], "_attacks_to_run": ["apgd-ce"]}')  # the original's
    with pytest.raises(ValueError, match="no state of pwcf's AutoAttack"):
        resumable(net).run_standard_evaluation(images, labels, state_path=path)
    assert path.read_text().startswith("{")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ("images", "the data was"),
        ("labels", "the data was"),
        ("model", "the model was"),
        ("eps", r"eps was 0\.06 there and is 0\.05 here"),
        ("norm", "norm was Linf there and is L2 here"),
        ("version", "version was custom there and is standard here"),
        ("seed", "seed was 0 there and is 1 here"),
        ("settings", "attacks_to_run was"),
    ],
)
def test_a_state_of_another_evaluation_is_refused(change: str, match: str, tmp_path: Path) -> None:
    net = Net()
    images, labels = samples(net, 4)
    path = tmp_path / "state"
    resumable(net).run_standard_evaluation(images, labels, state_path=path)
    before = path.read_bytes()
    given: dict[str, Any] = {"eps": {"eps": 0.05}, "norm": {"norm": "L2"}, "seed": {"seed": 1}}.get(change, {})
    other = resumable(net, **{"version": "standard" if change == "version" else "custom", **given})
    if change == "images":
        images = images.flip(0)
    if change == "labels":
        labels = labels.flip(0)
    if change == "model":
        with torch.no_grad():
            net.second[0] += 0.1
    if change == "settings":
        other.apgd_targeted.n_restarts = 2
    with pytest.raises(ValueError, match=match):
        other.run_standard_evaluation(images, labels, state_path=path)
    assert path.read_bytes() == before


class Warm(Net):
    """With an attribute that decides and is no tensor."""

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        self.temperature = temperature
        del self.calls, self.fail_at  # nothing that calls change

    def forward(self, x: Tensor) -> Tensor:
        return (8 * (x.flatten(1) - 0.5) @ self.first.T).tanh() @ self.second.T / self.temperature


class Warmer(Warm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1


def counting(by: int) -> Callable[[Tensor], Tensor]:
    """A function that counts its calls in a list."""
    net, calls = Warm(), list[int]()
    gain = (lambda x: x) if by == 1 else (lambda x: x - 1)

    def logits(x: Tensor) -> Tensor:
        calls.append(len(x))
        return gain(net(x))

    return logits


def hooked(by: int) -> nn.Module:
    """A module that counts its calls, with one hook or another."""
    net = Net()
    net.register_forward_hook((lambda module, args, out: out) if by == 1 else (lambda module, args, out: out - 1))
    return net


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (lambda: counting(1), lambda: counting(2)),
        (lambda: hooked(1), lambda: hooked(2)),
        (Warm, lambda: Warm(2.0)),
        (Warm, Warmer),
        (Net, Warm),  # a model that counts its calls is known by its class
        (lambda: Warm().forward, lambda: Warm(2.0).forward),
        (lambda: nn.Sequential(Warm(), nn.ReLU()), lambda: nn.Sequential(Warm(), nn.Tanh())),
    ],
)
def test_another_model_with_equal_tensors_is_refused(
    there: Callable[[], Any], here: Callable[[], Any], tmp_path: Path
) -> None:
    images, labels = samples(Net(), 4)
    path = tmp_path / "state"
    expected = resumable(there()).run_standard_evaluation(images, labels, state_path=path)
    with pytest.raises(ValueError, match="belongs to another evaluation: the model was"):
        resumable(here()).run_standard_evaluation(images, labels, state_path=path)
    assert torch.equal(resumable(there()).run_standard_evaluation(images, labels, state_path=path), expected)


def test_the_file_of_an_earlier_version_is_read_and_not_gone_on_with(tmp_path: Path) -> None:
    net = Net()
    images, labels = samples(net, 4)
    path = tmp_path / "state"
    x_adv = resumable(net).run_standard_evaluation(images, labels, state_path=path)
    state = EvaluationState.from_disk(path)
    assert state.attacks_to_run == {"apgd-ce", "square", "apgd-t"}
    assert state.path == path
    content = torch.load(io.BytesIO(path.read_bytes()[len(MAGIC) :]), weights_only=True)
    del content["attacks"]
    assert "path" not in content
    with path.open("wb") as file:
        file.write(EARLIER)
        torch.save(content, file)
    before = path.read_bytes()
    state = EvaluationState.from_disk(path)
    assert torch.equal(state.adversarial(images), x_adv)
    assert state.attacks_to_run == set()
    with pytest.raises(ValueError, match=r"begun by an earlier version of pwcf.*by its tensors alone"):
        resumable(net).run_standard_evaluation(images, labels, state_path=path)
    assert path.read_bytes() == before


def test_a_crash_while_saving_leaves_the_file_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = EvaluationState.begin({}, 0, torch.tensor([True, False]), torch.tensor([0, 1]))
    saver = Saver(tmp_path / "state")
    saver.save(state)

    def crash(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", crash)
    state.broke("square", torch.tensor([0]), torch.zeros(1, 3), torch.tensor([1]))
    with pytest.raises(OSError, match="disk full"):
        saver.save(state, surely=True)
    kept = EvaluationState.from_disk(tmp_path / "state")
    assert kept.robust.tolist() == [True, False]
    assert kept.found_by == ["", "clean"]


def test_saving_takes_little_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = EvaluationState.begin({}, 0, torch.tensor([True]), torch.tensor([0]))
    saver, clock, saved = Saver(tmp_path / "state"), [0.0], []
    monkeypatch.setattr("pwcf.compat.state.time.monotonic", lambda: clock[0])

    def slow(*_: Any) -> None:
        saved.append(clock[0])
        clock[0] += 1.0

    monkeypatch.setattr(torch, "save", slow)
    saver = Saver(tmp_path / "state")
    for _ in range(100):
        clock[0] += 1.0
        saver.save(state)
    assert 3 <= len(saved) <= 7
