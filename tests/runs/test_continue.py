"""Runs that are continued with more samples or a larger budget: what is there is kept, and the record tells it."""

import json
import os
import re
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pwcf
from pwcf.cli import main
from pwcf.runs import RunFolder
from pwcf.runs.header import Stage
from pwcf.runs.summary import warnings_of
from runfolders import Place, answers, make_place, ruined, told

SMALL = {"metric": "l2", "budget": 80, "chunk": 8}
LONG = {"metric": "l2", "tol": 0.1, "chunk": 8}
LOW, HIGH = 450, 600
"""budgets of LONG: with the first some searches converge, with the second some more"""


def rows_by_index(path: Path) -> dict[int, dict[str, Any]]:
    """Every row but its times, with its point."""
    run = pwcf.load_run(path)
    found = {}
    for row, point in zip(run.rows.to_pylist(), run.x_adv, strict=True):
        # The file of its points is another one as soon as other points are in it.
        timeless = {n: repr(value) for n, value in row.items() if not n.startswith("seconds") and n != "points"}
        found[row["index"]] = {**timeless, "x_adv": point.numpy().tobytes()}
    return found


def header_of(path: Path) -> dict[str, Any]:
    return json.loads((path / "header.json").read_text())


def settled(row: dict[str, Any]) -> bool:
    return row["status"] in ("'converged'", "'already-misclassified'", "'found'")


