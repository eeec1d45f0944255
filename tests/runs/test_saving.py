"""One Run: what evaluate returned, saved, shown, and taken by every figure, table and page as a folder is."""

import copy
import html
import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import pwcf
from pwcf import Run, analysis
from pwcf.cli import main
from pwcf.data import DataError
from pwcf.report import FIGURES as figures_by_name
from pwcf.report import figures, tables, write_page
from pwcf.report.all_figures import write_figures
from pwcf.runs import RunError
from runfolders import told
from runs_by_hand import run_of

N = 10


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    made = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 4))
    with torch.no_grad():
        made[3].weight *= 4
    return made


IMAGES = torch.rand(N, 1, 6, 6, generator=torch.Generator().manual_seed(1))
LABELS = network()(IMAGES).argmax(1)
LABELS[0] = (LABELS[0] + 1) % 4


def evaluated(seed: int = 0, problem: object = None, **settings: object) -> Run:
    asked = {"budget": 60, **settings}
    return pwcf.evaluate(network(seed), IMAGES, LABELS, problem or pwcf.MinRadius("l2"), **asked)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def run() -> Run:
    return evaluated()


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    return run.save(tmp_path / "saved", model="mine", classes=["a", "b", "c", "<d>"])


def test_a_saved_run_is_read_back(run: Run, folder: Path) -> None:
    back = pwcf.load_run(folder)
    for name in ("radius", "adversarial", "loss", "nearest"):
        assert torch.equal(getattr(back, name), getattr(run, name)), name
    assert torch.equal(back.x_adv, run.x_adv)
    assert torch.equal(back.passes.total, run.passes.total)
    assert torch.equal(back.evidence.gain.nan_to_num(7), run.evidence.gain.nan_to_num(7))
    assert (back.status, back.attack, back.warnings) == (run.status, run.attack, run.warnings)
    assert back.summary().split("\n")[:4] == run.summary().split("\n")[:4]
    assert back.complete
    assert back.header.classes[3] == "<d>"
    assert back.rows["label"].to_pylist() == LABELS.tolist()
    assert torch.equal(pwcf.runs.original_images(back), IMAGES)


def test_max_loss_and_normalisation_too(tmp_path: Path) -> None:
    classifier = pwcf.Classifier(network(), mean=0.1, std=[0.9])
    question = pwcf.MaxLoss("linf", 8 / 255, targeted=False)
    run = pwcf.evaluate(classifier, IMAGES, LABELS, question, budget=60, seed=3)
    back = pwcf.load_run(run.save(tmp_path / "eps"))
    assert back.robust_accuracy == run.robust_accuracy
    assert back.problem == run.problem
    asked = back.header.settings
    assert (asked.seed, asked.mean, asked.std) == (3, pytest.approx([0.1]), pytest.approx([0.9]))


def test_a_saved_folder_may_be_moved(run: Run, folder: Path, tmp_path: Path) -> None:
    moved = folder.rename(tmp_path / "elsewhere")
    assert torch.equal(pwcf.runs.original_images(pwcf.load_run(moved)), IMAGES)


def test_commands_open_a_saved_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(folder)
    assert main(["show", path, "--json"]) == 0
    assert told(capsys.readouterr().out)["done"] == N
    for words in (
        ["compare", path, path], ["report", path, "-o", "r.html"], ["table", "overview", path],
        ["figure", "radii", path, "-o", "r.png"], ["export", path, "r.csv"], ["export", path, "r.npz"],
    ):  # fmt: skip
        assert main(words) == 0, capsys.readouterr().err
    assert "original images" not in capsys.readouterr().out  # they lie in the folder


