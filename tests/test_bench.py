"""``pwcf bench``: cells, resuming, tables, plots, wrong input."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import torch

from pwcf import Status, records
from pwcf.cli import main
from pwcf.records import Cell, Header, Made, Record, RecordError
from pwcf.report import OURS, write_report

ZOO = """
import os, time, warnings
import torch
from torch import nn

import pwcf

NETS = ("wide", "narrow")
EPS = {"wide": {"linf": 0.1}}


class Line(pwcf.attacks.Attack):
    '''Straight to the other side of the box, then back as far as it goes: a forward pass a step.'''

    about = "a line, version 3"

    def __init__(self, name, nap=0.0, steps=12):
        self.name, self.nap, self.steps = name, nap, steps

    def __call__(self, task):
        time.sleep(self.nap)
        towards = torch.where(task.images < 0.5, task.upper, task.lower)
        low, high = torch.zeros(len(task.images), 1), torch.ones(len(task.images), 1)
        for _ in range(self.steps):
            middle = (low + high) / 2
            x = task.images + middle * (towards - task.images)
            wrong = (task.model.logits(x, task.samples).argmax(1) != task.labels)[:, None]
            low, high = torch.where(wrong, low, middle), torch.where(wrong, middle, high)
        return pwcf.attacks.Answer(task.images + high * (towards - task.images))


class Broken(Line):
    def __call__(self, task):
        raise RuntimeError("no luck today")


class Picky(Line):
    def unsupported_reason(self, problem, classes):
        return f"picky does not like {problem.metric.name}"


class Interrupting(Line):
    def __call__(self, task):
        if os.environ.get("PWCF_TEST_INTERRUPT"):
            raise KeyboardInterrupt
        return super().__call__(task)


class Warning_(Line):
    def __call__(self, task):
        warnings.warn("The loss is flat. " + 40 * "It is very flat. ")
        return super().__call__(task)


ATTACKS = {
    "line": Line("line"), "slow": Line("slow", nap=float(os.environ.get("PWCF_TEST_NAP", 0))),
    "short": Line("short", steps=2), "broken": Broken("broken"), "picky": Picky("picky"),
    "interrupting": Interrupting("interrupting"), "warning": Warning_("warning"),
}


def load(name, images):
    generator = torch.Generator().manual_seed(len(name) + int(os.environ.get("PWCF_TEST_DATA", 0)))
    width = {"wide": 12, "narrow": 6}[name]
    net = nn.Linear(width, 3)
    net.weight.data = torch.randn(3, width, generator=generator)
    net.bias.data = -0.5 * net.weight.data.sum(1)
    scale = float(os.environ.get("PWCF_TEST_SCALE", 1))
    net.weight.data, net.bias.data = scale * net.weight.data, scale * net.bias.data
    x = torch.rand(images, width, generator=generator)
    y = net(x).argmax(1)
    y[0] = (y[0] + 1) % 3  # wrong as it is
    return net, x, y
"""

SMALL = ("--images", "5", "--budgets", "80", "--norms", "linf")


@pytest.fixture(autouse=True)
def _no_plots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were no matplotlib, unless plots are asked for: they take time."""
    if "plots" not in request.fixturenames:
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)


@pytest.fixture
def plots() -> None:
    pytest.importorskip("matplotlib")


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    path = tmp_path / "small_zoo.py"
    path.write_text(ZOO)
    return path


def bench(zoo: Path, out: Path, *more: str) -> int:
    return main(["bench", "--zoo", str(zoo), "--out", str(out), *more])


def cells_of(out: Path) -> dict[str, Record]:
    return {path.name: records.read(path) for path in sorted((out / "cells").glob("*.csv"))}


def answers(record: Record) -> tuple[object, ...]:
    """All that does not depend on the clock."""
    tensors = record.radius, record.forward, record.backward, record.adversarial, record.stationarity
    return (*(str(tensor.tolist()) for tensor in tensors), record.status, record.attack)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def a_record(cell: Cell, radius: list[float], about: str = "") -> Record:
    n, values = len(radius), torch.tensor(radius, dtype=torch.float64)
    made = Made.here(about, "0.0", 8, 1.5, 1.25, ("careful",))
    status = tuple(Status.ALREADY_MISCLASSIFIED if value == 0 else Status.CONVERGED for value in radius)
    passes = torch.arange(n)
    return Record(Header(cell, n, 3, "abc", made), status, values.isfinite(), values, passes, passes, values, ("",) * n)


