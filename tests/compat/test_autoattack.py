"""Scripts written for AutoAttack and RobustBench, run here with one import changed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from compat_models import CLASSES, EPS, SHAPE, N, Net, cheap, checked, samples, script
from pwcf import Classifier
from pwcf.compat import AutoAttack, EvaluationState
from pwcf.compat.autoattack_settings import NAMES, configure
from pwcf.compat.sequential import Batches, averaged

# The pattern of auto-attack's examples/eval.py.
EVAL_SCRIPT = """
from autoattack import AutoAttack
adversary = AutoAttack(model, norm=args.norm, eps=args.epsilon, log_path=args.log_path, version=args.version)

if args.version == 'custom':
    adversary.attacks_to_run = ['apgd-ce', 'fab']
    adversary.apgd.n_restarts = 2
    adversary.fab.n_restarts = 2
adversary.apgd.n_iter = adversary.apgd_targeted.n_iter = adversary.fab.n_iter = 4
adversary.square.n_queries = 20

with torch.no_grad():
    if not args.individual:
        adv_complete = adversary.run_standard_evaluation(x_test[:args.n_ex], y_test[:args.n_ex],
            bs=args.batch_size)
        torch.save({'adv_complete': adv_complete}, '{}/{}_{}_1_{}_eps_{:.5f}.pth'.format(
            args.save_dir, 'aa', args.version, adv_complete.shape[0], args.epsilon))
    else:
        adv_complete = adversary.run_standard_evaluation_individual(x_test[:args.n_ex],
            y_test[:args.n_ex], bs=args.batch_size)
        torch.save(adv_complete, '{}/{}_{}_individual_1_{}_eps_{:.5f}.pth'.format(
            args.save_dir, 'aa', args.version, args.n_ex, args.epsilon))
"""

# The pattern of RobustBench's benchmark(); the second half is what it does with aa_state_path.
ROBUSTBENCH_SCRIPT = """
from autoattack import AutoAttack
from autoattack.state import EvaluationState

def clean_accuracy(model, x, y, batch_size=100, device=None):
    acc = 0.
    for begin in range(0, x.shape[0], batch_size):
        with torch.no_grad():
            output = model(x[begin:begin + batch_size].to(device))
        acc += (output.max(1)[1] == y[begin:begin + batch_size].to(device)).float().sum()
    return acc.item() / x.shape[0]

adversary = AutoAttack(model, norm='Linf', eps=eps, version='standard', device=device, log_path=None)
adversary.apgd.n_iter = adversary.apgd_targeted.n_iter = adversary.fab.n_iter = 4
adversary.square.n_queries = 20
x_adv = adversary.run_standard_evaluation(clean_x_test, clean_y_test, bs=batch_size, state_path=aa_state_path)
if aa_state_path is None:
    adv_accuracy = clean_accuracy(model, x_adv, clean_y_test, batch_size=batch_size, device=device)
else:
    aa_state = EvaluationState.from_disk(aa_state_path)
    assert aa_state.robust_flags is not None
    adv_accuracy = aa_state.robust_flags.mean().item()