def test_verify_wants_the_model(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--trust"]):
        assert main(["verify", str(folder), *more]) == 2
        assert "which does not name its model; give it: --model" in capsys.readouterr().err
    code = (
        "import torch\nfrom torch import nn\n\n\ndef net():\n    torch.manual_seed(0)\n"
        "    made = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 4))\n"
        "    with torch.no_grad():\n        made[3].weight *= 4\n        made[3].bias[{}] += {}\n    return made\n"
    )
    for shift, found in ((0, 0), (0.1, 1)):  # at the boundary a little decides
        net = tmp_path / f"net{found}.py"
        net.write_text(code.format(int(LABELS[1]), shift))
        assert main(["verify", str(folder), "--model", f"{net}:net"]) == found
        assert "saved from Python" in capsys.readouterr().out


def test_what_cannot_be_done_says_so(
    run: Run, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--model", "zoo:fashion-l2", "--data", "zoo:fashion-mnist", "--out", str(folder)]) == 2
    assert "saved from Python (Run.save), which does not name its model: it cannot be continued" in (
        capsys.readouterr().err.replace("\n", " ")
    )
    with pytest.raises(RunError, match=r"expected an empty folder, or none yet, found header\.json"):
        run.save(folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="found a file"):
        run.save(tmp_path / "file")
    with pytest.raises(RunError, match="found one of a folder"):
        pwcf.load_run(folder).save(tmp_path / "again")
    with pytest.raises(RunError, match="its model is not there to search again"):
        analysis.retrace(folder, [1])
    with pytest.raises(RunError, match=r"found MaxLoss\(clip=False\)"):
        replace(run, problem=pwcf.MaxLoss("l2", 0.1, clip=False)).save(tmp_path / "largest")
    with pytest.raises(RunError, match="one eps for all samples"):
        evaluated(problem=pwcf.MaxLoss("l2", torch.full((N,), 0.3))).save(tmp_path / "several")
    with pytest.raises(RunError, match="without images and labels"):
        run_of("c", [1.0]).save(tmp_path / "by-hand")
    double = pwcf.evaluate(network().double(), IMAGES.double(), LABELS, pwcf.MinRadius("l2"), budget=60)
    with pytest.raises(RunError, match=r"expected float32.*found torch\.float64"):
        double.save(tmp_path / "double")
    assert not (tmp_path / "double").exists()


def test_damage_is_noticed(folder: Path) -> None:
    path = next(folder.glob("tensors-*"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(RunError, match="damaged"):
        pwcf.load_run(folder)


def kinds(run: Run, folder: Path) -> dict[str, object]:
    """The same run in all the ways it can be given."""
    loaded = pwcf.load_run(folder)
    return {"memory": run, "loaded": loaded, "path": folder, "text": str(folder), "list": [run, loaded, folder],
            "names": {"a": run, "b": folder}}  # fmt: skip


def test_every_table_takes_them_all(run: Run, folder: Path) -> None:
    eps = evaluated(problem=pwcf.MaxLoss("l2", 0.3))
    for name, given in kinds(run, folder).items():
        assert len(tables.overview_table(given).rows) == (3 if name == "list" else 2 if name == "names" else 1)
        assert tables.cross_metric_table(given).rows
    several = [run, evaluated(attacks="fab"), folder]
    assert len(tables.radius_table(several).rows) == 3  # all three are about one model, and it is known by its content
    assert len(tables.wins_table(several).rows) == 3
    assert tables.accuracy_table([eps, run]).rows
    assert tables.agreement_table([eps, evaluated(problem=pwcf.MaxLoss("l2", 0.3), attacks="apgd")]).rows


def test_every_figure_takes_them_all(run: Run, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    draws = (
        figures.accuracy_curves, figures.radius_distribution, figures.radii_by_sample, figures.termination,
        figures.sparsity, figures.perturbations, figures.magnitudes, figures.cross_metric,
    )  # fmt: skip
    for name, given in kinds(run, folder).items():
        for draw in draws if name in ("memory", "list") else draws[:1]:
            assert draw(given).axes, (draw, name)
    fab = evaluated(attacks="fab")
    assert figures.radius_comparison(fab, folder).axes
    assert figures.local_optimality([run, fab]).axes
    assert figures.radius_over_budget([run, evaluated(budget=120)]).axes
    eps = {name: evaluated(problem=pwcf.MaxLoss("l2", 0.3), attacks=name) for name in ("lmn", "apgd")}
    assert figures.agreement(eps).axes
    assert figures.best_found(analysis.retrace(run, [1, 2])).axes


def test_all_figures_of_runs_in_memory(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    some = {name: figures_by_name[name] for name in ("comparison", "magnitudes")}
    monkeypatch.setattr("pwcf.report.all_figures.FIGURES", some)  # to draw them all takes half a minute
    written = write_figures([run, evaluated(attacks="fab")], tmp_path)
    assert {"comparison.pdf", "table-overview.md", "magnitudes.png"} <= {path.name for path in written.files}


def test_pages(run: Run, folder: Path, tmp_path: Path) -> None:
    assert run.report(tmp_path / "one.html", title="T <1>") == tmp_path / "one.html"
    text = (tmp_path / "one.html").read_text()
    assert "T &lt;1&gt;" in text
    assert "pwcf.evaluate(model, images, labels, pwcf.MinRadius('l2')" in text
    for given in kinds(run, folder).values():
        page = write_page(given, tmp_path / "page.html")
        assert (page.samples, page.total, page.remarks) == (N, N, [])
    assert pwcf.load_run(folder).report(tmp_path / "two.html").exists()


def test_models_are_known_by_their_content(run: Run) -> None:
    same, other = evaluated(problem=pwcf.MinRadius("l1")), evaluated(seed=1)
    names = analysis.model_names(analysis.gather({"a": run, "b": same, "c": other}))
    assert names["a"] == names["b"] != names["c"]


def test_a_model_that_answers_no_longer_is_shown_all_the_same() -> None:
    net, asked = network(), [0]

    def limited(x: Tensor) -> Tensor:
        asked[0] += 1
        if asked[0] > 10_000:
            raise KeyError("no more queries")
        return net(x)

    run = pwcf.evaluate(limited, IMAGES, LABELS, pwcf.MinRadius("l2"), budget=60)
    asked[0] = 20_000
    assert "<img" in run._repr_html_()
    assert len(tables.overview_table(run).rows) == 1


def test_other_layouts_are_shown_but_not_saved(tmp_path: Path) -> None:
    images = torch.rand(4, 5, 4, 3)  # channels last
    net = nn.Sequential(nn.Flatten(), nn.Linear(60, 3))
    run = pwcf.evaluate(net, images, net(images).argmax(1), pwcf.MinRadius("l2"), budget=60)
    assert write_page(run, tmp_path / "page.html").samples == 4
    with pytest.raises(DataError, match="looks like channels last"):
        run.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_a_model_that_has_changed_since_is_another_one(run: Run) -> None:
    model = network()
    before = pwcf.evaluate(model, IMAGES, LABELS, pwcf.MinRadius("l2"), budget=60)
    with torch.no_grad():
        model[3].bias[0] += 0.1  # trained on, for instance
    after = pwcf.evaluate(model, IMAGES, LABELS, pwcf.MinRadius("l2"), budget=60)
    names = analysis.model_names(analysis.gather({"a": before, "b": after}))
    assert names["a"] != names["b"]


def test_some_of_the_samples(run: Run, tmp_path: Path) -> None:
    rows = torch.tensor([3, 1])
    some = pwcf.load_run(run.select(rows).save(tmp_path / "some"))
    assert torch.equal(some.radius, run.radius[rows])
    assert some.rows["label"].to_pylist() == LABELS[rows].tolist()


def test_copies_go_without_the_model(run: Run) -> None:
    function = network()
    asked = pwcf.evaluate(lambda x: function(x), IMAGES, LABELS, pwcf.MinRadius("l2"), budget=60)
    for again in (pickle.loads(pickle.dumps(asked)), copy.deepcopy(asked)):
        assert again.asked.classifier is None
        assert torch.equal(again.radius, asked.radius)
        assert len(tables.overview_table(again).rows) == 1


def test_repr_is_a_line_with_the_numbers(run: Run, folder: Path) -> None:
    found = int((run.adversarial & (run.radius > 0)).sum())
    assert repr(run).startswith(f"<Run: min-radius, l2: {N} samples, points found for {found} of {N - 1} attacked")
    assert repr(pwcf.load_run(folder)).startswith("<RecordedRun: min-radius, l2")
    eps = repr(evaluated(problem=pwcf.MaxLoss("l2", 0.3)))
    assert "robust accuracy" in eps
    assert all(len(text) < 200 for text in (repr(run), eps))
    assert repr(run_of("", [])) == "<Run: min-radius, l2: 0 samples, points found for 0 of 0 attacked>"


def test_a_notebook_shows_headline_and_examples(run: Run, folder: Path) -> None:
    text = run._repr_html_()
    write_page(run, folder.parent / "page.html")
    sentence = f"Half of the {N - 1} attacked samples have a misclassified point within l2 distance"
    assert sentence in html.unescape(text)
    assert sentence in (folder.parent / "page.html").read_text()  # one wording
    assert re.search(r"Robust accuracy: [\d.]+% at .* \(l2; upper bounds\)\.", text)
    assert text.count('<img src="data:image/png;base64,') == 15
    assert "&lt;d&gt;" in pwcf.load_run(folder)._repr_html_()
    assert "<d>" not in pwcf.load_run(folder)._repr_html_()


def test_a_notebook_shows_what_has_no_pictures() -> None:
    torch.manual_seed(0)
    flat = pwcf.evaluate(nn.Linear(3, 2), torch.rand(4, 3), torch.zeros(4).long(), pwcf.MinRadius("l2"), budget=60)
    assert "<img" not in flat._repr_html_()
    assert "<pre>" in run_of("cn", [1.0, torch.inf])._repr_html_()


def test_a_frame_has_labels_and_predictions(run: Run, folder: Path) -> None:
    pytest.importorskip("pandas")
    frame = run.to_pandas()
    assert frame.label.tolist() == LABELS.tolist()
    assert frame.clean_label.tolist() == network()(IMAGES).argmax(1).tolist()
    assert frame.adversarial_label.tolist() == network()(run.x_adv).argmax(1).tolist()
    assert {"status", "gain", "agreement", "searches", "stationarity", "violation", "attacked", "found", "radius",
            "adversarial", "forward", "backward", "attack", "loss", "nearest"} <= set(frame.columns)  # fmt: skip
    recorded = pwcf.load_run(folder).to_pandas()
    assert set(frame.columns) <= set(recorded.columns)  # a run has the same columns on disk
    for name in frame.columns:
        assert frame[name].astype(str).tolist() == recorded[name].astype(str).tolist(), name
    by_hand = run_of("c", [1.0]).to_pandas()
    assert "label" not in by_hand


def test_own_metrics_and_random_models(tmp_path: Path) -> None:
    def half(reference: Tensor, candidate: Tensor) -> Tensor:
        return 0.5 * (candidate - reference).flatten(1).norm(dim=1)

    net = network()
    classifier = pwcf.Classifier(lambda x: net(x) + 0.01 * torch.randn(len(x), 4), samples=2)
    run = pwcf.evaluate(classifier, IMAGES[1:5], LABELS[1:5], pwcf.MinRadius(half), budget=1000)
    back = pwcf.load_run(run.save(tmp_path / "own"))
    assert back.problem.metric.name == "half"
    assert "mean logits of 2 calls" in back.header.model.about
