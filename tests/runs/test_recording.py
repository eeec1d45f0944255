"""What a run records: the answers of evaluate(), with all that belongs to them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import pwcf
from pwcf.cli import main
from runfolders import SAID, Place, answers, run_module, told


def test_a_recorded_run_is_what_evaluate_returns(place: Place) -> None:
    assert place.run("out", metric="l2", budget=80) == 0
    run = pwcf.load_run(place.path / "out")
    data = np.load(place.path / "data.npz")
    images, labels = torch.from_numpy(data["images"]), torch.from_numpy(data["labels"])
    net = run_module(place).net()
    torch.set_num_threads(1)
    direct = pwcf.evaluate(net, images, labels, pwcf.MinRadius("l2"), budget=80)
    assert run.complete
    assert torch.equal(run.radius, direct.radius)
    assert torch.equal(run.x_adv, direct.x_adv)
    assert torch.equal(run.adversarial, direct.adversarial)
    assert run.status == direct.status
    assert run.attack == direct.attack
    assert torch.equal(run.passes.total, direct.passes.total)
    for name, values in vars(direct.evidence).items():
        assert torch.equal(getattr(run.evidence, name).nan_to_num(-1), values.nan_to_num(-1)), name
    assert run.problem == direct.problem
    assert [each.about for each in run.contributions] == [each.about for each in direct.contributions]
    assert run.summary().splitlines()[0] == direct.summary().splitlines()[0]
    assert list(direct.to_pandas()["radius"]) == list(run.to_pandas()["radius"])


def test_rows_tell_what_happened_to_each_sample(place: Place) -> None:
    assert place.run("out", "--attacks", "lmn", "--attacks", "fab", metric="linf", budget=300) == 0
    rows = pwcf.load_run(place.path / "out").to_pandas()
    data = np.load(place.path / "data.npz")
    assert rows["index"].tolist() == list(range(24))
    assert rows["label"].tolist() == data["labels"].tolist()
    wrong = rows["clean_label"] != rows["label"]
    assert wrong.tolist() == [i % 7 == 0 for i in range(24)]
    assert (rows["adversarial_label"] != rows["label"]).all()
    found = rows[~wrong]
    assert np.allclose(found["linf"], found["radius"], rtol=1e-6)
    assert np.allclose(found["sparsity"], found["l1"] / found["l2"])
    assert (found["loss"] > 0).all()
    assert (found["l0"] >= 1).all()
    assert set(found["attack"]) <= {"lmn", "fab"}
    assert (found[["radius:lmn", "radius:fab"]].min(axis=1) >= found["radius"] * (1 - 1e-9)).all()
    assert (rows["seconds"] > 0).all()


def test_members_of_a_preset_that_are_left_out_are_told(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("out", metric="l1.5", attacks="standard", budget=150, limit=10, chunk=4) == 0
    assert "square was left out" in capsys.readouterr().out
    data = np.load(place.path / "data.npz")
    images, labels = (torch.from_numpy(data[name][:10]) for name in ("images", "labels"))
    with pytest.warns(UserWarning, match="square was left out of 'standard'"):
        direct = pwcf.evaluate(
            run_module(place).net(), images, labels, pwcf.MinRadius("l1.5"), attacks="standard", budget=150
        )
    (sentence,) = [each for each in direct.warnings if "left out" in each]
    assert pwcf.load_run(place.path / "out").warnings.count(sentence) == 1
    assert main(["show", "--json", str(place.path / "out")]) == 0
    assert sentence in told(capsys.readouterr().out)["warnings"]


def test_one_call_finds_out_whether_model_and_data_fit(place: Place) -> None:
    from pwcf.runs import prepare, settings_from
    from pwcf.runs.resolve import Loader

    class Counting(Loader):
        calls = 0

        def model(self, settings):
            def count(*_: object) -> None:
                self.calls += 1

            loaded = super().model(settings)
            loaded.classifier.model.register_forward_hook(count)
            return loaded

    loader = Counting()
    asked = {"model": f"{place.path}/net.py:net", "data": f"{place.path}/data.npz", "out": f"{place.path}/out"}
    prepare(settings_from(asked), asked, loader)
    assert loader.calls == 1


def test_a_metric_of_the_models_own_features_is_that_of_evaluate_on_every_device(place: Place) -> None:
    said = {"metric": "pd-self", "budget": 60, "chunk": 5, "limit": 12}
    assert place.run("one", **said) == 0
    assert place.run("two", device="cpu,cpu", **said) == 0
    assert answers(place.path / "one") == answers(place.path / "two")
    # One chunk, as evaluate has it: matrix products of other sizes round otherwise, and a search magnifies that.
    assert place.run("whole", **said | {"chunk": 12}) == 0
    run = pwcf.load_run(place.path / "whole")
    data = np.load(place.path / "data.npz")
    images, labels = (torch.from_numpy(data[name][:12]) for name in ("images", "labels"))
    direct = pwcf.evaluate(run_module(place).net(), images, labels, pwcf.MinRadius("pd-self"), budget=60)
    assert run.radius.tolist() == pytest.approx(direct.radius.tolist(), rel=1e-5)


def test_the_header_tells_what_was_asked_of_what(place: Place) -> None:
    assert place.run("out", metric="l2", question="max-loss", eps="8/255", budget=80, limit=10) == 0
    header = json.loads((place.path / "out" / "header.json").read_text())
    assert header["schema"] == 3
    assert header["asked"]["eps"] == "8/255"
    assert header["settings"]["eps"] == pytest.approx(8 / 255)
    assert header["settings"]["loss"] == "margin"
    assert header["samples"] == 10
    assert header["shape"] == [1, 6, 6]
    assert len(header["model"]["fingerprint"]) == len(header["data"]["fingerprint"]) == 64
    assert (
        header["made"]["packages"]["torch"] == torch.__version__.partition("+")[0]
        or "torch" in header["made"]["packages"]
    )
    assert header["attacks"][0]["name"] == "lmn"
    result = json.loads((place.path / "out" / "result.json").read_text())
    assert result["done"] == 10
    assert result["seconds"] > 0


def test_restarts_are_other_searches_and_the_best_counts(place: Place) -> None:
    assert place.run("one", metric="l1", budget=80) == 0
    assert place.run("three", metric="l1", budget=80, restarts=3) == 0
    one, three = (pwcf.load_run(place.path / name) for name in ("one", "three"))
    assert [each.name for each in three.contributions] == ["lmn", "lmn#2", "lmn#3"]
    assert (three.radius <= one.radius * (1 + 1e-4)).all()
    assert int(three.passes.total.max()) <= 240
    assert int(three.passes.total.max()) > int(one.passes.total.max())


@pytest.mark.filterwarnings("ignore:No misclassified point")  # the spy finds none
def test_a_restart_has_a_seed_of_its_own() -> None:
    from pwcf.attacks import Answer, Function
    from pwcf.runs.resolve import Reseeded

    seeds = []

    class Spy(Function):
        def __call__(self, task):
            seeds.append(task.seed)
            return Answer(task.images)

    spy = Spy(lambda model, images, labels: images, name="spy")
    attacks = [spy, Reseeded(spy, 2), Reseeded(spy, 3)]
    images = torch.rand(2, 4)
    pwcf.evaluate(lambda x: x[:, :2], images, images[:, :2].argmax(1), pwcf.MinRadius("l2"), attacks=attacks, seed=40)
    assert seeds == [40, 41, 42]


def test_a_file_says_what_a_command_line_says(place: Place) -> None:
    words = {"metric": "l2", "question": "max-loss", "eps": "1/10", "budget": 80, "limit": 12}
    assert place.run("words", **words) == 0
    lines = [f"{name} = {json.dumps(value)}" for name, value in words.items()]
    lines += [f'model = "{place.path}/net.py:net"', f'data = "{place.path}/data.npz"', "threads = 1"]
    (place.path / "run.toml").write_text("\n".join(lines))
    (place.path / "run.yaml").write_text("\n".join(line.replace(" = ", ": ") for line in lines))
    for name in ("run.toml", "run.yaml"):
        out = str(place.path / name.replace(".", "-"))
        assert main(["run", str(place.path / name), "--out", out]) == 0
        assert answers(Path(out)) == answers(place.path / "words")
    # The command line wins.
    assert main(["run", str(place.path / "run.toml"), "--out", str(place.path / "o3"), "--limit", "3"]) == 0
    assert len(pwcf.load_run(place.path / "o3").radius) == 3


def test_several_devices_share_the_work_and_find_the_same(place: Place) -> None:
    assert place.run("one", metric="l2", budget=80, chunk=4) == 0
    assert place.run("two", metric="l2", budget=80, chunk=4, device="cpu,cpu") == 0
    assert answers(place.path / "one") == answers(place.path / "two")


def test_a_run_of_schema_1_loads(capsys: pytest.CaptureFixture[str]) -> None:
    """Its folder was written when schema 1 was new, and stays: whatever comes later must read it."""
    path = Path(__file__).parents[1] / "stored" / "run-schema-1"
    run = pwcf.load_run(path)
    assert run.complete
    assert run.x_adv.shape == (5, 1, 6, 6)
    assert run.adversarial.all()
    assert run.status[0] is pwcf.Status.ALREADY_MISCLASSIFIED
    assert (run.radius[1:] > 0).all()
    assert torch.allclose(run.radius[1:], torch.tensor(run.to_pandas()["l2"][1:].to_numpy()))
    assert run.problem == pwcf.MinRadius("l2")
    assert main(["show", str(path)]) == 0
    assert "min-radius, l2" in capsys.readouterr().out


def test_curves_of_a_run_in_tensorboard(place: Place) -> None:
    pytest.importorskip("tensorboard")
    assert place.run("out", tracker="tensorboard", **SAID) == 0
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(place.path / "out" / "tensorboard"))
    events.Reload()
    run = pwcf.load_run(place.path / "out")
    last = events.Scalars("mean_radius")[-1]
    assert last.step == 24
    assert last.value == pytest.approx(float(run.radius[run.radius > 0].mean()), rel=1e-5)
    assert place.run("out", tracker="tensorboard", **SAID) == 0  # a folder of curves is no stranger


def test_samples_without_logits_are_not_robust_in_any_command(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    nan = (
        (place.path / "net.py").read_text()
        + """