"""


class Args:
    def __init__(self, folder: Path, **given: Any) -> None:
        self.norm, self.epsilon, self.version, self.individual, self.batch_size = "Linf", EPS, "standard", False, 5
        self.log_path, self.save_dir, self.n_ex = str(folder / "log.txt"), str(folder), N
        vars(self).update(given)


@pytest.mark.parametrize(("norm", "eps"), [("Linf", EPS), ("L2", 0.15), ("L1", 0.4)])
def test_the_script_of_auto_attack_runs(
    norm: str, eps: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = Net()
    images, labels = samples(net)
    script(EVAL_SCRIPT, model=net, x_test=images, y_test=labels, args=Args(tmp_path, norm=norm, epsilon=eps))
    saved = torch.load(tmp_path / f"aa_standard_1_{N}_eps_{eps:.5f}.pth", weights_only=True)["adv_complete"]
    robust = checked(net, images, labels, saved, norm, eps)
    assert 0 < robust < 1 - 2 / N  # some are broken, some are not
    out = capsys.readouterr().out
    assert (tmp_path / "log.txt").read_text() == out
    lines = [
        "setting parameters for standard version",
        "using standard version including apgd-ce, apgd-t, fab-t, square.",
        f"initial accuracy: {1 - 2 / N:.2%}",
        r"apgd-ce - 1/3 - \d out of 5 successfully perturbed",
        r"robust accuracy after APGD-CE: \d+\.\d\d% \(total time \d+\.\d s\)",
        r"robust accuracy after SQUARE: " + f"{robust:.2%}" + r" \(total time \d+\.\d s\)",
        rf"max {norm} perturbation: {eps:.4f}\d, nan in tensor: 0, max: [01]\.\d{{5}}, min: 0\.\d{{5}}",
        f"robust accuracy: {robust:.2%}",
    ]
    at = 0
    for line in lines:
        found = re.compile(f"^{line}$", re.MULTILINE).search(out, at)
        assert found, f"{line!r} is not in the rest of\n{out}"
        at = found.end()
    assert out[at:] == "\n"


def test_the_custom_script_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Net()
    images, labels = samples(net)
    names = script(EVAL_SCRIPT, model=net, x_test=images, y_test=labels, args=Args(tmp_path, version="custom"))
    assert "including apgd-ce, fab." in capsys.readouterr().out
    assert checked(net, images, labels, names["adv_complete"]) < 1 - 2 / N
    assert {a.attack for a in names["adversary"].last_runs} == {"apgd-ce", "fab"}


def test_the_individual_script_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Net()
    images, labels = samples(net)
    args = Args(tmp_path, individual=True)
    adv = script(EVAL_SCRIPT, model=net, x_test=images, y_test=labels, args=args)["adv_complete"]
    assert list(adv) == ["apgd-ce", "apgd-t", "fab-t", "square"]
    out = capsys.readouterr().out
    for name, x_adv in adv.items():
        robust = checked(net, images, labels, x_adv)
        assert re.search(rf"robust accuracy by {name.upper()} \t {robust:.2%} \t \(time attack: \d+\.\d s\)", out)
    assert "successfully perturbed" not in out


@pytest.mark.parametrize("state", [False, True])
def test_the_script_of_robustbench_runs(state: bool, tmp_path: Path) -> None:
    net = Net()
    images, labels = samples(net)
    names = script(
        ROBUSTBENCH_SCRIPT, model=net, eps=EPS, device=torch.device("cpu"), clean_x_test=images, clean_y_test=labels,
        batch_size=6, aa_state_path=tmp_path / "state" if state else None,
    )  # fmt: skip
    assert names["adv_accuracy"] == pytest.approx(checked(net, images, labels, names["x_adv"]))


def test_labels_are_what_the_model_says_and_every_break_has_its_verified_run() -> None:
    net = Net()
    images, labels = samples(net)
    adversary = cheap(AutoAttack(net, eps=EPS, verbose=False, seed=0))
    x_adv, y_adv = adversary.run_standard_evaluation(images, labels.int(), batch_size=4, return_labels=True)
    assert y_adv.dtype == torch.int32
    assert torch.equal(y_adv, net(x_adv).argmax(1).int())
    broken = sorted(int(i) for a in adversary.last_runs for i in a.samples)
    assert broken == [i for i in range(N - 2) if y_adv[i] != labels[i]]
    for attempt in adversary.last_runs:
        assert attempt.run.adversarial.all()
        assert (
            len(attempt.run.status) == len(attempt.run.attack) == len(attempt.run.passes.total) == len(attempt.samples)
        )
        assert len(attempt.run.evidence.violation) == len(attempt.samples)
        assert len(attempt.run.contributions[0].radius) == len(attempt.samples)
        assert torch.equal(attempt.run.x_adv, x_adv[attempt.samples])
        assert [adversary.found_by[i] for i in attempt.samples] == [attempt.attack] * len(attempt.samples)
    assert adversary.found_by[-2:] == ["clean", "clean"]
    assert adversary.found_by.count("") == int((y_adv == labels).sum())
    assert adversary.clean_accuracy(x_adv, labels, bs=3) == (y_adv == labels).double().mean().item()


def test_our_attack_alone_is_not_weaker() -> None:
    net = Net()
    images, labels = samples(net)
    robust = []
    for version in ("standard", "lmn"):
        adversary = AutoAttack(net, eps=EPS, verbose=False, version=version, seed=0)
        adversary.square.n_queries, adversary.apgd_targeted.n_iter, adversary.fab.n_iter = 50, 10, 10
        robust.append(checked(net, images, labels, adversary.run_standard_evaluation(images, labels)))
    assert robust[1] <= robust[0]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_callers_mode_bs_and_kind_of_model_change_nothing(mode: Callable[[], Any]) -> None:
    net = Net()
    images, labels = samples(net)
    expected = cheap(AutoAttack(net, eps=EPS, verbose=False, seed=0)).run_standard_evaluation(images, labels, 3)
    with mode():
        found = cheap(AutoAttack(net.forward, eps=EPS, verbose=False, seed=0)).run_standard_evaluation(
            images + 0, labels
        )
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_few_classes_and_vectors_simply_work(classes: int) -> None:
    net = Net(classes)
    images, labels = samples(net)
    adversary = cheap(AutoAttack(net, eps=0.1, version="plus", verbose=False, seed=0))
    _, y_adv = adversary.run_standard_evaluation(images.flatten(1), labels, return_labels=True)
    assert 0 < (y_adv == labels).sum() < N - 2
    single = adversary.run_standard_evaluation(images[:1].flatten(1), labels[:1])
    assert single.shape == (1, 12)
    assert adversary.run_standard_evaluation(images[:0], labels[:0]).shape == (0, *SHAPE)


def test_a_classifier_brings_its_bounds() -> None:
    net = Net()
    images, labels = samples(net)
    wide = Classifier(lambda x: net(x / 255), bounds=(0, 255))
    adversary = cheap(AutoAttack(wide, eps=255 * EPS, verbose=False, seed=0))
    x_adv = adversary.run_standard_evaluation(255 * images, labels)
    assert x_adv.max() > 1
    assert "apgd-ce" in adversary.found_by
    with pytest.raises(ValueError, match="expected values within bounds"):
        cheap(AutoAttack(net, eps=EPS, verbose=False)).run_standard_evaluation(255 * images, labels)


def test_data_go_to_the_model_and_results_come_back() -> None:
    images, labels = samples(Net())
    rows = torch.arange(3)
    given = Batches.to_the_model(Net(), images, labels, 4, "meta")
    own = Batches.to_the_model(Net().to("meta").forward, images, labels, 4, None)
    none = Batches.to_the_model(lambda x: x, images, labels, 4, None)
    for batches, device in ((given, "meta"), (own, "meta"), (none, "cpu")):
        assert [t.device.type for t in batches.of(rows)] == [device, device]


def test_what_has_no_logits_is_not_robust() -> None:
    net = Net()
    images, labels = samples(net)
    images[0], labels[0] = 0.0, 0

    def partly(x: Tensor) -> Tensor:
        return torch.where((x.flatten(1) == 0).all(1, keepdim=True), torch.nan, net(x))

    adversary = cheap(AutoAttack(partly, eps=EPS, verbose=False, seed=0))
    assert torch.equal(adversary.run_standard_evaluation(images, labels)[0], images[0])
    assert adversary.found_by[0] == "clean"


def test_labels_that_rounding_decides_are_those_of_the_point_alone() -> None:
    def wavering(x: Tensor) -> Tensor:
        first = x[:, 0]
        return torch.stack([first, first + (1e-6 if len(x) == 1 else -1e-6), first - x[:, 1] - 5], 1)

    images, labels = torch.full((3, 2), 0.5, dtype=torch.float64), torch.zeros(3, dtype=torch.int64)
    adversary = cheap(AutoAttack(wavering, eps=EPS, verbose=False, seed=0))
    _, said = adversary.run_standard_evaluation(images, labels, return_labels=True)
    assert [by != "" for by in adversary.found_by] == [True] * 3
    assert said.tolist() == [1, 1, 1]


# --- versions and settings -------------------------------------------------------------------------------------------

TARGETED = {"apgd-t": (9, 1), "fab-t": (9, 1)}


@pytest.mark.parametrize(
    ("version", "norm", "expected"),
    [
        ("standard", "Linf", {"apgd-ce": (None, 1), "apgd-t": (9, 1), "fab-t": (9, 1), "square": 5000}),
        ("standard", "L1", {"apgd-ce": (None, 5), "apgd-t": (5, 1), "fab-t": (9, 1), "square": 5000}),
        ("plus", "L2", {"apgd-ce": (None, 5), "apgd-dlr": (None, 5), "fab": (None, 5), "square": 5000, **TARGETED}),
        ("rand", "Linf", {"apgd-ce": (None, 1), "apgd-dlr": (None, 1)}),
        ("lmn", "Linf", {"lmn": None}),
    ],
)
def test_versions_are_as_published(version: str, norm: str, expected: dict[str, Any]) -> None:
    adversary = AutoAttack(Net(), norm=norm, version=version, verbose=False)
    assert adversary.attacks_to_run == list(expected)
    for name, numbers in expected.items():
        plan = configure(name, adversary._suite, 10)
        attack: Any = plan.attack
        assert attack.name == name
        assert plan.eot == (20 if version == "rand" else 1)
        if name == "square":
            assert attack.queries == numbers
        elif name != "lmn":
            assert (attack.targets, attack.restarts, attack.steps) == (*numbers, 100)
        if name.startswith("apgd"):
            assert attack.loss == ("ce" if name == "apgd-ce" else "dlr")


def test_a_custom_version_begins_with_the_settings_of_the_constructor() -> None:
    adversary = AutoAttack(Net(), version="custom", attacks_to_run=["fab", "square"], verbose=False)
    assert adversary.attacks_to_run == ["fab", "square"]
    assert (adversary.apgd.n_restarts, adversary.fab.n_restarts, adversary.apgd_targeted.n_restarts) == (5, 5, 1)
    adversary.set_version("standard")
    assert adversary.attacks_to_run == ["apgd-ce", "apgd-t", "fab-t", "square"]
    assert adversary.apgd.n_restarts == 1


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("apgd-ce", 3 * 2 * 6),
        ("apgd-t", 2 * 4 * 2 * 6),
        ("fab", 3 * 6 * CLASSES),
        ("fab-t", 4 * 6 * 2),
        ("square", 2 * 250),
    ],
)
def test_settings_are_heeded_and_budgets_suffice_for_them(
    name: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pwcf.compat.autoattack_settings.OVERHEAD", 40
    )  # so that nothing else hides a budget that is too small
    net = Net()
    images, labels = samples(net)
    adversary = AutoAttack(net, eps=1e-4, version="custom", attacks_to_run=[name], verbose=False, seed=0)
    for settings in (adversary.apgd, adversary.apgd_targeted, adversary.fab):
        settings.n_iter, settings.n_restarts = 6, 3
    adversary.apgd_targeted.n_restarts, adversary.apgd_targeted.n_target_classes = 2, 9  # of which there are 4
    adversary.fab.n_target_classes = 4
    adversary.square.n_queries, adversary.square.n_restarts = 250, 2
    adversary.run_standard_evaluation(images[:3], labels[:3])
    passes = sum(attempt.passes for attempt in adversary.last_runs) / 3
    assert least <= passes <= 1.2 * least + 30


@pytest.mark.parametrize("attack", ["apgd", "apgd_targeted", "fab", "square", "lmn"])
def test_one_attack_perturbs_by_itself(attack: str) -> None:
    net = Net()
    images, labels = samples(net)
    adversary = cheap(AutoAttack(net, eps=EPS, verbose=False, version="custom", seed=0))
    settings = getattr(adversary, attack)
    x_adv = settings.perturb(images, labels)
    assert checked(net, images, labels, x_adv) < 1 - 2 / N
    adversary.attacks_to_run = [settings.attack]
    assert torch.equal(adversary.run_standard_evaluation(images, labels), x_adv)
    unlabelled = settings.perturb(images)  # as the model has them, which is right for all but the last two
    assert torch.equal(unlabelled[:-2], x_adv[:-2])


def test_what_perturbs_is_as_scripts_set_it() -> None:
    adversary = AutoAttack(Net(), verbose=False)
    assert (adversary.apgd.attack, adversary.fab.attack) == ("apgd-ce", "fab")
    adversary.apgd.loss, adversary.fab.targeted = "dlr", True
    assert (adversary.apgd.attack, adversary.fab.attack) == ("apgd-dlr", "fab-t")
    adversary.apgd.loss = "hinge"
    with pytest.raises(ValueError, match=r"apgd\.loss: expected 'ce' or 'dlr', found 'hinge'"):
        adversary.apgd.perturb(*samples(Net()))


def test_the_logger_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adversary = AutoAttack(Net(), verbose=False, log_path=tmp_path / "log")
    adversary.logger.log("from a script")
    assert capsys.readouterr().out == (tmp_path / "log").read_text() == "from a script\n"
    assert adversary.is_tf_model is False


@pytest.mark.filterwarnings("ignore:eps. for 1 of 1 samples the ball")
def test_what_was_seen_before_a_limit_is_returned_and_stays_robust(tmp_path: Path) -> None:
    net = Net()
    images, labels = samples(net, 3)
    images, labels = images[:1], labels[:1]
    asked, limit = 0, math.inf

    def limited(x: Tensor) -> Tensor:
        nonlocal asked
        asked += len(x)
        logits: Tensor = net(x)
        return logits if asked <= limit else 2.0 * nn.functional.one_hot(labels, CLASSES) + 0 * logits

    adversary = cheap(AutoAttack(limited, eps=1.0, verbose=False, version="lmn", seed=0))
    adversary.run_standard_evaluation(images, labels)
    assert adversary.found_by == ["lmn"]
    asked, limit = 0, asked - 1  # the verification, the last look, comes too late
    with pytest.warns(UserWarning, match="changed its answer on 1 of 1"):
        x_adv, said = adversary.run_standard_evaluation(
            images, labels, return_labels=True, state_path=tmp_path / "state"
        )
    assert adversary.found_by == [""]
    assert torch.equal(said, labels)
    assert int(net(x_adv).argmax(1)) != int(labels)
    state = EvaluationState.from_disk(tmp_path / "state")
    assert state.robust.tolist() == [True]
    assert torch.equal(state.adversarial(images), x_adv)


def test_settings_that_cannot_be_heeded_are_not_taken_in_silence() -> None:
    adversary = AutoAttack(Net(), verbose=False)
    adversary.apgd.verbose, adversary.fab.seed, adversary.apgd.loss = True, 1, "ce"  # idle in the original, too
    adversary.apgd.use_largereps = True
    assert adversary.apgd.rho == 0.75
    with pytest.warns(UserWarning, match=r"apgd\.rho: fixed at 0\.75"):
        adversary.apgd.rho = 0.5
    with pytest.raises(AttributeError, match="n_restarts"):
        adversary.apgd.restarts = 2
    with pytest.raises(AttributeError, match="AutoAttack object"):
        adversary.square.eps = 0.2
    with pytest.raises(AttributeError, match="n_queries"):
        adversary.square.n_iter  # noqa: B018
    adversary.apgd.n_iter = 2.5
    with pytest.raises(ValueError, match=r"apgd\.n_iter: expected an integer"):
        configure("apgd-ce", adversary._suite, 4)


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"is_tf_model": True}, NotImplementedError, "TensorFlow models are not supported"),
        ({"norm": "linf"}, ValueError, "norm: expected one of Linf"),
        ({"version": "fast"}, ValueError, "version: expected one of standard"),
        ({"attacks_to_run": ["apgd-ce"]}, ValueError, "version='custom'"),
    ],
)
def test_what_cannot_be_is_said_at_once(given: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        AutoAttack(Net(), **given)


def test_unknown_attacks_and_odd_data_cost_no_evaluation() -> None:
    net = Net()
    images, labels = samples(net)
    adversary = AutoAttack(net, version="custom", attacks_to_run=["apgd-ce", "apgd"], verbose=False)
    net.calls = 0
    with pytest.raises(ValueError, match=f"expected names out of {NAMES[0]}.*found 'apgd'"):
        adversary.run_standard_evaluation(images, labels)
    adversary.attacks_to_run = []
    with pytest.raises(ValueError, match="found none"):
        adversary.run_standard_evaluation(images, labels)
    adversary.attacks_to_run = ["apgd-ce"]
    with pytest.raises(ValueError, match="y_orig: expected one label for each of 14"):
        adversary.run_standard_evaluation(images, labels[1:])
    with pytest.raises(ValueError, match="bs: expected"):
        adversary.run_standard_evaluation(images, labels, bs=0)
    assert net.calls == 0
    with pytest.raises(ValueError, match="version: expected one of"):
        adversary.set_version("custom")


def test_nothing_is_printed_unless_verbose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Net()
    images, labels = samples(net)
    adversary = cheap(AutoAttack(net, eps=EPS, verbose=False, version="lmn", log_path=tmp_path / "log"))
    adversary.run_standard_evaluation(images[:2], labels[:2])
    adversary.run_standard_evaluation_individual(images[:2], labels[:2])
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "log").exists()


class Blind(nn.Module):
    """Its gradients point nowhere useful: only a black box gets anywhere."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net((8 * x).round() / 8 + 1e-9 * (x - x.detach()))