def test_more_samples_end_as_a_run_made_at_once(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("whole", **SMALL) == 0
    assert place.run("out", **SMALL, limit=8) == 0
    first = RunFolder(place.path / "out").tensors_file(0).stat().st_mtime_ns
    assert place.run("out", **SMALL, limit=16) == 0
    assert len(pwcf.load_run(place.path / "out").radius) == 16
    capsys.readouterr()
    assert place.run("out", **SMALL) == 0
    assert "8 of 8 samples with a budget of 80, then 16 of 16 samples" in " ".join(capsys.readouterr().out.split())
    assert answers(place.path / "out") == answers(place.path / "whole")
    assert RunFolder(place.path / "out").tensors_file(0).stat().st_mtime_ns == first
    header, whole = header_of(place.path / "out"), header_of(place.path / "whole")
    assert (header["samples"], header["data"], header["settings"]["limit"]) == (24, whole["data"], None)
    assert "limit" not in header["asked"]
    assert [(each["samples"], each["done"], each["budget"]) for each in header["earlier"]] == [(8, 8, 80), (16, 16, 80)]
    result = json.loads((place.path / "out" / "result.json").read_text())
    assert result["samples"] == result["done"] == 24
    assert main(["verify", "--trust", str(place.path / "out")]) == 0


def test_of_a_partial_chunk_only_the_missing_samples_are_searched(place: Place) -> None:
    assert place.run("whole", **SMALL) == 0
    assert place.run("out", **SMALL, limit=11) == 0
    before = rows_by_index(place.path / "out")
    assert place.run("out", **SMALL) == 0
    after, whole = rows_by_index(place.path / "out"), rows_by_index(place.path / "whole")
    assert {index: after[index] for index in before} == before
    assert list(after) == list(whole) == list(range(24))
    assert all(after[index] == whole[index] for index in (*range(8), *range(16, 24)))
    # Five samples alone: matrix products of other sizes round otherwise.
    for index in range(11, 16):
        assert after[index]["revision"] == "1"
        for name in ("label", "image", "status", "attack", "adversarial_label", "budget"):
            assert after[index][name] == whole[index][name]
        assert float(after[index]["radius"]) == pytest.approx(float(whole[index]["radius"]), rel=1e-4)
    assert sorted(path.name for path in (place.path / "out").glob("tensors-*")) == [
        f"tensors-{name}.safetensors" for name in ("000000", "000001-1", "000002")
    ]
    assert main(["verify", "--trust", str(place.path / "out")]) == 0


def test_an_unfinished_run_can_get_more_samples(place: Place) -> None:
    assert place.run("whole", **SMALL) == 0
    assert place.run("out", **SMALL, limit=16) == 0
    RunFolder(place.path / "out").drop(1, 8)
    assert place.run("out", **SMALL) == 0
    assert answers(place.path / "out") == answers(place.path / "whole")
    assert [each["done"] for each in header_of(place.path / "out")["earlier"]] == [8]


def test_fewer_samples_are_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("out", **SMALL) == 0
    before = answers(place.path / "out")
    err = ruined(place, capsys, **SMALL, limit=10)
    assert "limit was None, now 10 (expected 24 samples or more: those of the record stay)" in err
    assert "Give the old settings to go on, or another --out" in err
    assert answers(place.path / "out") == before
    assert header_of(place.path / "out")["earlier"] == []


def test_more_samples_of_other_data_are_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("out", **SMALL, limit=10) == 0
    before = answers(place.path / "out")
    data = dict(np.load(place.path / "data.npz"))
    data["images"][20, 0, 0, 0] = 0.5
    changed = data["images"][3, 0, 0, 0].copy()
    data["images"][3, 0, 0, 0] = 0.5
    np.savez(place.path / "data.npz", **data)
    assert "data was" in ruined(place, capsys, **SMALL)
    assert answers(place.path / "out") == before
    # What was not there yet may have changed.
    data["images"][3, 0, 0, 0] = changed
    np.savez(place.path / "data.npz", **data)
    assert place.run("out", **SMALL) == 0


def test_a_larger_budget_leaves_what_has_converged_and_betters_the_rest(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.run("out", **LONG, budget=LOW) == 0
    before, old = rows_by_index(place.path / "out"), pwcf.load_run(place.path / "out")
    assert place.run("out", **LONG, budget=HIGH) == 0
    after, new = rows_by_index(place.path / "out"), pwcf.load_run(place.path / "out")
    kept = [index for index, row in before.items() if settled(row)]
    again = [index for index in before if index not in kept]
    assert sum(before[index]["status"] == "'converged'" for index in kept) >= 2, "choose another budget"
    assert len(again) >= 2, "choose another budget"
    assert {index: after[index] for index in kept} == {index: before[index] for index in kept}
    assert (new.radius <= old.radius).all()
    assert any(after[index]["status"] == "'converged'" for index in again)
    assert all(after[index]["budget"] == str(HIGH) for index in again)
    assert (new.passes.total[again] > old.passes.total[again]).all()
    header = header_of(place.path / "out")
    assert (header["budget"], header["settings"]["budget"], header["asked"]["budget"]) == (HIGH, HIGH, HIGH)
    assert [(each["samples"], each["done"], each["budget"]) for each in header["earlier"]] == [(24, 24, LOW)]
    assert main(["verify", "--trust", str(place.path / "out")]) == 0
    capsys.readouterr()
    assert main(["show", str(place.path / "out")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"24 of 24 samples with a budget of {LOW}" in shown
    assert f"converged {sum(row['status'] == repr('converged') for row in after.values())}" in shown
    # The same command has nothing left to do.
    files = {path: path.stat().st_mtime_ns for path in (place.path / "out").glob("tensors-*")}
    assert place.run("out", **LONG, budget=HIGH) == 0
    assert {path: path.stat().st_mtime_ns for path in (place.path / "out").glob("tensors-*")} == files
    assert header_of(place.path / "out") == header


def test_the_better_of_two_answers_stays_at_the_cost_of_both(place: Place) -> None:
    assert place.run("out", **LONG, budget=LOW) == 0
    assert place.run("direct", **LONG, budget=HIGH) == 0
    folder = RunFolder(place.path / "out")
    rows, direct = folder.rows().to_pylist(), RunFolder(place.path / "direct").rows().to_pylist()
    converging = [row for row in rows if row["status"] == "budget" and direct[row["index"]]["status"] == "converged"]
    # Points that no search finds, a rounding nearer than one that it finds, and one that any search betters.
    refuting, near, far = converging[:3]
    for row, factor in ((refuting, 0.5), (near, 0.999), (far, 2.0)):
        row["radius"] = factor * direct[row["index"]]["radius"]
    folder.write_rows(0, 2, folder.rows().from_pylist(rows, schema=folder.rows().schema))
    points = pwcf.load_run(place.path / "out").x_adv
    assert place.run("out", **LONG, budget=HIGH) == 0
    after, x_adv = folder.rows().to_pylist(), pwcf.load_run(place.path / "out").x_adv
    for old in (refuting, near):
        new = after[old["index"]]
        assert (x_adv[old["index"]] == points[old["index"]]).all()
        assert [repr(new[name]) for name in ("radius", "l2", "loss", "stationarity", "attack")] == [
            repr(old[name]) for name in ("radius", "l2", "loss", "stationarity", "attack")
        ]
    assert after[refuting["index"]]["status"] == "budget"
    assert repr(after[refuting["index"]]["gain"]) == repr(refuting["gain"])
    assert after[near["index"]]["status"] == after[far["index"]]["status"] == "converged"
    assert after[near["index"]]["gain"] <= LONG["tol"]
    assert after[far["index"]]["radius"] == pytest.approx(direct[far["index"]]["radius"], rel=1e-3)
    for old in (refuting, near, far):
        new = after[old["index"]]
        assert (new["budget"], new["revision"]) == (HIGH, 1)
        assert new["forward"] > max(old["forward"], direct[old["index"]]["forward"])
        assert new["passes:lmn"] > old["passes:lmn"]
        assert new["radius:lmn"] <= old["radius:lmn"]


def test_samples_that_are_broken_within_eps_stay_as_they_are(place: Place) -> None:
    said = {"metric": "linf", "question": "max-loss", "eps": "0.04", "chunk": 8}
    assert place.run("out", **said, budget=80) == 0
    before = rows_by_index(place.path / "out")
    statuses = [row["status"] for row in before.values()]
    assert "'found'" in statuses
    assert "'not-found'" in statuses
    assert place.run("out", **said, budget=160) == 0
    after = rows_by_index(place.path / "out")
    for index, row in before.items():
        assert (after[index] == row) == settled(row)
        assert float(after[index]["nearest"]) <= float(row["nearest"])


@pytest.mark.parametrize(
    ("stop", "budget", "named"),
    [
        ("converged", 70, "budget was 80, now 70 (a run goes on with more than 80 passes a sample)"),
        ("budget", 90, "budget was 80, now 90 (with stop 'budget' every sample uses up the same budget"),
    ],
)
def test_budgets_that_a_run_cannot_go_on_with_are_refused(
    place: Place, capsys: pytest.CaptureFixture[str], stop: str, budget: int, named: str
) -> None:
    said = {"metric": "l2", "chunk": 8, "limit": 8, "stop": stop}
    assert place.run("out", **said, budget=80) == 0
    before = answers(place.path / "out")
    assert named in ruined(place, capsys, **said, budget=budget)
    assert answers(place.path / "out") == before


class Death(GeneratorExit):
    """A process that ends here, for nobody expects it; of a kind that is not taken for a fault of the user's code."""


def die_after(monkeypatch: pytest.MonkeyPatch, changes: int) -> list[int]:
    """End at the next change to a file after so many. How many are left, below 0 once it has ended."""
    left = [changes]

    def counted(change: Any) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            if "partial" not in str(given[0]) or len(given) > 1:
                left[0] -= 1
                if left[0] < 0:
                    raise Death
            return change(*given, **more)

        return call

    monkeypatch.setattr(os, "replace", counted(os.replace))
    monkeypatch.setattr(Path, "unlink", counted(Path.unlink))
    return left


@pytest.mark.parametrize("merged", [True, False])
def test_a_continuation_that_dies_at_any_change_of_a_file_ends_as_one_that_does_not(
    tmp_path: Path, merged: bool
) -> None:
    place = make_place(tmp_path, 12)
    said = LONG | {"chunk": 4}
    assert place.run("start", **said, budget=LOW, limit=7) == 0
    if not merged:
        RunFolder(tmp_path / "start").separate(0, 4)
    shutil.copytree(tmp_path / "start", tmp_path / "whole")
    assert place.run("whole", **said, budget=HIGH) == 0
    whole, changes = answers(tmp_path / "whole"), 0
    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    while True:
        shutil.rmtree(tmp_path / "killed", ignore_errors=True)
        shutil.copytree(tmp_path / "start", tmp_path / "killed")
        with pytest.MonkeyPatch.context() as patch:
            left = die_after(patch, changes)
            code = place.run("killed", **said, budget=HIGH)
            died = left[0] < 0
            assert code == 2 * died
        # Whenever it is, the folder can be read: rows have their points.
        run = pwcf.load_run(tmp_path / "killed")
        assert len(run.radius) >= 7
        assert run.complete or not RunFolder(tmp_path / "killed").complete
        assert main(["verify", "--trust", str(tmp_path / "killed")]) == 0
        assert place.run("killed", **said, budget=HIGH) == 0
        assert answers(tmp_path / "killed") == whole
        assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == names
        stages = header_of(tmp_path / "killed")["earlier"]
        assert [(each["samples"], each["done"], each["budget"]) for each in stages] == [(7, 7, LOW)]
        if not died:
            break
        changes += 1
    assert changes > 8


def test_a_continuation_that_was_killed_ends_as_one_that_was_not(tmp_path: Path) -> None:
    place = make_place(tmp_path, 120)
    said = LONG | {"chunk": 5}
    assert place.run("whole", **said, budget=LOW, limit=58) == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    assert place.run("whole", **said, budget=HIGH) == 0
    out = tmp_path / "killed"
    for _ in range(3):
        before = sorted(path.name for path in out.glob("tensors-*"))
        process = place.start("killed", **said, budget=HIGH)
        while process.poll() is None and sorted(path.name for path in out.glob("tensors-*")) == before:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it ended before it could be killed: give it more to do"
    assert place.run("killed", **said, budget=HIGH) == 0
    assert answers(out) == answers(tmp_path / "whole")
    assert len(header_of(out)["earlier"]) == 1


def test_a_run_whose_rows_do_not_tell_their_budget_is_continued(place: Place) -> None:
    assert place.run("out", **LONG, budget=LOW, limit=11) == 0
    shutil.copytree(place.path / "out", place.path / "old")
    folder = RunFolder(place.path / "old")
    rows = folder.rows().drop_columns(["budget", "revision", "points"])
    folder.write_rows(0, 1, rows)
    content = {**header_of(place.path / "old"), "schema": 2}
    del content["earlier"]
    folder.create(content)
    for name in ("out", "old"):
        assert place.run(name, **LONG, budget=HIGH) == 0
    new, old = rows_by_index(place.path / "out"), rows_by_index(place.path / "old")
    for row in old.values():
        if row["budget"] == "None":
            row.update(budget=str(LOW), revision="0")
    assert old == new
    assert main(["show", str(place.path / "old")]) == 0
    assert pwcf.load_run(place.path / "old").complete


def test_warnings_of_an_earlier_budget_say_so(place: Place) -> None:
    assert place.run("out", **SMALL) == 0
    run = pwcf.load_run(place.path / "out")
    header = replace(run.header, budget=160, earlier=(Stage(24, 80, 24, "", {}),))
    rows = run.rows.to_pylist()
    for row in rows:
        row["warnings"] = "Found for 2 of 8 samples.\nAlways."
    for i in (3, 5):  # searched again
        rows[i].update(budget=160, revision=1, warnings="Found for 1 of 2 samples.\nAlways.")
    told_so = warnings_of(header, run.rows.from_pylist(rows, schema=run.rows.schema))
    assert told_so == ["With a budget of 80: Found for 6 of 24 samples.", "Always.", "Found for 1 of 2 samples."]


def test_the_progress_line_counts_what_has_converged(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")

    def line(**more: object) -> str:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        assert place.run("out", **LONG, **more) == 0
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)

    def figures() -> dict[str, Any]:
        assert main(["show", "--json", str(place.path / "out")]) == 0
        return told(capsys.readouterr().out)

    def expected(shown: dict[str, Any]) -> str:
        return f"found {shown['found']}/{shown['attacked']}, converged {shown['converged']}, mean radius"

    written, first = line(budget=LOW), figures()
    assert first["converged"] > 0
    assert expected(first) in written
    written, last = line(budget=HIGH), figures()
    assert "24 of 24 samples are there already, " in written
    assert "of them are searched again; going on" in written
    assert last["converged"] > first["converged"]
    assert expected(first) in written
    assert expected(last) in written
    assert "converged" not in _max_loss_line(place, capsys, monkeypatch)


def _max_loss_line(place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert place.run("eps", metric="l2", question="max-loss", eps="0.1", budget=60, limit=4) == 0
    written = capsys.readouterr().err
    assert "robust accuracy" in written
    return written