def sometimes():
    inner = net()
    return lambda x: inner(x) / (x[:, 0, 0, :1] > 0.3)  # 0 / 0 and more
"""
    )
    (place.path / "net.py").write_text(nan)
    said = SAID | {"model": f"{place.path}/net.py:sometimes", "question": "max-loss", "eps": "0.001"}
    assert place.run("out", **said) == 0
    capsys.readouterr()
    assert main(["show", "--json", str(place.path / "out")]) == 0
    shown = told(capsys.readouterr().out)
    assert shown["status"]["nonfinite"] > 0
    assert main(["compare", "--json", str(place.path / "out")]) == 0
    compared = told(capsys.readouterr().out)["runs"]["out"]
    assert compared["robust_accuracy"] == pytest.approx(shown["robust_accuracy"])


def test_some_samples_of_a_recorded_run(place: Place) -> None:
    assert place.run("out", **SAID) == 0
    rows = torch.tensor([3, 20])
    whole, bare = pwcf.load_run(place.path / "out"), pwcf.load_run(place.path / "out", tensors=False)
    some = whole.select(rows)
    assert some.to_pandas()["index"].tolist() == some.index.tolist() == [3, 20]
    assert torch.equal(some.x_adv, whole.x_adv[rows])
    assert bare.select(rows).radius.tolist() == some.radius.tolist()


def test_what_chunks_say_is_said_once(place: Place) -> None:
    from pwcf.runs.summary import warnings_of

    assert place.run("out", **SAID) == 0
    run = pwcf.load_run(place.path / "out")
    said = ["Found for 2 of 8 samples {a}.\nAlways.", "", "Found for 1 of 8 samples {a}.\nOnce."]
    texts = [said[i // 8] for i in range(24)]
    rows = run.rows.set_column(run.rows.column_names.index("warnings"), "warnings", [texts])
    assert warnings_of(run.header, rows) == ["Found for 3 of 16 samples {a}.", "Always.", "Once."]