def test_a_black_box_that_beats_gradients_is_reported() -> None:
    net = Blind(Net())
    images, labels = samples(net)
    adversary = cheap(AutoAttack(net, eps=EPS, verbose=False, seed=0))
    adversary.attacks_to_run, adversary.square.n_queries = ["fab-t", "square"], 200
    with pytest.warns(UserWarning, match="Square, which sees no gradients, broke"):
        adversary.run_standard_evaluation(images, labels)


# --- random models ---------------------------------------------------------------------------------------------------


class Noisy(nn.Module):
    """Random in train mode only."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net, self.drop = net, nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(self.drop(x))


def test_an_average_has_the_mean_of_logits_and_gradients() -> None:
    scale = iter([1.0, 2.0, 6.0])
    mean = averaged(Classifier(lambda x: next(scale) * x), 3)
    x = torch.ones(2, 2, requires_grad=True)
    logits = mean(x)
    (gradient,) = torch.autograd.grad(logits.sum(), x)
    assert torch.equal(logits, torch.full((2, 2), 3.0))
    assert torch.equal(gradient, torch.full((2, 2), 3.0))


def test_random_models_are_averaged_and_stay_in_their_mode() -> None:
    net = Net()
    images, labels = samples(net)
    noisy = Noisy(net).train()
    adversary = cheap(AutoAttack(noisy, eps=0.15, version="rand", verbose=False, seed=0))
    adversary.attacks_to_run, adversary.apgd.n_iter = ["apgd-ce"], 2
    net.calls = 0
    adversary.run_standard_evaluation(images[:6], labels[:6], bs=6)  # warnings are errors: not one about randomness
    assert net.calls % 20 == 1  # one to see how many classes there are
    assert net.calls >= 20 * 3 * 2
    assert noisy.drop.training
    assert "apgd-ce" in adversary.found_by
    # The second looks once at a time, at the model as random as before: not put in eval mode.
    adversary.attacks_to_run, adversary.epsilon = ["apgd-ce", "square"], 1e-3
    with pytest.warns(UserWarning, match="it is random|Square") as caught:  # a lucky look may make Square the better
        adversary.run_standard_evaluation(images[:3], labels[:3])
    assert any("it is random" in str(each.message) for each in caught)