@pytest.mark.usefixtures("plots")
def test_a_whole_benchmark(zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    code = bench(zoo, out, *SMALL, "--attacks", "lmn", "line", "picky", "broken", "warning", "--budgets", "60", "80")
    said = capsys.readouterr()
    assert code == 1
    # Two nets, two budgets, three attacks that work; one net has an eps.
    made = cells_of(out)
    assert len(made) == 2 * 2 * 3 + 2 * 3
    assert "[1/" in said.out
    assert "18 of 24 cells are complete" in said.err
    assert said.err.count("failed: ") == 6
    assert "RuntimeError: no luck today" in said.err
    assert said.out.count("picky skipped: picky does not like linf") == 1
    assert len(list((out / "failures").glob("*broken*.txt"))) == 6
    assert "no luck today" in next(iter((out / "failures").glob("*.txt"))).read_text()
    assert "mean radius" in said.out
    assert "robust accuracy" in said.out
    assert "none left" in said.out
    assert "warning: The loss is flat." in said.out
    assert max(map(len, said.out.splitlines())) < 200
    for record in made.values():
        assert len(record.status) == 5
        assert record.status[0] is Status.ALREADY_MISCLASSIFIED
        assert (record.passes <= record.cell.budget).all()
        assert record.right.tolist() == [False, True, True, True, True]
    line = made["wide.linf.line.80.csv"]
    assert line.header.made.about == "a line, version 3"
    assert line.attack[1:] == ("line",) * 4
    ours = made["wide.linf.pwcf.80.csv"]
    assert (ours.radius[1:] <= line.radius[1:] * 1.0001).all()
    # Tables and plots.
    text = (out / "bench.md").read_text()
    assert f"`pwcf bench --zoo {zoo} --out {out} --images 5" in text
    assert "a line, version 3" in text
    assert "## Statistical comparison" in text
    assert "The loss is flat" in text
    radii = rows_of(out / "tables" / "radii.csv")
    assert len(radii) == 12
    row = next(r for r in radii if (r["net"], r["attack"], r["budget"]) == ("wide", "lmn", "80"))
    assert float(row["mean"]) == pytest.approx(ours.radius[1:].mean().item(), rel=1e-12)
    assert (row["found"], row["of"]) == ("4", "4")
    assert 0.99 <= float(row["xi"]) <= 1
    accuracy = {(r["attack"], r["budget"]): r for r in rows_of(out / "tables" / "accuracy.csv")}
    within = (ours.radius > 0.1).double().mean().item()
    assert float(accuracy["lmn", "80"]["by its radii"]) == within
    assert float(accuracy["all together", "80"]["robust accuracy"]) <= within
    assert {r["other"] for r in rows_of(out / "tables" / "comparison.csv")} == {"line", "warning"}
    for name in ("radius_vs_budget", "robust_accuracy", "wins_linf"):
        assert (out / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_preset_is_a_column(zoo: Path, tmp_path: Path) -> None:
    words = ("--nets", "narrow", "--attacks", "fast", "lmn", "short")
    assert bench(zoo, tmp_path, *SMALL, *words) == 0
    made = cells_of(tmp_path)
    fast, ours = made["narrow.linf.fast.80.csv"], made["narrow.linf.pwcf.80.csv"]
    assert torch.equal(fast.radius, ours.radius)
    assert fast.attack == ours.attack
    # Ours is in it: it is none of the others that ours is compared with.
    short = (tmp_path / "bench.md").read_text().split("## Radii")[0]
    assert " short |" in short
    assert " fast |" not in short


def test_killed_and_started_again(zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    words = [*SMALL, "--nets", "narrow", "--attacks", "line", "slow", "--budgets", "60", "70", "80"]
    command = [sys.executable, "-m", "pwcf.cli", "bench", "--zoo", str(zoo), "--out", str(out), *words]
    paths = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": paths, "PWCF_TEST_NAP": "1"}, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while len(list((out / "cells").glob("*.csv"))) < 3:
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = {path: path.stat().st_mtime_ns for path in (out / "cells").glob("*.csv")}
    assert 3 <= len(before) < 6
    assert bench(zoo, out, *words) == 0
    assert f"{len(before)} of 6 cells are complete" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert bench(zoo, whole, *words) == 0
    resumed, expected = cells_of(out), cells_of(whole)
    assert resumed.keys() == expected.keys()
    assert len(resumed) == 6
    assert all(answers(resumed[name]) == answers(expected[name]) for name in expected)


def test_ctrl_c_says_how_to_go_on(
    zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*SMALL, "--nets", "narrow", "--attacks", "line", "interrupting"]
    monkeypatch.setenv("PWCF_TEST_INTERRUPT", "1")
    assert bench(zoo, tmp_path / "out", *words) == 130
    said = capsys.readouterr().out
    assert "1 of 2 cells are complete" in said
    assert "The same command goes on" in said
    monkeypatch.delenv("PWCF_TEST_INTERRUPT")
    assert bench(zoo, tmp_path / "out", *words) == 0
    assert len(cells_of(tmp_path / "out")) == 2


def test_files_that_do_not_fit(
    zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    words = ("--nets", "narrow", "--attacks", "line", "--budgets", "80", "--norms", "linf")
    path = out / "cells" / "narrow.linf.line.80.csv"
    assert bench(zoo, out, *words, "--images", "5") == 0
    for more, field in ((("--images", "6"), "images is 5, asked is 6"), (("--seed", "1"), "seed is 0, asked is 1")):
        capsys.readouterr()
        assert bench(zoo, out, *words, "--images", "5", *more) == 2
        said = capsys.readouterr().err
        assert str(path) in said
        assert field in said
        assert "--overwrite" in said
    assert bench(zoo, out, *words, "--images", "6", "--overwrite") == 0
    assert records.read(path).header.images == 6
    # Other images or weights under the same name are seen when they are loaded.
    more = (*words, "--images", "6", "--budgets", "80", "90")
    with monkeypatch.context() as patch:
        patch.setenv("PWCF_TEST_SCALE", "2")
        assert bench(zoo, out, *more) == 1
        assert "field data" in capsys.readouterr().err
    monkeypatch.setenv("PWCF_TEST_DATA", "1")
    assert bench(zoo, out, *more) == 1
    assert "field data" in capsys.readouterr().err
    other = (*more[:2], "--attacks", "short", *more[4:])
    assert bench(zoo, out, *other) == 1
    assert "or remove the file" in capsys.readouterr().err
    assert bench(zoo, out, *more, "--overwrite") == 0
    assert len({record.header.data for record in cells_of(out).values()}) == 1
    path.write_text("nonsense")
    assert bench(zoo, out, *more) == 2
    assert f"{path}: expected a first line" in capsys.readouterr().err
    assert bench(zoo, out, *more, "--overwrite") == 0
    assert records.read(path).header.images == 6


def test_cells_of_other_runs_are_in_the_tables(zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert bench(zoo, out, *SMALL, "--nets", "narrow", "--attacks", "line") == 0
    assert bench(zoo, out, *SMALL, "--nets", "narrow", "--attacks", "short") == 0
    assert {row["attack"] for row in rows_of(out / "tables" / "radii.csv")} == {"line", "short"}
    (out / "tables" / "radii.csv").unlink()
    assert main(["bench", "--tables-only", "--out", str(out), "--attacks", "line"]) == 0
    assert [row["attack"] for row in rows_of(out / "tables" / "radii.csv")] == ["line"]
    # What is about other images is left out with a sentence; without a choice it is an error.
    assert bench(zoo, out, "--images", "7", *SMALL[2:], "--nets", "narrow", "--attacks", "slow") == 0
    assert "left out of the tables" in capsys.readouterr().out
    assert [row["attack"] for row in rows_of(out / "tables" / "radii.csv")] == ["slow"]
    assert main(["bench", "--tables-only", "--out", str(out)]) == 2
    assert "choose by --images" in capsys.readouterr().err
    assert main(["bench", "--tables-only", "--out", str(out), "--images", "5", "--seed", "0"]) == 0


def test_without_matplotlib_there_are_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records.write(a_record(Cell("net", "l2", None, "x", 100), [0, 1, 2]), tmp_path / "cells")
    assert main(["bench", "--tables-only", "--out", str(tmp_path)]) == 0
    assert "no plots: matplotlib is not installed" in capsys.readouterr().out
    assert "| net | l2 | 100 | x | 1.5 |" in (tmp_path / "bench.md").read_text()
    assert not (tmp_path / "plots").exists()


def test_report_ranks_by_every_sample(tmp_path: Path) -> None:
    inf = float("inf")
    few, many = Cell("net", "l2", None, "few", 100), Cell("net", "l2", None, OURS, 100)
    # "few" has the smaller mean because it finds only what is near.
    found = [a_record(few, [0, 1, inf, inf, inf]), a_record(many, [0, 1, 2, 3, inf])]
    write_report(found, tmp_path, "command")
    rows = rows_of(tmp_path / "tables" / "radii.csv")
    assert [row["attack"] for row in rows] == [OURS, "few"]
    assert [row["mean"] for row in rows] == ["2.0", "1.0"]
    assert [row["found"] for row in rows] == ["3", "1"]
    # eps_max 3, A* = (1 + 2 + 3 + 3)/5, clean · eps_max = 12/5, A of few = (1 + 3 + 3 + 3)/5.
    assert [float(row["xi"]) for row in rows] == pytest.approx([1, 1 - 1 / 3])
    assert "**2 (3 of 4)** | 1 (1 of 4) few" in (tmp_path / "bench.md").read_text()
    won = {(row["attack"], row["against"]): float(row["share won"]) for row in rows_of(tmp_path / "tables/wins.csv")}
    assert won == {(OURS, "few"): 0.5, ("few", OURS): 0}


@pytest.mark.usefixtures("plots")
def test_nothing_found_at_all_is_still_a_report(tmp_path: Path) -> None:
    inf = float("inf")
    cells = [Cell("net", "l2", None, name, 100) for name in (OURS, "b")]
    sentences = write_report([a_record(cell, [0, inf, inf]) for cell in cells], tmp_path, "command")
    assert sentences[-1] == "no plots: there are no radii of any attack"
    assert rows_of(tmp_path / "tables" / "radii.csv")[0]["xi"] == "nan"


def test_a_record_reads_back_as_it_was(tmp_path: Path) -> None:
    cell = Cell("a/b.c", "l1.5", 1 / 3, "x", 100)
    record = a_record(cell, [0, 1 / 3, float("inf"), 2e-17], about="two\nlines, a comma")
    record = dataclasses.replace(record, stationarity=torch.tensor([0, float("nan"), 1, 1 / 7], dtype=torch.float64))
    path = records.write(record, tmp_path)
    assert path.parent == tmp_path
    again = records.read(path)
    assert again.header == record.header
    assert answers(again) == answers(record)
    header = json.loads(path.read_text().splitlines()[0].removeprefix("# "))
    assert header["schema"] == records.SCHEMA
    assert header["question"] == "max-loss"
    names = {dataclasses.replace(cell, net=net).file_name for net in ("a/b.c", "a.b/c", "a/b/c", "a%2Fb.c")}
    assert len(names) == 4
    assert Cell("a", "l1.5", None, "x", 9).file_name != Cell("a", "l1", None, "5.x", 9).file_name


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = a_record(Cell("net", "l2", None, "x", 100), [1, 2])

    def fails(*_: object) -> None:
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fails)
        with pytest.raises(OSError, match="gone"):
            records.write(record, tmp_path)
    assert list(tmp_path.iterdir()) == []
    # What a kill leaves behind is nobody's cell.
    (tmp_path / ".net.l2.x.100.csv.77.partial").write_text("half")
    assert records.read_folder(tmp_path) == {}


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"schema": 1', '"schema": 99', "field schema is 99, this version of pwcf reads 1"),
        ('"net": "net", ', "", "field net is missing"),
        ('"budget": 100', '"budget": "many"', "field budget is 'many'"),
        ('"pwcf": "0.0", ', "", "field made.pwcf is missing"),
        ("# {", "{", "expected a first line"),
        ("1,converged", "1,splendid", "field status is 'splendid'"),
        ("1,converged", "7,converged", "column sample"),
        ("\n2,", "\n", "expected 3 rows|column|field"),
        (",2.0,2,2,", ",nan,2,2,", "column radius"),
        (",radius,", ",radios,", "field radius is missing"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    path = records.write(a_record(Cell("net", "l2", None, "x", 100), [0, 1, 2]), tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(RecordError, match=complaint) as caught:
        records.read(path)
    assert str(path) in str(caught.value)


def test_short_files_are_named(tmp_path: Path) -> None:
    path = records.write(a_record(Cell("net", "l2", None, "x", 100), [0, 1, 2]), tmp_path)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(RecordError, match="expected 3 rows"):
        records.read(path)


def test_more_passes_than_the_budget_is_no_record(zoo: Path) -> None:
    import pwcf

    run = pwcf.evaluate(torch.nn.Linear(3, 2), torch.rand(2, 3), torch.tensor([0, 1]), pwcf.MinRadius("l2"), budget=80)
    header = a_record(Cell("net", "l2", None, "x", 20), [1]).header
    with pytest.raises(RecordError, match="more than the budget"):
        records.record_of(header, run)


def test_norms_may_be_written_in_capitals(zoo: Path, tmp_path: Path) -> None:
    zoo.write_text(zoo.read_text().replace('{"linf": 0.1}', '{"LINF": 0.1}'))
    words = ("--nets", "wide", "--attacks", "line", "--budgets", "80", "--images", "5", "--norms", "Linf")
    assert bench(zoo, tmp_path / "out", *words) == 0
    assert len(list((tmp_path / "out" / "cells").glob("wide.linf*.csv"))) == 2  # the radius, and the accuracy at EPS


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--nets", "deep"], "expected names out of wide, narrow; found 'deep'"),
        (["--attacks", "magic"], "found 'magic'"),
        (["--norms", "l2", "--eps", "linf=0.1"], "--eps: linf is not among the norms l2"),
        (["--nets", "narrow", "--questions", "max-loss"], "needs --eps"),
    ],
)
def test_wrong_words(
    zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    assert bench(zoo, tmp_path / "out", *words) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--eps", "0.1"], "expected NORM=EPS"),
        (["--eps", "linf=8/0"], "expected NORM=EPS"),
        (["--eps", "linf=-1"], "expected NORM=EPS"),
        (["--norms", "sideways"], "sideways"),
        (["--budgets", "0"], "expected an integer > 0, found '0'"),
        (["--images", "some"], "expected an integer > 0, found 'some'"),
    ],
)
def test_words_that_are_no_values(
    zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    assert bench(zoo, tmp_path / "out", *words) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "expected NETS"),
        ("NETS = 'one'", "expected NETS"),
        ("NETS = ['one']", "expected a function load"),
        ("NETS = ['one']\ndef load(n, i): ...\nEPS = {'linf': 1}", "expected EPS of the form"),
        ("NETS = ['one']\ndef load(n, i): ...\nEPS = {'one': {'linf': -1}}", "EPS['one']['linf']"),
        ("NETS = ['one']\ndef load(n, i): ...\nEPS = {'one': {'two': 1}}", "EPS['one']: metric: expected"),
        ("NETS = ['one']\ndef load(n, i): ...\nATTACKS = {'a': 3}", "expected ATTACKS"),
        ("import no_such_module", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_zoo_files_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str) -> None:
    path = tmp_path / "bad_zoo.py"
    path.write_text(text)
    assert bench(path, tmp_path / "out") == 2
    assert complaint in capsys.readouterr().err


def test_no_zoo_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(tmp_path / "none.py", tmp_path / "out") == 2
    assert "there is no file" in capsys.readouterr().err
    assert main(["bench"]) == 2
    assert "--zoo" in capsys.readouterr().err
    assert main(["bench", "--tables-only", "--out", str(tmp_path)]) == 2
    assert "no such cells" in capsys.readouterr().err


def test_a_net_that_cannot_be_loaded_does_not_stop_the_others(
    zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zoo.write_text(ZOO.replace('"wide": 12, ', ""))
    assert bench(zoo, tmp_path / "out", *SMALL, "--attacks", "line") == 1
    assert "failed: wide (2 cells): KeyError" in capsys.readouterr().err
    assert list(cells_of(tmp_path / "out")) == ["narrow.linf.line.80.csv"]
    zoo.write_text(ZOO.replace("return net, x, y", "return net, x"))
    assert bench(zoo, tmp_path / "other", *SMALL, "--attacks", "line") == 1
    assert "expected (model, images, labels)" in capsys.readouterr().err


def test_list_and_help(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list"]) == 0
    assert "pwcf" in capsys.readouterr().out
    assert main(["bench", "--list", "--zoo", str(zoo)]) == 0
    said = capsys.readouterr().out
    assert "a line, version 3" in said
    assert "wide   eps: linf 0.1" in said
    assert main(["bench", "--help"]) == 0
    assert "zoo file is a Python file" in capsys.readouterr().out


def test_warnings_of_a_caller_stay_as_they_were(zoo: Path, tmp_path: Path) -> None:
    filters = list(warnings.filters)
    assert bench(zoo, tmp_path / "out", *SMALL, "--nets", "narrow", "--attacks", "warning") == 0
    assert warnings.filters == filters
