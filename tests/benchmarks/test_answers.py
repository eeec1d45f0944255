"""``benchmarks/answers.py compare`` on records made up here."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RENAMED = ("old=new", "old-folded=old")
Record = dict[str, Any]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    threads = torch.get_num_threads()
    yield importlib.import_module("answers")
    torch.set_num_threads(threads)


def cell(attack: str, case: str, answer: str = "a") -> Record:
    fields = {
        "x_adv": answer * 64,
        "radius": answer * 64,
        "adversarial": "1" * 64,
        "status": ["converged", "budget"],
        "evidence.excess": "2" * 64,
        "attack": [attack, ""],
    }
    passes = {"forward": [10, 12], "backward": [5, 6]}
    place = {"section": "attacks", "attack": attack, "case": case}
    return {**place, "outcome": "answered", "fields": fields, "passes": passes, "radius": [0.5, "inf"], "seconds": 1.0}


def record(*cells: Record) -> Record:
    header = {"torch": "2", "commit": "abc", "processor": "x"}
    return {"header": header, "cells": {f"attacks/{each['attack']}/{each['case']}": each for each in cells}}


def two() -> Record:
    return record(cell("old", "l2", "a"), cell("old-folded", "l2", "b"))


@pytest.fixture
def compared(tool: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(before: Record, after: Record, *options: str) -> tuple[int, str]:
        paths = [tmp_path / "before.json", tmp_path / "after.json"]
        for path, content in zip(paths, (before, after), strict=True):
            path.write_text(json.dumps(content), encoding="utf-8")
        code = tool.main(["compare", *map(str, paths), *options])
        return code, capsys.readouterr().out

    return run


def test_the_same_answers_in_other_times_are_equal(compared: Any) -> None:
    after = two()
    after["cells"]["attacks/old/l2"]["seconds"] = 9.0
    code, said = compared(two(), after)
    assert code == 0
    assert "attacks: 2 of 2 cells are equal" in said


@pytest.mark.parametrize("field", ["x_adv", "evidence.excess"])
def test_another_digest_is_a_difference(compared: Any, field: str) -> None:
    after = two()
    after["cells"]["attacks/old/l2"]["fields"][field] = "f" * 64
    code, said = compared(two(), after)
    assert code == 1
    assert "attacks: 1 of 2 cells are equal, 1 have other answers" in said
    assert f"other answers: attacks/old/l2: {field}" in said


def test_a_status_and_an_outcome_are_answers(compared: Any) -> None:
    after = two()
    after["cells"]["attacks/old/l2"]["fields"]["status"][1] = "converged"
    after["cells"]["attacks/old-folded/l2"].update(outcome="declined", fields={}, passes={})
    code, said = compared(two(), after)
    assert code == 1
    assert "attacks/old/l2: status [1] budget -> converged" in said
    assert "attacks/old-folded/l2: answered -> declined" in said


def test_names_change_all_at_once(compared: Any) -> None:
    after = record(cell("new", "l2", "a"), cell("old", "l2", "b"))
    assert compared(two(), after, "--rename", *RENAMED)[0] == 0
    swapped = record(cell("new", "l2", "b"), cell("old", "l2", "a"))
    assert compared(two(), swapped, "--rename", *RENAMED)[0] == 1
    assert compared(two(), after)[0] == 1


def test_a_renaming_that_merges_two_attacks_is_refused(compared: Any) -> None:
    with pytest.raises(SystemExit, match="two cells of BEFORE would be called 'attacks/old/l2'"):
        compared(two(), two(), "--rename", "old-folded=old")
    with pytest.raises(SystemExit, match="no attack of BEFORE is called older"):
        compared(two(), two(), "--rename", "older=new")


def test_a_cell_that_is_lost_is_a_difference_and_a_new_one_is_not(compared: Any) -> None:
    more = two()
    more["cells"]["attacks/third/l2"] = cell("third", "l2")
    code, said = compared(more, two())
    assert code == 1
    assert "only before: attacks/third/l2" in said
    assert compared(more, two(), "--only", "/old")[0] == 0
    code, said = compared(two(), more)
    assert code == 0
    assert "only after: attacks/third/l2" in said


def test_records_without_a_common_cell_are_not_equal(compared: Any) -> None:
    assert compared(two(), two(), "--only", "nowhere")[0] == 1


def test_passes_alone_are_counted_apart(compared: Any) -> None:
    after = two()
    after["cells"]["attacks/old/l2"]["passes"]["forward"][1] = 11
    code, said = compared(two(), after)
    assert code == 1
    assert "1 have the same answers with other passes" in said
    assert "other passes: attacks/old/l2: forward [1] 12 -> 11" in said
    assert compared(two(), after, "--ignore-passes")[0] == 0


def test_evidence_that_one_side_lacks_is_listed_and_a_radius_is_missed(compared: Any) -> None:
    after = copy.deepcopy(two())
    for each in after["cells"].values():
        del each["fields"]["evidence.excess"]
    code, said = compared(two(), after)
    assert code == 0
    assert "evidence.excess, only before: in 2 cells" in said
    del after["cells"]["attacks/old/l2"]["fields"]["radius"]
    assert compared(two(), after)[0] == 1


def test_a_digest_knows_bits_shape_and_dtype(tool: Any) -> None:
    digest = importlib.import_module("answer_cells").digest
    zeros = torch.zeros(2, 3)
    others = (-zeros, zeros.T, zeros.double(), zeros.to(torch.int32), torch.full((2, 3), 1e-45))
    assert digest(zeros) == digest(torch.zeros(3, 2).T)
    assert len({digest(zeros), *map(digest, others)}) == 6


def test_a_record_goes_on_where_it_stopped(tool: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.json"
    assert tool.main(["record", str(path), "--only", "^minimize/hs71$"]) == 0
    first = json.loads(path.read_text(encoding="utf-8"))
    assert tool.main(["record", str(path), "--only", "^minimize/hs(71|113)$"]) == 0
    assert "2 cells, 1 of them recorded before" in capsys.readouterr().out
    both = json.loads(path.read_text(encoding="utf-8"))
    assert set(both["cells"]) == {"minimize/hs71", "minimize/hs113"}
    assert both["cells"]["minimize/hs71"] == first["cells"]["minimize/hs71"]
    path.write_text(json.dumps({**both, "header": {**both["header"], "code": "another"}}), encoding="utf-8")
    with pytest.raises(SystemExit, match="found another code"):
        tool.main(["record", str(path)])
