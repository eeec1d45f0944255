"""``pwcf bench``: its cells are runs, resumed after a kill and read by the other commands; what fails or is skipped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pwcf
from pwcf.cli import main
from pwcf.runs import find_runs
from runfolders import answers, replace_points, told

NETS = """
import torch
from torch import nn


def _net(scale):
    torch.manual_seed(0)
    made = nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.ReLU(), nn.Linear(24, 4))
    with torch.no_grad():
        made[3].weight *= scale
        made[3].bias *= 0
    return made


def wide():
    return _net(4)


def narrow():
    return _net(torch.tensor([4.0, 3.0, 3.5, 4.5])[:, None])
"""
ATTACKS = """
import os, time
import torch
from pwcf.attacks import Answer, Attack


class Line(Attack):
    '''Straight to the other side of the box, then back as far as it goes: a forward pass a step.'''

    about = "a line, version 3"

    def __init__(self, name="line", steps=12):
        self.name, self.steps = name, steps

    def __call__(self, task):
        time.sleep(float(os.environ.get("PWCF_TEST_NAP", 0)))
        if os.environ.get("PWCF_TEST_INTERRUPT"):
            raise KeyboardInterrupt
        towards = torch.where(task.images < 0.5, task.upper, task.lower)
        one = torch.ones(len(task.images), 1, 1, 1)
        low, high = 0 * one, one
        for _ in range(self.steps):
            middle = (low + high) / 2
            x = task.images + middle * (towards - task.images)
            wrong = (task.model.logits(x, task.samples).argmax(1) != task.labels).view(-1, 1, 1, 1)
            low, high = torch.where(wrong, low, middle), torch.where(wrong, middle, high)
        return Answer(task.images + high * (towards - task.images))


line = Line()


def short():
    return Line("short", 2)


class Broken(Line):
    def __call__(self, task):
        raise RuntimeError("no luck today")


class Picky(Line):
    def unsupported_reason(self, problem, classes):
        return f"picky does not like {problem.metric.name}" if problem.metric.name == "l2" else None


def signs(model, images, labels):
    x = images.clone().requires_grad_(True)
    torch.nn.functional.cross_entropy(model(x), labels).backward()
    return (images + 0.2 * x.grad.sign()).clamp(0, 1)


