"""Which cells a grid has, and what is told of values that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pwcf.bench import make_cells, record_grid
from pwcf.runs import RunError

SMALL: dict[str, Any] = {
    "model": ["nets.py:wide", "nets.py:narrow"],
    "data": "data.npz",
    "metric": ["linf", "l2"],
    "attacks": ["lmn", "fab"],
    "budget": [80, 60],
}


def test_cells_are_ordered_by_network_and_budget_and_have_readable_folders() -> None:
    cells = make_cells(SMALL, ["linf=8/255"])
    assert len(cells) == 2 * 2 * 3 * 2
    assert [cell.folder for cell in cells[:6]] == [
        "wide/linf/lmn-60",
        "wide/linf/fab-60",
        "wide/linf-eps-8_255/lmn-60",
        "wide/linf-eps-8_255/fab-60",
        "wide/l2/lmn-60",
        "wide/l2/fab-60",
    ]
    assert [cell.net for cell in cells] == ["wide"] * 12 + ["narrow"] * 12
    within = cells[2]
    assert within.asked["eps"] == "8/255"
    settings = within.settings("out")
    assert settings.question == "max-loss"
    assert settings.eps == 8 / 255
    assert settings.out == "out/wide/linf-eps-8_255/lmn-60"
    assert settings.limit == 100
    assert str(within) == "wide linf within 8/255 lmn 60"


def test_nets_of_a_file_have_settings_of_their_own() -> None:
    nets = {
        "a": {"model": "nets.py:wide", "data": "a.npz", "bounds": [-1, 1], "eps": {"linf": ["8/255", 0.1], "l1": 3}},
        "b": {"model": "nets.py:narrow", "data": "b.npz", "limit": 3},
    }
    cells = make_cells({"nets": nets, "metric": ["Linf"], "attacks": "lmn", "budget": 60, "limit": 7, "seed": 2})
    assert [cell.folder for cell in cells] == [
        "a/linf/lmn-60",
        "a/linf-eps-8_255/lmn-60",
        "a/linf-eps-0.1/lmn-60",
        "b/linf/lmn-60",
    ]
    first, last = cells[0].settings("o"), cells[-1].settings("o")
    assert (first.bounds, first.limit, first.seed, first.data) == ([-1, 1], 7, 2, "a.npz")
    assert (last.bounds, last.limit, last.seed, last.data) == ([0, 1], 3, 2, "b.npz")
    # What the command line says holds for all of them, in place of their own.
    assert [cell.eps for cell in make_cells({"nets": nets, "metric": "linf", "attacks": "lmn"}, ["linf=1"])] == [
        None, "1", None, "1", None, "1", None, "1",
    ]  # fmt: skip


def test_one_of_the_questions_alone() -> None:
    assert {cell.eps for cell in make_cells(SMALL | {"question": "max-loss"}, ["l2=0.5"])} == {"0.5"}
    assert {cell.eps for cell in make_cells(SMALL | {"question": "min-radius"}, ["l2=0.5"])} == {None}


@pytest.mark.parametrize(
    ("change", "eps", "complaint"),
    [
        ({}, ["0.1"], "expected METRIC=EPS"),
        ({}, ["linf=8/0"], "EPS > 0"),
        ({}, ["linf=-1"], "EPS > 0"),
        ({}, ["l1=1"], "l1 is not among the metrics linf, l2"),
        ({"question": "max-loss"}, [], "max-loss alone needs an eps"),
        ({"question": "why"}, [], "question: expected one of"),
        ({"metric": "sideways"}, [], "sideways"),
        ({"budget": 0}, [], "budget: expected an integer > 0, found 0"),
        ({"budget": []}, [], "budget: expected at least one"),
        ({"attacks": []}, [], "attacks: expected at least one"),
        ({"attacks": [3]}, [], "attacks: expected names"),
        ({"attacks": ["a.py:x", "b.py:x"]}, [], "expected names that differ"),
        ({"limit": 0}, [], "limit: expected an integer > 0"),
        ({"modell": "x"}, [], "modell"),
        ({"nets": {"a": {}}}, [], "model: expected none beside the nets"),
    ],
)
def test_wrong_values_are_named(change: dict[str, Any], eps: list[str], complaint: str) -> None:
    with pytest.raises(RunError, match=complaint):
        make_cells(SMALL | change, eps)


def test_networks_that_share_a_name_are_called_by_all_they_are_called() -> None:
    cells = make_cells(SMALL | {"model": ["a.py:net", "b.py:net"]})
    assert {cell.net for cell in cells} == {"a.py_net", "b.py_net"}


@pytest.mark.parametrize(
    ("nets", "complaint"),
    [
        ([], "nets: expected a table"),
        ({"a": 3}, "nets: expected a table"),
        ({"a/b": {"model": "m", "data": "d"}}, "expected a name of letters"),
        ({"a": {"model": "m", "data": "d", "attacks": ["lmn"]}}, "found 'attacks'"),
        ({"a": {"model": "m", "data": "d", "eps": 0.1}}, "nets.a.eps: expected a table"),
        ({"a": {"model": "m", "data": "d", "eps": {"linf": -1}}}, "EPS > 0"),
        ({"a": {"model": "m"}}, "data: expected"),
    ],
)
def test_nets_that_are_none(nets: Any, complaint: str) -> None:
    with pytest.raises(RunError, match=complaint):
        make_cells({"nets": nets, "metric": "linf", "attacks": "lmn"})


def test_the_folder_knows_the_cells_of_all_grids_that_were_run_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    record_grid(make_cells(SMALL | {"attacks": "lmn"}), out)
    record_grid(make_cells(SMALL | {"attacks": "fab", "engine": "ray"}), out)
    content = json.loads((out / "grid.json").read_text())
    assert len(content["cells"]) == 16
    assert content["nets"]["wide"] == {"model": "nets.py:wide", "data": "data.npz", "limit": 100, "stop": "budget"}
    for change, told in (({"seed": 1}, "seed was None, now 1"), ({"limit": 3}, "limit was 100, now 3")):
        with pytest.raises(RunError, match=told):
            record_grid(make_cells(SMALL | change), out)
    assert json.loads((out / "grid.json").read_text()) == content
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(RunError, match=r"thesis\.tex"):
        record_grid(make_cells(SMALL), tmp_path / "other")
