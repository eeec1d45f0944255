"""Analyses of runs: against values worked out by hand, and on runs in folders."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor, nn

import pwcf
from pwcf import analysis
from pwcf.cli import main
from pwcf.runs import RunError
from pwcf.runs.load import original_images
from runfolders import Place, make_place
from runs_by_hand import run_of

INF = math.inf


# ---- accuracy and curves ----------------------------------------------------------------------------


def test_accuracy_at_eps_counts_who_may_still_fall() -> None:
    run = run_of("ccbnwx", [1, 3, 3, INF, 0, INF])
    found = analysis.accuracy_of(run, 2.0)
    # 3 (converged), 3 (budget) and the one without a point stand; the last two of these are not settled.
    assert (found.samples, found.robust, found.clean, found.unsettled) == (6, 0.5, 4 / 6, 2)
    assert found.least == pytest.approx(1 / 6)
    assert found.low < 0.5 < found.high
    assert analysis.accuracy_of(run, 3.0).robust == pytest.approx(1 / 6)  # a radius of eps is broken


def test_accuracy_of_max_loss_is_its_own_and_nothing_that_stands_is_proved() -> None:
    run = run_of("ffnnw", [1, 1, INF, INF, 0], pwcf.MaxLoss("l2", 1.5))
    found = analysis.accuracy_of(run)
    assert (found.eps, found.robust, found.unsettled) == (1.5, 0.4, 2)
    with pytest.raises(ValueError, match="eps: expected none"):
        analysis.accuracy_of(run, 1.0)
    with pytest.raises(ValueError, match="eps: expected a number"):
        analysis.accuracy_of(run_of("c", [1]))


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (3, 10), (10, 10), (480, 500)])
def test_wilson_is_scipys(hits: int, n: int) -> None:
    theirs = scipy.stats.binomtest(hits, n).proportion_ci(0.95, "wilson")
    assert analysis.wilson(hits, n) == pytest.approx((theirs.low, theirs.high))


def test_curve_reads_off_between_its_steps() -> None:
    curve = analysis.curve_of(run_of("ccbnw", [1, 3, 2, INF, 0]))
    assert curve.eps.tolist() == [0, 1, 2, 3]
    assert [curve.at(eps) for eps in (0, 0.5, 1, 2.5, 99)] == pytest.approx([0.8, 0.8, 0.6, 0.4, 0.2])
    with pytest.raises(ValueError, match="MinRadius"):
        analysis.curve_of(run_of("f", [1], pwcf.MaxLoss("l2", 1)))


def test_crossings_are_where_the_order_turns_and_touching_is_none() -> None:
    flat = analysis.curve_of(run_of("cccc", [1, 2, 3, 4]))
    steep = analysis.curve_of(run_of("cccc", [1.5, 2.1, 2.2, 2.3]))
    found = analysis.crossings({"flat": flat, "steep": steep})
    # At 1 flat loses one and steep is ahead; at 2.2 steep has lost three, flat two.
    assert [(c.eps, c.before, c.after) for c in found] == [(pytest.approx(2.2), "steep", "flat")]
    assert analysis.crossings({"a": flat, "b": flat}) == []
    touching = analysis.curve_of(run_of("cccc", [1, 2, 3.5, 4.5]))
    assert analysis.crossings({"a": flat, "b": touching}) == []
    with pytest.raises(ValueError, match="one metric, found l1, l2"):
        analysis.curves_of({"a": run_of("c", [1]), "b": run_of("c", [1], pwcf.MinRadius("l1"))})


# ---- radii ------------------------------------------------------------------------------------------


def test_eps_choices_against_the_radii() -> None:
    run = run_of("cccnw", [1, 2, 4, INF, 0])
    low, high = analysis.eps_choices(run, [0.5, 4])
    assert (low.robust, low.within, low.of_median) == (0.8, 0, pytest.approx(1 / 6))
    assert (high.robust, high.within, high.of_median) == (0.2, 0.75, pytest.approx(4 / 3))


def test_hardest_and_easiest() -> None:
    run = run_of("cwcnc", [2, 0, 5, INF, 1])
    assert analysis.hardest(run, 3) == [3, 2, 0]
    assert analysis.easiest(run, 2) == [4, 0]
    assert analysis.radii_of(run).tolist() == [1, 2, 5]
    # 1, 2, 5 and none: between 2 and 5, and between 5 and none there is nothing.
    assert analysis.quantiles_of(run, (0.5, 0.9, 1.0)) == {0.5: 3.5, 0.9: 5, 1.0: INF}


def test_radii_sample_by_sample() -> None:
    found = analysis.compare_radii(run_of("cccn", [3, 1, 2, INF]), run_of("ccnc", [2, 1.5, INF, 1]))
    assert found.sample.tolist() == found.second_sample.tolist() == [1, 0]
    assert found.difference.tolist() == [0.5, -1]
    with pytest.raises(ValueError, match="one metric, found l1, l2"):
        analysis.compare_radii(run_of("c", [1]), run_of("c", [1], pwcf.MinRadius("l1")))
    with pytest.raises(ValueError, match="same samples, found 1 and 2"):
        analysis.compare_radii(run_of("c", [1]), run_of("cc", [1, 1]))


def test_cross_metric_has_a_row_for_each_model_and_a_column_for_each_metric() -> None:
    table = analysis.cross_metric({
        "net": run_of("ccc", [1, 2, 3]),
        "max": run_of("f", [1], pwcf.MaxLoss("l2", 1)),  # no radii: left out
        "robust": run_of("ccc", [1, 4, 9], pwcf.MinRadius("l1")),
    })  # fmt: skip
    assert (table.models, table.metrics) == (["net", "robust"], ["l2", "l1"])
    assert table.median[0, 0] == 2
    assert table.median[1, 1] == 4
    assert bool(table.median[0, 1].isnan())
    assert table.relative(0)[0, 0] == 1


# ---- patterns ---------------------------------------------------------------------------------------


def test_sparsity_of_one_entry_is_1_and_of_all_alike_the_root_of_their_number() -> None:
    x_adv = torch.zeros(3, 1, 4, 4)
    x_adv[0, 0, 2, 1], x_adv[1] = -0.3, 0.2
    run = run_of("ccn", [1, 1, INF], x_adv=x_adv)
    values = analysis.sparsity_of(run, torch.zeros_like(x_adv))
    assert values[:2].tolist() == pytest.approx([1, 4])
    assert math.isnan(values[2])
    with pytest.raises(ValueError, match="images: expected those"):
        analysis.sparsity_of(run)
    with pytest.raises(ValueError, match="images: expected shape"):
        analysis.sparsity_of(run, torch.zeros(3, 4))


def test_magnitudes_are_shares_of_all_entries() -> None:
    x_adv = torch.tensor([[0.0, 0.1, -0.4, 0.4]])
    found = analysis.magnitudes_of(run_of("c", [1], x_adv=x_adv), torch.zeros(1, 4), bins=4)
    assert found.share.tolist() == [0.25, 0.25, 0, 0.5]
    assert found.untouched == 0.25
    nothing = analysis.magnitudes_of(run_of("n", [INF], x_adv=x_adv), torch.zeros(1, 4))
    assert nothing.share.sum() == 0


def test_amplified_uses_the_whole_range() -> None:
    picture, factor = analysis.amplified(torch.tensor([0.01, -0.02, 0.0]))
    assert picture.tolist() == pytest.approx([0.75, 0, 0.5])
    assert factor == pytest.approx(25)
    assert analysis.amplified(torch.zeros(2))[0].tolist() == [0.5, 0.5]


def test_kolmogorov_smirnov_is_scipys() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=80), rng.normal(0.5, size=60)
    ours = analysis.kolmogorov_smirnov(torch.from_numpy(a), torch.from_numpy(b))
    assert ours == pytest.approx(scipy.stats.ks_2samp(a, b).statistic)


# ---- agreement --------------------------------------------------------------------------------------


def test_agreement_by_hand() -> None:
    broken = {"a": "1100", "b": "0110", "c": "0100"}
    found = analysis.agreement({name: torch.tensor([bit == "1" for bit in bits]) for name, bits in broken.items()})
    assert (found.samples, found.union, found.counts.tolist()) == (4, 3, [2, 2, 1])
    assert found.alone.tolist() == [1, 1, 0]
    assert found.only_first.tolist() == [[0, 1, 1], [1, 0, 1], [0, 0, 0]]
    assert found.union_curve() == [("a", 2), ("b", 3), ("c", 3)]


def test_agreement_of_runs_leaves_out_what_was_not_attacked() -> None:
    loss = pwcf.MaxLoss("l2", 1.0)
    found = analysis.agreement_of({"a": run_of("fnw", [1, INF, 0], loss), "b": run_of("nfw", [INF, 1, 0], loss)})
    assert (found.samples, found.union, found.alone.tolist()) == (2, 2, [1, 1])
    radii = {"a": run_of("cc", [1, 3]), "b": run_of("cc", [2, 2])}
    assert analysis.agreement_of(radii, 1.5).counts.tolist() == [1, 0]
    with pytest.raises(ValueError, match="eps: expected a number"):
        analysis.agreement_of(radii)


def test_agreement_refuses_an_eps_that_would_mean_two_things() -> None:
    l1, l2 = run_of("c", [1], pwcf.MinRadius("l1")), run_of("c", [1])
    with pytest.raises(ValueError, match="one metric"):
        analysis.agreement_of({"a": l1, "b": l2}, 1.0)
    with pytest.raises(ValueError, match="loss has its own"):
        analysis.agreement_of({"loss": run_of("f", [1], pwcf.MaxLoss("l2", 1.0))}, 2.0)


def test_a_choice_of_samples_keeps_each_ones_eps() -> None:
    run = run_of("fnf", [1, INF, 1], pwcf.MaxLoss("l2", torch.tensor([0.1, 2.0, 0.4])))
    some = run.select(torch.tensor([2, 0]))
    assert some.problem.radii(2).tolist() == pytest.approx([0.4, 0.1])  # type: ignore[union-attr]
    assert analysis.accuracy_of(some).eps == pytest.approx(0.4)
    assert math.isnan(analysis.accuracy_of(run.select(torch.tensor([], dtype=torch.int64))).robust)


def test_agreement_within_a_run_is_of_its_attacks() -> None:
    found = analysis.agreement_within(run_of("ccw", [1, 3, 0], attacks=("one", "two")), 2.0)
    assert (found.names, found.counts.tolist()) == (["one", "two"], [1, 1])
    with pytest.raises(ValueError, match="on its own"):
        analysis.agreement_within(run_of("f", [1], pwcf.MaxLoss("l2", 1)), 1.0)


def test_termination_is_of_attacked_samples() -> None:
    found = analysis.termination_of(run_of("cbwx", [1, 1, 0, INF]))
    assert found.passes.tolist() == [2, 4]
    assert found.status == {"converged": 1, "budget": 1}
    assert found.seconds.tolist() == [0.75, 0.75]


# ---- trajectories -----------------------------------------------------------------------------------


def linear(w: Tensor) -> nn.Module:
    net = nn.Sequential(nn.Flatten(), nn.Linear(len(w), 2, bias=False))
    with torch.no_grad():
        net[1].weight.copy_(torch.stack((w, -w)))
    return net


@pytest.mark.parametrize("attack", ["lmn", "fab", "apgd", "pwcf", "ddn"])
def test_every_attack_is_watched_and_the_best_point_is_its_answer(attack: str) -> None:
    w = torch.tensor([1.0, -2.0, 0.5, 1.5])
    images = torch.full((3, 4), 0.5) + 0.2 * torch.tensor([1.0, 0.7, -1.0])[:, None] * w / w.norm()
    labels = torch.tensor([0, 0, 0])  # the last is wrong: w'x < 0 there
    images -= 0.5 * w.sum() / w.norm() ** 2 * w  # the plane goes through the middle
    images = images.clamp(0, 1)
    net = linear(w)
    right = net(images)[:, 0] > net(images)[:, 1]
    traces = analysis.trace(net, images, labels, pwcf.MinRadius("l2"), attack, budget=300)
    exact = (images @ w).abs() / w.norm()
    for i, each in enumerate(traces):
        if not bool(right[i]):
            assert len(each.passes) == 0
            assert each.best_at is None
            continue
        assert bool((each.passes.diff() >= 0).all())
        assert int(each.passes[-1]) <= 300
        assert float(each.best[-1]) == pytest.approx(float(exact[i]), rel=0.03)
        assert float(each.best[-1]) >= float(exact[i]) * (1 - 1e-5)
        assert 1 <= each.best_at <= 300  # type: ignore[operator]
        assert bool((each.violation >= 0).all())


def test_a_trace_of_max_loss_keeps_to_eps() -> None:
    w = torch.tensor([1.0, 1.0])
    images, labels = torch.tensor([[0.9, 0.9]]), torch.tensor([0])
    (found,) = analysis.trace(linear(w), images, labels, pwcf.MaxLoss("l2", 0.1, "ce"), "apgd", budget=100)
    assert found.eps == 0.1
    assert bool((found.distance[found.feasible] <= 0.1 * (1 + 1e-6)).all())
    # The loss of the point eps down the slope: log(1 + exp(-2 w'x)).
    best = math.log1p(math.exp(-2 * (1.8 - 0.1 * math.sqrt(2))))
    assert float(found.best[-1]) == pytest.approx(best, rel=1e-3)


def test_points_outside_the_box_are_no_answers() -> None:
    # The nearest misclassified point is outside: the paper's method passes through it on its way.
    w = torch.tensor([1.0, 0.05])
    images, labels = torch.tensor([[0.1, 0.9]]), torch.tensor([1])
    net = linear(w)
    with torch.no_grad():
        net.insert(1, nn.Linear(2, 2))
        net[1].weight.copy_(torch.eye(2))
        net[1].bias.copy_(torch.tensor([-0.55, 0.0]))
    (found,) = analysis.trace(net, images, labels, pwcf.MinRadius("l2"), "pwcf", budget=200)
    beyond = found.wrong & (found.outside > 1e-3)
    assert bool(beyond.any())
    assert not bool(found.feasible[beyond].any())
    assert bool((found.violation[beyond] >= found.outside[beyond]).all())
    made_up = analysis.Trace(*(torch.tensor([value]) for value in (1, 0.5, 1.0, 0.2, True)), None)
    assert (made_up.feasible.tolist(), made_up.best_at) == ([False], None)


def test_a_targeted_trace_is_feasible_where_the_class_is_the_wanted_one() -> None:
    w = torch.tensor([1.0, 1.0])
    images, labels = torch.tensor([[0.6, 0.6], [0.6, 0.6]]) - 0.5, torch.tensor([1, 0])
    net = nn.Sequential(linear(w))
    traces = analysis.trace(
        pwcf.Classifier(net, (-1.0, 1.0)), images, labels, pwcf.MinRadius("l2", targeted=True), "lmn", budget=100
    )
    assert len(traces[1].passes) == 0  # it is of class 0 already
    found = traces[0]
    assert float(found.best[-1]) == pytest.approx(0.2 / math.sqrt(2), rel=0.02)
    # The loss is larger the nearer the wanted class is, and positive where it is reached.
    assert bool((found.loss[found.feasible] > 0).all())
    assert float(found.loss[0]) < 0
    assert bool((found.violation[found.feasible] == 0).all())


def test_who_is_traced_is_who_is_attacked() -> None:
    tied = nn.Sequential(nn.Flatten(), nn.Linear(2, 2))
    with torch.no_grad():
        tied[1].weight.zero_()
        tied[1].bias.zero_()
    images = torch.full((2, 2), 0.5)
    traces = analysis.trace(tied, images, torch.tensor([0, 1]), pwcf.MinRadius("l2"), budget=60)
    assert len(traces[1].passes) == 0  # a tie is the first class, as evaluate has it

    def undefined(x: Tensor) -> Tensor:
        return torch.full((len(x), 2), torch.nan) + 0 * x.sum()

    traces = analysis.trace(undefined, images, torch.tensor([0, 1]), pwcf.MinRadius("l2"), budget=60)
    assert [len(each.passes) for each in traces] == [0, 0]
    with pytest.raises(ValueError, match="budget: expected an integer > 0"):
        analysis.trace(tied, images, torch.tensor([0, 1]), pwcf.MinRadius("l2"), budget=0)


# ---- runs in folders --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = make_place(tmp_path_factory.mktemp("runs"), 20)
    assert made.run("l2", metric="l2", budget=200, chunk=8) == 0
    assert made.run("l1", metric="l1", budget=200, chunk=20, limit=12) == 0
    assert made.run("loss", question="max-loss", metric="l2", eps=0.2, budget=200) == 0
    return made


def test_runs_are_called_by_what_differs(place: Place) -> None:
    runs = [pwcf.load_run(place.path / name) for name in ("l2", "l1", "loss")]
    # Budgets and data are the same or not needed: two runs whose questions differ need no more.
    assert list(analysis.name_runs(runs)) == ["l2", "l1", "l2 within 0.2, margin"]
    assert list(analysis.name_runs(runs[:1])) == ["net · l2"]
    assert list(analysis.name_runs([runs[0], runs[0]])) == ["net · l2", "net · l2 (2)"]
    assert list(analysis.name_runs([])) == []


def test_what_is_drawn_together_is_about_one_metric_one_aim_and_the_same_data(place: Place, tmp_path: Path) -> None:
    other = make_place(tmp_path, 6)
    stored = dict(np.load(tmp_path / "data.npz"))
    np.savez(tmp_path / "data.npz", images=1 - stored["images"], labels=stored["labels"])
    assert other.run("l2", metric="l2", budget=150) == 0
    assert place.run("wanted", "--targeted", metric="l2", budget=150, limit=6) == 0
    l2, l1, wanted = (pwcf.load_run(place.path / name) for name in ("l2", "l1", "wanted"))
    elsewhere = pwcf.load_run(tmp_path / "l2")
    runs = {"a": l2, "b": l1, "c": wanted}
    assert set(analysis.data_groups(runs).values()) == {0}  # fewer samples of the same data
    assert list(analysis.topics(runs).values()) == ["l2", "l1", "l2, targeted"]
    assert list(analysis.name_runs(runs.values())) == ["l2", "l1", "l2, targeted"]
    several = {"a": l2, "d": elsewhere, "b": l1}
    groups = analysis.data_groups(several)
    assert groups["a"] == groups["b"] != groups["d"]
    here, there = f"{place.path.name}/data.npz", f"{tmp_path.name}/data.npz"
    assert list(analysis.topics(several).values()) == [f"l2 · {here}", f"l2 · {there}", f"l1 · {here}"]
    table = analysis.cross_metric(several)
    assert table.metrics == [f"l2 · {here}", f"l2 · {there}", f"l1 · {here}"]
    assert table.median[0, 0] != table.median[0, 1]
    # Two that share nothing, and a third that shares with both.
    ends = {"first": l2.select(torch.arange(0, 4)), "last": l2.select(torch.arange(8, 12))}
    assert len(set(analysis.data_groups(ends).values())) == 2
    assert len(set(analysis.data_groups({**ends, "all": l2}).values())) == 1
    assert set(analysis.topics({"x": run_of("c", [1]), "y": run_of("c", [1])}).values()) == {"l2"}


def test_an_eps_is_written_as_people_write_it() -> None:
    assert [analysis.eps_text(eps) for eps in (8 / 255, 0.2, 0.1, 12.0, 2 / 255)] == [
        "8/255",
        "0.2",
        "0.1",
        "12",
        "2/255",
    ]


def test_names_say_no_more_than_it_takes(place: Place) -> None:
    assert place.run("fab", metric="l2", attacks="fab", budget=150, limit=4) == 0
    assert place.run("more", metric="l2", budget=300, limit=4) == 0
    l2, l1, fab, more = (pwcf.load_run(place.path / name) for name in ("l2", "l1", "fab", "more"))
    assert list(analysis.name_runs([l1, fab])) == ["l1", "l2"]
    assert list(analysis.name_runs([l2, fab])) == ["lmn", "fab"]
    assert list(analysis.name_runs([l2, more])) == ["budget 200", "budget 300"]
    assert list(analysis.name_runs([l2, fab, more])) == ["pwcf · budget 200", "fab · budget 150", "pwcf · budget 300"]


def test_runs_share_samples_by_their_images(place: Place) -> None:
    runs = analysis.align([pwcf.load_run(place.path / name) for name in ("l2", "l1")])
    assert [len(run.radius) for run in runs] == [12, 12]
    assert runs[0].rows["image"].to_pylist() == runs[1].rows["image"].to_pylist()
    assert runs[0].x_adv.shape == runs[1].x_adv.shape
    assert analysis.align([]) == []


def test_radii_are_compared_by_image_and_places_are_those_of_the_runs_given(place: Place) -> None:
    run = pwcf.load_run(place.path / "l2")
    first, second = run.select(torch.arange(5, 20)), run.select(torch.tensor([19, 18, 17, 7, 6]))
    found = analysis.compare_radii(first, second)
    assert len(found.sample) >= 3
    assert torch.equal(first.radius[found.sample], found.first)
    assert torch.equal(second.radius[found.second_sample], found.second)
    assert torch.equal(found.first, found.second)


def test_models_that_are_called_the_same_are_told_apart(place: Place, tmp_path: Path) -> None:
    other = make_place(tmp_path, 6)
    other.model(3)
    (tmp_path / "net.py").rename(tmp_path / "other.py")
    words = other.words("l2", metric="l2", budget=150, model=f"{tmp_path}/other.py:net")
    assert main(words) == 0
    runs = [pwcf.load_run(place.path / "l2"), pwcf.load_run(tmp_path / "l2")]
    assert list(analysis.name_runs(runs)) == ["net.py:net", "other.py:net"]


def test_plain_runs_are_told_what_they_lack() -> None:
    run = run_of("c", [1], x_adv=torch.tensor([[0.5, 0.0]]))
    assert analysis.sparsity_table({"a": run}, torch.zeros(1, 2))[0].median == 1
    for ask in (lambda: analysis.align([run]), lambda: analysis.name_runs([run]),  # type: ignore[list-item]
                lambda: analysis.pattern_difference(run, run)):  # type: ignore[arg-type]  # fmt: skip
        with pytest.raises(ValueError, match="expected a recorded run"):
            ask()


def test_points_that_stayed_on_disk_are_missed_by_name(place: Place) -> None:
    run = pwcf.load_run(place.path / "l2", tensors=False)
    with pytest.raises(ValueError, match="tensors=True"):
        analysis.magnitudes_of(run, torch.zeros(20, 1, 6, 6))


def test_sparsity_is_recorded_as_it_is_computed(place: Place) -> None:
    run = pwcf.load_run(place.path / "l2")
    images = original_images(run)
    recorded, computed = analysis.sparsity_of(run), analysis.sparsity_of(run, images)
    assert torch.allclose(recorded, computed, equal_nan=True, rtol=1e-5)
    assert int(torch.isnan(recorded).sum()) == int((~analysis.found_in(run)).sum()) > 0


def test_l1_is_sparser_than_l2_on_the_samples_they_share(place: Place) -> None:
    l1, l2 = (pwcf.load_run(place.path / name) for name in ("l1", "l2"))
    found = analysis.pattern_difference(l1, l2, original_images(l1))
    assert found.samples == 10  # twelve, of which two are wrong
    assert found.sparser > 0.9
    assert found.distance > 0.5
    assert 0 < found.cosine < 1
    itself = analysis.pattern_difference(l2, l2, original_images(l2))
    assert (itself.sparser, itself.distance, itself.cosine) == (0.5, 0, pytest.approx(1))
    rows = {row.name: row for row in analysis.sparsity_table({"l1": l1, "l2": l2})}
    assert rows["l1"].median < rows["l2"].low <= rows["l2"].median <= rows["l2"].high


def test_originals_are_those_of_the_run_or_an_error(place: Place, tmp_path: Path) -> None:
    run = pwcf.load_run(place.path / "l1")
    stored = np.load(place.path / "data.npz")
    assert np.array_equal(original_images(run).numpy(), stored["images"][:12])
    some = run.select(torch.tensor([7, 3, 4]))
    assert np.array_equal(original_images(some).numpy(), stored["images"][[7, 3, 4]])
    np.savez(tmp_path / "other.npz", images=stored["images"][::-1], labels=stored["labels"])
    with pytest.raises(RunError, match="sample 0 is not the image"):
        original_images(run, str(tmp_path / "other.npz"))
    with pytest.raises(RunError, match="no such file"):
        original_images(run, str(tmp_path / "none.npz"))


def test_a_recorded_search_can_be_watched_again(place: Place) -> None:
    run = pwcf.load_run(place.path / "l2")
    samples = analysis.found_in(run).nonzero().squeeze(1).tolist()[:2]
    (name, traces), *others = analysis.retrace(run, samples).items()
    assert (name, others, len(traces)) == ("lmn", [], 2)
    for sample, each in zip(samples, traces, strict=True):
        assert float(each.best[-1]) == pytest.approx(float(run.radius[sample]), rel=0.05)