def blurred(reference, candidate):
    return 2 * torch.nn.functional.avg_pool2d(candidate - reference, 2).flatten(1).norm(dim=1)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "own.py").write_text(ATTACKS)
    images = torch.rand(5, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    scope: dict[str, Any] = {}
    exec(NETS, scope)
    with torch.no_grad():
        labels = scope["wide"]()(images).argmax(1)
    labels[0] = (labels[0] + 1) % 4  # misclassified
    np.savez(tmp_path / "data.npz", images=images.numpy(), labels=labels.numpy())
    return tmp_path


def words(place: Path, out: str, *more: str, nets: tuple[str, ...] = ("wide", "narrow")) -> list[str]:
    models = [word for net in nets for word in ("--model", f"{place}/nets.py:{net}")]
    given = ["--data", f"{place}/data.npz", "--threads", "1", "--out", str(place / out)]
    return ["bench", *models, *given, *more]


def bench(place: Path, out: str, *more: str, nets: tuple[str, ...] = ("wide", "narrow")) -> int:
    return main([*words(place, out, *more, nets=nets), "--no-report"])


def several(option: str, *values: str) -> list[str]:
    return [word for value in values for word in (f"--{option}", value)]


GRID = [
    *several("metric", "linf", "l2", "l1"), *several("attacks", "lmn", "fab", "apgd"), "--budget", "60",
    "--eps", "linf=8/255", "--chunk", "2",
]  # fmt: skip


def test_a_grid_that_was_killed_ends_as_one_that_was_not_and_every_command_reads_it(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two networks, three norms, three attacks."""
    command = [sys.executable, "-m", "pwcf.cli", *words(place, "killed", *GRID), "--no-report"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while len(list((place / "killed").rglob("result.json"))) < 4:
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept = {path: path.stat().st_mtime_ns for path in (place / "killed").rglob("tensors-*")}
    done = len(list((place / "killed").rglob("result.json")))
    assert 4 <= done < 24
    assert bench(place, "killed", *GRID) == 0
    said = capsys.readouterr().out
    assert said.count("there already") == done
    assert "24 of 24 cells are complete" in said
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert bench(place, "whole", *GRID) == 0
    resumed, whole = find_runs(place / "killed"), find_runs(place / "whole")
    assert [str(run.relative_to(place / "killed")) for run in resumed] == [
        str(run.relative_to(place / "whole")) for run in whole
    ]
    assert len(whole) == 24
    for a, b in zip(resumed, whole, strict=True):
        assert answers(a) == answers(b)
    check_commands(place / "whole", capsys)


def check_commands(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """show, verify and report: of one cell, and of all together."""
    cell = out / "wide" / "l2" / "lmn-60"
    run = pwcf.load_run(cell)
    assert run.complete
    assert (run.passes.total <= 60).all()
    assert run.header.asked["attacks"] == ["lmn"]
    capsys.readouterr()
    assert main(["show", "--json", str(cell)]) == 0
    one = told(capsys.readouterr().out)
    assert one["done"] == 5
    assert main(["show", "--json", str(out)]) == 0
    everything = json.loads(capsys.readouterr().out)
    assert len(everything) == 24
    assert one in everything
    assert main(["show", str(out)]) == 0
    assert "narrow/linf-eps-8_255/apgd-60" in capsys.readouterr().out.replace("\n", "")
    assert main(["verify", "--trust", str(cell)]) == 0
    assert "points hold: inside" in capsys.readouterr().out
    assert main(["verify", "--trust", "--json", str(out)]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert len(checked) == 24
    assert all(each["hold"] == each["checked"] for each in checked)
    assert sum(each["checked"] for each in checked) > 24
    assert main(["compare", "--json", str(out / "wide" / "l2")]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 3
    for name, what in (("one", cell), ("all", out)):
        page = out / f"{name}.html"
        assert main(["report", str(what), "-o", str(page)]) == 0
        assert "5 samples in the gallery" in capsys.readouterr().out
    assert (out / "all.html").stat().st_size > (out / "one.html").stat().st_size
    # One point that does not hold is found among all of them.
    from safetensors.torch import load_file

    replace_points(cell, 0, load_file(cell / "tensors-000000.safetensors")["x_adv"] + 1e-3)
    assert main(["verify", "--trust", "--json", str(out)]) == 1
    checked = json.loads(capsys.readouterr().out)
    assert [each["run"] for each in checked if each["failed"]] == [str(cell)]


def test_the_report_is_written_in_the_end(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    more = ("--metric", "l2", "--budget", "60", *several("attacks", "lmn", "fab"))
    assert main(words(place, "out", *more, nets=("wide",))) == 0
    said = capsys.readouterr().out
    assert f"report: {place / 'out' / 'report.html'}" in said
    assert (place / "out" / "report.html").read_text().startswith("<!doctype html>")
    assert list((place / "out" / "report").glob("table-*.md"))
    assert list((place / "out" / "report").glob("*.pdf"))
    # Its files are no runs, and the command still goes on.
    assert len(find_runs(place / "out")) == 2
    assert bench(place, "out", *more, nets=("wide",)) == 0


def test_failures_and_skipped_cells_do_not_stop_the_others(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = [f"{place}/own.py:{name}" for name in ("Broken", "Picky", "line")]
    more = (*several("attacks", *own), *several("metric", "linf", "l2"), "--budget", "60")
    assert bench(place, "out", *more, nets=("wide",)) == 1
    said = capsys.readouterr()
    assert "[4/6] wide l2 Broken 60: failed" in said.out
    assert "[5/6] wide l2 Picky 60: skipped" in said.out
    assert "picky does not like l2" in said.out
    assert "3 of 5 cells are complete" in said.out
    assert "failed: wide linf Broken 60 and 1 more: samples 0 to 4: RuntimeError: no luck today" in said.err
    assert len(find_runs(place / "out")) == 3


def test_an_attack_that_supports_none_of_the_metrics_is_no_failure(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = (*several("attacks", f"{place}/own.py:Picky", "lmn"), "--metric", "l2", "--budget", "60")
    assert bench(place, "out", *more, nets=("wide",)) == 0
    assert "1 of 1 cells are complete" in capsys.readouterr().out


def test_a_network_that_cannot_be_loaded_does_not_stop_the_others(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = (*several("attacks", "lmn", "fab"), "--metric", "l2", "--budget", "60")
    assert bench(place, "out", *more, nets=("deep", "wide")) == 1
    said = capsys.readouterr()
    assert said.err.count("failed: ") == 1
    assert "failed: deep l2 lmn 60 and 1 more: model" in said.err
    assert "2 of 4 cells are complete" in said.out


def test_attacks_and_distances_of_ones_own(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("line", "short", "signs")
    own = [f"{place}/own.py:{name}" for name in names]
    more = (*several("attacks", *own, "lmn"), *several("metric", "l2", f"{place}/own.py:blurred"), "--budget", "80")
    assert bench(place, "out", *more, nets=("wide",)) == 0
    for metric in ("l2", "blurred"):
        runs = {name: pwcf.load_run(place / "out" / "wide" / metric / f"{name}-80") for name in (*names, "lmn")}
        assert set(filter(None, runs["line"].attack)) <= {"line", "clean"}
        assert runs["line"].contributions[0].about.startswith("a line, version 3, code ")
        assert (runs["line"].radius <= runs["short"].radius).all()
        attacked = runs["lmn"].radius > 0
        assert (runs["lmn"].radius[attacked] < runs["line"].radius[attacked]).all()
    # The same attack in a single run finds the same.
    single = ["run", "--model", f"{place}/nets.py:wide", "--data", f"{place}/data.npz", "--threads", "1"]
    single += ["--metric", "l2", "--attacks", own[0], "--budget", "80", "--out", str(place / "single")]
    assert main(single) == 0
    assert answers(place / "single") == answers(place / "out" / "wide" / "l2" / "line-80")
    # Other code under the same name is refused, and what is there stays.
    before = answers(place / "single")
    (place / "own.py").write_text(ATTACKS.replace("steps=12", "steps=11"))
    capsys.readouterr()
    assert main(single) == 2
    assert "holds another run: attacks was" in capsys.readouterr().err
    assert bench(place, "out", *more, nets=("wide",)) == 1
    assert "holds another run: attacks was" in capsys.readouterr().err
    assert answers(place / "single") == before


def test_a_preset_is_a_column(place: Path) -> None:
    more = (*several("attacks", "fast", "lmn"), "--metric", "linf", "--budget", "60")
    assert bench(place, "out", *more, nets=("wide",)) == 0
    fast, ours = (answers(place / "out" / "wide" / "linf" / f"{name}-60") for name in ("fast", "lmn"))
    assert fast == ours


def test_changed_settings_are_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--attacks", "lmn", "--metric", "l2", "--budget", "60")
    assert bench(place, "out", *more, nets=("wide",)) == 0
    cell = place / "out" / "wide" / "l2" / "lmn-60"
    before = answers(cell)
    for change, complaint in (
        (("--seed", "1"), "seed was None, now 1"),
        (("--limit", "3"), "limit was 100, now 3"),
    ):
        capsys.readouterr()
        assert bench(place, "out", *more, *change, nets=("wide",)) == 2
        said = capsys.readouterr().err
        assert complaint in said
        assert said.count("\n") == 1
    # Other weights under the same name are seen when they are loaded.
    (place / "nets.py").write_text(NETS.replace("manual_seed(0)", "manual_seed(1)"))
    assert bench(place, "out", *more, nets=("wide",)) == 1
    assert "holds another run: model was" in capsys.readouterr().err
    assert answers(cell) == before


def test_a_second_command_adds_cells(place: Path) -> None:
    more = ("--metric", "l2", "--budget", "60")
    assert bench(place, "out", "--attacks", "lmn", *more, nets=("wide",)) == 0
    assert bench(place, "out", "--attacks", "fab", *more, nets=("wide", "narrow")) == 0
    found = [str(run.relative_to(place / "out")) for run in find_runs(place / "out")]
    assert found == ["wide/l2/lmn-60", "wide/l2/fab-60", "narrow/l2/fab-60"]


def test_a_cell_with_a_lost_file_is_measured_again_and_told_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--metric", "l2", *several("attacks", "lmn", "fab"), "--budget", "60", "--limit", "4")
    assert bench(place, "out", *asked, nets=("wide",)) == 0
    capsys.readouterr()
    assert bench(place, "out", *asked, nets=("wide",)) == 0
    assert capsys.readouterr().out.count("there already") == 2
    next((place / "out").rglob("fab-60/tensors-*")).unlink()
    assert bench(place, "out", *asked, nets=("wide",)) == 0
    assert capsys.readouterr().out.count("there already") == 1


def test_a_grid_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(
        place / "wider.npz", **{**np.load(place / "data.npz"), "images": 2 * np.load(place / "data.npz")["images"]}
    )
    (place / "grid.toml").write_text(f"""
metric = ["linf", "l2"]
attacks = ["lmn"]
budget = [60]
threads = 1

[nets.plain]
model = "{place}/nets.py:wide"
data = "{place}/data.npz"
eps = {{linf = "1/10"}}

[nets.stretched]
model = "{place}/nets.py:wide"
data = "{place}/wider.npz"
bounds = [0, 2]
limit = 3
""")
    out = place / "out"
    assert main(["bench", "--grid", str(place / "grid.toml"), "--out", str(out), "--json", "--no-report"]) == 0
    cells = told(capsys.readouterr().out)["cells"]
    assert isinstance(cells, list)
    assert [(Path(cell["run"]).relative_to(out).parts[:2], cell["done"]) for cell in cells] == [
        (("plain", "linf"), 5),
        (("plain", "linf-eps-1_10"), 5),
        (("plain", "l2"), 5),
        (("stretched", "linf"), 3),
        (("stretched", "l2"), 3),
    ]
    assert cells[1]["robust_accuracy"] is not None
    assert main(["bench", "--grid", str(place / "grid.toml"), "--model", "x:y", "--out", str(out)]) == 2
    assert "expected none beside the nets" in capsys.readouterr().err


def test_ctrl_c_says_how_to_go_on(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    more = (*several("attacks", "lmn", f"{place}/own.py:line"), "--metric", "l2", "--budget", "60")
    monkeypatch.setenv("PWCF_TEST_INTERRUPT", "1")
    assert bench(place, "out", *more, nets=("wide",)) == 130
    said = capsys.readouterr().err
    assert "1 of 2 cells are complete" in said
    assert "The same command goes on" in said
    monkeypatch.delenv("PWCF_TEST_INTERRUPT")
    assert bench(place, "out", *more, nets=("wide",)) == 0
    assert len(find_runs(place / "out")) == 2


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--attacks", "magic"], "found 'magic'"),
        (["--attacks", "pwcf-folded"], "is now called 'pwcf'"),
        (["--attacks", "nowhere.py:x"], "found none at nowhere.py"),
        (["--attacks", "PLACE/own.py:lime"], "did you mean time or line?"),
        (["--metric", "nowhere:x"], "metric: expected a name"),
        (["--eps", "0.1"], "expected METRIC=EPS"),
        (["--question", "max-loss"], "max-loss alone needs an eps"),
        (["--grid", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (["--budget", "x"], "'--budget'"),
    ],
)
def test_wrong_words_are_told_before_anything_is_measured(
    place: Path, capsys: pytest.CaptureFixture[str], more: list[str], complaint: str
) -> None:
    assert bench(place, "out", *(word.replace("PLACE", str(place)) for word in more)) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
    assert not (place / "out").exists()


def test_a_folder_without_runs_and_one_with_a_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "empty").mkdir()
    for command in ("show", "verify"):
        assert main([command, str(place / "empty")]) == 2
        assert "no run there" in capsys.readouterr().err
    more = ("--attacks", "lmn", "--metric", "l2", "--budget", "60")
    assert bench(place, "out", *more, nets=("wide",)) == 0
    # Any folder that holds runs stands for them.
    assert len(find_runs(place / "out" / "wide")) == 1
    assert main(["export", str(place / "out"), str(place / "x.csv")]) == 2
    assert "name one of its runs" in capsys.readouterr().err
    # The folder of a single run is not that of a benchmark.
    capsys.readouterr()
    assert main([*words(place, "out/wide/l2/lmn-60", *more, nets=("wide",)), "--no-report"]) == 2
    assert "expected an empty folder or an earlier benchmark" in capsys.readouterr().err


def test_help_names_the_options_of_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    said = capsys.readouterr().out
    for word in ("--model", "--attacks", "--eps", "METRIC=EPS", "--grid", "--chunk", "--no-report"):
        assert word in said
