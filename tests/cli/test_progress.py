"""What one sees of a run while it works."""

from __future__ import annotations

import re
import sys
import time

import numpy as np
import pytest
import torch
from torch import Tensor

import pwcf
from pwcf._common.progress import UnderWay, under_way
from pwcf.cli import progress
from pwcf.runs import Listener, RunFolder
from pwcf.runs.header import Header
from pwcf.runs.shard import Shard
from runfolders import SAID, Place

SLOW = "\n\nimport time\n\ndef slow():\n    made = net()\n    return lambda x: (time.sleep(0.01), made(x))[1]\n"


@pytest.fixture
def slow(place: Place) -> Place:
    with (place.path / "net.py").open("a") as file:
        file.write(SLOW)
    return place


def run_slow(place: Place, out: str, *more: str) -> int:
    return place.run(out, *more, model=f"{place.path}/net.py:slow", limit=16, **SAID)


def plain(written: str) -> list[str]:
    return re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written))


def test_an_evaluation_can_be_looked_at_while_it_works() -> None:
    torch.manual_seed(0)
    net = torch.nn.Linear(12, 2)  # converges after a few dozen passes
    images = torch.rand(8, 12)
    labels = net(images).argmax(1)
    labels[0] = (labels[0] + 1) % 2
    seen: list[UnderWay] = []

    def watched(x: Tensor) -> Tensor:
        seen.extend(under_way())
        return net(x)

    run = pwcf.evaluate(watched, images, labels, pwcf.MinRadius("l2"), budget=2000)
    assert under_way() == []
    assert torch.equal(run.x_adv, pwcf.evaluate(net, images, labels, pwcf.MinRadius("l2"), budget=2000).x_adv)
    spent = [sum(each.passes) for each in seen]
    assert spent == sorted(spent)
    assert {each.budget for each in seen} == {2000}
    assert [sum(seen[place].finished) for place in (0, -1)] == [0, 8]
    assert any(each.finished == [True] + [False] * 7 for each in seen)  # wrong as it is: nothing to search
    final = sum(status is pwcf.Status.CONVERGED for status in run.status)
    assert 0 < max(each.converged for each in seen) <= final
    # Of several attacks a sample that the first one is done with is not finished.
    seen.clear()
    pwcf.evaluate(watched, images, labels, pwcf.MinRadius("l2"), budget=[2000, 100], attacks=["lmn", "fab"])
    assert sum(seen[-1].finished) < 8 // 2


def test_the_bar_moves_during_the_first_chunk(
    slow: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    bars, begin = list[progress.Bar](), progress.Bar.begin

    def begun(bar: progress.Bar, header: Header, folder: RunFolder, todo: int) -> None:
        begin(bar, header, folder, todo)
        bars.append(bar)

    # A frame at every call of the model: how many the thread of the bar draws depends on the machine.
    monkeypatch.setattr(progress.Bar, "begin", begun)
    monkeypatch.setattr(time, "sleep", lambda seconds: bars[-1].live.refresh() if bars else None)
    assert run_slow(slow, "out") == 0
    lines = [line.rstrip() for line in plain(capsys.readouterr().err)]
    assert max(map(len, lines)) <= 80
    first = [line for line in lines if " 0/16 " in line]
    assert len(set(first)) >= 2
    assert re.search(r"━.* 0/16 0:\d\d elapsed, \d+\.\d s\w*/s\w*, at most 0:\d\d left$", first[-1])
    assert any(re.fullmatch(r"converged \d+; 8 under way at \d+ passes", line) for line in lines)
    assert re.search(r" 8/16 0:\d\d elapsed, [\d.]+ s\w*/s\w*, 0:\d\d left$", "\n".join(lines), re.MULTILINE)
    assert re.fullmatch(r"found \d+/\d+, converged \d+, mean radius [\d.]+, \d+ passes", lines[-2] or lines[-1])


def test_a_log_has_a_plain_line_now_and_then(
    slow: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert slow.run("short", **SAID) == 0
    assert capsys.readouterr().err == ""  # nothing has taken ten seconds
    monkeypatch.setattr(progress, "FIRST", 0.1)
    assert run_slow(slow, "out") == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 2
    told = r"pwcf: 0 of 16 samples, 0:\d\d elapsed.*; converged \d+; 8 under way at \d+ passes"
    assert any(re.fullmatch(told, line) for line in lines)
    assert "\x1b" not in "".join(lines)


def test_the_time_left_is_told_by_what_samples_have_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, working = [100.0], list[UnderWay]()
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress, "under_way", lambda: working)
    monkeypatch.setattr(progress, "_tally_of", lambda folder: progress.Tally())
    monkeypatch.setattr(progress, "question_of", lambda header: "min-radius, l2")
    header = type("Header", (), {"samples": 20, "settings": type("Settings", (), {"eps": None})})
    meter = progress.Meter(header, None, 20)  # type: ignore[arg-type]
    clock[0] += 10
    working[:] = [UnderWay([1000, 0, 500, 1000], [False, False, False, True], 1, 2000)]
    meter.look()
    # At most the whole budget: half, nothing, a quarter, and one that is finished.
    assert meter.done == pytest.approx(1.75)
    assert meter.times() == f"0:10 elapsed, 5.7 s/sample, at most {progress._clock(18.25 * 10 / 1.75)} left"
    assert meter.figures() == "converged 1; 4 under way at 625 passes"
    columns = {
        "index": np.arange(4), "status": ["converged"] * 4, "adversarial": [True] * 4, "radius": [0.5] * 4,
        "forward": [250] * 4, "backward": [250] * 4,
    }  # fmt: skip
    meter.add(Shard(0, columns, torch.zeros(4, 1)))
    clock[0] += 10
    working[:] = [UnderWay([250, 0, 1000, 500], [False, False, False, True], 1, 2000)]
    meter.look()
    # A sample has cost 500; one that has spent more needs a part of the rest.
    assert meter.done == pytest.approx(4 + 250 / 687.5 + 0 + 1000 / 1250 + 1)
    assert "at most" not in meter.times()
    assert meter.figures() == "found 4/4, converged 5, mean radius 0.5, 500 passes; 4 under way at 438"


def test_listeners_are_chosen_by_where_one_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = type("Settings", (), {"tracker": None})

    def kinds(tty: bool, quiet: bool) -> list[type[Listener]]:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: tty, raising=False)
        return [type(each) for each in progress.listeners(settings, quiet)]  # type: ignore[arg-type]

    assert kinds(True, False) == [progress.Bar]
    assert kinds(False, False) == [progress.Lines]
    assert kinds(True, True) == kinds(False, True) == []
