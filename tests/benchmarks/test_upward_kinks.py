"""``benchmarks/upward_kinks.py``: the local search on kinks that point upwards, the families, and a small run."""

from __future__ import annotations

import csv
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


def point(*entries: float) -> Tensor:
    return torch.tensor(entries, dtype=torch.float64)


def made_up(objective: Callable[[Tensor], Tensor], *constraints: pwcf.Constraint) -> TestProblem:
    return TestProblem("made up", 2, objective, constraints, None, 0.0, False, "", point(1, 1))


CASES = {
    # Clarke stationary, but (t, 2 t - 1), t > 0, leads down to (1, 1)
    "nesterov": (pwcf.testproblems.nesterov_rosenbrock_2(2), point(0, -1), point(1, 1)),
    # nothing but the way (t, |t|) is feasible, and of its two sides one leads down
    "on a kink": (
        made_up(lambda x: -x[:, 0], pwcf.eq(lambda x: x[:, 1] - x[:, 0].abs()), pwcf.ineq(lambda x: x[:, 0] - 1)),
        point(0, 0),
        point(1, 1),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_local_search_tells_an_upward_kink_from_a_minimizer(load: Callable[[str], Any], case: str) -> None:
    probes = load("literature_probes")
    problem, descent, minimizer = CASES[case]
    gain = probes.local_search_gain(problem, descent)
    assert gain > probes.GAIN
    assert gain == probes.local_search_gain(problem, descent)
    assert probes.local_search_gain(problem, minimizer) <= 0.1 * probes.GAIN


def test_the_local_search_stays_beside_the_point(load: Callable[[str], Any]) -> None:
    probes = load("literature_probes")
    # slope 1 down to 0 at -5: within 1 % there is .01 to gain, relative to |f| = 5
    slope = made_up(lambda x: (x[:, 0] + 5).abs())
    assert probes.local_search_gain(slope, point(0, 0)) == pytest.approx(0.002, rel=1e-2)
    assert probes.local_search_gain(slope, point(0, 0), within=0.001) == pytest.approx(0.0002, rel=1e-2)


def test_a_smaller_radius_tells_a_kink_from_a_minimum_with_a_lower_one_beside_it(load: Callable[[str], Any]) -> None:
    probes = load("literature_probes")
    # minima at 0 and at .008, where f is -.002
    two = made_up(lambda x: torch.minimum(x[:, 0].abs(), (x[:, 0] - 0.008).abs() - 0.002) + x[:, 1].abs())
    assert probes.local_search_gain(two, point(0, 0)) == pytest.approx(0.002, rel=1e-2)
    assert probes.local_search_gain(two, point(0, 0), within=0.001) == 0
    kink = pwcf.testproblems.nesterov_rosenbrock_2(2)
    gains = [probes.local_search_gain(kink, point(0, -1), within=radius) for radius in (0.01, 0.001)]
    assert gains[1] == pytest.approx(0.1 * gains[0], rel=0.2)


def test_the_chain_is_that_of_nesterovs_function(load: Callable[[str], Any]) -> None:
    tool = load("upward_kinks")
    x, a, b = point(0.5, -2)[None], point(2), point(1)
    nesterov = pwcf.testproblems.nesterov_rosenbrock_2(2)
    assert float(tool.chain(x, a, b).abs() + (x[:, 0] - 1).abs() / 4) == float(nesterov.objective(x))


def test_instances_follow_from_the_seed_and_every_n_meets_both_kinds_of_starts(load: Callable[[str], Any]) -> None:
    tool = load("upward_kinks")
    assert len(tool.FAMILIES) == 11
    for family in tool.FAMILIES:
        met = set()
        for seed in range(8):
            problem, again = tool.instance(family, seed), tool.instance(family, seed)
            unfolded = tool.Unfolded.of(problem)
            starts = tool.starts_of(unfolded, 5, seed)
            met.add((problem.n, bool((2 * starts == (2 * starts).round()).all())))
            assert torch.equal(problem.objective(starts), again.objective(starts))
            assert torch.equal(unfolded.columns(starts), tool.Unfolded.of(again).columns(starts))
        sizes = {n for n, _ in met}
        assert met == {(n, rounded) for n in sizes for rounded in (False, True)}


def test_a_run_counts_false_claims(load: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = load("upward_kinks")
    run = ["--families", "nesterov_chain,on_chain", "--seeds", "1", "--rows", "3", "--out", str(tmp_path)]

    def counts() -> list[list[str]]:
        tool.main(run)
        with (tmp_path / "upward_kinks.csv").open(newline="") as file:
            keys = ("family", "rows", "claims", "false_claims", "false_by_random")
            return [[line[key] for key in keys] for line in csv.DictReader(file)]

    (_, _, claims, false, _), (_, _, constrained, _, _), total = counts()
    assert (claims, false, constrained) == ("3", "0", "3")
    assert total == ["total", "6", "6", "0", "0"]
    text = (tmp_path / "upward_kinks.md").read_text()
    assert "## False claims\n\nNone." in text
    assert "- `on_chain`: |x_1 - 1| subject to" in text
    monkeypatch.setitem(tool.PROBES, "random", lambda problem, x: 1.0)
    assert counts()[-1] == ["total", "6", "6", "6", "6"]
    assert "| on_chain | 2 | 0 | 2 |" in (tmp_path / "upward_kinks.md").read_text()
