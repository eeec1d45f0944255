"""``benchmarks/literature.py``: the checks of a claim on problems made up here, and a small run."""

from __future__ import annotations

import csv
import dataclasses
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pwcf
from pwcf.testproblems import TestProblem

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    threads = torch.get_num_threads()
    yield importlib.import_module
    torch.set_num_threads(threads)


def problem(objective: Callable[[Tensor], Tensor], *constraints: pwcf.Constraint, bounds: Any = None) -> TestProblem:
    start = torch.ones(2, dtype=torch.float64)
    return TestProblem("made up", 2, objective, constraints, bounds, 0.0, False, "", start)


def point(*entries: float) -> Tensor:
    return torch.tensor(entries, dtype=torch.float64)


def rosenbrock(x: Tensor) -> Tensor:
    return 8 * (x[:, 0] ** 2 - x[:, 1]).abs() + (1 - x[:, 0]) ** 2


def circle(x: Tensor) -> Tensor:
    return (x**2).sum(-1) - 1


CASES = {
    # a kink of f, along which f still falls
    "in a valley": (problem(rosenbrock), point(0.5, 0.25), point(1, 1)),
    # a curved equality: every step leaves it and must come back
    "on a circle": (problem(lambda x: x[:, 0], pwcf.eq(circle)), point(0.6, 0.8), point(-1, 0)),
    "beside a disc": (problem(lambda x: x[:, 0], pwcf.ineq(circle, fold=True)), point(0.6, 0.8), point(-1, 0)),
    # (x - 1)^2 + (y - 1)^2 s.t. x y <= 0, x, y >= 0: y is 0 but for rounding
    "beside a corner": (
        problem(lambda x: ((x - 1) ** 2).sum(-1), pwcf.ineq(lambda x: x[:, 0] * x[:, 1]), bounds=(0.0, 9.0)),
        point(0.667, 4.6e-7),
        point(1, 0),
    ),
    "at a bound": (problem(lambda x: x.sum(-1), bounds=(0.0, 2.0)), point(0, 1), point(0, 0)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("probe", ["linearised_gain", "random_gain"])
def test_a_probe_tells_a_point_with_descent_from_a_minimizer(load: Callable[[str], Any], case: str, probe: str) -> None:
    probes = load("literature_probes")
    made_up, descent, minimizer = CASES[case]
    gain = getattr(probes, probe)
    assert gain(made_up, descent) > probes.GAIN
    assert gain(made_up, minimizer) <= 0.1 * probes.GAIN


def test_the_step_is_an_lp_over_all_pieces(load: Callable[[str], Any]) -> None:
    probes = load("literature_probes")
    made_up = problem(lambda x: x.abs().amax(-1), bounds=(-torch.inf, 0.997))
    step, *_ = probes.linearised_steps(probes.Unfolded.of(made_up), point(0.995, -3))
    # |x_2| alone is large: its radius is 1 % of 3
    assert float(step[1]) == pytest.approx(0.03)
    assert abs(float(step[0])) <= 0.01
    assert float(step[0]) <= 0.0020001


def test_constraints_that_cannot_be_met_are_met_as_well_as_possible(load: Callable[[str], Any]) -> None:
    probes = load("literature_probes")
    made_up = problem(lambda x: x[:, 1], pwcf.ineq(lambda x: 2 - x[:, 0]))
    step, *_ = probes.linearised_steps(probes.Unfolded.of(made_up), point(0, 0))
    assert step.tolist() == pytest.approx([0.01, -0.01])


def test_a_gain_that_violates_a_constraint_does_not_count(load: Callable[[str], Any]) -> None:
    probes = load("literature_probes")
    # no Newton step leads back: the constraint is flat where it is violated
    flat = pwcf.ineq(lambda x: (x[:, 0] < 1).double() + 0 * x[:, 0])
    made_up = problem(lambda x: x[:, 0], flat)
    assert probes.linearised_gain(made_up, point(1, 0)) == 0


def test_the_collections_share_no_problem(load: Callable[[str], Any]) -> None:
    known, literature = (load("literature").collection(which) for which in ("known", "literature"))
    assert len(known) == len(set(known)) == 62
    assert set(known) | set(literature) == set(pwcf.testproblems.names())
    assert not set(known) & set(literature)


def test_problems_are_compared_by_what_they_are(load: Callable[[str], Any]) -> None:
    kind_of = load("literature").kind_of
    assert [kind_of(name) for name in ("hs71", "cb2", "mad1")] == ["smooth", "nonsmooth", "nonsmooth"]


def test_the_first_row_is_the_standard_start_and_large_entries_move_more(load: Callable[[str], Any]) -> None:
    made_up = dataclasses.replace(problem(rosenbrock, bounds=(0.0, 1010.0)), start=point(1, 1000), spread=0.25)
    starts = load("literature_probes").Unfolded.of(made_up).starts(17, 0)
    assert starts[0].tolist() == [1, 1000]
    assert float((starts[:, 0] - 1).abs().max()) <= 0.25
    assert float(starts[:, 1].min()) < 950
    assert float(starts[:, 1].max()) == 1010


def test_a_run_writes_table_and_rows(load: Callable[[str], Any], tmp_path: Path) -> None:
    load("literature").main(["--problems", "hs71,cb2", "--rows", "3", "--out", str(tmp_path)])
    with (tmp_path / "literature.csv").open(newline="") as file:
        lines = {line["problem"]: line for line in csv.DictReader(file)}
    assert [lines[name]["solved"] for name in ("hs71", "cb2")] == ["3", "3"]
    assert (lines["hs71"]["slsqp_solved"], lines["cb2"]["slsqp_solved"]) == ("3", "")
    with (tmp_path / "literature_rows.csv").open(newline="") as file:
        assert [row["row"] for row in csv.DictReader(file)] == ["0", "1", "2"] * 2
    text = (tmp_path / "literature.md").read_text()
    assert "- 2 problems, 6 rows; 6 of 6 (100.0 %) solved." in text
    assert "SLSQP 3 of 3 (100.0 %)" in text
    assert "False claims: 0 of" in text


def test_slsqp_is_kept_from_an_earlier_run_of_the_same_starts(load: Callable[[str], Any], tmp_path: Path) -> None:
    tool, first, second = load("literature"), tmp_path / "first", tmp_path / "second"
    common = ["--problems", "hs71,cb3", "--out"]
    tool.main([*common, str(first), "--rows", "2"])
    tool.main([*common, str(second), "--rows", "2", "--slsqp-from", str(first / "literature.csv")])
    before, after = ((folder / "literature.csv").read_text().splitlines() for folder in (first, second))
    # the seconds of SLSQP, the last column, tell whether it ran again
    assert [line.rsplit(",", 4)[1:] for line in before] == [line.rsplit(",", 4)[1:] for line in after]
    assert "epigraph" in before[2]
    assert "**Not one run:** the SLSQP columns of 2 problems" in (second / "literature.md").read_text()
    tool.main([*common, str(second), "--rows", "3", "--slsqp-from", str(first / "literature.csv")])
    assert "Not one run" not in (second / "literature.md").read_text()
